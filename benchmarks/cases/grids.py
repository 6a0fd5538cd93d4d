"""Grids and signals: the heat equation, a histogram, a long Fourier transform, and a transposed copy."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from benchmarks import halide_pipelines
from benchmarks.cases import entry
from benchmarks.cases.data import close, example
from benchmarks.harness import Case, Peer, Work


@numba.njit(parallel=True)
def _numba_heat(before, rate, after):
    """One step; the edges repeat."""
    m, n = before.shape
    for i in numba.prange(m):
        up, down = max(i - 1, 0), min(i + 1, m - 1)
        for j in range(1, n - 1):
            around = before[up, j] + before[down, j] + before[i, j - 1] + before[i, j + 1]
            after[i, j] = before[i, j] + rate * (around - np.float32(4) * before[i, j])
        for j, left, right in ((0, 0, min(1, n - 1)), (n - 1, max(n - 2, 0), n - 1)):
            around = before[up, j] + before[down, j] + before[i, left] + before[i, right]
            after[i, j] = before[i, j] + rate * (around - np.float32(4) * before[i, j])


def heat(n: int = 4096, steps: int = 100) -> Case:
    """Ours takes several steps a pass over the plate, the peer one; both swap two arrays."""
    module = example("heat")
    plate, rate = module.inputs(n, n)
    fast = module.heat.compile(module.expert())
    passes, rest = divmod(steps, module.STEPS)
    assert not rest

    def repeated(step: Any, count: int) -> Any:
        here, there = np.empty_like(plate), np.empty_like(plate)

        def run() -> np.ndarray:
            step(plate, rate, here)
            arrays = here, there
            for _ in range(count - 1):
                step(arrays[0], rate, arrays[1])
                arrays = arrays[::-1]
            return arrays[0]

        return run

    ours = repeated(lambda a, r, out: fast(a, r, out=out), passes)
    theirs = repeated(_numba_heat, steps)
    return Case(
        ours, (Peer("Numba, prange", theirs, 1.5),), close([ours], theirs, 1e-5),
        Work(6.0 * steps * n * n, reads=plate.nbytes, writes=plate.nbytes),
    )  # fmt: skip


def histogram(rows: int = 4096, columns: int = 4096) -> Case:
    module = example("histogram")
    picture = np.ascontiguousarray(module.inputs(8)[:rows, :columns])
    fast = module.histogram.compile(module.expert())
    ours = fast(picture)
    peers = halide_pipelines.peers("histogram", (picture,), ours, 1.0)
    flat = picture.ravel()
    counted = lambda: np.bincount(flat, minlength=256)  # noqa: E731
    return Case(
        lambda: fast(picture, out=ours), (*peers, Peer("NumPy, bincount", counted, 1.0)),
        close([lambda: fast(picture), *(p.run for p in peers if p.run)], counted, 0.0),
        Work(reads=picture.nbytes),
    )  # fmt: skip


ENTRIES = (
    entry("heat", "100 steps of the heat equation on 4096 x 4096 f32", heat),
    entry("histogram", "of 4096 x 4096 bytes", histogram),
)
