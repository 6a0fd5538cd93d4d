"""Grids and signals: the heat equation, a histogram, one long Fourier transform, and a transposed copy."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from benchmarks import halide_pipelines
from benchmarks.cases import entry
from benchmarks.cases.data import close, example, normal
from benchmarks.harness import Case, Peer, Work, peer


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


def fourier(lines: int = 1024, length: int = 1024) -> Case:
    """Ours has real and imaginary parts in two arrays, the others side by side."""
    module = example("fft")
    n = lines * length
    signal = (normal(2, n)[0] + 1j * normal(2, n)[1]).astype(np.complex64)
    parts = [np.ascontiguousarray(p.reshape(lines, length)) for p in (signal.real, signal.imag)]
    fast = module.fft.compile(module.expert_long(length, lines))
    ours, theirs = fast(*parts), np.empty_like(signal)

    def joined() -> np.ndarray:
        real, imag = fast(*parts)
        return np.stack((real.ravel(), imag.ravel()))

    def torch_fft() -> Any:
        import torch

        x = torch.from_numpy(signal)
        return lambda: torch.fft.fft(x)

    def scipy_fft() -> Any:
        from scipy import fft

        return lambda: fft.fft(signal)

    def exact() -> np.ndarray:
        wide = np.fft.fft(signal.astype(np.complex128))
        return np.stack((wide.real, wide.imag))

    return Case(
        lambda: fast(*parts, out=ours),
        (
            Peer("NumPy", lambda: np.fft.fft(signal, out=theirs), 1.0),
            peer("SciPy", "scipy", scipy_fft),
            peer("PyTorch", "torch", torch_fft),
        ),
        close([joined], exact, 1e-6),
        Work(5.0 * n * np.log2(n), reads=signal.nbytes, writes=signal.nbytes),
    )


def transpose(n: int = 4096) -> Case:
    module = example("transpose")
    a = module.inputs(n, n)
    fast = module.transpose.compile(module.expert())
    ours, theirs = np.empty_like(a), np.empty_like(a)

    def copied() -> np.ndarray:
        np.copyto(theirs, a.T)
        return theirs

    def torch_copy() -> Any:
        import torch

        x, out = torch.from_numpy(a), torch.empty(n, n)
        return lambda: out.copy_(x.T)

    return Case(
        lambda: fast(a, out=ours), (Peer("NumPy, a copy of a.T", copied), peer("PyTorch", "torch", torch_copy)),
        close([lambda: fast(a)], copied, 0.0), Work(reads=a.nbytes, writes=a.nbytes),
    )  # fmt: skip


ENTRIES = (
    entry("heat", "100 steps of the heat equation on 4096 x 4096 f32", heat),
    entry("histogram", "of 4096 x 4096 bytes", histogram),
    entry("fft", "one Fourier transform of 2^20 complex f32", fourier),
    entry("transpose", "a transposed copy of 4096 x 4096 f32", transpose),
)
