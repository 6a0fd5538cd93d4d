"""How tensors lie: weights that are packed once, conversions, and the assignment that has the least of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.planner import layouts
from tilewright.planner.choices import Choices, by_milp, by_trial, cheapest, greedy
from tilewright.planner.errors import PlanError
from tilewright.planner.plan import make_plan
from tilewright.planner.program import Program

T, K, N = tw.sizes("T K N")
MACHINE = load_machine("skylake-sp")
RNG = np.random.default_rng(0)


def whole(*shape):
    return np.float32(RNG.integers(-2, 3, shape))


def plan(kernel, weights=(), **sizes):
    return make_plan(kernel.pipeline(), MACHINE, sizes, weights=weights)


# The solver -------------------------------------------------------------------------------------------------------

COST = st.integers(0, 9).map(float)


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    costs = tuple(tuple(draw(COST) for _ in range(n)) for n in sizes)
    pairs = []
    for a, b in draw(st.lists(st.sampled_from(list(itertools.combinations(range(len(sizes)), 2))), max_size=7)
                     if len(sizes) > 1 else st.just([])):  # fmt: skip
        pairs.append((a, b, tuple(tuple(draw(COST) for _ in range(sizes[b])) for _ in range(sizes[a]))))
    return Choices(costs, tuple(pairs))


@given(problems())
@settings(max_examples=60, deadline=None)
def test_the_solver_finds_what_trying_all_finds(problem):
    least = problem.total(by_trial(problem))
    assert problem.total(by_milp(problem)) == least
    assert problem.total(cheapest(problem)) == least
    assert problem.total(greedy(problem)) >= least


def test_greedy_pays_for_what_it_does_not_see():
    """Two steps like different layouts a little, and a conversion costs a lot."""
    problem = Choices(((1.0, 0.0), (0.0, 1.0)), ((0, 1, ((0.0, 9.0), (9.0, 0.0))),))
    assert problem.total(greedy(problem)) == 9.0
    assert problem.total(cheapest(problem)) == 1.0


def test_equal_parts_are_solved_once(monkeypatch):
    from tilewright.planner import choices

    table = tuple(tuple(float((3 * a + b) % 5) for b in range(3)) for a in range(3))
    chain = tuple((k, k + 1, table) for layer in range(40) for k in range(9 * layer, 9 * layer + 8))
    seen = []
    real = choices.by_milp
    monkeypatch.setattr(choices, "by_milp", lambda c: seen.append(c) or real(c))
    found = cheapest(Choices(((0.0, 1.0, 2.0),) * 360, chain))
    assert len(seen) == 1
    assert {found[k : k + 9] for k in range(0, 360, 9)} == {found[:9]}


# Weights ----------------------------------------------------------------------------------------------------------


@tw.kernel
def chain(x: tw.f32[T, 96], a: tw.f32[160, 96], b: tw.f32[128, 160], c: tw.f32[64, 128]):
    for w in (a, b, c):
        x = ops.linear(x, w, transpose=True)
    return x


SHAPES = {"a": (160, 96), "b": (128, 160), "c": (64, 128)}


def test_packed_weights_leave_no_conversions_in_a_chain_of_products():
    plain = plan(chain, T=200)
    assert {c.tensor for c in plain.layouts.chosen.conversions} == set(SHAPES)  # in every call
    assert plain.layouts.chosen.bytes >= sum(4 * m * n for m, n in SHAPES.values())
    made = plan(chain, SHAPES, T=200)
    assert made.layouts.chosen.conversions == ()
    assert {name for _, name in made.layouts.weights} == set(SHAPES)
    assert not any(d.kind == "cache_read" for s in made.steps for d in s.schedule.directives)
    assert made.layouts.chosen.cost < made.layouts.plain.cost


@pytest.mark.parametrize("planned", [1, 200])
def test_a_program_with_weights(planned):
    program = Program(plan(chain, SHAPES, T=planned))
    weights = {n: whole(*s) for n, s in SHAPES.items()}
    fast = program.with_weights(weights)
    for tokens in (200, 1, 0, 33):
        x = whole(tokens, 96)
        wanted = chain.reference(x, **weights)
        np.testing.assert_array_equal(fast(x), wanted)
        np.testing.assert_array_equal(fast(x), wanted)  # now without Python
        np.testing.assert_array_equal(program(x, **weights), wanted)


def test_weights_are_a_snapshot():
    program = Program(plan(chain, SHAPES, T=50))
    weights, x = {n: whole(*s) for n, s in SHAPES.items()}, whole(50, 96)
    fast = program.with_weights(weights)
    before = fast(x)
    weights["b"][...] = 0
    np.testing.assert_array_equal(fast(x), before)
    assert not program.with_weights(**weights)(x).any()
    np.testing.assert_array_equal(fast(x), before)


@tw.kernel
def open_sizes(x: tw.f32[T, K], w: tw.f32[K, N], v: tw.f32[N, N]):
    return ops.linear(ops.linear(x, w), v)


def test_sizes_that_weights_say_are_known():
    program = Program(plan(open_sizes, ["w", "v"], T=128, K=1024, N=1536))
    assert program.plan.layouts.weights
    for k, n in ((40, 70), (3, 5), (32, 64)):
        w, v = whole(k, n), whole(n, n)
        fast = program.with_weights(w=w, v=v)
        for tokens in (9, 130, 0):
            x = whole(tokens, k)
            np.testing.assert_array_equal(fast(x), open_sizes.reference(x, w, v))
    with pytest.raises(tw.ArgumentError) as e:
        fast(whole(9, 31))
    assert e.value.code == "argument.extent" or e.value.code.startswith("argument.")


@tw.kernel
def tied(x: tw.f32[T, 64], w: tw.f32[64, 64], scale: tw.f32):
    """One weight, read along both axes and by itself."""
    y = ops.linear(ops.linear(x, w), w, transpose=True)
    return y * scale, ops.value(w) * 2.0


def test_a_weight_that_steps_read_differently():
    program = Program(plan(tied, ["w"], T=300))
    w = whole(64, 64)
    fast = program.with_weights(w=w)
    x = whole(7, 64)
    for got, wanted in zip(fast(x, 3.0), tied.reference(x, w, 3.0), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"a": SHAPES["a"], "b": SHAPES["b"]}, "argument.missing"),
        (dict(SHAPES, d=(1, 1)), "argument.unknown"),
        (dict(SHAPES, b=(128, 161)), "argument.extent"),
        (dict(SHAPES, b=(128,)), "argument.rank"),
    ],
)
def test_weights_that_do_not_fit(given, code):
    program = Program(plan(chain, SHAPES, T=4))
    with pytest.raises(tw.ArgumentError) as e:
        program.with_weights({n: whole(*s) for n, s in given.items()})
    assert e.value.code == code


@pytest.mark.parametrize("given", [whole(96, 128), [whole(96, 128)], "abc", 3])
def test_weights_without_names_are_refused(given):
    program = Program(plan(chain, SHAPES, T=4))
    with pytest.raises(tw.ArgumentError) as e:
        program.with_weights(given)
    assert e.value.code == "argument.weights"


@tw.kernel
def cached(x: tw.f32[T, 8], cache: tw.inout(tw.f32[T, 8]), s: tw.f32):
    i, j = tw.vars("i j")
    cache[i, j] += x[i, j] * s
    return ops.value(x) + 1.0


@pytest.mark.parametrize("name", ["cache", "s", "nobody"])
def test_what_can_be_no_weight(name):
    with pytest.raises(PlanError) as e:
        plan(cached, [name], T=4)
    assert e.value.code == "plan.weights"
    assert name in e.value.message


# What passes between steps ----------------------------------------------------------------------------------------


@tw.kernel
def scores(x: tw.f32[T, 64], y: tw.f32[N, 64], wq: tw.f32[64, 64], wk: tw.f32[64, 64]):
    """The second product reads what the first made along the sum: it wants it transposed, in every tile of rows."""
    q, k = ops.linear(x, wq), ops.linear(y, wk)
    return ops.softmax(ops.matmul(ops.tanh(q), k, transpose_b=True))


def test_values_are_those_of_the_reference_whatever_lies_where():
    made = plan(scores, ["wq", "wk"], T=500, N=200)
    program = Program(made)
    weights = {"wq": whole(64, 64) / 8, "wk": whole(64, 64) / 8}
    fast = program.with_weights(weights)
    for t, n in ((20, 200), (1, 1), (0, 3), (33, 17)):
        x, y = whole(t, 64), whole(n, 64)
        wanted = scores.reference(x, y, **weights)
        np.testing.assert_allclose(fast(x, y), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(program(x, y, **weights), wanted, rtol=1e-5, atol=1e-6)


def test_an_assignment_is_no_worse_than_greedy_and_row_major():
    for kernel, sizes in (
        (chain, {"T": 200}),
        (scores, {"T": 500, "N": 200}),
        (open_sizes, {"T": 64, "K": 512, "N": 512}),
    ):
        found = plan(kernel, **sizes).layouts
        assert found.chosen.cost <= found.greedy.cost
        assert found.chosen.cost <= found.plain.cost


@tw.kernel
def wide(x: tw.f32[T, 64], up: tw.f32[64, 1024], over: tw.f32[1024, 1024]):
    """Rows of what passes between the products are a page long."""
    return ops.linear(ops.linear(x, up), over)


def test_rows_a_page_apart_are_padded():
    made = plan(wide, ["up", "over"], T=300)
    padded = {n for n, t in made.layouts.homes.items() if t == "a0 a1 -> a0 a1//1040 a1%1040"}
    assert padded
    assert made.layouts.chosen.conversions == ()
    assert made.layouts.greedy.conversions != ()  # who makes it does not care, and who reads it converts it
    assert made.layouts.chosen.cost < made.layouts.greedy.cost < made.layouts.plain.cost
    (b,) = [b for b in made.buffers if b.name in padded]
    size = next(x.size for x in made.lifetimes({"T": 7}) if x.name == b.name)
    assert size == 7 * 1040 * 4
    weights = {"up": whole(64, 1024), "over": whole(1024, 1024)}
    fast = Program(made).with_weights(weights)
    for tokens in (30, 1, 0):
        x = whole(tokens, 64)
        np.testing.assert_array_equal(fast(x), wide.reference(x, **weights))


@tw.kernel
def both_ways(x: tw.f32[T, 1024], w: tw.f32[512, 1024]):
    """Rows of `x` are a page apart, and the weight lies along the sum."""
    return ops.linear(x, w, transpose=True)


def test_a_weight_is_packed_whatever_else_a_step_wants():
    made = plan(both_ways, ["w"], T=300).layouts
    assert [n for _, n in made.weights] == ["w"]
    assert not any(c.tensor == "w" for c in made.chosen.conversions)


def test_what_lies_otherwise_is_watched_as_it_is_meant():
    made = plan(wide, T=300)
    assert made.layouts.homes
    program, x = Program(made), whole(9, 64)
    weights = whole(64, 1024), whole(1024, 1024)
    seen = {}

    def watch(moment, number, array):
        if moment == "after":
            seen.update({b.name: np.array(array(b)) for b in made.steps[number].part.outputs})

    program.watch = watch
    program(x, *weights)
    wanted = x @ weights[0]
    assert any(a.shape == wanted.shape and (a == wanted).all() for a in seen.values())


@tw.kernel
def several(x: tw.f32[T, 1024], a: tw.f32[256, 1024], b: tw.f32[1024, 256], c: tw.f32[256, 256]):
    """Steps that want what they share in different layouts."""
    p, q = ops.linear(x, a, transpose=True), ops.linear(x, b)
    s = ops.matmul(p, q, transpose_b=True)
    return ops.matmul(ops.exp(s), ops.linear(q, c)), ops.matmul(q, p, transpose_b=True)


@pytest.mark.parametrize("kernel", [chain, wide, scores, several], ids=["chain", "wide", "scores", "several"])
@pytest.mark.parametrize("tokens", [40, 512])
def test_the_assignment_of_a_graph_is_the_best_there_is(kernel, tokens, monkeypatch):
    problems = []
    monkeypatch.setattr(layouts, "cheapest", lambda p, budget: problems.append(p) or cheapest(p, budget))
    sizes = dict.fromkeys(kernel.pipeline().sizes, tokens)
    for weights in ((), [a.name for a in kernel.pipeline().arrays if a.name not in "xy"]):
        found = plan(kernel, weights, **sizes).layouts
        problem = problems.pop()
        least = problem.total(by_trial(problem))
        assert found.chosen.cost == pytest.approx(least)
        assert problem.total(by_milp(problem)) == pytest.approx(least)
        assert found.chosen.cost <= found.greedy.cost + 1e-9
        assert found.chosen.cost <= found.plain.cost + 1e-9
