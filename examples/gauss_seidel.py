"""Gauss-Seidel on a plate: each point becomes the mean of its neighbours as they are by then.

Row by row every point waits for the one before. But a point needs new values only from the left and from above, so the
points of one diagonal i + j can go at once, and the next sweep may follow two diagonals behind: a wavefront. Diagonals
lie as rows in a Func of their own, which is updated in place, so that vectors run along them.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 8
SWEEPS = 16


@tw.kernel
def gauss_seidel(plate: tw.f64[H, W], *, sweeps=SWEEPS):
    i, j, d = tw.vars("i j d")
    r = tw.rdom(t=(2, H + W - 3 + 2 * (sweeps - 1)), sweep=sweeps, j=(1, W - 1))
    now, x = r.t - 2 * r.sweep, r.j
    r.where(tw.inside(now - x, 1, H - 1))
    diagonal, swept = tw.func("diagonal"), tw.func("swept")
    diagonal[d, j] = tw.constant_exterior(plate, 0.0)[d - j, j]
    above, left = diagonal[now - 1, x], diagonal[now - 1, x - 1]
    below, right = diagonal[now + 1, x], diagonal[now + 1, x + 1]
    diagonal[now, x] = 0.25 * (above + left + below + right)
    swept[i, j] = diagonal[i + j, j]
    return swept[:H, :W]


def by_points(sweeps=SWEEPS):
    """The points of a diagonal one after the other."""
    s = gauss_seidel.schedule(sweeps=sweeps)
    s["diagonal"].compute_root()
    s["diagonal.update"].serial("j")
    return s


def expert(sweeps=SWEEPS):
    """Vectors along the diagonals; all sweeps at once pass over the plate, two diagonals apart, near in the cache."""
    s = gauss_seidel.schedule(sweeps=sweeps)
    s["diagonal"].compute_root()
    s["diagonal.update"].vectorize("j", 2 * VECTOR)
    return s


SCHEDULES = (by_points, expert)


def inputs(H=40, W=50):
    """A room at 20 degrees with a warm wall and a cold window."""
    plate = np.full((H, W), 20.0)
    plate[:, 0] = 30
    plate[-1, W // 3 : 2 * W // 3] = -5
    return (plate,)


def independent(plate, sweeps=SWEEPS):
    """Sweeps as solutions of triangular systems: (D + L) new = - U old, the rim's rows being those of the identity."""
    h, w = plate.shape
    inner = np.zeros((h, w))
    inner[1:-1, 1:-1] = 1
    neighbours = sparse.kronsum(*(sparse.diags([1.0, 1.0], [-1, 1], shape=(n, n)) for n in (w, h)))
    a = (sparse.diags(1 + 3 * inner.ravel()) - sparse.diags(inner.ravel()) @ neighbours).tocsr()
    value, fixed = plate.ravel().copy(), (1 - inner.ravel()) * plate.ravel()
    for _ in range(sweeps):
        value = linalg.spsolve_triangular(sparse.tril(a, format="csr"), fixed - sparse.triu(a, 1) @ value, lower=True)
    return value.reshape(h, w)


def check(sweeps=SWEEPS, **sizes):
    args = inputs(**sizes)
    testing.check_schedules(gauss_seidel, SCHEDULES, args, independent(*args, sweeps), statics={"sweeps": sweeps})


if __name__ == "__main__":
    check()
