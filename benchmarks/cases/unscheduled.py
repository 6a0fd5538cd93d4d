"""What nobody scheduled: against the `prange` loop that a user would write in Numba, NumPy, and our expert schedules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np

import tilewright as tw
from benchmarks import gallery
from benchmarks.cases import entry
from benchmarks.cases.data import every, example, judged, normal, uniform
from benchmarks.harness import Case, Peer, Work

M, N = tw.sizes("M N")
prange = numba.njit(parallel=True)
# Examples whose default schedule is asked for a share of the expert's speed.
OF_EXPERT = {"conv_layer": 0.7, "pointwise_conv": 0.7, "strided_conv": 0.7, "depthwise_conv": 0.7}
BESIDE_EXPERT = ("attention", "decode_step", "fft", "resize", "tridiagonal")  # those that are shown


# Kernels and loops ----------------------------------------------------------------------------------------------


@tw.kernel
def _chain(x: tw.f32[N], y: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    t = x[i] * 2.0 + y[i]
    out[i] = tw.sqrt(tw.abs(t)) * t - y[i]
    return out[:N]


@prange
def _numba_chain(x, y, out):
    for i in numba.prange(len(x)):
        t = x[i] * np.float32(2) + y[i]
        out[i] = np.sqrt(abs(t)) * t - y[i]


def _numpy_chain(x, y, out):
    t = x * np.float32(2)
    t += y
    np.abs(t, out=out)
    np.sqrt(out, out=out)
    out *= t
    out -= y


@tw.kernel
def _stencil(a: tw.f32[M, N]):
    i, j = tw.vars("i j")
    out = tw.func("out")
    out[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
    return out[1 : M - 1, 1 : N - 1]


@prange
def _numba_stencil(a, out):
    m, n = a.shape
    for i in numba.prange(1, m - 1):
        for j in range(1, n - 1):
            out[i - 1, j - 1] = np.float32(0.2) * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def _numpy_stencil(a, out):
    np.add(a[1:-1, 1:-1], a[:-2, 1:-1], out=out)
    out += a[2:, 1:-1]
    out += a[1:-1, :-2]
    out += a[1:-1, 2:]
    out *= np.float32(0.2)


@tw.kernel
def _row_sum(a: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    out = tw.func("out")
    out[i] = tw.sum(a[i, k], over=k)
    return out[:M]


@prange
def _numba_row_sum(a, out):
    m, n = a.shape
    for i in numba.prange(m):
        total = np.float32(0)
        for j in range(n):
            total += a[i, j]
        out[i] = total


@tw.kernel
def _column_sum(a: tw.f32[M, N]):
    j = tw.vars("j")
    k = tw.rdom(k=M)
    out = tw.func("out")
    out[j] = tw.sum(a[k, j], over=k)
    return out[:N]


@prange
def _numba_column_sum(a, out):
    m, n = a.shape
    block = 512
    for b in numba.prange((n + block - 1) // block):
        first, last = b * block, min(n, (b + 1) * block)
        out[first:last] = 0
        for i in range(m):
            for j in range(first, last):
                out[j] += a[i, j]


@tw.kernel
def _argmax(a: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    out = tw.func("out")
    out[i] = tw.argmax(a[i, k], over=k)
    return out[:M]


@prange
def _numba_argmax(a, out):
    m, n = a.shape
    for i in numba.prange(m):
        best, place = a[i, 0], 0
        for j in range(1, n):
            if a[i, j] > best:
                best, place = a[i, j], j
        out[i] = place


@prange
def _numba_softmax(a, out):
    m, n = a.shape
    for i in numba.prange(m):
        largest = a[i, 0]
        for j in range(n):
            largest = max(largest, a[i, j])
        total = np.float32(0)
        for j in range(n):
            e = np.exp(a[i, j] - largest)
            out[i, j] = e
            total += e
        factor = np.float32(1) / total
        for j in range(n):
            out[i, j] *= factor


def _numpy_softmax(a, out):
    np.subtract(a, a.max(1, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(1, keepdims=True)


@tw.kernel
def _blur(a: tw.f32[M, N]):
    y, x = tw.vars("y x")
    across, out = tw.func("across"), tw.func("out")
    across[y, x] = (a[y, x] + a[y, x + 1] + a[y, x + 2]) * (1 / 3)
    out[y, x] = (across[y, x] + across[y + 1, x] + across[y + 2, x]) * (1 / 3)
    return out[: M - 2, : N - 2]


@prange
def _numba_blur(a, out):
    m, n = a.shape
    third = np.float32(1 / 3)
    across = np.empty((m, n - 2), np.float32)
    for y in numba.prange(m):
        for x in range(n - 2):
            across[y, x] = (a[y, x] + a[y, x + 1] + a[y, x + 2]) * third
    for y in numba.prange(m - 2):
        for x in range(n - 2):
            out[y, x] = (across[y, x] + across[y + 1, x] + across[y + 2, x]) * third


def _numpy_blur(a, out):
    across = a[:, :-2] + a[:, 1:-1]
    across += a[:, 2:]
    across *= np.float32(1 / 3)
    np.add(across[:-2], across[1:-1], out=out)
    out += across[2:]
    out *= np.float32(1 / 3)


# Cases ----------------------------------------------------------------------------------------------------------


def chain(n: int = 1 << 22) -> Case:
    return _against(_chain, _numba_chain, _numpy_chain, (normal(n), normal(n)[::-1].copy()), n)


def stencil(n: int = 2048) -> Case:
    return _against(_stencil, _numba_stencil, _numpy_stencil, (normal(n, n),), n - 2, n - 2)


def row_sum(n: int = 2048) -> Case:
    return _against(_row_sum, _numba_row_sum, lambda a, out: np.sum(a, 1, out=out), (uniform(n, n),), n)


def column_sum(n: int = 2048) -> Case:
    return _against(_column_sum, _numba_column_sum, lambda a, out: np.sum(a, 0, out=out), (uniform(n, n),), n)


def argmax(m: int = 4096, n: int = 1024) -> Case:
    return _against(_argmax, _numba_argmax, lambda a, out: np.argmax(a, 1, out=out), (normal(m, n),), m, dtype=np.int64)


def softmax(m: int = 4096, n: int = 1024) -> Case:
    kernel = example("softmax").softmax
    return _against(kernel, _numba_softmax, _numpy_softmax, (normal(m, n),), m, n, rows=every(m))


def blur(m: int = 2048, n: int = 3072) -> Case:
    return _against(_blur, _numba_blur, _numpy_blur, (uniform(m, n),), m - 2, n - 2)


def _against(
    kernel: Any, loop: Callable[..., Any], numpy: Callable[..., Any], args: tuple[np.ndarray, ...], *shape: int,
    dtype: type = np.float32, rows: slice | None = None,
) -> Case:  # fmt: skip
    """`rows`: those that are judged, where rows of the results are made of the same rows of the argument alone.

    All sides write into one array: where in memory it lies is worth several per cent.
    """
    fast = kernel.compile()
    out = np.empty(shape, dtype)

    def of(run: Callable[..., Any]) -> Callable[[], np.ndarray]:
        def result() -> np.ndarray:
            out[...] = 77
            run(*args, out)
            return out

        return result

    judged_on = args if rows is None else (args[0][rows], *args[1:])
    return Case(
        lambda: fast(*args, out=out),
        (Peer("Numba, prange", lambda: loop(*args, out), 1.0), Peer("NumPy", lambda: numpy(*args, out), 1.0)),
        judged(kernel, [lambda: fast(*args), of(loop), of(numpy)], rows or slice(None), *judged_on),
        Work(reads=sum(a.nbytes for a in args), writes=out.nbytes),
    )


def beside_expert(name: str) -> Case:
    """An example with the default schedule beside the same with its expert one."""
    module, statics = example(name), gallery.STATICS.get(name, {})
    kernel = getattr(module, name)
    args = conv_inputs(module) if name == "conv_layer" else module.inputs(**gallery.SIZES[name])
    default, expert = kernel.compile(kernel.schedule(**statics)), kernel.compile(module.expert(**statics))
    first, second = default(*args), expert(*args)

    def check() -> None:
        for a, b in zip(_arrays(default(*args)), _arrays(expert(*args)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)

    return Case(
        lambda: default(*args, out=first),
        (Peer("ours, expert", lambda: expert(*args, out=second), OF_EXPERT.get(name)),), check,
    )  # fmt: skip


def conv_inputs(module: Any) -> tuple[np.ndarray, ...]:
    return module.inputs(B=1, size=56, CI=64, CO=64)


def _arrays(result: Any) -> tuple[np.ndarray, ...]:
    return result if isinstance(result, tuple) else (result,)


ENTRIES = (
    entry("unscheduled-chain", "an elementwise chain over 4 million f32", chain),
    entry("unscheduled-stencil", "a 5-point stencil over 2048 x 2048 f32", stencil),
    entry("unscheduled-row-sum", "sums of the rows of 2048 x 2048 f32", row_sum),
    entry("unscheduled-column-sum", "sums of the columns of 2048 x 2048 f32", column_sum),
    entry("unscheduled-argmax", "where the largest of each row of 4096 x 1024 f32 is", argmax),
    entry("unscheduled-softmax", "softmax of the rows of 4096 x 1024 f32", softmax),
    entry("unscheduled-blur", "a 3 x 3 box blur in two stages, 2048 x 3072 f32", blur),
    *(
        entry(f"unscheduled-{name}", f"examples/{name}.py beside its `expert`", partial(beside_expert, name))
        for name in (*OF_EXPERT, *BESIDE_EXPERT)
    ),
)
