"""Matrix products against OpenBLAS (by way of NumPy)."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.cases import entry
from benchmarks.cases.data import every, example, judged, uniform
from benchmarks.harness import Case, Peer, Work

SIZES = (64, 128, 256, 512, 1024, 1031, 2048)


def matmul(schedule: str | None, n: int, target: float, dtype: type = np.float32) -> Case:
    module = example("matmul" if dtype is np.float32 else "matmul_f64")
    kernel = module.matmul
    a, b = uniform(n, n).astype(dtype), uniform(n, n)[::-1].astype(dtype)
    c, d = np.empty((n, n), dtype), np.empty((n, n), dtype)
    fast = kernel.compile(getattr(module, schedule)() if schedule else None)
    expert = kernel.compile(module.expert())
    rows = every(n)
    peers = [Peer("NumPy (OpenBLAS)", lambda: np.matmul(a, b, out=d), target if schedule else None)]
    if schedule is None:
        e = np.empty((n, n), dtype)
        peers.append(Peer("ours, expert", lambda: expert(a, b, out=e), target))
    return Case(
        lambda: fast(a, b, out=c), tuple(peers),
        judged(kernel, [lambda: fast(a, b), lambda: a @ b], rows, a[rows], b),
        Work(2.0 * n**3, "f32" if dtype is np.float32 else "f64"),
    )  # fmt: skip


ENTRIES = (
    *(
        entry(f"matmul-{n}", f"f32 {n} x {n}, `expert` of examples/matmul.py", partial(matmul, "expert", n, 0.9), "matmul")
        for n in SIZES
    ),
    *(
        entry(f"matmul-unscheduled-{n}", f"f32 {n} x {n}, the default schedule", partial(matmul, None, n, 0.7))
        for n in (512, 1024)
    ),
)  # fmt: skip
