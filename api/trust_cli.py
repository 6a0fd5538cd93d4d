"""The commands that say whether values are right (`verify`, of schedules and plans, with `--bisect`), and what ails a
plan (`doctor`)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any


def add_trust_commands(command: Callable[..., argparse.ArgumentParser], about_kernel: Callable[..., None]) -> None:
    """Add them. `command` adds a command, `about_kernel` the options that say what it is about."""
    made = command("verify", _verify, "check the values after every directive of a schedule against the reference",
                   "Without sizes small odd ones are taken. With --plan the kernel is planned for the sizes, and the plan "
                   "checked after every pass. The exit code is 1 if values differ.")  # fmt: skip
    about_kernel(made, runs=True)
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of the random data (default: 0)")
    made.add_argument("--plan", action="store_true", help="the plan of the kernel instead of a schedule")
    made.add_argument("--machine", metavar="NAME", default="host", help="that the plan is for (default: host)")
    made.add_argument("--objective", default="latency", metavar="WHAT", help="of the plan: latency, traffic or memory")
    made.add_argument(
        "--bisect",
        action="store_true",
        help="name the first directive or pass that breaks the values, and cut the case down",
    )
    made.add_argument("--save", metavar="FILE.tw", help="with --bisect: write the smallest case here")

    made = command("doctor", _doctor, "say what ails the plan of a kernel, why, and what helps",
                   "Looks at the figures of the plan; with --run also at its values and at its times on this computer. The "
                   "exit code is 1 where an error is found (and left).")  # fmt: skip
    about_kernel(made, runs=True, planned=True)
    made.add_argument("--machine", metavar="NAME", default="host", help="that the plan is for (default: host)")
    made.add_argument("--objective", default="latency", metavar="WHAT", help="of the plan: latency, traffic or memory")
    made.add_argument("--phase", metavar="WHAT", help="of the plan: prefill or decode")
    made.add_argument(
        "--run", action="store_true", dest="natively", help="validate the values, and measure the plan on this computer"
    )
    made.add_argument("--apply", nargs="?", const="", metavar="FILE.tw",
                      help="change the plan by what helps, look again, and write the schedule to a file")  # fmt: skip


def _doctor(args: argparse.Namespace) -> int:
    from tilewright import commands
    from tilewright.commands.files import writing

    found = commands.doctor(
        args.target, sizes=args.size, scalars=args.scalar, statics=args.static, dtypes=args.dtype, mode=args.mode,
        machine=args.machine, objective=args.objective, phase=args.phase, run=args.natively, apply=args.apply is not None,
    )  # fmt: skip
    if args.apply and found.healed is not None:
        text = f"{found.healed.schedule}\n"
        with writing(args.apply), open(args.apply, "w", encoding="utf-8") as f:
            f.write(text)
    print(json.dumps(found.as_json(), indent=2) if args.json else found)
    return 0 if found.ok else 1


def _verify(args: argparse.Namespace) -> int:
    from tilewright import commands

    about: dict[str, Any] = {
        "sizes": args.size, "scalars": args.scalar, "statics": args.static, "dtypes": args.dtype, "mode": args.mode,
        "seed": args.seed,
    }  # fmt: skip
    if args.plan and args.schedule:
        raise commands.UsageError(
            "--plan and --schedule are both given",
            code="usage.plan",
            hint="verify one of the two: a plan is a schedule",
        )
    if args.save and not args.bisect:
        raise commands.UsageError("--save is for --bisect", code="usage.save", hint="add --bisect")
    planning = {"machine": args.machine, "objective": args.objective}
    found: Any
    if args.bisect:
        found = commands.bisect(args.target, planned=args.plan, schedule=args.schedule, **about,
                                **(planning if args.plan else {}))  # fmt: skip
        if args.save and found.found is not None:
            from tilewright.commands.files import writing

            with writing(args.save), open(args.save, "w", encoding="utf-8") as f:
                f.write(found.found.text)
    elif args.plan:
        found = commands.verify_plan(args.target, **about, **planning)
    else:
        found = commands.verify(args.target, schedule=args.schedule, **about)
    print(json.dumps(found.as_json(), indent=2) if args.json else found)
    return 0 if found.ok else 1


__all__ = ["add_trust_commands"]
