"""Trials in a process of their own: `python -m tests.fuzz.worker < TRIALS`, one `SEED FOCUS` a line.

A line of JSON comes back for each when it is done. A failure is a row like any other; what kills the process or takes
too long is seen by whoever reads.

`python -m tests.fuzz.worker SEED [FOCUS]` repeats one trial and shows what fails.
"""

from __future__ import annotations

import faulthandler
import json
import random
import resource
import sys
import time
import traceback
from dataclasses import asdict

from tests.fuzz import trials
from tests.fuzz.store import Row

VERSION = 8  # of the generator: the same seed and focus give the same trial
LIMIT = 25.0  # seconds of a trial; then the process ends, saying where it was
MEMORY = 4 << 30  # bytes of address space: a trial that wants more has gone wrong


def row(seed: int, focus: trials.Focus) -> Row:
    """Run one trial."""
    start = time.process_time()
    made = Row(seed, VERSION, str(focus), "FAILED")
    rnd = random.Random(f"{seed} {focus}")
    t = None
    try:
        t = trials.draw(rnd.randrange, seed, focus)
        out = trials.run(t, rnd.randrange)
        made.outcome, made.kinds, made.pairs = out.name, sorted(out.kinds), [list(p) for p in sorted(out.pairs)]
        made.ways, made.extents = sorted(out.ways), out.extents
        if out.plan is not None:
            made.level = out.plan.level
    except Exception as e:
        places = [f"{f.filename.rpartition('/')[2]}:{f.name}" for f in traceback.extract_tb(e.__traceback__)[-3:]]
        made.message = f"{type(e).__name__}: {e}\n  at {' < '.join(reversed(places))}\n{t}"
    if t is not None:
        made.data, made.funcs, made.directives = t.data, len(t.case.pipeline.funcs), len(t.schedule)
        made.refused = list(t.refused)
    made.seconds = round(time.process_time() - start, 4)
    return made


def main() -> int:
    if len(sys.argv) > 1:
        focus = trials.Focus.read(sys.argv[2]) if len(sys.argv) > 2 else trials.Focus()
        print(trials.trial(int(sys.argv[1]), focus))
        return 0
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        seed, focus = line.split()
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        print(json.dumps(asdict(row(int(seed), trials.Focus.read(focus)))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
