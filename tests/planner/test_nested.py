"""Plans of kernels whose weights are nested dicts: calls, weights that are packed once, caches of layers."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops

T, D = tw.sizes("T D")
LAYER = {"up": tw.f32[D, 32], "down": tw.f32[32, D], "seen": tw.inout(tw.f32[D])}


@tw.kernel
def model(x: tw.f32[T, D], layers: [LAYER, LAYER], *, norm: {"gamma": tw.f32[D]}):  # noqa: UP037, F821
    d = tw.vars("d")
    for k, w in enumerate(layers):
        with tw.scope(f"layer{k}"):
            w["seen"][d] += x[tw.rdom(t=T).t, d]
            x = ops.value(x) + ops.linear(ops.relu(ops.linear(ops.rms_norm(x, norm["gamma"]), w["up"])), w["down"])
    return x


def arrays(tokens):
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    layers = [{"up": normal(16, 32), "down": normal(32, 16), "seen": np.zeros(16, np.float32)} for _ in range(2)]
    return normal(tokens, 16), layers, {"gamma": normal(16)}


def without(layers, *names):
    return [{k: v for k, v in w.items() if k not in names} for w in layers]


@pytest.mark.parametrize("tokens", [1, 7])
def test_a_program_takes_what_the_kernel_takes(tokens):
    fast = tw.plan(model, machine="skylake-sp", sizes={"T": 64, "D": 16}).compile()
    x, layers, norm = arrays(tokens)
    _, others, _ = arrays(tokens)
    wanted = model.reference(x, others, norm=norm)
    for _ in range(2):  # the second call is that of a builtin
        for w in layers:
            w["seen"][:] = 0
        np.testing.assert_allclose(fast(x, layers, norm=norm), wanted, rtol=1e-4, atol=1e-5)
        for mine, its in zip(layers, others, strict=True):
            np.testing.assert_allclose(mine["seen"], its["seen"], rtol=1e-5, atol=1e-6)
    with pytest.raises(tw.ArgumentError, match=r'layers\[1\]\["up"\] is missing'):
        fast(x, [layers[0], without(layers, "up")[1]], norm=norm)


def test_weights_that_are_packed_are_left_out_of_calls():
    plan = tw.plan(model, machine="skylake-sp", sizes={"T": 64, "D": 16}, weights=[
        "norm", *(f"layers_{k}_{n}" for k in range(2) for n in ("up", "down"))
    ])  # fmt: skip
    x, layers, norm = arrays(5)
    wanted = model.reference(x, arrays(5)[1], norm=norm)
    flat = {f"layers_{k}_{n}": w[n] for k, w in enumerate(layers) for n in ("up", "down")}
    fast = plan.compile().with_weights(norm=norm, **flat)
    np.testing.assert_allclose(fast(x, without(layers, "up", "down")), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(tw.ArgumentError, match=r'there is no layers\[0\]\["up"\]'):
        fast(x, layers)
