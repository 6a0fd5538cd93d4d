"""Policies: what an order has least of, overlap as modelled, computing again, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.planner import regions
from tilewright.planner.again import recomputed
from tilewright.planner.budget import Budget
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.lives import lives
from tilewright.planner.makespan import Cost, makespan, most_overlap
from tilewright.planner.order import Dependences, Task
from tilewright.planner.plan import make_plan
from tilewright.planner.policy import policy_of
from tilewright.planner.program import Program

T, M = tw.sizes("T M")
RNG = np.random.default_rng(0)
NATIVE = load_machine("skylake-sp")


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


# Overlap -------------------------------------------------------------------------------------------------------------


@st.composite
def costed(draw):
    n = draw(st.integers(1, 6))
    tasks, costs = [], {}
    for k in range(n):
        needs = draw(st.sets(st.sampled_from([f"b{j}" for j in range(k)]), max_size=2)) if k else set()
        tasks.append(Task(f"t{k}", frozenset(needs), {f"b{k}": 1}))
        costs[f"t{k}"] = Cost(draw(st.integers(0, 9)), draw(st.integers(0, 5)) if needs else 0, draw(st.integers(0, 9)))
    return tasks, costs


def naive_makespan(tasks, costs):
    """Cycle by cycle: the engine and the cores each do one thing at a time, and what is loaded lies in one of two places."""
    loaded = [costs[t.name].free for t in tasks], [costs[t.name].bound for t in tasks]
    work = [costs[t.name].work for t in tasks]
    maker = {b: k for k, t in enumerate(tasks) for b in t.makes}
    done = [False] * len(tasks)

    def settle():
        """What takes no time is over at once."""
        for k, t in enumerate(tasks):
            left = loaded[0][k] + loaded[1][k] + work[k]
            if all(done[:k]) and not left and all(done[maker[b]] for b in t.needs):
                done[k] = True

    clock = 0
    settle()
    while not all(done):
        engine = next((k for k in range(len(tasks)) if loaded[0][k] + loaded[1][k]), None)
        first = done.index(False)
        core = first if loaded[0][first] == 0 == loaded[1][first] and work[first] else None
        if engine is not None and engine <= first + 1:
            if loaded[0][engine]:
                loaded[0][engine] -= 1
            elif all(done[maker[b]] for b in tasks[engine].needs):
                loaded[1][engine] -= 1
        if core is not None:
            work[core] -= 1
        clock += 1
        settle()
    return clock


@given(costed())
def test_the_makespan_is_that_of_a_simulation(case):
    tasks, costs = case
    assert makespan(Dependences(tasks), costs, range(len(tasks))) == naive_makespan(tasks, costs)


@given(costed())
def test_no_order_overlaps_more(case):
    tasks, costs = case
    g = Dependences(tasks)
    order, length, least = most_overlap(g, costs)
    assert least
    assert g.legal(order)
    assert length == makespan(g, costs, order)
    assert length == min(makespan(g, costs, p) for p in permutations(range(len(tasks))) if g.legal(p))
    parts = costs.values()
    assert max(sum(c.work for c in parts), sum(c.loads for c in parts)) <= length <= sum(c.serial for c in parts)


@given(costed())
def test_a_bounded_search_for_overlap_gives_a_legal_order(case):
    tasks, costs = case
    g = Dependences(tasks)
    order, length, least = most_overlap(g, costs, Budget(Goal(states=1)))
    assert sorted(order) == list(range(len(tasks)))
    assert g.legal(order)
    given_ = makespan(g, costs, range(len(tasks)))
    best = min(makespan(g, costs, p) for p in permutations(range(len(tasks))) if g.legal(p))
    assert best <= length <= given_
    assert not least or length == best


def test_thousands_of_steps_are_put_in_order():
    tasks = [Task(f"t{k}", frozenset({f"b{k - 3}"} if k > 2 else ()), {f"b{k}": 1}) for k in range(1000)]
    costs = {t.name: Cost(5 + k % 3, 1, 6) for k, t in enumerate(tasks)}
    order, length, _ = most_overlap(Dependences(tasks), costs, Budget(Goal(states=5_000)))
    assert length < 0.62 * sum(c.serial for c in costs.values())
    assert Dependences(tasks).legal(order)


# Computing again ---------------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    n = draw(st.integers(2, 9))
    tasks = []
    for k in range(n):
        needs = draw(st.sets(st.sampled_from([f"b{j}" for j in range(k)]), max_size=3)) if k else set()
        over = {f"b{k}": tuple(sorted(needs))[:1]} if needs and draw(st.booleans()) else {}
        tasks.append(Task(f"t{k}", frozenset(needs), {f"b{k}": 4}, draw(st.integers(0, 2)), over=over))
    return tasks


def runs(tasks):
    """Play a sequence with places: every read finds what was made last; what lives at each step."""
    at = lives(tasks)
    base = {}
    for b, a in at.over.items():
        base[b] = base.get(a, a)
    places, makes = {}, {b: t.name for t in tasks for b in t.makes}
    live = []
    for k, t in enumerate(tasks):
        for b in t.needs:
            assert places[base.get(b, b)] == makes[b]
        places.update({base.get(b, b): t.name for b in t.makes})
        now = {base.get(b, b) for b, spans in at.spans.items() if any(a <= k <= e for a, e in spans)}
        live.append(4 * len(now) + t.scratch)
    assert tuple(live) == at.live
    return max(live)


@given(graphs(), st.integers(0, 40))
def test_computing_again_takes_less_memory_and_reads_what_was_made(tasks, capacity):
    cycles = {t.name: 1.0 for t in tasks}
    found, again = recomputed(tasks, frozenset(), cycles, frozenset(), capacity, 3.0, Budget(Goal()))
    assert len(again) <= 3
    assert len(found) == len(tasks) + len(again)
    assert (runs(found) < runs(tasks)) if again and runs(found) <= capacity else runs(found) <= runs(tasks)


def test_a_skip_is_computed_again():
    """a is read by b and, after all else, by e."""
    tasks = [
        Task("a", frozenset(), {"a": 10}), Task("b", frozenset({"a"}), {"b": 10}), Task("c", frozenset({"b"}), {"c": 10}),
        Task("d", frozenset({"c"}), {"d": 1}), Task("e", frozenset({"d", "a"}), {"e": 1}),
    ]  # fmt: skip
    cycles = {"a": 5.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 1.0}
    found, again = recomputed(tasks, {"e"}, cycles, frozenset(), 0, 100.0, Budget(Goal()))
    assert [t.name for t in found] == ["a", "b", "c", "d", "a", "e"]
    assert again == ["a"]
    assert (lives(tasks, keep={"e"}).peak, lives(found, keep={"e"}).peak) == (30, 20)
    for less in ({"capacity": 30}, {"price": 4.0}, {"once": {"a"}}):
        given_ = {"capacity": 0, "price": 100.0, "once": frozenset()} | less
        assert recomputed(tasks, {"e"}, cycles, budget=Budget(Goal()), **given_) == (tasks, [])


@tw.kernel
def skip(x: tw.f32[T, 64], w: tw.f32[64, 64], wide: tw.f32[64, 512], narrow: tw.f32[512, 64]):
    """A cheap result that is needed early and at the very end."""
    early = ops.exp(ops.linear(x, w))
    h = ops.linear(ops.relu(ops.linear(early, wide)), narrow)
    h = ops.linear(ops.relu(ops.linear(h, wide)), narrow)
    return ops.linear(ops.relu(h), w) + early


def test_what_does_not_fit_is_computed_again(monkeypatch):
    monkeypatch.setattr(regions, "_joins", lambda *_: False)  # a step for every Func
    plain = make_plan(skip.pipeline(), NATIVE, {"T": 256})
    assert not plain.order.again
    inputs = 4 * (256 * 64 + 64 * 64 + 2 * 64 * 512)
    tight = with_memory(NATIVE, inputs + plain.order.peak - 1)
    plan = make_plan(skip.pipeline(), tight, {"T": 256})
    assert plan.order.policy == "capacity"
    assert plan.order.again
    assert plan.order.peak < plain.order.peak
    assert plan.places({"T": 256}).bound < plain.places({"T": 256}).bound
    x, w = normal(256, 64), (normal(64, 64) / 8, normal(64, 512) / 8, normal(512, 64) / 20)
    one, two = Program(plain), Program(plan)
    for t in (256, 30, 1, 0):
        for _ in range(2):
            np.testing.assert_array_equal(one(x[:t], *w), two(x[:t], *w))
    np.testing.assert_allclose(two(x, *w), skip.reference(x, *w), rtol=1e-4, atol=1e-5)
    memory = make_plan(skip.pipeline(), NATIVE, {"T": 256}, Goal(objective="memory"))
    assert memory.order.policy == "memory"
    assert memory.order.peak <= plain.order.peak


def with_memory(machine, capacity):
    main, *others = machine.memories
    return replace(machine, memories=(replace(main, capacity=capacity), *others))


def test_what_fits_in_no_order_is_refused():
    with pytest.raises(PlanError) as e:
        make_plan(three.pipeline(), with_memory(NATIVE, 10_000), {"T": 32})
    assert e.value.code == "plan.capacity"
    assert "10,000 B" in str(e.value)
    assert "12,288 B of inputs" in str(e.value)
    assert "linear (4,096 B)" in str(e.value)


# Policies ----------------------------------------------------------------------------------------------------------------


def test_the_policy_goes_by_objective_and_phase():
    assert policy_of(Goal()).name == "latency"
    assert policy_of(Goal(phase="prefill")).name == "prefill"
    assert policy_of(Goal(phase="decode")).name == "decode"
    assert policy_of(Goal(objective="memory", phase="decode")).name == "memory"


def test_an_order_says_what_it_was_chosen_by():
    plan = make_plan(skip.pipeline(), NATIVE, {"T": 256}, Goal(phase="prefill"))
    order = plan.order
    assert (order.policy, order.fits) == ("prefill", "dram")
    assert order.peak <= order.naive
    assert order.groups == (1,) * len(plan.steps)
    assert order.cycles == order.serial > 0


@tw.kernel
def three(x: tw.f32[T, 32], w: tw.f32[32, 32], v: tw.f32[32, 32]):
    a = ops.linear(x, w)
    return a, ops.linear(x, v), ops.linear(a, v)


def test_an_engine_loads_beside_the_cores():
    """What is overlapped is what the cores wait for in the accounts of the steps, and not more."""
    plan = make_plan(three.pipeline(), load_machine("toy"), {"T": 8}, Goal(phase="decode"))
    order, accounts = plan.order, [s.staged.account.time for s in plan.steps]
    assert len(plan.steps) == 3
    assert order.serial == pytest.approx(plan.account().cycles)
    assert sum(t.busy for t in accounts) < order.cycles < order.serial
    assert order.fits == "spm"
