"""The kernels of the examples."""

from __future__ import annotations

import numpy as np

import tilewright as tw

M, N, K = tw.sizes("M N K")


@tw.kernel
def blur(A: tw.f32[M, N]):
    y, x = tw.vars("y x")
    across, down = tw.func("across"), tw.func("down")
    across[y, x] = A[y, x] + A[y, x + 1]
    down[y, x] = across[y, x] + across[y + 1, x]
    return down[: M - 1, : N - 1]


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def scan(A: tw.f32[M, N]):
    """Every element needs those above it and to its left."""
    i, j = tw.vars("i j")
    r = tw.rdom(y=(1, M), x=(1, N))
    p = tw.func("p")
    p[i, j] = A[i, j]
    p[r.y, r.x] = p[r.y - 1, r.x] * 2 + p[r.y, r.x - 1]
    return p[:M, :N]


@tw.kernel
def both(A: tw.f32[M, N]):
    """Two Funcs over the same points, and one that reads both."""
    i, j = tw.vars("i j")
    half, twice, out = tw.func("half"), tw.func("twice"), tw.func("out")
    half[i, j] = A[i, j] / 2
    twice[i, j] = A[i, j] * 2
    out[i, j] = half[i, j] + twice[i, j]
    return out[:M, :N]


@tw.kernel
def shares(A: tw.f32[M, N]):
    """What each element has of the sum of its row."""
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    wide, total, out = tw.func("wide"), tw.func("total"), tw.func("out")
    wide[i, j] = A[i, j] * 2
    total[i] = 0.0
    total[i] += wide[i, k]
    out[i, j] = wide[i, j] / total[i]
    return out[:M, :N]


@tw.kernel
def sums(A: tw.f32[M, N]):
    """Sums of rows, written as a scatter."""
    i = tw.vars("i")
    r = tw.rdom(y=M, x=N)
    s = tw.func("s")
    s[i] = 0.0
    s[r.y] += A[r.y, r.x]
    return s[:M]


@tw.kernel
def first(A: tw.f32[N]):
    """The first elements of running sums over all."""
    i = tw.vars("i")
    r = tw.rdom(r=(1, N))
    s, out = tw.func("s"), tw.func("out")
    s[i] = A[i]
    s[r] += s[r - 1]
    out[i] = s[i] * 2
    return out[:4]


@tw.kernel
def picked(A: tw.f32[N], x: tw.i32[M]):
    """Elements at places that come from data and are promised to be there."""
    i = tw.vars("i")
    p, out = tw.func("p"), tw.func("out")
    p[i] = A[tw.assume(x[i], 0, N)]
    out[i] = p[i] + p[i + 1]
    return out[: M - 9]


@tw.kernel
def totals(A: tw.f32[M, N], limit: tw.f32):
    """Sums of the rows, of what is below a limit."""
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    scaled, s = tw.func("scaled"), tw.func("s")
    scaled[i, j] = A[i, j] * 2
    k.where(scaled[i, k.k] < limit)
    s[i] = 0.0
    s[i] += A[i, k]
    return s[:M]


@tw.kernel
def add(X: tw.inout(tw.f32[N]), A: tw.f32[N]):
    i = tw.vars("i")
    twice = tw.func("twice")
    X[i] += A[i]
    twice[i] = X[i] * 2
    return twice[:N]


@tw.kernel
def softmax(X: tw.f32[M, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    m, e, l, out = tw.func("m"), tw.func("e"), tw.func("l"), tw.func("out")
    m[i] = -np.inf
    m[i] = tw.maximum(m[i], X[i, k])
    e[i, j] = tw.exp(X[i, j] - m[i])
    l[i] = 0.0
    l[i] += e[i, k]
    out[i, j] = e[i, j] / l[i]
    return out[:M, :N]


@tw.kernel
def spread(X: tw.f32[M, N]):
    """The largest element of a row, and how far the others are from it: of the first half, and of all, squared."""
    i = tw.vars("i")
    k, h = tw.rdom(k=N), tw.rdom(k=N // 2)
    m, near, far = tw.func("m"), tw.func("near"), tw.func("far")
    m[i] = -np.inf
    m[i] = tw.maximum(m[i], X[i, k])
    near[i] = 0.0
    near[i] += tw.exp(X[i, h] - m[i])
    far[i] = 0.0
    far[i] += (X[i, k] - m[i]) * (X[i, k] - m[i])
    return near[:M], far[:M]


def sort(out, rows):
    whole = np.sort(rows, axis=1)
    first = out.origin[1]
    out[...] = whole[:, first : first + out.shape[1]]


order = tw.extern_stage(sort)


@tw.kernel
def sorted_rows(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    wide, ordered = tw.func("wide"), tw.func("ordered", tw.f32)
    wide[i, j] = A[i, j] * 2
    ordered[i, j] = order(wide.box[i, 0:N])
    return ordered[:M, :N]
