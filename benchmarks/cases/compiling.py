"""Compiling with an empty cache, in a fresh process each time, beside Halide's JIT of the same program.

What counts is all that comes after importing: from the program's text to something that can be called, for ours the
tracing of the kernel and the schedule, for Halide the making of its Funcs and their schedule. A small program has been
compiled in each process before, so that neither side pays for what it does once (Halide compiles its runtime then, half
a second in every process; ours loads its modules, and compiles its own runtime once an installation).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks.cases import Entry
from benchmarks.cases.processes import child
from benchmarks.gallery import SIZES, STATICS
from benchmarks.halide_pipelines import programs
from benchmarks.harness import Peer, Result, result

ROUNDS, ALONE = 7, 3  # beside a peer, and beside none
PARAMETERS = {**STATICS, "local_laplacian": {"levels": 8}}  # as in the cases of the same names
SCHEDULE = {"matmul": "tiled"}  # where Halide's loops are those of another schedule than `expert`


def beside_halide(name: str, schedule: str, threads: int, rounds: int | None = None) -> Result:
    found: dict[str, list[float]] = {"": []}
    peers: tuple[Peer, ...] = (Peer("Halide", None, 1.0, "halide is not installed"),)
    if find_spec("halide") is not None:
        found["Halide"], peers = [], (Peer("Halide", lambda: None, 1.0),)
    for k in range(rounds or ROUNDS):
        for side in list(found)[:: -1 if k % 2 else 1]:
            found[side].append(_seconds("halide", name) if side else _seconds("ours", name, schedule))
    return result(f"compile-{name}", found, peers, threads)


def alone(case: str, name: str, threads: int, rounds: int | None = None) -> Result:
    return result(case, {"": [_seconds("ours", name, "expert") for _ in range(rounds or ALONE)]}, (), threads)


def _seconds(*words: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return child("benchmarks.cases.compiling", folder, *words)["seconds"]


def _entries() -> tuple[Entry, ...]:
    beside = tuple(
        Entry(
            f"compile-{name}",
            f"compiling examples/{name}.py with `{SCHEDULE.get(name, 'expert')}`, empty cache, fresh processes",
            partial(beside_halide, name, SCHEDULE.get(name, "expert")),
        )
        for name in programs()
    )
    rest = [(f"compile-{n}", n) for n in SIZES if n not in programs()] + [("compile-matmul-expert", "matmul")]
    return beside + tuple(
        Entry(case, f"compiling examples/{name}.py with `expert`, the same", partial(alone, case, name))
        for case, name in rest
    )


ENTRIES = _entries()


# In the child ---------------------------------------------------------------------------------------------------


def _compile(name: str, schedule: str) -> dict[str, float]:
    import numpy as np

    from benchmarks.cases.data import example
    from benchmarks.small import matmul

    a = np.eye(3, dtype=np.float32)
    assert (matmul.compile()(a, a) == a).all()
    module = example(name)
    start = time.perf_counter()
    fast = getattr(module, name).compile(getattr(module, schedule)(**PARAMETERS.get(name, {})))
    seconds = time.perf_counter() - start
    assert callable(fast)  # the tests judge its values
    return {"seconds": seconds}


def _compile_halide(name: str) -> dict[str, float]:
    import halide as hl
    import numpy as np

    from benchmarks import halide_pipelines
    from benchmarks.cases.data import example

    x, first = hl.Var("x"), hl.Func("first")
    first[x] = x
    first.compile_jit(hl.get_host_target())
    start = time.perf_counter()
    call = halide_pipelines.jit(name)
    seconds = time.perf_counter() - start
    module = example(name)
    given = module.inputs()
    args = tuple(map(_whole, given if isinstance(given, tuple) else (given,)))
    exact = getattr(module, name).reference(*args, **PARAMETERS.get(name, {}))
    outs = [np.empty_like(e) for e in (exact if isinstance(exact, tuple) else (exact,))]
    call(*map(halide_pipelines.argument, (*args, *outs)))
    for out, right in zip(outs, exact if isinstance(exact, tuple) else (exact,), strict=True):
        error = np.abs(out - np.float64(right)).max() / np.abs(right).max()
        assert error <= 1e-5, f"{name}: off by {error:.3g} of the largest value"
    return {"seconds": seconds}


def _whole(value: Any) -> Any:
    import numpy as np

    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


if __name__ == "__main__":
    print(json.dumps({"ours": _compile, "halide": _compile_halide}[sys.argv[1]](*sys.argv[2:])))
