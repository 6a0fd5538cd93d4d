"""Strategies: none asks twice, each ends, the same seed gives the same points, and good points are found early."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.autotune.test_space import Tiles, double
from tests.kernels import matmul
from tilewright.autotune.errors import TuneError
from tilewright.autotune.knobs import FunctionSpace
from tilewright.autotune.search import STRATEGIES, strategy
from tilewright.autotune.search.base import FACTOR
from tilewright.autotune.search.recorded import RecordedSpace, Row, Table, reached, read_table
from tilewright.autotune.space import Choose, Dead, Decision, Point, draw, points, usual
from tilewright.schedule.schedule import Schedule

FAST = tuple(n for n in STRATEGIES if n != "optuna")
CHOICES = (("rows", (8, 4, 16)), ("pack", (True, False)), ("order", (("i", "j"), ("j", "i"))), ("depth", (64, 16, 256)))


def table(choices=CHOICES, dead=lambda v: False, same=lambda v: v, cost=None, predicted=None) -> Table:
    """All combinations but those that are `dead`; those that are the `same` are one schedule."""
    rows, hashes = [], {}
    for values in itertools.product(*(c for _, c in choices)):
        if not dead(values):
            trace = tuple(Decision(n, c, v) for (n, c), v in zip(choices, values, strict=True))
            name = f"{hashes.setdefault(same(values), len(hashes)):032x}"
            took = float(int(name, 16) + 1) if cost is None else cost(values)
            rows.append(Row(trace, name, took, predicted(values) if predicted else None))
    return Table(str(matmul), tuple(rows))


def asked(search, t: Table, n=3, most=10_000):
    """All points that a search asks for, n at a time, told as it goes."""
    found = []
    while len(found) < most and (some := search.ask(n)):
        assert len(some) <= n
        found += some
        for p in some:
            search.tell(p, t.cost(p))
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_schedule_once_and_then_it_ends(name):
    t = table(dead=lambda v: v[0] == 16 and not v[1], same=lambda v: v[:3])
    search = strategy(name, t.space, seed=1)
    found = asked(search, t)
    assert len({p.hash for p in found}) == len(found) == 10
    assert search.ended == "every schedule of the space was asked for"
    assert search.ask(5) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_ends_too_when_nothing_is_told_or_all_fails(name):
    t = table()
    search = strategy(name, t.space)
    found = []
    while some := search.ask(4):
        found += some
    assert len({p.hash for p in found}) == len(found) == len(t.rows)
    failing = strategy(name, t.space)
    found = []
    while some := failing.ask(4):
        found += some
        for p in some:
            failing.tell(p, None)
    assert len({p.hash for p in found}) == len(t.rows) and failing.ranked == []


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("ranked", [False, True])
def test_equal_seeds_give_equal_points(name, ranked):
    t = table(predicted=lambda v: float(v[0] + v[3]))
    predict = t.predict if ranked else None
    one, two = (asked(strategy(name, t.space, 7, predict), t, most=20) for _ in range(2))
    assert [p.hash for p in one] == [p.hash for p in two]
    if name not in ("exhaustive", "beam"):
        assert [p.hash for p in asked(strategy(name, t.space, 8, predict), t, most=20)] != [p.hash for p in one]


@pytest.mark.parametrize("name", STRATEGIES)
def test_seeds_come_first_then_the_usual_point(name):
    t = table()
    seeds = list(itertools.islice(points(t.space), 20, 23))
    search = strategy(name, t.space, seeds=[*seeds, seeds[0]])
    first = search.ask(4)
    assert [p.hash for p in first] == [*(p.hash for p in seeds), draw(t.space, usual).hash]


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_can_not_run_is_never_asked_for(name):
    t = table(predicted=lambda v: math.inf if v[0] == 16 else None if v[1] else 1.0)
    search = strategy(name, t.space, predict=t.predict)
    found = asked(search, t)
    assert {p.values["rows"] for p in found} == {8, 4}
    assert len(found) == len(t.rows) * 2 // 3


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_was_measured_elsewhere_is_not_asked_for(name):
    t = table()
    search = strategy(name, t.space)
    known = list(itertools.islice(points(t.space), 5, 30))
    for p in known:
        search.tell(p, t.cost(p))
    found = asked(search, t)
    assert len(found) == len(t.rows) - len(known)
    assert not {p.hash for p in found} & {p.hash for p in known}
    assert search.ranked[0][0] == t.best and len(search.ranked) == len(t.rows)


def test_points_of_elsewhere_take_nothing_from_a_space():
    """A schedule that was written by hand has no trace, one of an older space another one."""
    t = table()
    search = strategy("random", t.space)
    first = next(iter(points(t.space)))
    search.tell(Point((), Schedule.recorded(t.space.pipeline, (), "by hand")), 1.0)
    search.tell(Point(first.trace[:1], Schedule.recorded(t.space.pipeline, (), "older")), 1.0)
    assert {p.hash for p in asked(search, t)} == {r.hash for r in t.rows}


def test_costs_that_are_no_numbers_are_failures():
    t = table()
    search = strategy("evolution", t.space)
    for cost in (math.nan, math.inf, None):
        search.tell(search.ask(1)[0], cost)
    assert search.ranked == [] and len(search.told) == 3


def test_an_unknown_strategy_is_refused():
    with pytest.raises(TuneError, match="no strategy 'annealing'") as e:
        strategy("annealing", table().space)
    assert e.value.code == "tune.strategy" and "evolution, beam, random, exhaustive, optuna" in str(e.value)


def test_optuna_is_an_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(TuneError, match=r"tilewright\[optuna\]") as e:
        strategy("optuna", table().space)
    assert e.value.code == "tune.extra"
    assert strategy("random", table().space).ask(1)


@pytest.mark.parametrize("name", ["evolution", "beam", "random"])
def test_a_search_gives_up_where_nearly_all_choices_lead_nowhere(name):
    def rare(s, choose):
        chosen = [choose(f"c{k}", (False, True)) for k in range(40)]
        if any(chosen):
            raise Dead

    search = strategy(name, FunctionSpace(matmul.pipeline(), rare))
    assert len(search.ask(3)) == 1 and search.ask(3) == []
    assert search.ended == "no other schedule was found in 1,000 tries"


@st.composite
def tables(draw_):
    number = draw_(st.integers(1, 4))
    choices = [(f"c{k}", tuple(range(draw_(st.integers(1, 4))))) for k in range(number)]
    rng = random.Random(draw_(st.integers(0, 10**6)))
    share, kinds = draw_(st.sampled_from([0.0, 0.3, 0.7])), draw_(st.integers(1, 100))
    t = table(
        choices,
        dead=lambda v: any(v) and rng.random() < share,
        same=lambda v: hash(v) % kinds,
        cost=lambda v: float(sum(v)),
    )
    return t


@given(tables(), st.sampled_from(FAST), st.integers(0, 100), st.integers(1, 9))
def test_any_space_is_gone_through(t, name, seed, n):
    search = strategy(name, t.space, seed)
    found = [p.hash for p in asked(search, t, n)]
    assert sorted(found) == sorted({r.hash for r in t.rows})


# Outside samplers -------------------------------------------------------------------------------------------------


def test_the_loop_of_the_documentation():
    t = table()
    cost_of = {r.hash: r.cost for r in t.rows}
    search = strategy("evolution", t.space, seed=0)
    while some := search.ask(4):
        for p in some:
            search.tell(p, cost_of[p.schedule.hash])
    best = search.ranked[0]
    assert best[0] == t.best


def test_a_study_of_optuna_draws_points_itself():
    optuna = pytest.importorskip("optuna")
    t = table()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for _ in range(40):
        trial = study.ask()
        p = draw(t.space, lambda name, choices, t=trial: choices[t.suggest_int(name, 0, len(choices) - 1)])
        study.tell(trial, t.cost(p))
    assert study.best_value <= 4 * t.best


# Tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_tables_are_read_as_written(tmp_path, suffix):
    t = table(dead=lambda v: v[0] == 4, predicted=lambda v: None if v[1] else 0.5)
    path = tmp_path / f"t{suffix}"
    t.write(path)
    read = read_table(path)
    assert read == t
    read.write(tmp_path / f"again{suffix}")
    assert (tmp_path / f"again{suffix}").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"table": 99}', '{"table":1,"decisions":[],"rows":[[[1,2],"x",1,1]]}']
)
def test_other_files_are_no_tables(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(TuneError) as e:
        read_table(tmp_path / "t.json")
    assert e.value.code == "tune.table"
    with pytest.raises(TuneError):
        read_table(tmp_path / "none.json")


def test_recorded_spaces_make_the_choices_that_were_made():
    t = table(dead=lambda v: v[0] == 4)
    assert isinstance(t.space, RecordedSpace) and t.space.pipeline.digest == matmul.pipeline().digest
    found = {p.hash: p for p in points(t.space)}
    assert {r.hash for r in t.rows} == set(found)
    assert all(found[r.hash].trace == r.trace for r in t.rows)
    assert t.best == 1.0 and reached([5.0, None, 1.01, 1.0], 1.02 * t.best) == 3


def test_several_times_as_many_are_predicted_for_every_one_that_is_asked_for():
    """Not in the first round alone: what was left over then is not as good as what is drawn anew."""

    class Wide(Tiles):
        def build(self, choose: Choose) -> Schedule:
            s = double.schedule()
            rows, columns = choose("rows", tuple(range(2, 60))), choose("columns", tuple(range(2, 60)))
            assert isinstance(rows, int)
            assert isinstance(columns, int)
            s["B"].tile(("i", "j"), ("io", "jo"), ("ii", "ji"), (rows, columns))
            return s

    predicted: list[float] = []

    def predict(points: Sequence[Point]) -> list[float | None]:
        found = [float(p.values["rows"]) for p in points]  # type: ignore[arg-type]
        predicted.extend(found)
        return list(found)

    search = strategy("random", Wide(), 0, predict)
    asked = []
    for number in range(1, 9):
        asked += search.ask(4)
        assert len(predicted) >= FACTOR * (4 * number - 1)
    assert sum(float(p.values["rows"]) for p in asked[4:]) / 28 < 2 + 58 / FACTOR  # type: ignore[arg-type]
