"""Two threads beside one, each case in a process of its own that may use two processors.

Other cases run as they are, once with as many threads as there are processors and once with one; their peers run with two.
Between two sides nothing runs for a while, so that threads of other libraries, which look for work for some ms after a call,
have gone to sleep. Short loops are timed one by one: in a row, and each after a rest in which our threads sleep.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import Entry
from benchmarks.harness import Case, Peer, Result, Skipped, from_json, measure, result, shown

ROOT = Path(__file__).parents[2]
COUNT = 2
ASKED = 1.7
ONE = "ours, one thread"
# Cases that compute more than they move, and what is asked of two threads.
BOUND: dict[str, float | None] = {
    "matmul-256": ASKED, "matmul-512": ASKED, "matmul-1024": ASKED, "matmul-1031": ASKED, "matmul-f64": ASKED,
    "matmul-int8": ASKED, "matmul-unscheduled-1024": ASKED, "gelu": ASKED, "attention": ASKED, "attention-causal": ASKED,
    "conv-3x3": ASKED, "bilateral-grid": ASKED, "local-laplacian": ASKED, "harris": ASKED, "unscheduled-softmax": ASKED,
    # more bound by memory or by copies
    "heat": None, "fft": None, "conv-separable": None, "softmax": None, "unsharp": None, "matvec-bf16": None,
    "matvec-int8": None,
}  # fmt: skip
EXAMPLES = {"mandelbrot": ASKED, "conv1d": ASKED, "resize": ASKED, "tridiagonal": None}  # that are no case of their own
SHORT = (5, 10, 20, 50)  # us of work
REST = 0.001  # seconds before a short loop that is alone


def alone(name: str, threads: int, rounds: int | None = None) -> Result | Skipped:
    """The case in a fresh process on two processors, whatever this process is bound to."""
    from benchmarks.__main__ import processors

    given = os.environ.get("BENCHMARKS_PROCESSORS", "")  # what the process had before it was bound to fewer
    usable = [int(n) for n in given.split(",")] if given else processors()
    if len(usable) < COUNT:
        return Skipped(name, f"{COUNT} processors are needed, there is {len(usable)}")
    words = [name, ",".join(map(str, usable[-COUNT:])), *([str(rounds)] if rounds else [])]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cases.threads", *words], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"the case {name} failed in a process of its own:\n{done.stderr}")
    return from_json(json.loads(done.stdout.splitlines()[-1]))


# In the process of a case -------------------------------------------------------------------------------------------


@contextmanager
def one_thread() -> Iterator[None]:
    """What is compiled and bound meanwhile runs on one thread."""
    before = os.environ.get("TILEWRIGHT_THREADS")
    os.environ["TILEWRIGHT_THREADS"] = "1"
    try:
        yield
    finally:
        os.environ.pop("TILEWRIGHT_THREADS")
        if before is not None:
            os.environ["TILEWRIGHT_THREADS"] = before


def beside_one(make: Callable[[], Case], asked: float | None) -> Case:
    """A case with itself on one thread as a peer; of its own peers nothing is asked."""
    with one_thread():
        single = make()
    case = make()
    peers = (Peer(ONE, single.ours, asked), *(replace(p, target=None) for p in case.peers))

    def check() -> None:
        single.check()
        case.check()

    return replace(case, peers=peers, check=check)


def example_case(name: str) -> Case:
    """`expert` of an example at the size of the gallery."""
    import numpy as np

    from benchmarks import gallery
    from benchmarks.cases.data import example

    module = example(name)
    kernel = getattr(module, name)
    args = module.inputs(**gallery.SIZES[name])
    args = args if isinstance(args, tuple) else (args,)
    run = kernel.compile(module.expert()).bind(*args)

    def check() -> None:
        np.testing.assert_array_equal(run(), kernel.compile(module.expert())(*args, threads=1))

    return Case(run, (), check)


def short(microseconds: int, rest: float, rounds: int | None) -> Result:
    """A softmax of as many rows as one thread does in so many microseconds, default schedule: loops in a row, or after a
    rest each."""
    import numpy as np

    from benchmarks.cases.data import example, normal

    fast = example("softmax").softmax.compile()
    a = normal(4096, 256)
    probe = fast.bind(a[:64], threads=1)
    probe()
    seconds = sorted(call(probe, 0.0) for _ in range(201))[100]
    rows = a[: max(2, round(64 * microseconds * 1e-6 / seconds))]
    runs = {"": fast.bind(rows, threads=COUNT), ONE: fast.bind(rows, threads=1)}
    np.testing.assert_array_equal(runs[""](), runs[ONE]())
    times: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(rounds or 40):
        for name in list(runs)[:: -1 if k % 2 else 1]:
            time.sleep(0.002)
            for _ in range(3):
                runs[name]()  # where loops are in a row, threads are awake
            found = sorted(call(runs[name], rest) for _ in range(25 if rest else 101))
            times[name].append(found[len(found) // 2])
    where = f"threads-small-{microseconds}" + ("-rare" if rest else "")
    return result(where, times, (Peer(ONE, None, 0.95 if rest else 1.0),), COUNT)


def call(run: Callable[[], Any], rest: float) -> float:
    """Seconds of one call after a rest, in which this thread stays awake."""
    start = time.perf_counter()
    while time.perf_counter() - start < rest:
        pass
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measured(name: str, rounds: int | None) -> Result:
    from benchmarks.cases import entries

    kind, _, rest = name.removeprefix("threads-").partition("-")
    if kind == "small":
        number, _, rare = rest.partition("-")
        return short(int(number), REST if rare else 0.0, rounds)
    inner = name.removeprefix("threads-")
    make = partial(example_case, inner) if inner in EXAMPLES else entries()[inner].make
    assert make is not None
    return measure(name, beside_one(make, {**BOUND, **EXAMPLES}[inner]), COUNT, rounds)


def _title(microseconds: int, rare: bool) -> str:
    when = f"each after {shown(REST)}, 5 % are granted" if rare else "one after the other"
    return f"{microseconds} us of softmax on two threads and on one, {when}"


ENTRIES = (
    *(
        Entry(f"threads-{n}", f"{n} on two threads beside one", partial(alone, f"threads-{n}"))
        for n in (*BOUND, *EXAMPLES)
    ),
    *(
        Entry(f"threads-small-{us}{end}", _title(us, bool(end)), partial(alone, f"threads-small-{us}{end}"))
        for us in SHORT
        for end in ("", "-rare")
    ),
)


def main(name: str, chosen: str, rounds: str = "") -> int:
    from benchmarks.__main__ import pin

    pin([int(n) for n in chosen.split(",")])  # before anything imports NumPy
    print(json.dumps(measured(name, int(rounds) if rounds else None).as_json()))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
