"""Spaces for simulated machines: what they contain, that its points are right, and how good they are by their accounts."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import tilewright as tw
from examples.snitch_matmul import expert, snitch_matmul
from tilewright.autotune.generate import GeneratedSpace
from tilewright.autotune.model.predict import Model
from tilewright.autotune.search import strategy
from tilewright.autotune.space import at_random, by_name, draw, usual
from tilewright.codegen.accounts.prepared import registers_of
from tilewright.hw import CapacityError, load_machine
from tilewright.hw.machine import machine_text
from tilewright.planner.worst import most
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule
from tilewright.testing import assert_bitwise

M, N, K, H, W = tw.sizes("M N K H W")


@tw.kernel
def softmax(X: tw.f32[M, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    most, total, out = tw.func("most"), tw.func("total"), tw.func("out")
    most[i] = -math.inf
    most[i] = tw.maximum(most[i], X[i, k])
    total[i] = 0.0
    total[i] += tw.exp(X[i, k] - most[i])
    out[i, j] = tw.exp(X[i, j] - most[i]) / total[i]
    return out[:M, :N]


@tw.kernel
def smooth(X: tw.i32[H, W]):
    y, x = tw.vars("y x")
    inside = tw.repeat_edge(X)
    across, down = tw.func("across"), tw.func("down")
    across[y, x] = inside[y, x - 1] + inside[y, x + 1]
    down[y, x] = across[y - 1, x] + across[y + 1, x]
    return down[:H, :W]


CASES = {
    "matmul": (snitch_matmul, {"M": 20, "N": 18, "K": 37}),
    "softmax": (softmax, {"M": 9, "N": 70}),
    "smooth": (smooth, {"H": 19, "W": 45}),
}


def space(name, machine="snitch-cluster", **sizes):
    kernel, usual_sizes = CASES[name]
    return GeneratedSpace(kernel.pipeline(), sizes or usual_sizes, machine=machine)


def tiles(rng):
    """Choices at random, in tiles."""
    return lambda name, choices: "tiles" if name == "form" else rng.choice(choices)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("machine", ["snitch-cluster", "zen3"])
def test_the_usual_point_is_the_default_schedule(name, machine):
    p = draw(space(name, machine), usual)
    on = load_machine(machine)
    assert p is not None
    assert p.schedule == complete(Schedule(CASES[name][0].pipeline(), on), registers=registers_of(on))
    assert p.schedule.machine is not None and p.schedule.machine.name == machine


def test_a_machine_by_name_as_such_and_by_its_text():
    on = load_machine("toy")
    found = [draw(space("matmul", m), by_name({"form": "tiles"})) for m in ("toy", on, machine_text(on))]
    assert len({p.hash for p in found if p is not None}) == 1 and None not in found


@pytest.mark.parametrize(
    ("name", "machine"), [*((n, "snitch-cluster") for n in CASES), ("matmul", "toy"), ("smooth", "ethos-u55")]
)
def test_points_compute_what_they_should(name, machine):
    kernel, sizes = CASES[name]
    rng = np.random.default_rng(0)
    arrays = kernel.pipeline().arrays
    inputs = [rng.integers(-4, 5, [sizes[e.attr] for e in a.extents]).astype(a.dtype.np) for a in arrays]
    wanted = kernel.reference(*inputs)
    made = [draw(space(name, machine), tiles(random.Random(seed))) for seed in range(2)]
    assert any(p is not None for p in made)
    for p in made:
        if p is not None:
            found = kernel.compile(p.schedule)(*inputs)
            if name == "softmax":
                np.testing.assert_allclose(found, wanted, rtol=1e-5)
            else:
                assert_bitwise(found, wanted)


def test_everything_that_the_hand_made_schedule_does_is_in_the_space():
    """As docs/snitch.md has it: tiles of 64 x 64, 32 of k, copies ahead, sums where they are."""
    sizes = {"M": 256, "N": 256, "K": 256}
    chosen = {
        "form": "tiles", "left in main memory": "", "tile i": 64, "tile j": 64, "tile C.k": 32, "order": "i j",
        "ahead": True, "A_C.ahead": True, "B_C.ahead": True, "C.behind": False, "C.update.registers": (4, 4),
        "C.update.shared": "i_o", "C.update.sums": "where they are",
    }  # fmt: skip
    p = draw(space("matmul", **sizes), by_name(chosen))
    assert p is not None and {n: v for n, v in p.values.items() if n in chosen} == chosen
    mine, hand_made = (snitch_matmul.account(s, sizes=sizes) for s in (p.schedule, expert()))
    assert mine.time.cycles <= hand_made.time.cycles == 1_063_168
    better = draw(space("matmul", **sizes), by_name({**chosen, "C.behind": True}))
    assert better is not None and snitch_matmul.account(better.schedule, sizes=sizes).time.cycles < mine.time.cycles


def test_a_search_by_accounts_finds_copies_that_run_ahead():
    sizes = {"M": 64, "N": 64, "K": 64}
    s = space("matmul", **sizes)
    search = strategy("evolution", s, seeds=s.starts())
    for p in search.ask(6):
        search.tell(p, cycles(p, sizes))
    best, p = search.ranked[0]
    assert best <= 1.02 * snitch_matmul.account(expert(), sizes=sizes).time.cycles
    assert "double_buffer" in str(p.schedule)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(3))
def test_a_search_beats_the_hand_made_product(seed):
    """At the size of docs/snitch.md, without the planner's help."""
    sizes = {"M": 256, "N": 256, "K": 256}
    search = strategy("evolution", space("matmul", **sizes), seed, lambda points: [cycles(p, sizes) for p in points])
    for _ in range(10):
        for p in search.ask(4):
            search.tell(p, cycles(p, sizes))
    assert search.ranked[0][0] <= 1_063_168


