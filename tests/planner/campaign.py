"""Plans of random graphs, many of them: `python -m tests.planner.campaign FIRST LAST [--record FILE]`.

Each seed is a graph, a machine, an objective and sizes; its plan must have the reference's values (`validate`, after the
last pass). A case runs in a process of its own, so that a crash is one finding and no end. With a record (a line of JSON a
case) a campaign goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.planner.graphs import case
from tilewright.codegen.judge import takes
from tilewright.lang.errors import TilewrightError
from tilewright.planner.errors import PlanError
from tilewright.planner.validate import validate

_SECONDS = 300  # that a case may take


def problem(seed: int) -> str:
    """What is wrong with the plan of a case ("" for nothing)."""
    c = case(random.Random(seed).choice)
    p = c.kernel.pipeline()
    try:
        plan = c.plan()
    except PlanError as e:
        return f"no plan: {e.message}"
    whole = ""
    try:
        plan.schedule.check()
    except TilewrightError as e:
        whole = f"the schedule of the whole: {e.message}"
    for sizes in (s for s in c.sizes if takes(p, s, {})):
        found = validate(plan, sizes, every=False)
        if found.faults:
            return str(found.faults[0])
    return whole


def apart(seed: int) -> str:
    """The same in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            signal.alarm(_SECONDS)
            try:
                said = problem(seed)
            except BaseException as e:
                place = traceback.extract_tb(e.__traceback__)[-1]
                said = f"{type(e).__name__}: {e} ({Path(place.filename).name}:{place.lineno})"
            os.write(write, said.encode()[:60000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    _, status = os.waitpid(child, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--record", type=Path, help="a file of what was found, a line a case")
    args = parser.parse_args(arguments)
    done = set()
    if args.record and args.record.exists():
        done = {json.loads(line)["seed"] for line in args.record.read_text().splitlines()}
    wrong = 0
    for seed in range(args.first, args.last):
        if seed in done:
            continue
        start = time.monotonic()
        said = apart(seed)
        wrong += bool(said)
        line = json.dumps({"seed": seed, "problem": said, "seconds": round(time.monotonic() - start, 1)})
        if args.record:
            with args.record.open("a") as f:
                f.write(line + "\n")
        if said:
            print(line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
