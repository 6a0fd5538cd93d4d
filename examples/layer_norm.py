"""Layer normalisation: mean, variance and scaling of every row, with the row read once from memory."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
VECTOR = tw.host_registers().width // 4


@tw.kernel
def layer_norm(X: tw.f32[M, N], gamma: tw.f32[N], beta: tw.f32[N], epsilon: tw.f32):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    scale, Y = tw.func("scale"), tw.func("Y")
    mean = tw.sum(X[i, k], over=k, name="total") / N
    away = X[i, k] - mean
    variance = tw.sum(away * away, over=k, name="squares") / N
    scale[i] = 1.0 / tw.sqrt(variance + epsilon)
    Y[i, j] = (X[i, j] - mean) * scale[i] * gamma[j] + beta[j]
    return Y[:M, :N]


def by_stages():
    """One pass over the matrix for each of the three stages."""
    s = layer_norm.schedule()
    for stage in ("total", "squares", "scale"):
        s[stage].compute_root()
    s["Y"].vectorize("j", VECTOR)
    return s


def expert():
    """All three passes over a row while it is in the cache, both sums in four vectors of lanes, rows fetched ahead."""
    s = layer_norm.schedule()
    s["Y"].parallel("i").vectorize("j", 2 * VECTOR)
    for stage in ("scale", "squares", "total"):
        s[stage].compute_at("Y.i")
    for reduction in ("total", "squares"):
        s[f"{reduction}.update"].vectorize("k", 4 * VECTOR)
    s.prefetch("X", at="total_k_v.update[0].k", distance=16)
    return s


SCHEDULES = (by_stages, expert)


def inputs(M=60, N=700):
    """Activations with a different offset and spread in every row, as a transformer's residual stream has them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, N)) * rng.uniform(0.5, 2, (M, 1)) + rng.standard_normal((M, 1))
    gamma, beta = 1 + 0.1 * rng.standard_normal(N), 0.1 * rng.standard_normal(N)
    return np.float32(x), np.float32(gamma), np.float32(beta), np.float32(1e-5)


def independent(x, gamma, beta, epsilon):
    wide = x.astype(np.float64)
    away = wide - wide.mean(1, keepdims=True)
    return np.float32(away / np.sqrt(wide.var(1, keepdims=True) + epsilon) * gamma + beta)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(layer_norm, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()
