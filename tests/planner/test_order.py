"""Orders with the least memory, against all orders; places in memory, against overlap and the bound."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.planner.budget import Budget
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.order import Task, least_memory, peak
from tilewright.planner.places import ALIGNMENT, Lifetime, assign, lowest


@st.composite
def graphs(draw, most=6):
    n = draw(st.integers(1, most))
    tasks = []
    for k in range(n):
        needs = draw(st.sets(st.sampled_from([f"b{j}" for j in range(k)]))) if k else set()
        after = draw(st.sets(st.sampled_from([f"t{j}" for j in range(k)]), max_size=1)) if k else set()
        tasks.append(Task(f"t{k}", frozenset(needs), {f"b{k}": draw(st.integers(0, 20))}, draw(st.integers(0, 5)),
                          frozenset(after)))  # fmt: skip
    return tasks


def naive_peak(tasks, keep):
    """By what is alive at each moment: made by now, and made, read or kept from now on."""
    alive = [
        sum(
            n
            for j, maker in enumerate(tasks[: k + 1])
            for b, n in maker.makes.items()
            if j == k or b in keep or any(b in t.needs for t in tasks[k:])
        )
        for k in range(len(tasks))
    ]
    return max(a + t.scratch for a, t in zip(alive, tasks, strict=True))


def legal(tasks):
    made = set()
    for t in tasks:
        if not t.needs <= made or not {n.replace("t", "b") for n in t.after} <= made:
            return False
        made |= set(t.makes)
    return True


@given(graphs(), st.sets(st.sampled_from([f"b{k}" for k in range(6)]), max_size=2))
def test_no_order_has_less(tasks, keep):
    found = least_memory(tasks, keep)
    assert found.least
    assert legal(found.tasks)
    assert found.peak == naive_peak(found.tasks, keep)
    assert found.peak == min(peak(order, keep) for order in permutations(tasks) if legal(order))


@given(graphs())
def test_a_bounded_search_gives_a_legal_order(tasks):
    spent = Budget(Goal(states=1))
    spent.spend("order")
    found = least_memory(tasks, budget=spent)
    assert legal(found.tasks)
    assert found.least is not bool(spent.stopped)
    assert found.peak <= peak(tasks)


def test_long_chains_take_no_time():
    tasks = [Task(f"t{k}", frozenset({f"b{k - 1}"} if k else ()), {f"b{k}": 8}) for k in range(500)]
    assert least_memory(tasks, {"b499"}).peak == 16


def test_a_cycle_is_refused():
    tasks = [Task("a", frozenset({"y"}), {"x": 1}), Task("b", frozenset({"x"}), {"y": 1})]
    with pytest.raises(PlanError) as e:
        least_memory(tasks)
    assert e.value.code == "plan.cycle"
    assert "a, b" in str(e.value)


@st.composite
def lifetimes(draw):
    out = []
    for k in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 10))
        out.append(Lifetime(f"b{k}", draw(st.integers(0, 1000)), first, draw(st.integers(first, 12))))
    return out


@given(lifetimes())
def test_nothing_that_lives_at_once_overlaps(found):
    places = assign(found)
    assert set(places.offsets) == {x.name for x in found}
    assert places.bound == lowest(found) <= places.size
    for x in found:
        at = places.offsets[x.name]
        assert at % ALIGNMENT == 0
        assert at + x.size <= places.size
        for y in found:
            if x is not y and x.meets(y):
                other = places.offsets[y.name]
                assert at + x.size <= other or other + y.size <= at


def test_a_chain_takes_two_places():
    chain = [Lifetime(f"b{k}", 640, k, k + 1) for k in range(20)]
    assert assign(chain).size == lowest(chain) == 2 * 640
