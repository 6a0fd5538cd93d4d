"""A residual connection and the RMS norm after it, as between the layers of a language model: every row read once.

The sum of both inputs is a result too: it goes on past the next layer.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
VECTOR = tw.host_registers().width // 4


@tw.kernel
def rms_norm(X: tw.f32[M, N], residual: tw.f32[M, N], gamma: tw.f32[N], epsilon: tw.f32):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    H, scale, both = tw.func("H"), tw.func("scale"), tw.func("both")
    H[i, j] = X[i, j] + residual[i, j]
    squares = tw.sum(H[i, k] * H[i, k], over=k, name="squares")
    scale[i] = 1.0 / tw.sqrt(squares / N + epsilon)
    both[i, j] = (H[i, j], H[i, j] * scale[i] * gamma[j])
    return both[:M, :N]


def by_stages():
    """The sum, the squares, the result: one pass over the matrix for each."""
    s = rms_norm.schedule()
    s["H"].compute_root().vectorize("j", VECTOR)
    s["squares"].compute_root()
    s["scale"].compute_root()
    s["both"].vectorize("j", VECTOR)
    return s


def expert():
    """Both passes over a row while it is in the cache, the sum of squares in four vectors of lanes."""
    s = rms_norm.schedule()
    s["both"].parallel("i").vectorize("j", 2 * VECTOR)
    for stage in ("scale", "squares"):
        s[stage].compute_at("both.i")
    s["squares.update"].vectorize("k", 4 * VECTOR)
    return s


SCHEDULES = (by_stages, expert)


def inputs(M=60, N=700):
    """Activations, what a layer adds to them, and gains near 1."""
    rng = np.random.default_rng(0)
    x, residual = rng.standard_normal((M, N), dtype=np.float32), rng.standard_normal((M, N), dtype=np.float32)
    return x, residual, np.float32(1 + 0.1 * rng.standard_normal(N)), np.float32(1e-6)


def independent(x, residual, gamma, epsilon):
    h = np.float64(x) + residual
    return np.float32(h), np.float32(h / np.sqrt((h * h).mean(1, keepdims=True) + epsilon) * gamma)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(rms_norm, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()
