"""The options of `tilewright tune`, and what it prints."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

GOOD, FAILED, INTERRUPTED = 0, 1, 130
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def add_tune_command(command: Callable[..., argparse.ArgumentParser], about_kernel: Callable[..., None]) -> None:
    """Add it. `command` adds a command, `about_kernel` the options that say what it is about."""
    made = command("tune", _tune, "search for the best schedule of a kernel, by the clock or by a simulated machine",
                   "Sizes may be ranges: they are cut into buckets that have a schedule each. What is measured is kept in "
                   "records (see `tilewright records`). Ctrl-C ends it with the best so far (exit code 130); "
                   "the exit code is 1 if nothing at all could be measured.")  # fmt: skip
    about_kernel(made, runs=True, planned=True)
    made.add_argument("--budget", type=seconds, default=60.0, metavar="TIME",
                      help="time for all: 60s, 10m, 1h, or a number of seconds (default: 60s)")  # fmt: skip
    made.add_argument("--trials", type=int, metavar="N", help="judge at most so many schedules")
    made.add_argument("--objective", metavar="WHAT",
                      help="what there should be least of: time, or of a simulated machine cycles, bytes or energy "
                      "(default: time, of a simulated machine cycles)")  # fmt: skip
    made.add_argument("--machine", metavar="NAME",
                      help="a simulated machine: a preset (see `tilewright machines`) or a TOML file")  # fmt: skip
    made.add_argument("--strategy", default="evolution", metavar="HOW",
                      help="how to search: evolution, beam, random, exhaustive or optuna (default: evolution)")  # fmt: skip
    made.add_argument("--space", metavar="FUNCTION|FILE.tw",
                      help="where to search: a function of the Python file that gives a schedule with knobs, or takes (s, "
                      "choose) and writes one; or a file with such a schedule (default: general rules)")  # fmt: skip
    made.add_argument("--threads", type=int, metavar="N", help="that a call may use (default: all of this process)")
    made.add_argument("--cache", choices=["hot", "cold"], default="hot",
                      help="whether calls find their data in the caches (default: hot)")  # fmt: skip
    made.add_argument("--order", choices=["free", "fixed"], default="free",
                      help="fixed: all schedules give the same bits as the default one (default: free)")  # fmt: skip
    made.add_argument("--points", type=_points, action="append", default=[], metavar="M=1,8,64",
                      help="where a range is cut: its buckets end at these sizes")  # fmt: skip
    made.add_argument("--weights", type=_weights, action="append", default=[], metavar="M=1:90,37:10",
                      help="how often sizes are called: buckets that are called more get more time")  # fmt: skip
    made.add_argument("--inputs", metavar="FILE.npz", help="arrays by name, where made-up ones would not do")
    made.add_argument("--workers", metavar="dask://HOST:PORT", help="measure on the machines of a Dask cluster")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of the search (default: 0)")
    made.add_argument("--records", metavar="FILE", help="the database (default: the user's, or TILEWRIGHT_RECORDS)")
    made.add_argument("--no-records", action="store_true", help="use no records, and keep none")
    made.add_argument("--progress", choices=["auto", "live", "lines", "none"], default="auto",
                      help="what to show meanwhile, on stderr (default: auto, live on a terminal)")  # fmt: skip
    made.add_argument("--save", metavar="FILE.tw", help="write the schedules, one for each bucket")
    made.add_argument("--picture", metavar="FILE.png", help="draw the search")


def seconds(text: str) -> float:
    """`60`, `60s`, `10m` or `1h`, in seconds."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(digits) :] or "s"
    try:
        value = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: 60s, 10m or 1h") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time that something could be done in")
    return value


def _points(text: str) -> tuple[str, list[int]]:
    name, equals, rest = text.partition("=")
    try:
        if not name.strip() or not equals:
            raise ValueError
        return name.strip(), [int(n) for n in rest.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form M=1,8,64") from None


def _weights(text: str) -> tuple[str, dict[int, float]]:
    name, equals, rest = text.partition("=")
    try:
        if not name.strip() or not equals:
            raise ValueError
        pairs = [part.partition(":") for part in rest.split(",")]
        return name.strip(), {int(size): float(weight) for size, _, weight in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form M=1:90,37:10") from None


def _merged(given: list[tuple[str, Any]]) -> dict[str, Any]:
    """By name what was given. Raises UsageError `usage.twice` for what was given twice."""
    from tilewright.commands.targets import UsageError

    for k, (name, _) in enumerate(given):
        if name in [n for n, _ in given[:k]]:
            raise UsageError(f"{name} is given twice", code="usage.twice", hint=f"once, with all of it: {name}=1,8,64")
    return dict(given)


def _arrays(path: str | None) -> dict[str, Any] | None:
    """The arrays of an `.npz` file. Raises UsageError `usage.file`."""
    if path is None:
        return None
    from tilewright.commands.files import UsageError

    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, TypeError) as e:
        raise UsageError(f"can't read arrays from {path}: {e}", code="usage.file",
                         hint="a file that numpy.savez writes: savez('inputs.npz', A=a, B=b)") from None  # fmt: skip


def _tune(args: argparse.Namespace) -> int:
    from tilewright.commands import tune
    from tilewright.commands.files import writing

    for path in filter(None, (args.save, args.picture)):  # rather now than after the search
        there = os.path.exists(path)
        with writing(path), open(path, "ab"):
            pass
        if not there:
            os.unlink(path)
    if args.picture:
        from tilewright.autotune.picture import check_picture

        check_picture(args.picture)
    found = tune(
        args.target, sizes=args.size, space=args.space, budget_s=args.budget, trials=args.trials, objective=args.objective,
        machine=args.machine, strategy=args.strategy, threads=args.threads, cache=args.cache, order=args.order,
        points=_merged(args.points) or None, weights=_merged(args.weights) or None, inputs=_arrays(args.inputs),
        measurer=args.workers, seed=args.seed, progress=args.progress,
        records=False if args.no_records else args.records, scalars=args.scalar, statics=args.static, dtypes=args.dtype,
        mode=args.mode,
    )  # fmt: skip
    print(found.to_json() if args.json else found)
    if args.save:
        with writing(args.save):
            found.save(args.save)
        print(f"{args.save} written", file=sys.stderr)
    if args.picture:
        with writing(args.picture):
            found.picture(args.picture)
        print(f"{args.picture} written", file=sys.stderr)
    if found.stopped == "interrupted":
        return INTERRUPTED
    return GOOD if any(r.figure is not None for r in found.results) else FAILED


__all__ = ["add_tune_command", "seconds"]
