"""Cases on arrays: kernels of ours against the library or the Numba loop that a user would take instead."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np

import tilewright as tw
from benchmarks.harness import Case
from tilewright.testing import assert_within_bound

M, N = tw.sizes("M N")
ROWS = 16  # rows that are judged where an error bound of all of them takes too long


def example(name: str) -> ModuleType:
    """A program of examples/ as a module."""
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def uniform(*shape: int) -> np.ndarray:
    """Numbers in 0..1: long sums of them do not cancel, so that their error bounds say something."""
    return np.random.default_rng(0).random(shape, np.float32)


def _judge(kernel: Any, results: list[Callable[[], np.ndarray]], rows: slice, *args: np.ndarray) -> Callable[[], None]:
    """A check that these results lie within the kernel's error bound, given what their `rows` are made of."""

    def check() -> None:
        for result in results:
            assert_within_bound(kernel, np.ascontiguousarray(result()[rows]), *args)

    return check


# Libraries ------------------------------------------------------------------------------------------------------


def matmul(schedule: str | None, n: int = 1024) -> Case:
    module = example("matmul")
    a, b = uniform(n, n), uniform(n, n)[::-1].copy()
    c, d = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
    fast = module.matmul.compile(getattr(module, schedule)() if schedule else None)
    rows = slice(0, n, max(1, n // ROWS))
    return Case(
        "matmul" if schedule else "matmul-unscheduled", "NumPy (OpenBLAS)",
        lambda: fast(a, b, out=c), lambda: np.matmul(a, b, out=d),
        _judge(module.matmul, [lambda: fast(a, b), lambda: a @ b], rows, a[rows], b),
    )  # fmt: skip


def softmax(schedule: str | None, m: int = 4096, n: int = 1024) -> Case:
    import torch

    module = example("softmax")
    a = normal(m, n)
    fast = module.softmax.compile(getattr(module, schedule)() if schedule else None)
    ours, theirs = np.empty_like(a), torch.empty(m, n)
    x = torch.from_numpy(a)
    rows = slice(0, m, max(1, m // ROWS))
    return Case(
        "softmax" if schedule else "softmax-unscheduled", "PyTorch",
        lambda: fast(a, out=ours), lambda: torch.softmax(x, 1, out=theirs),
        _judge(module.softmax, [lambda: fast(a), lambda: torch.softmax(x, 1).numpy()], rows, a[rows]),
    )  # fmt: skip


# Numba ----------------------------------------------------------------------------------------------------------


@tw.kernel
def _chain(x: tw.f32[N], y: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    t = x[i] * 2.0 + y[i]
    out[i] = tw.sqrt(tw.abs(t)) * t - y[i]
    return out[:N]


@numba.njit(parallel=True)
def _numba_chain(x, y, out):
    for i in numba.prange(len(x)):
        t = x[i] * np.float32(2) + y[i]
        out[i] = np.sqrt(abs(t)) * t - y[i]


@tw.kernel
def _stencil(a: tw.f32[M, N]):
    i, j = tw.vars("i j")
    out = tw.func("out")
    out[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
    return out[1 : M - 1, 1 : N - 1]


@numba.njit(parallel=True)
def _numba_stencil(a, out):
    m, n = a.shape
    for i in numba.prange(1, m - 1):
        for j in range(1, n - 1):
            out[i - 1, j - 1] = np.float32(0.2) * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@tw.kernel
def _row_sum(a: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    out = tw.func("out")
    out[i] = tw.sum(a[i, k], over=k)
    return out[:M]


@numba.njit(parallel=True)
def _numba_row_sum(a, out):
    m, n = a.shape
    for i in numba.prange(m):
        total = np.float32(0)
        for j in range(n):
            total += a[i, j]
        out[i] = total


def chain(n: int = 1 << 22) -> Case:
    return _against_numba("chain", _chain, _numba_chain, (normal(n), normal(n)[::-1].copy()), n)


def stencil(n: int = 2048) -> Case:
    return _against_numba("stencil", _stencil, _numba_stencil, (normal(n, n),), n - 2, n - 2)


def row_sum(n: int = 2048) -> Case:
    return _against_numba("row-sum", _row_sum, _numba_row_sum, (uniform(n, n),), n)


def _against_numba(name: str, kernel: Any, peer: Any, args: tuple[np.ndarray, ...], *shape: int) -> Case:
    fast = kernel.compile()
    ours, theirs = np.empty(shape, np.float32), np.empty(shape, np.float32)

    def peers() -> np.ndarray:
        peer(*args, theirs)
        return theirs

    return Case(
        name, "Numba, prange", lambda: fast(*args, out=ours), lambda: peer(*args, theirs),
        _judge(kernel, [lambda: fast(*args), peers], slice(None), *args),
    )  # fmt: skip


# Calls ----------------------------------------------------------------------------------------------------------


@tw.kernel
def _add(a: tw.f32[N], b: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = a[i] + b[i]
    return out[:N]


def call_cost(n: int = 16) -> Case:
    fast = _add.compile()
    a, b, c, d = (normal(n) for _ in range(4))
    return Case(
        "call", "np.add(a, b, out=c)", lambda: fast(a, b, out=c), lambda: np.add(a, b, out=d),
        _judge(_add, [lambda: fast(a, b), lambda: a + b], slice(None), a, b),
    )  # fmt: skip
