"""Row-wise and elementwise kernels: against libraries, and unscheduled against the loop that a user would write in Numba."""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np

import tilewright as tw
from benchmarks.cases import entry
from benchmarks.cases.data import every, example, judged, normal, uniform
from benchmarks.harness import Case, Peer, Work, peer

M, N = tw.sizes("M N")


def softmax(schedule: str | None, m: int = 4096, n: int = 1024) -> Case:
    module = example("softmax")
    a = normal(m, n)
    fast = module.softmax.compile(getattr(module, schedule)() if schedule else None)
    ours, rows = np.empty_like(a), every(m)
    results = [lambda: fast(a)]

    def torch_softmax() -> Any:
        import torch

        x, theirs = torch.from_numpy(a), torch.empty(m, n)
        results.append(lambda: torch.softmax(x, 1).numpy())
        return lambda: torch.softmax(x, 1, out=theirs)

    peers = (peer("PyTorch", "torch", torch_softmax, 1.5 if schedule else None),)
    return Case(
        lambda: fast(a, out=ours), peers, judged(module.softmax, results, rows, a[rows]),
        Work(reads=a.nbytes, writes=a.nbytes),
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
    return _against_numba(_chain, _numba_chain, (normal(n), normal(n)[::-1].copy()), n)


def stencil(n: int = 2048) -> Case:
    return _against_numba(_stencil, _numba_stencil, (normal(n, n),), n - 2, n - 2)


def row_sum(n: int = 2048) -> Case:
    return _against_numba(_row_sum, _numba_row_sum, (uniform(n, n),), n)


def _against_numba(kernel: Any, loop: Any, args: tuple[np.ndarray, ...], *shape: int) -> Case:
    fast = kernel.compile()
    ours, theirs = np.empty(shape, np.float32), np.empty(shape, np.float32)

    def peers() -> np.ndarray:
        loop(*args, theirs)
        return theirs

    return Case(
        lambda: fast(*args, out=ours), (Peer("Numba, prange", lambda: loop(*args, theirs), 1.0),),
        judged(kernel, [lambda: fast(*args), peers], slice(None), *args),
        Work(reads=sum(a.nbytes for a in args), writes=ours.nbytes),
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
        lambda: fast(a, b, out=c), (Peer("np.add(a, b, out=c)", lambda: np.add(a, b, out=d)),),
        judged(_add, [lambda: fast(a, b), lambda: a + b], slice(None), a, b),
    )  # fmt: skip


ENTRIES = (
    entry("softmax", "f32 4096 x 1024, schedule `expert` of examples/softmax.py", partial(softmax, "expert")),
    entry("softmax-unscheduled", "the same with the default schedule", partial(softmax, None)),
    entry("chain-unscheduled", "an elementwise chain over 4 million f32", chain),
    entry("stencil-unscheduled", "a 5-point stencil over 2048 x 2048 f32", stencil),
    entry("row-sum-unscheduled", "sums of the rows of 2048 x 2048 f32", row_sum),
    entry("call", "a call on 16 elements with out=", call_cost),
)
