"""Cases in fresh processes: compiling with an empty cache, and starting with a filled one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cases import Entry
from benchmarks.harness import Peer, Result, result

ROOT = Path(__file__).parents[2]


def cold(threads: int, rounds: int | None = None) -> Result:
    """Seconds of `matmul.compile(expert())` where the cache is empty; the peer compiles the same loops unscheduled.

    One trivial cfunc has been compiled in each process before, so that what Numba does once is not counted.
    """
    found = []
    for _ in range(rounds or 5):
        with tempfile.TemporaryDirectory() as folder:
            found.append(_child("cold", folder))
    return _result("cold", "Numba, njit of the loops", found, threads)


def warm(threads: int, rounds: int | None = None) -> Result:
    """Seconds from `import tilewright` to the first result, in a new process with a filled cache and without Numba."""
    with tempfile.TemporaryDirectory() as folder:
        _child("warm", folder)
        _child("warm-peer", folder)
        found = [
            {"ours": _child("warm", folder)["ours"], "peer": _child("warm-peer", folder)["peer"]}
            for _ in range(rounds or 5)
        ]
    return _result("warm", "Numba, njit(cache=True)", found, threads)


def _result(case: str, peer: str, found: list[dict[str, float]], threads: int) -> Result:
    return result(
        case, {"": [f["ours"] for f in found], peer: [f["peer"] for f in found]}, (Peer(peer, None),), threads
    )


def _child(what: str, folder: str) -> dict[str, float]:
    return child("benchmarks.cases.processes", folder, what)


def child(module: str, folder: str, *words: str) -> dict[str, float]:
    """What `python -m module words` prints, in a new process whose caches are in `folder`."""
    env = os.environ | {"TILEWRIGHT_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder}
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


ENTRIES = (
    Entry("cold", "compiling matmul with `expert`, empty cache, beside Numba's njit of plain loops", cold),
    Entry("warm", "from `import tilewright` to the first result, filled cache, beside Numba's cache", warm),
)


# In the child ---------------------------------------------------------------------------------------------------


def _cold() -> dict[str, float]:
    import numba
    import numpy as np

    from benchmarks.cases.data import example

    numba.cfunc("f8(f8)")(lambda x: x + 1.0)
    module = example("matmul")
    schedule = module.expert()
    start = time.perf_counter()
    fast = module.matmul.compile(schedule)
    ours = time.perf_counter() - start
    a = np.eye(3, dtype=np.float32)
    assert (fast(a, a) == a).all()
    loops = _numba_matmul(numba)
    start = time.perf_counter()
    loops.compile("void(f4[:, ::1], f4[:, ::1], f4[:, ::1])")
    return {"ours": ours, "peer": time.perf_counter() - start}


def _warm() -> dict[str, float]:
    start = time.perf_counter()
    import numpy as np

    from benchmarks.small import matmul

    a = np.eye(3, dtype=np.float32)
    result = matmul(a, a)
    seconds = time.perf_counter() - start
    assert (result == a).all()
    assert "numba" not in sys.modules, "a warm start needs no Numba"
    return {"ours": seconds}


def _warm_peer() -> dict[str, float]:
    start = time.perf_counter()
    import numba
    import numpy as np

    a, c = np.eye(3, dtype=np.float32), np.zeros((3, 3), np.float32)
    _numba_matmul(numba, cache=True)(a, a, c)
    seconds = time.perf_counter() - start
    assert (c == a).all()
    return {"peer": seconds}


def _numba_matmul(numba: Any, **options: Any) -> Any:
    return numba.njit(**options)(_loops)


def _loops(a, b, c):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


if __name__ == "__main__":
    print(json.dumps({"cold": _cold, "warm": _warm, "warm-peer": _warm_peer}[sys.argv[1]]()))
