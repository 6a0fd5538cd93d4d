"""Attention from its plain text: whatever the planner chooses is right at every length, and keeps no scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tilewright as tw
from tilewright import ops

H, M, N = tw.sizes("H M N")
RNG = np.random.default_rng(0)


@tw.kernel
def attention(q: tw.f32[1, H, M, 16], k: tw.f32[1, H, N, 16], v: tw.f32[1, H, N, 16], *, causal=False):
    return ops.attention(q, k, v, causal=causal)


def exact(q, k, v, causal):
    scores = np.float64(q[0]) @ k[0].transpose(0, 2, 1) / 4
    m, n = scores.shape[1:]
    if causal:
        scores[:, ~np.tri(m, n, n - m, dtype=bool)] = -np.inf
    return special.softmax(scores, axis=2) @ v[0]


@pytest.fixture(scope="module", params=[False, True], ids=["all", "causal"])
def fused(request):
    plan = tw.plan(attention, sizes={"H": 8, "M": 1024, "N": 1024}, statics={"causal": request.param})
    return request.param, plan, plan.compile()


@pytest.mark.parametrize("n", [1, 7, 128, 1000, 4096])
def test_every_length(fused, n):
    causal, _, program = fused
    for m in {n, 1} if n < 4096 else {1, 20}:
        q, k, v = (RNG.standard_normal((1, 2, x, 16), np.float32) for x in (m, n, n))
        np.testing.assert_allclose(program(q, k, v)[0], exact(q, k, v, causal), rtol=1e-4, atol=1e-5)


def test_what_is_stored_grows_as_the_length(fused):
    """No buffer between the steps has an element for every pair of a query and a key."""
    _, plan, _ = fused
    small, large = (plan.places({"H": 8, "M": n, "N": n}).size for n in (1024, 2048))
    assert large <= 2 * small
