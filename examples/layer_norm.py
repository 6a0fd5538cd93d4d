"""A residual connection and the layer normalisation after it: mean, variance and scaling of a row that is read once.

The sum of both inputs is a result too: it goes on past the next layer.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
VECTOR = tw.host_registers().width // 4


@tw.kernel
def layer_norm(
    X: tw.f32[M, N], residual: tw.f32[M, N], gamma: tw.f32[N], beta: tw.f32[N], epsilon: tw.f32
):  # fmt: skip
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    H, scale, both = tw.func("H"), tw.func("scale"), tw.func("both")
    H[i, j] = X[i, j] + residual[i, j]
    mean = tw.sum(H[i, k], over=k, name="total") / N
    away = H[i, k] - mean
    variance = tw.sum(away * away, over=k, name="squares") / N
    scale[i] = 1.0 / tw.sqrt(variance + epsilon)
    both[i, j] = (H[i, j], (H[i, j] - mean) * scale[i] * gamma[j] + beta[j])
    return both[:M, :N]


def by_stages():
    """One pass over the matrix for each of the stages."""
    s = layer_norm.schedule()
    s["H"].compute_root().vectorize("j", VECTOR)
    for stage in ("total", "squares", "scale"):
        s[stage].compute_root()
    s["both"].vectorize("j", VECTOR)
    return s


def expert():
    """All passes over a row while it is in the cache: adding both inputs again costs less than room for their sum there."""
    s = layer_norm.schedule()
    s["both"].parallel("i").vectorize("j", 2 * VECTOR)
    for stage in ("scale", "squares", "total"):
        s[stage].compute_at("both.i")
    for reduction in ("total", "squares"):
        s[f"{reduction}.update"].vectorize("k", 4 * VECTOR)
    return s


SCHEDULES = (by_stages, expert)


def inputs(M=60, N=700):
    """Activations with a different offset and spread in every row, and what a layer adds to them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, N)) * rng.uniform(0.5, 2, (M, 1)) + rng.standard_normal((M, 1))
    gamma, beta = 1 + 0.1 * rng.standard_normal(N), 0.1 * rng.standard_normal(N)
    added = rng.standard_normal((M, N), dtype=np.float32)
    return np.float32(x), added, np.float32(gamma), np.float32(beta), np.float32(1e-5)


def independent(x, residual, gamma, beta, epsilon):
    wide = np.float64(x) + residual
    away = wide - wide.mean(1, keepdims=True)
    return np.float32(wide), np.float32(away / np.sqrt(wide.var(1, keepdims=True) + epsilon) * gamma + beta)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(layer_norm, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()
