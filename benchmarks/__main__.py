"""`python -m benchmarks [CASE ...] [--threads N] [--json]`: one line a case, medians of runs that take turns.

Threads are pinned and equal for both sides: all libraries see as many processors as there are threads. One thread is
the default, because spinning thread pools of two libraries disturb each other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator

from benchmarks import simulator

# name -> what is compared
CASES = {
    "matmul": "f32 1024 x 1024 with the schedule `expert` of examples/matmul.py, NumPy",
    "matmul-unscheduled": "the same with the default schedule",
    "softmax": "f32 4096 x 1024 with the schedule `expert` of examples/softmax.py, PyTorch",
    "softmax-unscheduled": "the same with the default schedule",
    "chain": "an elementwise chain over 4 million f32, unscheduled, Numba's prange",
    "stencil": "a 5-point stencil over 2048 x 2048 f32, unscheduled, Numba's prange",
    "row-sum": "sums of the rows of 2048 x 2048 f32, unscheduled, Numba's prange",
    "call": "a call on 16 elements with out=, np.add",
    "cold": "compiling matmul with `expert`, empty cache (median of 5 processes), Numba's njit of plain loops",
    "warm": "from `import tilewright` to the first result, filled cache (median of 5 processes), Numba's cache",
    **simulator.CASES,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="cases:\n" + "\n".join(f"  {name:25} {text}" for name, text in CASES.items()),
    )  # fmt: skip
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a case, or the first word of several (default: all)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of both sides (default: 1)")
    parser.add_argument("--rounds", type=int, metavar="N", help="timed rounds (default: for some seconds)")
    parser.add_argument("--json", action="store_true", help="a line of JSON a case")
    args = parser.parse_args()
    chosen = [name for name in CASES if _chosen(name, args.cases)]
    unknown = [c for c in args.cases if not any(_selects(c, name) for name in CASES)]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; there are {', '.join(CASES)}")
    available = (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    )
    if not 1 <= args.threads <= len(available):
        parser.error(f"--threads must be 1..{len(available)} here")
    pin(available[-args.threads :])
    if not args.json and not set(chosen) <= set(simulator.CASES):
        print(f"{'case':22} {'ours':>10}  {'peer':32} {'peer':>10}  peer/ours  ({args.threads} threads)")
    for result in _run(chosen, args.threads, args.rounds):
        print(json.dumps(result.as_json()) if args.json else result, flush=True)
    return 0


def _chosen(name: str, words: list[str]) -> bool:
    """Cases that take long run where they are named, and nowhere else."""
    if name in simulator.LONG:
        return name in words
    return not words or any(_selects(w, name) for w in words)


def _selects(word: str, name: str) -> bool:
    return name == word or name.startswith(word + "-")


def pin(processors: list[int]) -> None:
    """All threads to these processors, and every library to as many threads; before any of them is imported."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, processors)
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(len(processors))
    os.environ.pop("OPENBLAS_CORETYPE", None)  # the peer is to take the kernels made for this processor


def _run(names: list[str], threads: int, rounds: int | None) -> Iterator:
    from benchmarks import arrays, processes
    from benchmarks.harness import Case, measure

    cases: dict[str, Callable[[], Case]] = {
        "matmul": lambda: arrays.matmul("expert"),
        "matmul-unscheduled": lambda: arrays.matmul(None),
        "softmax": lambda: arrays.softmax("expert"),
        "softmax-unscheduled": lambda: arrays.softmax(None),
        "chain": arrays.chain,
        "stencil": arrays.stencil,
        "row-sum": arrays.row_sum,
        "call": arrays.call_cost,
    }
    fresh = {"cold": processes.cold, "warm": processes.warm}
    for name in names:
        if name in simulator.CASES:
            yield simulator.measure(name, rounds)
        else:
            yield fresh[name](threads, rounds) if name in fresh else measure(cases[name](), threads, rounds)


if __name__ == "__main__":
    sys.exit(main())
