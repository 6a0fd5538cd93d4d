"""The options of `tilewright plan`, and what it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tilewright.planner.goal import OBJECTIVES, PHASES


def add_plan_command(command: Callable[..., argparse.ArgumentParser], about_kernel: Callable[..., None]) -> None:
    """Add it. `command` adds a command, `about_kernel` the options that say what it is about."""
    made = command("plan", _plan, "plan a pipeline of many Funcs: what runs together, in which tiles and order, and where "
                   "buffers lie", "Nothing runs: times are a model of the machine.")  # fmt: skip
    about_kernel(made, runs=True, planned=True)
    made.add_argument("--machine", metavar="NAME", default="host",
                      help="a preset (see `tilewright machines`) or a TOML file (default: host, this computer)")  # fmt: skip
    made.add_argument("--objective", choices=list(OBJECTIVES), default="latency",
                      help="what there should be least of: cycles, bytes of main memory, or bytes that live at once "
                      "(default: latency)")  # fmt: skip
    made.add_argument("--phase", choices=list(PHASES), help="of a model: many rows at once, or one")
    made.add_argument("--budget", type=float, default=10.0, metavar="S",
                      help="seconds that the search may take (default: 10)")  # fmt: skip
    made.add_argument("--seed", type=int, default=0, metavar="N", help="equal seeds give equal plans (default: 0)")
    made.add_argument("--weights", type=lambda s: [n.strip() for n in s.split(",")], default=[], metavar="NAMES",
                      help="inputs that are packed once, by comma")  # fmt: skip
    made.add_argument("--tokens", metavar="SIZE", help="the size that counts tokens, for figures by token")
    made.add_argument("--html", metavar="FILE", help="write the report: one page that a browser opens from disk")
    made.add_argument("--save", metavar="FILE.tw", help="write the plan as a schedule of the kernel")


def _plan(args: argparse.Namespace) -> int:
    from tilewright.commands import plan
    from tilewright.commands.files import writing

    found = plan(
        args.target, machine=args.machine, objective=args.objective, phase=args.phase, budget_s=args.budget,
        sizes=args.size, seed=args.seed, tokens=args.tokens, weights=args.weights, scalars=args.scalar, statics=args.static,
        dtypes=args.dtype, mode=args.mode,
    )  # fmt: skip
    if args.html:
        with writing(args.html):
            found.html(args.html)
        print(f"{args.html} written", file=sys.stderr)
    if args.save:
        text = f"{found.schedule}\n"
        with writing(args.save), open(args.save, "w", encoding="utf-8") as f:
            f.write(text)
        print(f"{args.save} written", file=sys.stderr)
    print(found.to_json() if args.json else found)
    return 0


__all__ = ["add_plan_command"]
