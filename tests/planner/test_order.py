"""Orders with the least memory, against all orders; places in memory, against overlap and the bound."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.planner.budget import Budget
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal
from tilewright.planner.lives import lives
from tilewright.planner.order import Task, least_memory, peak
from tilewright.planner.places import ALIGNMENT, Lifetime, assign, lowest


@st.composite
def graphs(draw, most=6):
    n = draw(st.integers(1, most))
    tasks, size = [], {}
    for k in range(n):
        needs = draw(st.sets(st.sampled_from([f"b{j}" for j in range(k)]))) if k else set()
        after = draw(st.sets(st.sampled_from([f"t{j}" for j in range(k)]), max_size=1)) if k else set()
        over = sorted(draw(st.sets(st.sampled_from(sorted(needs)), max_size=2))) if needs else []
        size[f"b{k}"] = draw(st.integers(0, 20))
        over = {f"b{k}": tuple(a for a in over if size[a] == size[over[0]])} if over else {}
        if over:
            size[f"b{k}"] = size[over[f"b{k}"][0]]
        tasks.append(
            Task(
                f"t{k}", frozenset(needs), {f"b{k}": size[f"b{k}"]}, draw(st.integers(0, 5)), frozenset(after), over=over
            )
        )  # fmt: skip
    return tasks


def naive_peak(tasks, keep):
    """By what is alive at each moment: made by now, and made, read or kept from now on. What is made on something that
    nobody reads later takes no place of its own meanwhile."""
    most = 0
    for k, t in enumerate(tasks):
        alive = t.scratch
        for j, maker in enumerate(tasks[: k + 1]):
            for b, n in maker.makes.items():
                alive += n * (j == k or b in keep or any(b in later.needs for later in tasks[k:]))
        for b, candidates in t.over.items():
            dying = [a for a in candidates if a not in keep and not any(a in later.needs for later in tasks[k + 1 :])]
            alive -= t.makes[b] * bool(dying)
        most = max(most, alive)
    return most


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
    assert found.peak == min(naive_peak(order, keep) for order in permutations(tasks) if legal(order))
    assert found.peak == lives(found.tasks, keep=keep).peak


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


@given(lifetimes(), st.randoms(use_true_random=False))
def test_what_lies_on_another_shares_its_place(found, random):
    """Chains of buffers of one size, each in use from when the last one of it dies."""
    over, made = {}, list(found)
    for x in found:
        for k in range(random.randrange(3)):
            new = Lifetime(f"{x.name}.{k}", x.size, x.last, x.last + 1 + random.randrange(3))
            over[new.name] = x.name
            made.append(new)
            x = new
    places = assign(made, over)
    assert places.bound == lowest(made, over) <= places.size
    for x in made:
        for y in made:
            if x is not y and x.meets(y) and over.get(x.name) != y.name and over.get(y.name) != x.name:
                at, other = places.offsets[x.name], places.offsets[y.name]
                assert at + x.size <= other or other + y.size <= at
    assert all(places.offsets[a] == places.offsets[b] for a, b in over.items())


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6))
def test_few_buffers_lie_as_close_as_they_can(parts):
    found = [Lifetime(f"b{k}", 64 * n, a, a + length) for k, (n, a, length) in enumerate(parts)]
    places = assign(found)
    best = min(_first_fit(order) for order in permutations(found))
    assert places.size <= max(best, 1.02 * places.bound)
    assert 0 <= places.fragmentation < 1


def _first_fit(order):
    at, size = {}, 0
    for x in order:
        place = 0
        while any(
            x.meets(y) and place < at[y.name] + y.size and at[y.name] < place + x.size for y in order if y.name in at
        ):
            place += 64
        at[x.name] = place
        size = max(size, place + x.size)
    return size


def test_what_is_computed_again_is_not_in_use_between():
    found = [Lifetime("a", 640, 0, 1, ((5, 6),)), Lifetime("b", 640, 2, 4), Lifetime("c", 640, 1, 5)]
    places = assign(found)
    assert places.size == places.bound == 2 * 640
    assert places.offsets["a"] == places.offsets["b"] != places.offsets["c"]


def test_a_chain_takes_two_places():
    chain = [Lifetime(f"b{k}", 640, k, k + 1) for k in range(20)]
    assert assign(chain).size == lowest(chain) == 2 * 640


def test_layers_are_searched_piece_by_piece():
    """What a layer makes is all dead before the next one: each of 100 is searched by itself, and none is left out."""
    tasks, x = [], "x"
    for k in range(100):
        tasks += [Task(f"{n}{k}", frozenset({x}), {f"{n}{k}": 10}) for n in "abcd"]
        tasks.append(Task(f"m{k}", frozenset(f"{n}{k}" for n in "ab"), {f"m{k}": 5}))
        tasks.append(Task(f"o{k}", frozenset(f"{n}{k}" for n in "cdm") | {x}, {f"o{k}": 20}, over={f"o{k}": (x,)}))
        x = f"o{k}"
    found = least_memory(tasks, {x})
    assert found.least
    assert found.peak == 20 + 10 + 10 + 5
    assert found.peak < peak(tasks, {x})
