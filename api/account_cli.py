"""The command line's `account` and `roofline`: figures of a simulated run, their locks, pictures and traces."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.hw import Account, Lock, Machine

GOOD, FAILED = 0, 1
_MACHINE = "a preset (see `tilewright machines`) or a TOML file (default: the one that the schedule is bound to)"


def add_account_options(made: argparse.ArgumentParser) -> None:
    """The options of `account` beside those of every command about a kernel."""
    add_machine_options(made)
    locks = made.add_mutually_exclusive_group()
    locks.add_argument("--save", metavar="LOCK", help="write the figures to this file, to be checked against later")
    locks.add_argument(
        "--check", metavar="LOCK", help="say which figures have moved since; the exit code is 1 if some have "
        "(sizes and machine are the lock's where they are not given)",
    )  # fmt: skip
    made.add_argument(
        "--tolerance", metavar="KIND=X,...", help="how far figures may move, such as bytes=0,cycles=1%%,footprint=64"
    )
    made.add_argument("--intervals", type=_count, default=2000, metavar="N",
                      help="of traces and pictures: the first N intervals of time (default: 2000)")  # fmt: skip
    made.add_argument("--trace", metavar="FILE", help="write Chrome trace events for Perfetto (FILE.gz: compressed)")
    made.add_argument(
        "--timeline", metavar="PICTURE", help="draw what worked, waited and copied when (.png, .svg, .pdf)"
    )
    made.add_argument("--occupancy", metavar="PICTURE", help="draw how full each memory was over time")


def add_roofline_options(made: argparse.ArgumentParser) -> None:
    add_machine_options(made)
    made.add_argument("-o", "--out", metavar="PICTURE", help="draw it as well (.png, .svg, .pdf)")


def add_machine_options(made: argparse.ArgumentParser) -> None:
    """On which machine, and how its cores and copies meet."""
    made.add_argument("--machine", metavar="NAME", help=_MACHINE)
    made.add_argument(
        "--sync", choices=["decoupled", "barrier"], help="how cores and copies meet (default: the machine's)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10,000,000")
    return int(text)


def run_account(args: argparse.Namespace, options: dict[str, Any]) -> int:
    """Carry out `account`; `options` are those of every command about a kernel."""
    from tilewright.commands import UsageError, read_lock
    from tilewright.hw import parse_tolerances

    lock = read_lock(args.check) if args.check else None
    tolerances = parse_tolerances(args.tolerance or "")
    if args.tolerance is not None and lock is None:
        raise UsageError(
            "--tolerance says how far figures may move from those of a lock", code="usage.option",
            hint="give one: --check LOCK",
        )  # fmt: skip
    if lock is not None:
        options["sizes"] = options["sizes"] or dict(lock.sizes)
    if args.trace or args.timeline or args.occupancy:
        options["timeline"] = args.intervals
    machine, found = _account(args, options, lock)
    _draw(args, found, machine)
    if lock is not None:
        return _check(args, found, lock.check(found, tolerances), sum(map(len, lock.figures.values())))
    if args.save:
        return _save(args, found)
    print(found.to_json() if args.json else found)
    return GOOD


def run_roofline(args: argparse.Namespace, options: dict[str, Any]) -> int:
    """Carry out `roofline`."""
    machine, found = _account(args, options, None)
    line = found.roofline(machine)
    if args.out:
        _written(args.out, lambda: line.save(args.out))
    print(line.to_json() if args.json else line)
    return GOOD


def _account(args: argparse.Namespace, options: dict[str, Any], lock: Lock | None) -> tuple[Machine, Account]:
    """The machine (that of the command, of the schedule, or of the lock) and the account on it."""
    from tilewright.commands.account import account, machine_for
    from tilewright.commands.targets import find_target

    schedule, statics, dtypes = (options.pop(name) for name in ("schedule", "statics", "dtypes"))
    t = find_target(args.target, schedule, statics, dtypes, options["sizes"])
    if lock is not None:
        lock.require("kernel", t.pipeline.name)
    bound = t.schedule is not None and t.schedule.machine is not None
    machine = machine_for(args.machine or (lock.machine if lock is not None and not bound else None), t)
    return machine, account(t, machine=machine, sync=args.sync, **options)


def _written(path: str, write: Callable[[], object]) -> None:
    """Write a file that the user named, and say so where it does not disturb what is printed."""
    from tilewright.commands.files import writing

    with writing(path):
        write()
    print(f"{path} written", file=sys.stderr)


def _draw(args: argparse.Namespace, found: Account, machine: Machine) -> None:
    if args.trace:
        _written(args.trace, lambda: found.save_trace(args.trace, machine))
    if args.timeline:
        _written(args.timeline, lambda: found.save_timeline(args.timeline, machine))
    if args.occupancy:
        _written(args.occupancy, lambda: found.save_occupancy(args.occupancy, machine))


def _save(args: argparse.Namespace, found: Account) -> int:
    from pathlib import Path

    from tilewright.hw import Lock

    lock = Lock.of(found)
    _written(args.save, lambda: Path(args.save).write_text(lock.text(), encoding="utf-8"))
    n = sum(map(len, lock.figures.values()))
    print(json.dumps({"saved": args.save, "figures": n}, indent=2) if args.json else f"{n} figures locked")
    return GOOD


def _check(args: argparse.Namespace, found: Account, moved: tuple[Any, ...], locked: int) -> int:
    from dataclasses import asdict

    from tilewright.hw.lock import differences_text
    from tilewright.hw.render.account_tables import heading

    if args.json:
        print(json.dumps({"lock": args.check, "ok": not moved, "differences": list(map(asdict, moved))}, indent=2))
    elif moved:
        print(
            f"{heading(found)}: {len(moved)} difference{'s' * (len(moved) > 1)} to the {locked} figures of {args.check}\n"
        )
        print(differences_text(moved))
    else:
        print(f"{heading(found)}: all {locked} figures are as locked in {args.check}")
    return FAILED if moved else GOOD
