"""Generated spaces beyond products: loops of pure stages, reductions, scans and scatters, and where Funcs are computed."""

from __future__ import annotations

import importlib
import random

import pytest

import tilewright as tw
from tests.autotune.pipelines import outcome, point_trial, random_trial
from tests.fuzz.random_pipelines import Case
from tilewright.autotune import space
from tilewright.autotune.generate import GeneratedSpace
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule

H, W = tw.sizes("H W")


def example(name: str) -> Pipeline:
    return getattr(importlib.import_module(f"examples.{name}"), name).pipeline()


def made(p: Pipeline, n: int = 512, order: str = "free", **values: space.Value) -> Schedule:
    """The schedule of these choices (`a_b` for the choice `a.b`), where nothing else is said the usual one."""
    named = {k.replace("__", "."): v for k, v in values.items()}
    found = space.draw(GeneratedSpace(p, dict.fromkeys(p.sizes, n), order=order), space.by_name(named))
    assert found is not None
    assert {k: found.values.get(k) for k in named} == named
    return found.schedule


@tw.kernel
def chain(picture: tw.f32[H, W]):
    """Ten steps, each of which reads three rows of the one before."""
    y, x = tw.vars("y x")
    before = tw.repeat_edge(picture)
    for k in range(10):
        f = tw.func(f"f{k}")
        f[y, x] = before[y - 1, x] + before[y, x - 1] * 2.0 + before[y + 1, x + 1]
        before = f
    return before[:H, :W]


@tw.kernel
def columns(a: tw.f32[H, W]):
    x = tw.vars("x")
    k = tw.rdom(k=H)
    total = tw.func("total")
    total[x] = tw.sum(a[k, x], over=k, name="sums") * 2.0
    return total[:W]


# What the spaces hold ---------------------------------------------------------------------------------------------


def test_sums_of_a_blur_stay_in_registers():
    s = made(example("blur"), 2000, whole="groups", across__inline=False, across__root=False, across__at="column")
    assert "compute_at across at blurred.x" in str(s)
    assert "store_in across in reg" in str(s)
    assert "tail round_up" not in str(s).split("blurred:")[0]
    s.check()


def test_a_window_keeps_the_rows_that_are_in_use():
    """Of five rows of brightness eight are kept, of three of slopes four: the next powers of two."""
    p = example("harris")
    text = str(made(p, 1000, whole="groups", grey__at="window", across__at="window", down__at="window"))
    assert "store_at grey at corners.y_s" in text
    assert "fold_storage grey over y by 8" in text
    assert "fold_storage across over y by 4" in text


def test_buffers_of_a_row_are_allocated_once_a_strip():
    text = str(
        made(example("softmax"), 1024, whole="groups", Y__strip=16, E__at="row", total__at="row", largest__at="row")
    )
    assert "hoist_storage E at Y.i_s" in text
    assert "hoist_storage largest" not in text


def test_of_a_long_pipeline_the_same_is_chosen_for_all():
    p = chain.pipeline()
    found = space.sample(GeneratedSpace(p, {"H": 1000, "W": 1000}), random.Random(3))
    assert found is not None
    assert len(found.trace) < 30
    s = made(p, 1000, whole="groups", groups__stages=4, f8__at="strip")
    roots = [f for f in p.funcs if f"compute_root {f.name}\n" in f"{s}\n"]
    assert len(roots) == 2
    s.check()


def test_a_histogram_has_partial_results_that_take_turns():
    text = str(made(example("histogram"), 1000, count__form="partials", count__turns=8, count__strip=64))
    assert "parallel y_s" in text
    assert "unroll x_t" in text


def test_choices_are_tied_to_sizes():
    """No strips, tiles or vectors beyond what there is."""
    for n in (1, 3, 20):
        p = example("blur")
        for seed in range(5):
            found = space.sample(GeneratedSpace(p, dict.fromkeys(p.sizes, n)), random.Random(seed))
            assert found is not None
            assert found.values.get("blurred.strip", 1) in range(n + 1)
            assert found.values.get("blurred.tile", 0) in (0, None)


def test_orders_of_sums_are_left_alone_where_they_are_fixed():
    p = columns.pipeline()
    made = GeneratedSpace(p, {"H": 1000, "W": 1000}, order="fixed")
    names = {n for seed in range(20) for n in (space.sample(made, random.Random(seed)) or pytest.fail()).values}
    assert not any(n.endswith((".block", ".pairwise")) for n in names)


# What holds of every point ----------------------------------------------------------------------------------------

SIZES = (0, 1, 2, 5, 16, 17, 33, 67)


@pytest.mark.parametrize("name", ["blur", "histogram", "prefix_sum", "transpose", "unsharp", "argmax"])
def test_points_of_programs_are_right_at_awkward_sizes(name):
    p = example(name)
    exact = all(a.dtype.name[0] in "ui" for a in p.arrays) and all(not o.dtype.is_float for o in p.outputs)
    for seed in range(2):
        choose = random.Random(f"{name}{seed}").randrange
        data = "integers" if exact else ("exact", "contract")[choose(2)]
        t = point_trial(Case(p, {}, exact, {}), seed, data, dict.fromkeys(p.sizes, (64, 500, 2000)[choose(3)]))
        assert t is not None
        outcome(t, choose, {n: SIZES[choose(len(SIZES))] for n in p.sizes})


@pytest.mark.parametrize(
    ("kernel", "seed"), [(chain, 1), (columns, 0), (columns, 1)], ids=["chain", "sums", "more sums"]
)
def test_points_of_chains_and_sums_are_right(kernel, seed):
    choose = random.Random(seed).randrange
    t = point_trial(Case(kernel.pipeline(), {}, False, {}), seed, "contract", {"H": 300, "W": 300})
    assert t is not None
    outcome(t, choose, {n: SIZES[choose(len(SIZES))] for n in ("H", "W")})


@pytest.mark.parametrize("seed", range(7000, 7008))
def test_points_of_random_pipelines_are_right(seed):
    t = random_trial(seed, 3)
    if t is not None:
        outcome(t, random.Random(seed).randrange)
