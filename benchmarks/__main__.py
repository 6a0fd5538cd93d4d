"""`python -m benchmarks [CASE ...] [--threads N] [--json]`: ours and every peer in turns, medians and ratios.

Threads are pinned and equal for all sides: all libraries see as many processors as there are threads. One thread is
the default, because spinning thread pools of two libraries disturb each other. A ratio is the peer's time by ours, with
its quartiles; then what is asked of it, and how near ours is to the limit of the processor as measured just after.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from typing import Any


def main() -> int:
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--threads", type=int, default=1)
    threads = first.parse_known_args()[0].threads
    available = processors()
    os.environ.setdefault("BENCHMARKS_PROCESSORS", ",".join(map(str, available)))  # for cases in processes of their own
    if 1 <= threads <= len(available):
        pin(available[-threads:])  # before anything imports NumPy

    from benchmarks import report
    from benchmarks.cases import entries
    from benchmarks.harness import Failed, Result, Skipped

    cases = entries()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="cases:\n" + "\n".join(f"  {e.name:25} {e.title}" for e in cases.values()),
    )  # fmt: skip
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a case, or the first word of several (default: all)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of all sides (default: 1)")
    parser.add_argument("--rounds", type=int, metavar="N", help="timed rounds (default: for some seconds)")
    parser.add_argument("--json", action="store_true", help="a line of JSON a case")
    parser.add_argument("--plot", metavar="FILE", help="a picture of all ratios (PNG, SVG or PDF)")
    parser.add_argument("--markdown", metavar="FILE", help="write a page with all figures, as docs/performance.md")
    args = parser.parse_args()
    unknown = [c for c in args.cases if not any(report.is_chosen(e, [c]) for e in cases.values())]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; there are {', '.join(cases)}")
    if not 1 <= args.threads <= len(available):
        parser.error(f"--threads must be 1..{len(available)} here")
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds must be 1 or more")
    for option, problem in (("plot", report.no_picture(args.plot)), ("markdown", report.unwritable(args.markdown))):
        if problem:
            parser.error(f"--{option}: {problem}")
    chosen = [e for e in cases.values() if report.is_chosen(e, args.cases)]
    results, skipped = [], []
    for e in chosen:
        result = measured(e, args.threads, args.rounds)
        print(json.dumps(result.as_json()) if args.json else result, flush=True)
        if isinstance(result, Result):
            results.append((e, result))
        elif isinstance(result, Skipped):
            skipped.append(result)
    if not args.json:
        print("".join(f"{line}\n" for line in report.groups(results)), end="")
    if args.plot:
        report.plot(results, args.plot)
    if args.markdown:
        report.page(results, args.threads, args.markdown, skipped)
    return 1 if any(isinstance(s, Failed) for s in skipped) else 0


def measured(entry: Any, threads: int, rounds: int | None) -> Any:
    """The result of a case, or why there is none: the cases after it are measured all the same."""
    from benchmarks.harness import Failed

    try:
        return entry.run(threads, rounds)
    except Exception as error:
        traceback.print_exc()
        return Failed(entry.name, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def processors() -> list[int]:
    """Those that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(chosen: list[int]) -> None:
    """All threads to these processors, and every library to as many threads; before any of them is imported."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen)
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR", "HL", "TVM"):
        os.environ[f"{name}_NUM_THREADS"] = str(len(chosen))
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = (
        "22"  # idle threads look for work for 2^22 cycles, some ms, and not for 100 ms
    )
    os.environ.pop("OPENBLAS_CORETYPE", None)  # the peer is to take the kernels made for this processor


if __name__ == "__main__":
    sys.exit(main())
