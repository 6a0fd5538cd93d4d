"""Rotary position embedding: pairs of numbers of a query or key are turned by angles that grow with its position.

The halves of a head are the pairs (`x[..., 0, d]` and `x[..., 1, d]`). Angles depend on the token and the pair alone,
so that one pair of sine and cosine serves all heads; how often they are computed is what the schedules differ in.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

T, H, D = tw.sizes("T H D")  # tokens, heads, pairs in a head
VECTOR = tw.host_registers().width // 4


@tw.kernel
def rotary(x: tw.f32[T, H, 2, D], position: tw.i64[T], frequency: tw.f32[D]):
    t, h, half, d = tw.vars("t h half d")
    angle, cosine, sine, turned = (tw.func(n) for n in ("angle", "cosine", "sine", "turned"))
    angle[t, d] = tw.cast(tw.f32, position[t]) * frequency[d]
    cosine[t, d] = tw.cos(angle[t, d])
    sine[t, d] = tw.sin(angle[t, d])
    first, second = x[t, h, 0, d], x[t, h, 1, d]
    turned[t, h, half, d] = tw.select(
        half == 0, first * cosine[t, d] - second * sine[t, d], second * cosine[t, d] + first * sine[t, d]
    )
    return turned[:T, :H, :2, :D]


def fused():
    """Nothing is kept: sine and cosine for every element."""
    s = rotary.schedule()
    for f in ("cosine", "sine"):
        s[f].compute_inline()
    s["turned"].parallel("t").vectorize("d", VECTOR)
    return s


def expert():
    """Sines and cosines of a token once, for all its heads; both halves of a vector of pairs at a time."""
    s = rotary.schedule()
    s["turned"].split("d", "do", "dv", VECTOR).reorder("t", "h", "do", "half", "dv")
    s["turned"].parallel("t").unroll("half").vectorize("dv")
    for f in ("cosine", "sine"):
        s[f].compute_at("turned.t").vectorize("d", VECTOR)
    return s


SCHEDULES = (fused, expert)


def inputs(T=60, H=4, D=40, base=10000.0):
    """Queries of a sequence that goes on at token 1000, and the usual frequencies."""
    rng = np.random.default_rng(0)
    frequency = np.float32(base ** (-np.arange(D) / max(D, 1)))
    return rng.standard_normal((T, H, 2, D), dtype=np.float32), np.arange(1000, 1000 + T), frequency


def independent(x, position, frequency):
    """Complex numbers times those of the angles (which are rounded to f32, as in the kernel)."""
    angle = np.float64(np.float32(position)[:, None] * frequency)
    z = (np.float64(x[:, :, 0]) + 1j * x[:, :, 1]) * np.exp(1j * angle)[:, None]
    return np.float32(np.stack((z.real, z.imag), axis=2))


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(rotary, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()
