"""Small algorithms over integers that the tests of schedules share: exact in every order of a sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.lang import boundary, expr, reduce, types
from tilewright.lang.func import func
from tilewright.lang.math import exp2
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.symbols import rdom, sizes, vars
from tilewright.lang.trace import Inout, read_interface, trace
from tilewright.lang.types import f32, i32, i64

M, N, K = sizes("M N K")


def made(fn: Callable) -> Pipeline:
    return trace(fn, read_interface(fn), {})


def gradient(H: int = 4, W: int = 4) -> Pipeline:
    """Halide's lesson 5: x + y over a region of constant size."""

    def gradient():
        y, x = vars("y x")
        g = func("gradient")
        g[y, x] = expr.cast(types.i32, x + y)
        return g[:H, :W]

    return made(gradient)


def matmul() -> Pipeline:
    def matmul(A: i32[M, K], B: i32[K, N]):
        i, j = vars("i j")
        k = rdom(k=K).k
        C = func("C")
        C[i, j] = 0
        C[i, j] += A[i, k] * B[k, j]
        return C[:M, :N]

    return made(matmul)


def float_matmul() -> Pipeline:
    def matmul(A: f32[M, K], B: f32[K, N]):
        i, j = vars("i j")
        k = rdom(k=K).k
        C = func("C")
        C[i, j] = 0.0
        C[i, j] += A[i, k] * B[k, j]
        return C[:M, :N]

    return made(matmul)


def blur() -> Pipeline:
    """A producer and a consumer of a 3-point neighbourhood."""

    def blur(A: i32[M, N]):
        y, x = vars("y x")
        bx, by = func("blur_x"), func("blur_y")
        bx[y, x] = A[y, x] + A[y, x + 1] + A[y, x + 2]
        by[y, x] = bx[y, x] + bx[y + 1, x] + bx[y + 2, x]
        return by[: M - 2, : N - 2]

    return made(blur)


def edge_blur() -> Pipeline:
    """Three stages with a repeated edge."""

    def edge_blur(A: i32[M, N]):
        y, x = vars("y x")
        E = boundary.repeat_edge(A)
        bx, by = func("blur_x"), func("blur_y")
        bx[y, x] = E[y, x - 1] + E[y, x] + E[y, x + 1]
        by[y, x] = bx[y - 1, x] + bx[y, x] + bx[y + 1, x]
        return by[:M, :N]

    return made(edge_blur)


def halves() -> Pipeline:
    """Every second element of a producer: an empty output needs less than nothing of it."""

    def halves(A: i32[2 * M, 2 * N]):
        y, x = vars("y x")
        p, q = func("p"), func("q")
        p[y, x] = A[y, x] + 1
        q[y, x] = p[2 * y, 2 * x]
        return q[:M, :N]

    return made(halves)


def chain() -> Pipeline:
    """Four pure stages; the middle ones have two consumers each."""

    def chain(A: i32[N]):
        x = vars("x")
        a, b, c, d = (func(n) for n in "abcd")
        a[x] = A[x] * 2
        b[x] = a[x] + a[x + 1]
        c[x] = a[x] - b[x + 1]
        d[x] = b[x] + 3 * c[x]
        return d[: N - 2]

    return made(chain)


def histogram() -> Pipeline:
    """A scatter: the update's left side is data."""

    def histogram(A: i32[M, N]):
        b = vars("b")
        r = rdom(y=M, x=N)
        h, c = func("hist"), func("cum")
        h[b] = 0
        h[expr.clamp(A[r.y, r.x], 0, 7)] += 1
        c[b] = h[b] * 2
        return c[:8]

    return made(histogram)


def prefix_sum() -> Pipeline:
    """A scan along an axis: the reduction reads what it wrote before."""

    def prefix_sum(A: i32[M, N]):
        i, j = vars("i j")
        k = rdom(k=(1, N)).k
        s = func("s")
        s[i, j] = A[i, j]
        s[i, k] = s[i, k - 1] + s[i, k]
        return s[:M, :N]

    return made(prefix_sum)


