"""The options of `tilewright explain`, `compare` and `sweep`, and what these commands print."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable
from typing import Any

_MACHINE = "a preset (see `tilewright machines`) or a TOML file; by default what the schedule is bound to"
Command = Callable[..., argparse.ArgumentParser]


def add_view_commands(command: Command, about_kernel: Callable[..., None]) -> None:
    """Add the three commands. `command` adds one, `about_kernel` the options that say what it is about."""
    made = command("explain", _explain, "say what every directive of a schedule changed on a machine",
                   "Bytes, intensity, footprint, time and waits. The exit code is 1 if it can't run there.")  # fmt: skip
    about_kernel(made, runs=True)
    made.add_argument("--machine", metavar="NAME", help=_MACHINE)

    made = command("compare", _compare, "put two schedules, or two machines, beside each other",
                   "One schedule alone is compared with the default one.")  # fmt: skip
    about_kernel(made, runs=True, schedules=True)
    made.add_argument("--machine", metavar="NAME", action="append", default=[], help=_MACHINE + "; two to compare them")
    made.add_argument("--all", action="store_true", help="show what is equal too")

    made = command("sweep", _sweep, "run a schedule on machines with other figures",
                   "A table with the Pareto front of cycles against what the figures cost.")  # fmt: skip
    about_kernel(made, runs=True)
    made.add_argument("--machine", metavar="NAME", help=_MACHINE)
    made.add_argument(
        "--over", type=_over, action="append", required=True, metavar="FIGURE=VALUE,VALUE",
        help="a figure and its values, such as memory.tcdm.capacity=64KiB,128KiB; several are combined",
    )  # fmt: skip
    made.add_argument("--zip", action="store_true", help="the first values together, then the second ones, ...")
    made.add_argument(
        "--cost", default="", metavar="FIGURE", help="what the front weighs cycles against (default: all)"
    )
    made.add_argument("--csv", action="store_true", help="print comma-separated values")
    made.add_argument("--plot", metavar="FILE", help="draw a picture: .png, .svg or .pdf")


def _over(text: str) -> tuple[str, list[Any]]:
    name, equals, values = (x.strip() for x in text.partition("="))
    parts = [x.strip() for x in values.split(",")]
    if not (name and equals and all(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form FIGURE=VALUE,VALUE")
    return name, [_value(x) for x in parts]


def _value(text: str) -> Any:
    """A number, true or false, or a text such as 64KiB."""
    if text in ("true", "false"):
        return text == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, (int, float)) else text


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "sizes": args.size, "scalars": args.scalar, "statics": args.static, "dtypes": args.dtype, "mode": args.mode,
    }  # fmt: skip


def _explain(args: argparse.Namespace) -> int:
    from tilewright.commands import explain

    found = explain(args.target, schedule=args.schedule, machine=args.machine, **_options(args))
    print(found.to_json() if args.json else found)
    return 0 if found.ok else 1


def _compare(args: argparse.Namespace) -> int:
    from tilewright.commands import compare

    found = compare(args.target, schedules=args.schedule, machines=args.machine, **_options(args))
    print(found.to_json() if args.json else found.text(everything=args.all))
    return 0


def _sweep(args: argparse.Namespace) -> int:
    from tilewright.commands import UsageError, sweep
    from tilewright.commands.files import writing

    over: dict[str, list[Any]] = {}
    for name, values in args.over:
        if name in over:
            raise UsageError(f"--over: {name} is given twice", code="usage.over", hint="give all of its values at once")
        over[name] = values
    found = sweep(args.target, schedule=args.schedule, machine=args.machine, over=over, zipped=args.zip, cost=args.cost,
                  **_options(args))  # fmt: skip
    if args.plot:
        with writing(args.plot):
            found.plot(args.plot)
    print(found.to_json() if args.json else found.to_csv().rstrip() if args.csv else found)
    return 0
