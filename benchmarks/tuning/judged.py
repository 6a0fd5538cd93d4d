"""From no schedule at all, with no records, in the given time: how near does the tuner come to the experts' schedules?

Each kernel is tuned as a user would tune it. Then its schedule, the example's `expert` and the default schedule run in turns
in one process, on its arguments; a ratio is the median of those within a round: above 1 where the tuned one is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

ROUNDS = 25
SECONDS = 8.0  # of the runs in turns


@dataclass(frozen=True)
class Case:
    """A kernel of examples/, the seconds for its search, and the share of the expert's speed that is asked for."""

    name: str
    inputs: dict[str, int]
    budget: float
    target: float
    seeds: int = 1


CASES = {c.name: c for c in (
    Case("matmul", {"M": 1024, "N": 1024, "K": 1024}, 120, 0.9, 3),
    Case("softmax", {"M": 4096, "N": 1024}, 60, 0.85),
    Case("blur", {"repeat": 4}, 60, 0.85),
    Case("conv_layer", {"B": 1, "size": 56, "CI": 128, "CO": 128}, 60, 0.85),
    Case("attention", {"H": 8, "M": 1024, "N": 1024, "D": 64}, 60, 0.8),
)}  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """Seconds of a call (medians), ratios expert/tuned and default/tuned, and what the search did."""

    name: str
    seed: int
    threads: int
    tuned: float
    expert: float
    default: float
    by_expert: float
    by_default: float
    target: float
    tried: int
    pruned: int
    failed: int
    seconds: float
    schedule: str

    @property
    def reached(self) -> bool:
        return self.by_expert >= self.target


def judge(case: Case, seed: int, threads: int, budget: float, progress: str) -> Judged:
    """Tune a case, and run what was found beside the expert's schedule and the default one."""
    import tilewright as tw
    from benchmarks.cases.data import example
    from tilewright.lang.binding import bind

    module = example(case.name)
    kernel = getattr(module, case.name)
    args = module.inputs(**case.inputs)
    args = args if isinstance(args, tuple) else (args,)
    sizes = bind(kernel.pipeline(), args, {}).sizes
    found = tw.tune(kernel, sizes, budget_s=budget, seed=seed, threads=threads, records=False, progress=progress)
    r = found.results[0]
    makes = {"tuned": r.schedule, "expert": module.SCHEDULES[-1](), "default": kernel.schedule()}
    times = in_turns({n: kernel.compile(s) for n, s in makes.items()}, args, threads)
    middle = {n: statistics.median(t) for n, t in times.items()}

    def ratio(name: str) -> float:
        return statistics.median(other / own for other, own in zip(times[name], times["tuned"], strict=True))

    return Judged(
        case.name, seed, threads, middle["tuned"], middle["expert"], middle["default"], ratio("expert"), ratio("default"),
        case.target, r.tried, r.pruned, sum(r.failed.values()), found.seconds, str(r.schedule),
    )  # fmt: skip


def in_turns(compiled: dict[str, Any], args: tuple, threads: int) -> dict[str, list[float]]:
    """Seconds of calls by name, round by round, the order turned from round to round; on as many processors as threads."""
    from benchmarks.harness import repetitions, sample

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-threads:])
    try:
        runs: dict[str, Callable[[], Any]] = {n: _call(c, args, threads) for n, c in compiled.items()}
        counts = {n: repetitions(run) for n, run in runs.items()}
        taken: dict[str, list[float]] = {n: [] for n in runs}
        start, order = time.perf_counter(), list(runs)
        while len(taken[order[0]]) < ROUNDS and (len(taken[order[0]]) < 5 or time.perf_counter() - start < SECONDS):
            for n in order:
                taken[n].append(sample(runs[n], counts[n]))
            order = [*order[1:], order[0]]
    finally:
        os.sched_setaffinity(0, before)
    return taken


def _call(compiled: Any, args: tuple, threads: int) -> Callable[[], Any]:
    result = compiled(*args, threads=threads)
    return lambda: compiled(*args, out=result, threads=threads)


def table(rows: Sequence[Judged]) -> str:
    """As Markdown."""
    from benchmarks.harness import shown

    head = ("kernel", "seed", "tuned", "expert", "default", "expert/tuned", "asked", "default/tuned", "tried", "pruned",
            "seconds")  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [
        f"| {r.name} | {r.seed} | {shown(r.tuned)} | {shown(r.expert)} | {shown(r.default)} | "
        f"**{r.by_expert:.2f}** | {r.target:.2f} | {r.by_default:.2f} | {r.tried} | {r.pruned} | {r.seconds:.0f} |"
        for r in rows
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning judged", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--seed", type=int, help="this seed alone (default: as many as are asked for, from 0)")
    parser.add_argument("--threads", type=int, default=1, help="of each call (default: 1)")
    parser.add_argument("--budget", type=float, help="seconds of a search (default: what the case has)")
    parser.add_argument("--progress", default="none", help="what tuners show: live, lines or none (default: none)")
    parser.add_argument("--json", action="store_true", help="a line of JSON a case")
    args = parser.parse_args(arguments)
    for name in args.cases:
        if name not in CASES:
            parser.error(f"there is no case {name!r}: there are {', '.join(CASES)}")
    rows = []
    for name in args.cases or CASES:
        case = CASES[name]
        for seed in range(case.seeds) if args.seed is None else [args.seed]:
            rows.append(judge(case, seed, args.threads, args.budget or case.budget, args.progress))
            if args.json:
                print(json.dumps(asdict(rows[-1])), flush=True)
            else:
                print(f"{rows[-1].schedule}\n", file=sys.stderr, flush=True)
    if not args.json:
        print(table(rows))
    return 0 if all(r.reached for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