def triangle() -> Pipeline:
    """A reduction with a predicate that ties its variables."""

    def triangle(A: i32[M, M]):
        i = vars("i")
        d = rdom(y=M, x=M)
        d.where(d.x <= d.y)
        t = func("t")
        t[i] = 0
        t[d.y] += A[d.y, d.x]
        return t[:M]

    return made(triangle)


def largest() -> Pipeline:
    """argmax: a tuple."""

    def largest(A: i32[M, N]):
        i = vars("i")
        j = rdom(j=N).j
        best = func("best")
        best[i] = reduce.argmax(A[i, j], name="arg")
        return best[:M]

    return made(largest)


def two_outputs() -> Pipeline:
    """Several outputs of several Funcs, with shifted and overlapping slices, and several updates."""

    def two_outputs(A: i32[M, N]):
        i, j = vars("i j")
        k = rdom(k=3).k
        p, q = func("p"), func("q")
        p[i, j] = A[i, j] + 1
        p[i, k] += expr.cast(types.i32, 10 * k)
        p[i, j] = p[i, j] * 2
        q[i, j] = p[i, j] - p[i, j + 1]
        return {"p": p[1:M, 1 : N - 1], "q": q[:M, : N - 1], "again": p[:M, :N]}

    return made(two_outputs)


def accumulate() -> Pipeline:
    """An inout parameter."""

    def accumulate(A: i32[M, K], C: Inout(i32[M, N]), B: i32[K, N]):
        i, j = vars("i j")
        k = rdom(k=K).k
        C[i, j] += A[i, k] * B[k, j]
        d = func("d")
        d[i] = C[i, 0] + 1
        return d[:M]

    return made(accumulate)


def convolution() -> Pipeline:
    """Two reduction variables, an inlined boundary condition, a bias afterwards."""

    def convolution(A: i32[M, N], W: i32[3, 3]):
        y, x = vars("y x")
        r = rdom(dy=3, dx=3)
        E = boundary.constant_exterior(A, 0)
        c, out = func("conv"), func("out")
        c[y, x] = 5
        c[y, x] += E[y + r.dy - 1, x + r.dx - 1] * W[r.dy, r.dx]
        out[y, x] = expr.maximum(c[y, x], 0)
        return out[:M, :N]

    return made(convolution)


def running() -> Pipeline:
    """Three reductions that depend on each other as those of attention do; exact for small integers."""

    def running(A: f32[M, N], B: f32[N, K]):
        i, j = vars("i j")
        k = rdom(k=N).k
        m, p, l, o, out = (func(n) for n in ("m", "p", "l", "o", "out"))
        m[i] = float("-inf")
        m[i] = expr.maximum(m[i], A[i, k])
        p[i, j] = exp2(A[i, j] - m[i])
        k = rdom(k=N).k
        l[i] = 0.0
        l[i] += p[i, k]
        k = rdom(k=N).k
        o[i, j] = 0.0
        o[i, j] += p[i, k] * B[k, j]
        out[i, j] = o[i, j] * 0.5 + l[i]
        return out[:M, :K]

    return made(running)


ALL: dict[str, Callable[[], Pipeline]] = {
    f.__name__: f
    for f in (
        gradient, matmul, blur, edge_blur, halves, chain, histogram, prefix_sum, triangle, largest, two_outputs,
        accumulate, convolution, running,
    )
}  # fmt: skip


def arguments(p: Pipeline, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    """Small integers for the inputs of a pipeline at the given sizes."""
    from tilewright.lang.values import index_value

    rng = np.random.default_rng(seed)
    out = []
    for a in p.arrays:
        shape = tuple(index_value(e, sizes) for e in a.extents)
        out.append(rng.integers(-9, 10, shape).astype(a.dtype.np))
    return out


__all__ = ["ALL", "arguments", "i64", "made"]
