"""exp and its kin in vectors give the bits of their definitions, also where the processor scales in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.emit import scaling
from tilewright.lang import math as tm
from tilewright.lang.evaluate import evaluate
from tilewright.lang.math.parts import scaling as scaled_parts
from tilewright.lang.types import DType

N = tw.sizes("N")
ENDS = (
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    88.72,
    88.73,
    128.0,
    -103.9,
    -104.1,
    -149.5,
    709.7,
    709.8,
    -745.1,
    -746.0,
)


def arguments(t: DType) -> np.ndarray:
    """Every bit pattern has its chance; ends, where results become subnormal, more of it."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**t.bits - 1, 4000, np.dtype(f"u{t.bytes}")).view(t.np)
    near = np.concatenate([rng.uniform(a, b, 1500) for a, b in ((-110, 95), (-152, -80), (-1080, -700), (700, 1030))])
    return np.concatenate([np.array(ENDS, t.np), near.astype(t.np), bits])


@pytest.mark.parametrize("lanes", [1, 4, 8, 12, 16, 24, 64])
@pytest.mark.parametrize("t", [tw.f32, tw.f64], ids=str)
@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "pow"])
def test_bits_are_those_of_the_definition(name: str, t: Any, lanes: int) -> None:
    fn = getattr(tw, name)
    p = tw.Pipeline(f"{name}_{lanes}", x=t[N], y=t[N])
    i, out = tw.vars("i"), tw.func("out")
    value = fn(p.x[i], p.y[i]) if name == "pow" else fn(p.x[i])
    out[i] = value
    kernel = p.returns(out[:N])
    s = kernel.schedule()
    if lanes > 1:
        s["out"].vectorize("i", lanes)
    x = arguments(t)
    y = np.random.default_rng(2).permutation(x)
    call = value.node
    (root,) = tm.expand([call], True)
    got, want = (
        kernel.compile(s)(x, y),
        evaluate([root], {call.args[0]: x, **({call.args[1]: y} if name == "pow" else {})})[0],
    )
    same = (got.view(f"u{t.bytes}") == want.view(f"u{t.bytes}")) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (x[~same][:3], got[~same][:3], want[~same][:3])


@pytest.mark.skipif(not scaling._widths(), reason="no such instruction here")
def test_one_step_where_the_processor_has_it() -> None:
    p = tw.Pipeline("scaled", x=tw.f32[N])
    i, out = tw.vars("i"), tw.func("out")
    out[i] = tw.exp(p.x[i])
    kernel = p.returns(out[:N])
    s = kernel.schedule()
    s["out"].vectorize("i", 16)
    assert "vscalefps" in kernel.compile(s).asm


def test_what_is_scaled_is_found_in_the_definition() -> None:
    (x,), value = tm.definition("exp2", tw.f32)
    found = scaled_parts(value)
    assert found is not None and scaled_parts(value.args[0]) is None
    first, k = (evaluate([n], {x: np.array([-3.25, 10.0], np.float32)})[0] for n in found)
    np.testing.assert_array_equal(k, [-3, 10])
    np.testing.assert_array_equal(first * np.exp2(k), np.exp2(np.array([-3.25, 10.0], np.float32)))
