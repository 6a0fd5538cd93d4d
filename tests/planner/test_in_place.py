"""Steps that write over a buffer that they read for the last time: only where each element is read for itself alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.hw import load_machine
from tilewright.planner import fuse, graph, regions
from tilewright.planner.goal import Goal
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

M = tw.sizes("M")
RNG = np.random.default_rng(0)
MACHINE = load_machine("skylake-sp")


@pytest.fixture(autouse=True)
def every_func_is_a_step(monkeypatch):
    for module in (graph, fuse):
        monkeypatch.setattr(module, "choose_inlined", lambda *_: ())
    monkeypatch.setattr(fuse, "choose_inlined", lambda *_: ())
    monkeypatch.setattr(regions, "_joins", lambda *_: False)


def chain(step):
    """x -> a -> b by `step` -> out."""

    def body(x):
        i, j = tw.vars("i j")
        a, b, out = tw.func("a"), tw.func("b"), tw.func("out")
        a[i, j] = x[i, j] * 0.5
        b[i, j] = step(a, i, j)
        out[i, j] = tw.cast(tw.f32, b[i, j]) + 1.0
        return out[:M, :M]

    body.__annotations__ = {"x": tw.f32[M, M]}
    return tw.kernel(body)


def picture(m):
    """Eighths, which sums and halves of a few keep exactly."""
    return (RNG.integers(-40, 40, (m, m)) / 8).astype(np.float32)


def clamped(e):
    return tw.clamp(e, 0, M - 1)


STEPS = {
    "the same element": (lambda a, i, j: tw.exp(a[i, j]), True),
    "twice the same element": (lambda a, i, j: a[i, j] * a[i, j] + a[i, j], True),
    "another width": (lambda a, i, j: tw.cast(tw.f64, a[i, j]), False),
    "another type of the same width": (lambda a, i, j: tw.cast(tw.i32, a[i, j]), True),
    "the element before": (lambda a, i, j: a[clamped(i - 1), j] * 2.0, False),
    "the element and the next": (lambda a, i, j: a[i, j] + a[i, clamped(j + 1)], False),
    "turned": (lambda a, i, j: a[j, i] * 2.0, False),
    "the first of its row": (lambda a, i, j: a[i, clamped(j * 0)] + 1.0, False),
    "by what it reads": (lambda a, i, j: a[i, clamped(tw.cast(tw.i64, a[i, j]))], False),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_may_be_made_in_place(name):
    step, legal = STEPS[name]
    kernel = chain(step)
    plan = make_plan(kernel.pipeline(), MACHINE, {"M": 100})
    assert plan.order.in_place == ({"b": "a"} if legal else {})
    offsets = plan.places({"M": 100}).offsets
    assert (offsets["a"] == offsets["b"]) is legal
    fast = Program(plan)
    for m in (100, 37, 1, 0):
        x = picture(m)
        for _ in range(2):  # the second call runs natively
            np.testing.assert_allclose(fast(x), kernel.reference(x), rtol=1e-5, atol=1e-6)


@tw.kernel
def read_later(x: tw.f32[M]):
    i = tw.vars("i")
    a, b, out = tw.func("a"), tw.func("b"), tw.func("out")
    a[i] = tw.exp(x[i])
    b[i] = tw.exp(a[i])
    out[i] = tw.exp(b[i]) + a[i]
    return out[:M]


@tw.kernel
def returned(x: tw.f32[M]):
    i = tw.vars("i")
    a, b, out = tw.func("a"), tw.func("b"), tw.func("out")
    a[i] = tw.exp(x[i])
    b[i] = tw.exp(a[i])
    out[i] = tw.exp(b[i])
    return out[:M], a[:M], b[1 : M - 1]


@tw.kernel
def summed(x: tw.f32[M]):
    i = tw.vars("i")
    a, b, out = tw.func("a"), tw.func("b"), tw.func("out")
    a[i] = tw.exp(x[i])
    b[i] = a[i]
    b[i] += a[i]
    out[i] = tw.exp(b[i])
    return out[:M]


@pytest.mark.parametrize("kernel", [read_later, returned, summed], ids=lambda k: k.__name__)
def test_what_is_needed_later_stays(kernel):
    plan = make_plan(kernel.pipeline(), MACHINE, {"M": 100})
    assert "a" not in plan.order.in_place.values()
    x = RNG.standard_normal(50, dtype=np.float32)
    got, wanted = Program(plan)(x), kernel.reference(x)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


WAYS = ("same", "same", "same", "before", "turned", "row", "twice")


@st.composite
def graphs(draw):
    """Per Func: its type, and what it reads of which earlier one, and how."""
    found = []
    for k in range(draw(st.integers(2, 7))):
        reads = draw(st.lists(st.tuples(st.integers(1, min(k + 1, 3)), st.sampled_from(WAYS)), min_size=1, max_size=3))
        found.append((draw(st.sampled_from(["f32", "f32", "i32", "f64"])), reads))
    return found, draw(st.booleans()), draw(st.integers(1, 2))


def of_graph(found, two):
    def body(x):
        i, j = tw.vars("i j")
        made = [(x, "f32")]
        for k, (name, reads) in enumerate(found):
            f, terms = tw.func(f"v{k}"), []
            for back, way in reads:
                v, kind = made[-min(back, len(made))]
                read = {
                    "same": lambda v=v: v[i, j],
                    "before": lambda v=v: v[clamped(i - 1), j],
                    "turned": lambda v=v: v[j, i],
                    "row": lambda v=v: v[i, clamped(j * 0)],
                    "twice": lambda v=v: v[i, j] + v[i, clamped(j + 1)],
                }[way]()
                terms.append(read if kind == "f32" else tw.cast(tw.f32, read))
            value = tw.minimum(sum(terms[1:], terms[0]), 4.0) * 0.5
            f[i, j] = value if name == "f32" else tw.cast(getattr(tw, name), value * 8.0)
            made.append((f, name))
        outs = [made[-1][0], *([made[1][0]] if two and len(made) > 2 else [])]
        return tuple(o[:M, :M] for o in outs)

    body.__annotations__ = {"x": tw.f32[M, M]}
    return tw.kernel(body)


@settings(max_examples=4)
@given(graphs())
@example(([("f32", [(1, "same")])] * 6, False, 1))
@example(([("f32", [(1, "same"), (2, "same")])] * 6, True, 2))
def test_graphs_with_results_in_place(case):
    found, two, cores = case
    kernel = of_graph(found, two)
    machine = replace(MACHINE, compute=replace(MACHINE.compute, cores=cores))
    plan = make_plan(kernel.pipeline(), machine, {"M": 60}, Goal(phase="decode"))
    _no_others_overlap(plan)
    fast = Program(plan)
    for m in (21, 60):
        x = picture(m)
        wanted = kernel.reference(x)
        for _ in range(2):
            for got, right in zip(fast(x, threads=cores), wanted, strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1.01 if right.dtype == np.int32 else 1e-5)


def _no_others_overlap(plan):
    places, lived = plan.places(plan.sizes), {x.name: x for x in plan.lifetimes(plan.sizes)}
    over = plan.order.in_place
    for a, x in lived.items():
        for b, y in lived.items():
            if a < b and x.meets(y) and over.get(a) != b and over.get(b) != a:
                at, other = places.offsets[a], places.offsets[b]
                assert at + x.size <= other or other + y.size <= at
    for new, old in over.items():
        assert lived[new].size == lived[old].size
        assert places.offsets[new] == places.offsets[old]
        assert lived[old].last >= lived[new].first > lived[old].first
