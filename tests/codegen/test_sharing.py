"""Which elements of an array ask for something first: against sets, element by element."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.sharing import Lane, asked_before, distinct, overlaps, rows, shortest
from tilewright.hw.errors import SimulationError
from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer
from tilewright.lang.values import index_value

VARS = [ir.var(f"s{k}") for k in range(3)]
SMALL = st.integers(-3, 3)


@st.composite
def arrays(draw) -> tuple[list[Lane], list[tuple[int, ...]]]:
    """Spatial loops (not all as long as they may be, not all from 0) and linear forms."""
    lanes = []
    for k in range(draw(st.integers(1, 3))):
        start, extent = draw(st.integers(0, 2)), draw(st.integers(1, 5))
        lanes.append(Lane(VARS[k], integer(start), integer(start + extent), extent + draw(st.integers(0, 2))))
    return lanes, [tuple(draw(SMALL) for _ in lanes) for _ in range(draw(st.integers(0, 3)))]


def elements(lanes):
    return list(product(*(range(x.start.attr, x.stop.attr) for x in lanes)))


def holds(c, lanes, x) -> bool:
    (c,) = ir.substitute((c,), {lane.var: integer(v) for lane, v in zip(lanes, x, strict=True)})
    return bool(_bool(c))


def _bool(c) -> bool:
    if c.op in ("and", "or"):
        parts = map(_bool, c.args)
        return all(parts) if c.op == "and" else any(parts)
    if c.op == "const":
        return bool(c.attr)
    d = index_value(simplify.sub(*c.args), {})
    return {"ge": d >= 0, "gt": d > 0, "le": d <= 0, "lt": d < 0, "eq": d == 0, "ne": d != 0}[c.op]


@given(arrays())
def test_first_askers(case):
    lanes, forms = case
    condition, seen = asked_before(tuple(forms), lanes), set()
    for x in elements(lanes):
        want = tuple(sum(c * v for c, v in zip(f, x, strict=True)) for f in forms)
        assert holds(condition, lanes, x) == (want in seen), (x, want)
        seen.add(want)


@given(
    st.integers(1, 3).flatmap(
        lambda axes: st.tuples(
            st.lists(st.tuples(st.integers(1, 4), st.tuples(*[SMALL] * axes)), max_size=3),
            st.tuples(*[st.integers(1, 4)] * axes),
        )
    )
)
def test_what_boxes_cover_together(case):
    """Also with gaps between them, and where an element moves along several axes at once."""
    lanes, lengths = case
    covered: set[tuple[int, ...]] = set()
    for x in product(*(range(n) for n, _ in lanes)):
        corner = [sum(k * s[a] for k, (_, s) in zip(x, lanes, strict=True)) for a in range(len(lengths))]
        covered |= set(product(*(range(c, c + e) for c, e in zip(corner, lengths, strict=True))))
    assert distinct(lanes, lengths) == len(covered)


@given(arrays(), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_boxes(case, lengths):
    lanes, forms = case
    lengths = lengths[: len(forms)]
    try:
        terms = overlaps(tuple(forms), lanes, [integer(n) for n in lengths], tuple(n + 1 for n in lengths))
    except SimulationError as e:
        assert e.code == "spatial.overlaps"
        return
    seen: set[tuple[int, ...]] = set()
    for x in elements(lanes):
        corner = [sum(c * v for c, v in zip(f, x, strict=True)) for f in forms]
        box = set(product(*(range(a, a + n) for a, n in zip(corner, lengths, strict=True))))
        shared = 0
        for sign, condition, factors in terms:
            if holds(condition, lanes, x):
                size = 1
                for f in factors:
                    size *= max(0, index_value(f, {}))
                shared += sign * size
        assert shared == len(box & seen), (x, box)
        seen |= box


def test_shortest_distances():
    assert shortest(((1, 1),), (4, 4)) == ((1, -1),)
    assert shortest(((2, 1),), (4, 4)) == ((1, -2),)
    assert shortest(((2, 1),), (4, 2)) == ()
    assert set(shortest((), (256, 256))) == {(1, 0), (0, 1)}
    assert shortest(((0, 1),), (256, 256)) == ((1, 0),)
    assert shortest(((1, 0), (0, 1)), (1 << 20, 1 << 20)) == ()
    assert set(shortest(((0, 1, 1, 0),), (256, 64, 64, 256))) == {(1, 0, 0, 0), (0, 1, -1, 0), (0, 0, 0, 1)}


def test_the_forms_of_indices():
    p, r, q = (Lane(v, integer(0), integer(4), 4) for v in VARS)
    x, y, _ = VARS
    n, t = ir.node("size", x.dtype, (), "N"), ir.var("t")
    add, mul = simplify.add, simplify.mul
    assert rows((add(mul(n, add(x, t)), y),), (p, r)) == ((0, 1), (1, 0))
    assert rows((add(mul(integer(2), x), add(y, t)),), (p, r)) == ((2, 1),)
    assert rows((add(mul(n, x), mul(n, y)),), (p, r)) == ((1, 1),)
    assert rows((simplify.mod(add(x, y), integer(3)),), (p, r, q)) == ((1, 1, 0),)
    assert rows((t,), (p, r)) == ()


def test_too_many_neighbours():
    with pytest.raises(SimulationError) as e:
        shortest(((1, 1, 1),), (256, 256, 256))
    assert e.value.code == "spatial.size"
