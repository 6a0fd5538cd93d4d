"""Trials by seed in a process of their own: `python -m tests.fuzz.worker START COUNT [--loops] [--machine]`.

The number of a trial is printed before anything of it runs, so that whoever reads knows which one killed the process.
Failures are printed and don't stop the rest; the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections import Counter

from tests.fuzz import trials


def check(t: trials.Trial, rnd: random.Random, loops: bool = True, machine: bool = True) -> str:
    """Compare all ways to run a trial."""
    expected = trials.by_reference(t.case)
    if expected is None:
        return "no call"
    state = trials.legal_state(t)
    if state is None:
        return "refused"
    if loops:
        found = trials.by_loops(t, state)
        if found is None:
            return "not compiled"
        trials.assert_same(found, expected)
    if machine:
        compiled: dict = {}
        for _ in range(2):
            found = trials.by_machine(t, state, rnd.randrange, compiled)
            if found is None:
                return "not compiled"
            trials.assert_same(found, expected)
    return "good"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("start", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--loops", action="store_true")
    parser.add_argument("--machine", action="store_true")
    given = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for seed in range(given.start, given.start + given.count):
        print(f"seed {seed}", flush=True)
        rnd = random.Random(seed)
        t = None
        try:
            t = trials.draw(rnd.randrange, seed, given.steps)
            outcome = "no pipeline" if t is None else check(t, rnd, given.loops, given.machine)
        except Exception as e:
            outcome = "FAILED"
            print(f"FAILED seed {seed}: {type(e).__name__}: {e}\n{t}", flush=True)
            traceback.print_exc(limit=-4, file=sys.stdout)
        outcomes[outcome] += 1
    print(", ".join(f"{n} {k}" for k, n in sorted(outcomes.items())), flush=True)
    return 1 if outcomes["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