def cycles(p, sizes):
    try:
        return snitch_matmul.account(p.schedule, sizes=sizes).time.cycles
    except CapacityError:
        return math.inf


def test_choices_keep_to_what_fits():
    """Of the tiles that are offered few are too large: those that the estimate takes to be smaller than they are."""
    sizes = {"M": 512, "N": 512, "K": 512}
    s, rng, large = space("matmul", **sizes), random.Random(0), 0
    for _ in range(12):
        p = draw(s, tiles(rng))
        assert p is not None
        large += cycles(p, sizes) == math.inf
    assert large <= 1


def test_at_random_the_form_is_a_choice():
    found = {draw(space("smooth"), at_random(random.Random(k))).values["form"] for k in range(8)}  # type: ignore[union-attr]
    assert found <= {"usual", "tiles", "planned"} and "tiles" in found


def test_where_there_are_caches_too_tiles_may_lie_in_them():
    forms = []
    s = space("matmul", "hexagon-vtcm", M=256, N=256, K=256)
    p = draw(s, lambda n, c: forms.append(c) or "in caches" if n == "form" else c[-1])
    assert forms[0] == ("usual", "tiles", "planned", "in caches")
    assert p is not None and "in vtcm" not in str(p.schedule) and len(p.trace) > 2
    assert p.schedule.machine is not None and p.schedule.machine.name == "hexagon-vtcm"


def test_what_a_single_pass_repairs_counts_as_the_most_that_it_may_be():
    kernel, sizes = CASES["softmax"]
    p = draw(space("softmax"), by_name({"form": "tiles", "one pass": True, "tile blocks": 16}))
    assert p is not None and "online" in str(p.schedule)
    found = Model(kernel.pipeline(), sizes, "snitch-cluster", objective="cycles").predict(p.schedule)
    assert found.cost is not None and math.isfinite(found.cost)
    assert found.cost == most(p.schedule, load_machine("snitch-cluster"), sizes).time.cycles


def test_points_of_a_tile_may_lie_on_an_array_of_elements():
    sizes = {"M": 20, "N": 18, "K": 37}
    chosen = {"form": "tiles", "C.update.sums": "where they are"}
    lanes, array = (
        draw(space("matmul", "toy", **sizes), by_name({**chosen, "C.update.side by side": on}))
        for on in ("lanes", "array")
    )
    assert lanes is not None and array is not None
    assert "spatial j_e on y" in str(array.schedule) and "spatial" not in str(lanes.schedule)
    read = [snitch_matmul.account(p.schedule, sizes=sizes).of("spm").bytes_read for p in (array, lanes)]
    assert read[0] < read[1]  # what several elements want at once is read once
    a, b = (np.ones(shape, np.float32) for shape in ((20, 37), (37, 18)))
    assert_bitwise(snitch_matmul.compile(array.schedule)(a, b), np.full((20, 18), 37, np.float32))


# Units ------------------------------------------------------------------------------------------------------------


@tw.kernel
def bytes_product(A: tw.i8[M, K], B: tw.i8[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0
    C[i, j] += tw.cast(tw.i32, A[i, k]) * tw.cast(tw.i32, B[k, j])
    return C[:M, :N]


@tw.kernel
def rows_filtered(X: tw.i8[H + 2, W], F: tw.i8[3, W, N]):
    """A filter of three rows that mixes channels: which row of a filter it is stands outside of a unit's block."""
    y, n = tw.vars("y n")
    r = tw.rdom(dy=3, c=W)
    out = tw.func("out")
    out[y, n] = 0
    out[y, n] += tw.cast(tw.i32, X[y + r.dy, r.c]) * tw.cast(tw.i32, F[r.dy, r.c, n])
    return out[:H, :N]


@pytest.mark.parametrize("machine", ["vta", "tpu-v1"])
def test_products_of_bytes_run_on_units(machine):
    sizes = {"M": 64, "N": 64, "K": 128}
    s = GeneratedSpace(bytes_product.pipeline(), sizes, machine=machine)
    found = {p.values["form"]: bytes_product.account(p.schedule, sizes=sizes).time.cycles
             for p in s.starts() if p.values["form"] != "usual"}  # fmt: skip
    on_unit = {form for form in found if "for C" in form}
    assert min(found[f] for f in on_unit) < 0.2 * min(found[f] for f in found.keys() - on_unit)
    assert draw(s, by_name({"form": "gemm for C, turned" if machine == "vta" else "matmul for C"})) is not None


@pytest.mark.parametrize(("kernel", "shapes"), [
    (bytes_product, ({"M": 5, "N": 33, "K": 40}, (5, 40), (40, 33))),
    (rows_filtered, ({"H": 7, "W": 35, "N": 18}, (9, 35), (3, 35, 18))),
])  # fmt: skip
def test_units_compute_what_they_should(kernel, shapes):
    sizes, *own = shapes
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, s).astype(np.int8) for s in own]
    wanted = kernel.reference(*inputs)
    s = GeneratedSpace(kernel.pipeline(), sizes, machine="vta")
    name = kernel.pipeline().funcs[-1].name
    for seed, form in enumerate((f"gemm for {name}", f"gemm for {name}, turned", f"gemm for {name}")):
        choice = random.Random(seed)
        p = draw(s, lambda n, c, form=form, choice=choice: form if n == "form" else choice.choice(c))
        assert p is not None
        assert "tensorize" in str(p.schedule)
        assert_bitwise(kernel.compile(p.schedule)(*inputs), wanted)


def test_floats_do_not_run_on_units_of_bytes():
    s = space("matmul", "vta")
    forms = []
    draw(s, lambda n, c: forms.append(c) or c[0])
    assert forms[0] == ("usual", "tiles", "planned")
