"""The options of `tilewright perf`, and what it prints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

Command = Callable[..., argparse.ArgumentParser]


def add_perf_command(command: Command, about_kernel: Callable[..., None]) -> None:
    """Add the command. `command` adds one, `about_kernel` the options that say what it is about."""
    made = command("perf", _perf, "say what the machine code's inner loops do on this processor, and what slows them",
                   "With all sizes given it runs on random inputs, one thread, and says how near it comes to the limit of "
                   "arithmetic and memory.")  # fmt: skip
    about_kernel(made, runs=True)
    made.add_argument("--profile", action="store_true", help="also the seconds of every stage; needs sizes")
    made.add_argument("--asm", action="store_true", help="print the machine code as text, and nothing else")


def _perf(args: argparse.Namespace) -> int:
    from tilewright.commands import perf

    found = perf(
        args.target, schedule=args.schedule, sizes=args.size, scalars=args.scalar, statics=args.static,
        dtypes=args.dtype, mode=args.mode, profile=args.profile,
    )  # fmt: skip
    if args.json:
        print(json.dumps({**found.as_json(), **({"assembly": found.assembly} if args.asm else {})}, indent=2))
    else:
        print(found.assembly if args.asm else found)
    return 0
