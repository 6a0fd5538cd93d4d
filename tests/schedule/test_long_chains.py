"""Chains of hundreds of Funcs can be scheduled: nothing recurses along them."""

from __future__ import annotations

import numpy as np

import tilewright as tw

N = tw.sizes("N")
LENGTH = 400


@tw.kernel
def chain(x: tw.f64[N]):
    i = tw.vars("i")
    before = tw.repeat_edge(x, name="edge")
    for k in range(LENGTH):
        f = tw.func(f"s{k}")
        f[i] = before[i] + 1
        before = f
    return before[:N]


def test_a_place_at_the_other_end_of_a_chain():
    s = chain.schedule()
    s[f"s{LENGTH - 1}"].split("i", "io", "ii", 16)
    s["s0"].compute_at(f"s{LENGTH - 1}.io")
    assert "produce s0 over i 16*io..min(N, 16*io + 16)" in str(s.loops())
    x = np.arange(50.0)
    np.testing.assert_array_equal(chain.compile(s)(x), x + LENGTH)
