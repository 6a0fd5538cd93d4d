"""The tuner on a measurer without a clock: what is measured when, what comes out, and how it ends."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.autotune.fakes import FakeMeasurer
from tests.autotune.test_space import Tiles, double
from tilewright.autotune.buckets import Buckets
from tilewright.autotune.measure.task import Task
from tilewright.autotune.records import Records
from tilewright.autotune.remember import memory_of
from tilewright.autotune.session import Options, Wanted, run
from tilewright.autotune.space import points
from tilewright.autotune.tasks import Subject
from tilewright.autotune.tuned import Tuned
from tilewright.schedule.default import complete

SUBJECT = Subject("double", double.pipeline())
DEFAULT = str(complete(double.schedule()))
FIXED = {"M": 64, "N": 64}
ALL = [str(p.schedule) for p in points(Tiles())]


def cost(task: Task | None, text: str) -> float:
    """Different for each schedule, 1 to 2 ms; the default schedule takes 1.5."""
    if text == DEFAULT:
        return 1.5e-3
    return 1e-3 * (1 + int(hashlib.md5(text.encode()).hexdigest(), 16) % 1000 / 1000)


def tuned(
    measurer: FakeMeasurer, sizes: Any = FIXED, records: Records | None = None, points: Any = None, shown: Any = "none",
    stream: Any = None, weights: Any = None, **options: Any,
) -> Tuned:  # fmt: skip
    wanted = Wanted(SUBJECT, Buckets.of(double.pipeline(), sizes, points, weights), Tiles())
    memory = memory_of(records, None)
    given = Options(**{"budget": 1000.0, "threads": 2, "rates": {"f32": 1e9}, **options})
    return run([wanted], given, lambda: measurer, memory, shown, stream, measurer.clock)


def best_of_all(rule: Callable[[Any, str], Any] = cost) -> float:
    return min(f for f in (rule(None, s) for s in (*ALL, DEFAULT)) if not isinstance(f, str))


def test_a_small_space_is_judged_whole_and_the_best_wins():
    m = FakeMeasurer(cost)
    found = tuned(m)
    assert found.stopped == "exhausted"
    assert found.results[0].figure == best_of_all()
    assert found.results[0].default == 1.5e-3
    assert cost(None, str(found.best)) == best_of_all()
    assert found.complete
    assert m.closed == 1


def test_the_default_schedule_is_measured_first_and_nothing_twice():
    m = FakeMeasurer(cost)
    tuned(m)
    ran = [text for kind, _, text in m.log if kind == "run"]
    assert ran[0] == DEFAULT
    assert len(set(ran)) == len(ran) == len({*ALL, DEFAULT})


def test_finals_compare_the_best_few_with_the_default_schedule():
    m = FakeMeasurer(cost)
    found = tuned(m)
    finals = [text for kind, _, text in m.log if kind == "final"]
    assert finals[0] == DEFAULT
    assert 2 <= len(finals) <= 5
    assert str(found.best) in finals
    assert found.results[0].finals


def test_what_is_no_better_beyond_noise_leaves_the_default_schedule():
    def close(task: Task, text: str) -> float:
        return 1.5e-3 if text == DEFAULT else 1.499e-3

    found = tuned(FakeMeasurer(close))
    assert str(found.best) == DEFAULT
    assert found.results[0].gain == 1.0
    noisy = tuned(FakeMeasurer(lambda t, s: 1.5e-3 if s == DEFAULT else 1.45e-3, spread=0.05))
    assert str(noisy.best) == DEFAULT
    calm = tuned(FakeMeasurer(lambda t, s: 1.5e-3 if s == DEFAULT else 1.45e-3, spread=0.005))
    assert str(calm.best) != DEFAULT


def test_of_equal_schedules_the_smallest_hash_wins_whatever_the_seed():
    def two(task: Task, text: str) -> float:
        return 1.5e-3 if text == DEFAULT else 1e-3

    hashes = set()
    for seed in range(3):
        m = FakeMeasurer(two)
        found = tuned(m, seed=seed)
        finalists = [text for kind, _, text in m.log if kind == "final"]
        hashes.add(found.best.hash)
        assert found.best.hash == min(
            p.hash for p in points(Tiles()) if str(p.schedule) in finalists and str(p.schedule) != DEFAULT
        )


def test_the_default_schedule_is_the_answer_where_it_is_the_best():
    found = tuned(FakeMeasurer(lambda t, s: 1e-3 if s == DEFAULT else 2e-3))
    assert str(found.best) == DEFAULT
    assert found.results[0].origin == "default"


def test_all_candidates_may_fail():
    found = tuned(FakeMeasurer(lambda t, s: "crash"))
    r = found.results[0]
    assert str(found.best) == DEFAULT
    assert r.figure is None
    assert r.failed == {"crash": len({*ALL, DEFAULT})}
    assert not found.complete
    assert "nothing could be measured" in str(found)
    assert "crash: it was crash" in str(found)
    json.loads(found.to_json())


def test_failures_are_counted_by_reason_and_survived():
    def some(task: Task, text: str) -> float | str:
        c = cost(task, text)
        return "wrong" if text != DEFAULT and int(c * 1e6) % 3 == 0 else c

    found = tuned(FakeMeasurer(some))
    assert found.results[0].figure == best_of_all(some)
    assert set(found.failed) == {"wrong"}
    assert "failed" in str(found)


def test_time_ends_it_with_finals_inside_the_budget():
    m = FakeMeasurer(cost, seconds=0.25)
    found = tuned(m, budget=4.0)
    assert found.stopped == "time"
    assert m.now <= 4.0
    assert found.results[0].finals
    assert (found.results[0].figure or 1.0) <= 1.5e-3


def test_trials_end_it():
    m = FakeMeasurer(cost)
    found = tuned(m, trials=5)
    assert found.stopped == "trials"
    assert found.tried == 5
    assert sum(kind == "run" for kind, *_ in m.log) == 5


def test_an_interruption_gives_the_best_so_far():
    def stop(n: int) -> None:
        if n == 6:
            raise KeyboardInterrupt

    m = FakeMeasurer(cost, before=stop)
    found = tuned(m)
    assert found.stopped == "interrupted"
    assert not found.complete
    ran = [text for _, _, text in m.log]
    assert len(ran) == 6
    assert cost(None, str(found.best)) == min(cost(None, s) for s in ran)
    assert m.closed == 1
    assert "interrupted" in str(found)


def test_an_error_of_the_measurer_is_told_and_ends_it():
    def broken(n: int) -> None:
        raise RuntimeError("gone")

    m = FakeMeasurer(cost, before=broken)
    with pytest.raises(RuntimeError, match="gone"):
        tuned(m)
    assert m.closed == 1


def test_what_a_space_raises_ends_its_search_and_keeps_what_was_found():
    calls = [0]

    def writes(s: Any, choose: Any) -> None:
        choose("a", tuple(range(50)))
        calls[0] += 1
        s["B"].split("i", "io", "ii", 1 + calls[0])
        if calls[0] > 12:
            raise ZeroDivisionError("oh")

    m = FakeMeasurer(cost)
    p = double.pipeline()
    found = run([Wanted(SUBJECT, Buckets.of(p, FIXED), writes)], Options(budget=1000.0, rates={}), lambda: m, None, "none",
                None, m.clock)  # fmt: skip
    assert found.tried >= 1
    assert found.results[0].figure is not None
    assert "ended with ZeroDivisionError: oh (" in str(found)
    assert __file__ in str(found)
    assert found.stopped == "error"


@pytest.mark.parametrize(("writes", "said"), [
    (lambda s, choose: s["B"].split("nope", "a", "b", 4), "no loop 'nope'"),
    (lambda s, choose: choose("tile", ()), "among no values"),
])  # fmt: skip
def test_a_space_without_schedules_is_told(writes: Any, said: str):
    m = FakeMeasurer(cost)
    found = run([Wanted(SUBJECT, Buckets.of(double.pipeline(), FIXED), writes)], Options(budget=100.0, rates={}),
                lambda: m, None, "none", None, m.clock)  # fmt: skip
    assert found.stopped == "exhausted"
    assert found.results[0].figure is not None
    assert len([n for n in found.notes() if "nothing but the default schedule" in n and said in n]) == 1


def test_notes_say_what_was_short():
    few = tuned(FakeMeasurer(cost), trials=1)
    assert "1 schedule in" in few.title()
    assert [n for n in few.notes() if "few trials" in n]
    assert not [n for n in few.notes() if "time was short" in n]

    def interrupt(n: int) -> None:
        raise KeyboardInterrupt

    none = tuned(FakeMeasurer(cost, before=interrupt))
    (said,) = none.notes()
    assert said.startswith("double at M=64,N=64: ended by an interruption before anything was measured")
    many = tuned(FakeMeasurer(cost, seconds=3.0), RANGE, budget=10.0)
    assert len(many.results) > 10
    assert len([n for n in many.notes() if "before anything was measured" in n]) == 1
    assert len(many.notes()) <= 4


def test_finals_without_time_are_told():
    def late(c: FakeMeasurer) -> Any:
        def slow(n: int) -> None:
            c.now += 40.0 if n == 3 else 0.0

        return slow

    for sizes, said in ((FIXED, "for finals: the best"), (RANGE, "for the finals of some buckets: their best")):
        m = FakeMeasurer(cost)
        m.before = late(m)
        assert said in str(tuned(m, sizes, points=CUT if sizes is RANGE else None, budget=30.0))


def test_what_was_measured_says_where():
    found = tuned(FakeMeasurer(cost), trials=4)
    assert found.machine == "Imagined CPU, 2 threads"
    assert "time on Imagined CPU, 2 threads" in found.title()
    assert "time in mode contract on Imagined CPU, 2 threads" in str(found.frozen())


def test_what_waits_or_was_left_is_not_pruned():
    seen: list[Any] = []
    tuned(FakeMeasurer(cost, model=lambda t, s: cost(t, s)), shown=seen.append)
    assert seen[-1].pruned == 0  # all were judged
    late = tuned(FakeMeasurer(cost, seconds=0.5, model=lambda t, s: cost(t, s)), budget=3.0)
    r = late.results[0]
    assert 0 < r.tried < len(ALL)
    assert r.tried + r.pruned <= len(ALL) + 1


def test_simulated_figures_are_exact_and_need_no_finals():
    m = FakeMeasurer(cost)
    machine = tw.machines.load("toy") if hasattr(tw.machines, "load") else None
    assert machine is None or machine.name == "toy"
    wanted = Wanted(SUBJECT, Buckets.of(double.pipeline(), FIXED), Tiles())
    found = run([wanted], Options(budget=1000.0, objective="cycles", machine="toy", named="toy"), lambda: m,
                shown="none", clock=m.clock)  # fmt: skip
    assert found.unit == "cycles"
    assert found.results[0].figure == best_of_all()
    assert not [kind for kind, *_ in m.log if kind == "final"]


# Prediction -------------------------------------------------------------------------------------------------------


def test_a_good_prediction_finds_the_best_sooner():
    def at(model: Any) -> int:
        m = FakeMeasurer(cost, model=model)
        tuned(m, trials=8, strategy="random")
        ran = [cost(None, text) for kind, _, text in m.log if kind == "run"]
        return min(ran) == best_of_all()

    assert at(cost)
    m = FakeMeasurer(cost, model=cost)
    found = tuned(m, trials=8, strategy="random")
    assert found.results[0].pruned > 0
    assert sum(s.predicted is not None for s in found.results[0].steps) >= 6  # but the first ones


# Buckets ----------------------------------------------------------------------------------------------------------

RANGE = {"M": (1, 64), "N": 64}
CUT = {"M": [1, 8, 64]}


def test_every_bucket_has_its_turn_and_a_result():
    m = FakeMeasurer(cost)
    found = tuned(m, RANGE, points=CUT)
    assert [r.bucket for r in found.results] == ["M=1,N=64", "M=2..8,N=64", "M=9..64,N=64"]
    assert all(r.figure == best_of_all() for r in found.results)
    assert set(found.schedules) == {r.bucket for r in found.results}
    with pytest.raises(tw.TilewrightError, match="no one schedule"):
        _ = found.best


def test_neighbours_begin_with_what_was_best():
    m = FakeMeasurer(cost)
    tuned(m, RANGE, points=CUT, trials=60)
    first: dict[str, list[str]] = {}
    for kind, at, text in m.log:
        if kind == "run":
            first.setdefault(at, []).append(text)
    *_, third = first.values()
    seen_best = min((cost(None, s), s) for s in next(iter(first.values())))[1]
    assert third[0] == DEFAULT
    assert seen_best in third[:4]


def test_finals_compare_what_neighbours_have_found():
    m = FakeMeasurer(cost)
    found = tuned(m, RANGE, points=CUT, trials=15)
    best = min((cost(None, text), text) for kind, _, text in m.log if kind == "run")[1]
    finals = {(at, text) for kind, at, text in m.log if kind == "final"}
    for r in found.results:
        assert (f"M={r.sizes['M']},N=64", best) in finals
        assert str(r.schedule) == best


def test_more_weight_is_more_time():
    # each bucket improves all the time at the same pace; one is called nine times as often
    m = FakeMeasurer(cost, seconds=1.0)
    found = tuned(m, RANGE, points={"M": [32, 64]}, weights={"M": {32: 90, 64: 10}}, budget=40.0)
    often, seldom = found.results
    assert often.weight == pytest.approx(0.9)
    assert often.tried > seldom.tried


def wide(task: Task, text: str) -> float:
    """Small sizes want eight rows in a tile, large ones a single row: by a factor of two."""
    rows = int(text.rsplit("by ", 1)[1].split()[0]) if "tile" in text else 4
    small = task.sizes["M"] <= 20
    return 1e-3 * (1 + (rows != 8 if small else rows != 1)) + 1e-7 * len(text)


def test_buckets_are_split_where_one_schedule_costs_too_much():
    m = FakeMeasurer(wide)
    found = tuned(m, RANGE, points={"M": [8, 64]})
    assert [r.bucket for r in found.results] == ["M=1..8,N=64", "M=9..24,N=64", "M=25..64,N=64"]
    assert "by 8" in str(found.results[0].schedule)
    assert "by 1 " in str(found.results[2].schedule)
    regret = found.regrets["double"]
    assert regret.buckets["M=9..64,N=64"] == pytest.approx(1.0, rel=0.01)
    assert "M=9..64,N=64 was split" in str(found)
    # at 9 rows, in the half that was tuned at 24, the other one is still better
    assert "regret is 18.8 % (worst 99.1 %)" in str(found)
    assert "with these changes the regret is 12.2 % (worst 99.1 %)" in str(found)
    assert "regret" in str(found)
    json.loads(found.to_json())


def test_there_is_no_regret_where_the_best_is_the_best_everywhere():
    found = tuned(FakeMeasurer(cost), RANGE, points=CUT)
    regret = found.regrets["double"]
    assert not regret.to_split()
    assert len(found.results) == 3


def test_what_was_tuned_is_a_kernel_and_a_file(tmp_path):
    import numpy as np

    found = tuned(FakeMeasurer(wide), RANGE, points={"M": [8, 64]})
    kernel = found.kernel()
    for rows in (1, 7, 8, 20, 37, 64, 100):
        a = np.random.default_rng(rows).standard_normal((rows, 64), dtype=np.float32)
        assert np.array_equal(kernel(a), a * 2)
    found.save(tmp_path / "double.tw")
    from tilewright.autotune.frozen import check, read_frozen

    assert check(read_frozen(tmp_path / "double.tw")).ok
    text = (tmp_path / "double.tw").read_text()
    for r in found.results:
        assert r.bucket in text
    again = tw.dispatch(double, tmp_path / "double.tw")
    assert np.array_equal(again(a), a * 2)


def test_one_order_of_reductions():
    M, N = tw.sizes("M N")

    @tw.kernel
    def total(A: tw.f32[M, N]):
        i = tw.vars("i")
        k = tw.rdom(k=N)
        S = tw.func("S")
        S[i] = 0.0
        S[i] += A[i, k]
        return S[:M]

    def lanes(s: Any, choose: Any) -> None:
        width = choose("lanes", (0, 4, 8))
        if width:
            s["S.update"].vectorize("k", width)
        s["S.update"].parallel("i") if choose("parallel", (False, True)) else None

    def found(order: str) -> set[str]:
        m = FakeMeasurer(lambda t, s: 1e-3 + 1e-6 * len(s))
        p = total.pipeline()
        wanted = Wanted(Subject("total", p), Buckets.of(p, {"M": 64, "N": 64}), lanes)
        run([wanted], Options(budget=1000.0, order=order, rates={}), lambda: m, None, "none", None, m.clock)
        return {text for _, _, text in m.log}

    free, fixed = found("free"), found("fixed")
    assert fixed < free
    from tilewright.autotune.order import pinned, reduction_order

    p = total.pipeline()
    assert all(reduction_order(tw.parse_schedule(s, p)) == pinned(p) for s in fixed)


# Records ----------------------------------------------------------------------------------------------------------


def test_what_was_judged_is_not_judged_again():
    records = Records(None)
    first = FakeMeasurer(cost)
    one = tuned(first, records=records, trials=6)
    assert one.tried == 6
    second = FakeMeasurer(cost)
    two = tuned(second, records=records)
    ran = [{text for kind, _, text in m.log if kind == "run"} for m in (first, second)]
    assert not ran[0] & ran[1]
    assert ran[0] | ran[1] == {*ALL, DEFAULT}
    assert two.results[0].figure == best_of_all()
    assert two.results[0].reused == 6
    third = FakeMeasurer(cost)
    three = tuned(third, records=records)
    assert not [kind for kind, *_ in third.log if kind == "run"]
    assert three.results[0].figure == best_of_all()
    assert three.best == two.best


def test_failures_are_remembered_too():
    records = Records(None)
    tuned(FakeMeasurer(lambda t, s: cost(t, s) if s == DEFAULT else "crash"), records=records)
    again = FakeMeasurer(cost)
    found = tuned(again, records=records)
    assert not [kind for kind, *_ in again.log if kind == "run"]
    assert str(found.best) == DEFAULT


def test_a_run_that_was_killed_goes_on_where_it_was():
    records = Records(None)

    class Killed(BaseException):
        pass

    def kill(n: int) -> None:
        if n == 4:
            raise Killed

    first = FakeMeasurer(cost, before=kill)
    with pytest.raises(Killed):
        tuned(first, records=records)
    second = FakeMeasurer(cost)
    tuned(second, records=records)
    ran = [[text for kind, _, text in m.log if kind == "run"] for m in (first, second)]
    assert len(ran[0]) == 4
    assert not {*ran[0]} & {*ran[1]}


def test_the_winner_is_what_records_give():
    records = Records(None)
    m = FakeMeasurer(cost)
    found = tuned(m, records=records)
    used = [r for r in records.list(kernel="double") if r.stage == "chosen"]
    assert [r.schedule for r in used] == [str(found.best)]
    assert used[0].figure == best_of_all()


def test_other_sizes_begin_with_records():
    records = Records(None)
    tuned(FakeMeasurer(cost), records=records)
    m = FakeMeasurer(cost)
    found = tuned(m, {"M": 128, "N": 64}, records=records, trials=6)
    ran = [text for kind, _, text in m.log if kind == "run"]
    best = min((cost(None, s), s) for s in ALL)[1]
    assert best in ran[:3]
    assert found.results[0].figure == best_of_all()
    assert found.results[0].reused == 0


# What is shown ----------------------------------------------------------------------------------------------------


def test_lines_say_how_it_goes():
    out = io.StringIO()
    tuned(FakeMeasurer(cost), shown="lines", stream=out, trials=8)
    lines = out.getvalue().splitlines()
    assert "starting" in lines[0]
    assert "double" in lines[0]
    assert any("searching" in text and "tried" in text and "s left" in text for text in lines)
    assert "left" not in lines[-1]
    assert "done" in lines[-1]
    assert all(len(text) < 160 for text in lines)


def test_a_function_gets_snapshots():
    seen = []
    tuned(FakeMeasurer(cost), shown=seen.append, trials=4)
    assert [s.phase for s in (seen[0], seen[-1])] == ["starting", "done"]
    assert [s.tried for s in seen] == sorted(s.tried for s in seen)
    best = [s.jobs[0].best for s in seen if s.jobs[0].best is not None]
    assert best == sorted(best, reverse=True)


def test_the_live_display_shows_each_bucket():
    from rich.console import Console

    from tilewright.autotune.progress import display

    seen = []
    tuned(
        FakeMeasurer(lambda t, s: "wrong" if cost(t, s) > 1.6e-3 else cost(t, s)), RANGE, points=CUT, shown=seen.append
    )
    console = Console(file=io.StringIO(), width=130, height=30, force_terminal=False)
    console.print(display(seen[-1], console))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("M=2..8,N=64", "1.5 ms", "done", "tried", "wrong"):
        assert part in text


@pytest.mark.parametrize("width", [50, 60, 80, 100, 130])
def test_the_live_display_cuts_no_figure(width: int):
    from rich.console import Console

    from tilewright.autotune.progress import display

    seen = []
    tuned(
        FakeMeasurer(lambda t, s: "wrong" if cost(t, s) > 1.6e-3 else cost(t, s)), RANGE, points=CUT, shown=seen.append
    )
    console = Console(file=io.StringIO(), width=width, height=30, force_terminal=False)
    console.print(display(seen[-1], console))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\u2026" not in text
    for part in ("M=2..8,N=64", "best", "gain", " ms", " x1."):
        assert part in text
    assert (width < 100) or all(part in text for part in ("default", "of possible", "pruned", "failed", "from"))


@pytest.mark.parametrize(("options", "code"), [
    ({"budget": 0}, "tune.option"), ({"budget": float("nan")}, "tune.option"), ({"trials": 0}, "tune.option"),
    ({"seed": -1}, "tune.option"), ({"order": "any"}, "tune.option"), ({"strategy": "magic"}, "tune.strategy"),
    ({"objective": "beauty"}, "tune.option"),
])  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any], code: str):
    with pytest.raises(tw.TilewrightError) as e:
        tuned(FakeMeasurer(cost), **options)
    assert e.value.code == code
    assert e.value.hint


def test_pictures_are_drawn(tmp_path):
    found = tuned(FakeMeasurer(cost, model=cost))
    several = tuned(FakeMeasurer(lambda t, s: "crash"), RANGE, points=CUT)
    for name, t in (("one.png", found), ("several.svg", several)):
        t.picture(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    with pytest.raises(tw.TilewrightError, match="no picture"):
        found.picture(tmp_path / "x.txt")
