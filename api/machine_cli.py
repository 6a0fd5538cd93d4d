"""The command line's `machine new | check | show | probe | fit`: files of machines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOOD, FAILED = 0, 1
_MACHINE = "a preset (see `tilewright machines`) or a TOML file"


def add_machine_command(commands: Any) -> None:
    """Add `machine` and its actions to the commands of the program."""
    about = "make, check, show, measure and fit machine files"
    made = commands.add_parser("machine", help=about, description=about[0].upper() + about[1:] + ".")
    actions = made.add_subparsers(title="actions", required=True, metavar="ACTION")

    def action(
        name: str, run: Callable[[argparse.Namespace], int], help: str, more: str = ""
    ) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=help, description=help[0].upper() + help[1:] + ". " + more)
        made.set_defaults(run=run)
        return made

    made = action("new", _new, "write a machine file like another one, with a remark on every key")
    made.add_argument("--like", required=True, metavar="NAME", help=_MACHINE)
    made.add_argument("--name", metavar="X", help="what the new machine is called (default: my-NAME)")
    _output(made, "where to write it (default: print it)")

    made = action("check", _check, "say all that is wrong with a machine file", "The exit code is 1 if something is.")
    made.add_argument("file", metavar="FILE", help="a TOML file")
    _as_json(made)

    made = action("show", _show, "print the parts of a machine, and where its figures come from")
    made.add_argument("name", metavar="NAME", help=_MACHINE)
    _as_json(made)

    made = action(
        "probe", _probe, "measure this computer, and write it as a machine file",
        "One core is measured: caches, bandwidths, latencies, clock and operations a cycle. The best of many repetitions "
        "counts; other programs should be quiet.",
    )  # fmt: skip
    made.add_argument("--seconds", type=_seconds, default=10.0, metavar="N", help="how long, about (default: 10)")
    _output(made, "where to write the machine (default: print it)")
    _as_json(made)

    made = action(
        "fit", _fit, "fit a machine's figures to measured cycles",
        "Columns of the CSV file: engine, cycles, waits, and of a copy bytes, descriptors, runs, burst_bytes, or of "
        "arithmetic (engine `compute`) type, operations. docs/machines.md explains them.",
    )  # fmt: skip
    made.add_argument("file", metavar="NAME", help=_MACHINE)
    made.add_argument("measurements", metavar="MEASUREMENTS.csv", help="one experiment a line")
    _output(made, "where to write the machine with the fitted figures")
    _as_json(made)


def _output(made: argparse.ArgumentParser, help: str) -> None:
    made.add_argument("-o", "--output", metavar="FILE", help=help)
    made.add_argument("--force", action="store_true", help="write over a file that exists")


def _as_json(made: argparse.ArgumentParser) -> None:
    made.add_argument("--json", action="store_true", help="print the result as JSON")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and up to 3600")
    return value


# Actions --------------------------------------------------------------------------------------------------------


def _new(args: argparse.Namespace) -> int:
    from tilewright import machines

    file = _writable(args)
    text = machines.like(args.like, args.name)
    if file is None:
        print(text, end="")
    else:
        _write(file, text)
        print(f"{file}: a machine like {args.like}, to be changed")
    return GOOD


def _check(args: argparse.Namespace) -> int:
    from tilewright import machines

    found = machines.problems(args.file)
    machine = None if found else machines.load(Path(args.file))
    remarks = [] if machine is None else machine.remarks
    if args.json:
        rows = [{"code": p.code, "line": p.where[0].line, "problem": p.message, "hint": p.hint} for p in found]
        print(json.dumps({"file": args.file, "ok": not found, "problems": rows, "remarks": remarks}, indent=2))
    elif machine is None:
        print("\n".join(map(str, found)))
        print(f"{len(found)} problem{'s' * (len(found) > 1)}")
    else:
        print("\n".join([f"{args.file}: ok, machine {machine.name}", *(f"note: {remark}" for remark in remarks)]))
    return FAILED if found else GOOD


def _show(args: argparse.Namespace) -> int:
    from tilewright import machines
    from tilewright.hw.render.machine_tables import figure_table, machine_data

    machine = machines.load(args.name)
    print(json.dumps(machine_data(machine), indent=2) if args.json else f"{machine}\n\n{figure_table(machine)}")
    return GOOD


def _probe(args: argparse.Namespace) -> int:
    from tilewright import machines

    file = _writable(args)
    found = machines.probe(args.seconds)
    text = machines.text(found.machine, found.heading)
    if file is not None:
        _write(file, text)
    if args.json:
        print(json.dumps(found.as_json(), indent=2))
    elif file is not None:
        print(f"{found}\n\n{file}: machine {found.machine.name}")
    else:
        print(found, file=sys.stderr)
        print(text, end="")
    return GOOD


def _fit(args: argparse.Namespace) -> int:
    from tilewright import machines

    file = _writable(args)
    machine = machines.load(args.file)
    found = machines.fit(machine, machines.read_measurements(args.measurements, machine), Path(args.measurements).name)
    if file is not None:
        _write(file, machines.text(found.machine))
    if args.json:
        print(json.dumps(found.as_json(), indent=2))
    else:
        print(found)
        if file is not None:
            print(f"\n{file}: machine {found.machine.name} with the fitted figures")
    return GOOD


def _writable(args: argparse.Namespace) -> Path | None:
    """The file to write to, if there is one; asked before there is work that would be lost."""
    from tilewright.commands import UsageError

    if args.output is None:
        return None
    path = Path(args.output)
    if path.is_dir() or not path.parent.is_dir():
        what = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"can't write {path}: {what}", code="usage.file")
    if path.exists() and not args.force:
        raise UsageError(f"the file {path} exists", code="usage.file", hint="--force writes over it")
    return path


def _write(path: Path, text: str) -> None:
    from tilewright.commands.files import writing

    with writing(path):
        path.write_text(text, encoding="utf-8")
