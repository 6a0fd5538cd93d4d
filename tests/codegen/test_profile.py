"""`fast.profile()`: stages, how often each is entered, times that add up, and values that a clock does not change."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen import loops as L
from tilewright.codegen import profile as P
from tilewright.codegen import runtime, target
from tilewright.codegen.dump import dump
from tilewright.codegen.emit import clock_layout, emit
from tilewright.codegen.jit import load
from tilewright.codegen.profile import Profile, StageTime
from tilewright.codegen.timed import ELSE, timed
from tilewright.lang.errors import ArgumentError, CompileError
from tilewright.schedule.registers import host_registers

M, N = tw.sizes("M N")
LANES = host_registers().width // 4
SHORT = 0.002  # seconds

pytestmark = pytest.mark.skipif(not target.host().triple.startswith("x86_64"), reason="it reads the clock of x86-64")


@tw.kernel
def blur(a: tw.f32[M, N]):
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(a)
    across, down = tw.func("across"), tw.func("down")
    across[i, j] = edge[i, j - 1] + edge[i, j] + edge[i, j + 1]
    down[i, j] = across[i - 1, j] + across[i, j] + across[i + 1, j]
    return down[:M, :N]


def by_stages():
    s = blur.schedule()
    s["across"].compute_root().vectorize("j", LANES)
    s["down"].vectorize("j", LANES)
    return s


def in_tiles():
    s = blur.schedule()
    s["down"].tile("i", "j", "io", "jo", "ii", "ji", 8, 2 * LANES).parallel("io").vectorize("ji", LANES)
    s["across"].compute_at("down.jo").vectorize("j", LANES)
    return s


def by_rows():
    s = blur.schedule()
    s["down"].parallel("i").vectorize("j", LANES)
    s["across"].compute_at("down.i")
    return s


def sliding():
    s = blur.schedule()
    s["across"].store_root().compute_at("down.i").vectorize("j", LANES)
    s["down"].vectorize("j", LANES)
    return s


def specialized():
    s = by_rows()
    s["down"].specialize("M > 20", "large")
    return s


@functools.cache
def compiled(schedule):
    return blur.compile(schedule())


def tiles(m, n):
    return math.ceil(m / 8) * math.ceil(n / (2 * LANES))


# how often each stage is entered, by the sizes
BLURS: dict[Callable, Callable[[int, int], dict[str, int]]] = {
    by_stages: lambda m, n: {"across": 1, "down": 1},
    in_tiles: lambda m, n: {"across": tiles(m, n), "down": 1},
    by_rows: lambda m, n: {"across": m, "down": 1},
    sliding: lambda m, n: {"across": m, "down": 1},
}


def entries(p: Profile) -> dict[str, int]:
    return {s.stage: s.entries for s in p.stages if s.entries}


def sound(p: Profile) -> None:
    """What holds of every profile."""
    assert all(s.seconds >= 0 for s in p.stages) and p.runs >= 3 and p.plain > 0 and p.clock >= 0
    assert p.seconds == sum(s.seconds for s in p.stages) > 0
    assert p.stages[-1].stage == ELSE and p.stages[-1].entries == 1
    assert not set(p.inside) & {s.stage for s in p.stages}


def picture(m, n):
    return np.random.default_rng(m + n).standard_normal((m, n), np.float32)


@pytest.mark.parametrize(("m", "n"), [(64, 8 * LANES), (29, 6 * LANES + 3), (7, 1)])
@pytest.mark.parametrize("schedule", BLURS, ids=lambda f: f.__name__)
def test_entries_are_exact_and_values_the_same(schedule, m, n) -> None:
    fast, a = compiled(schedule), picture(m, n)
    out = np.empty_like(a)
    found = fast.profile(a, out=out, seconds=SHORT)
    sound(found)
    assert entries(found) == {**BLURS[schedule](m, n), ELSE: 1}
    assert out.tobytes() == fast(a).tobytes()


@pytest.mark.parametrize("m", [20, 21])
def test_forms_of_a_stage_are_stages(m) -> None:
    found = compiled(specialized).profile(picture(m, 3 * LANES), seconds=SHORT)
    sound(found)
    assert entries(found) == {
        **({"across_large": m, "down{large}": 1} if m > 20 else {"across": m, "down": 1}),
        ELSE: 1,
    }


@tw.kernel
def softmax(x: tw.f32[M, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    e, y = tw.func("e"), tw.func("y")
    largest = tw.max(x[i, k], over=k, name="largest")
    e[i, j] = tw.exp(x[i, j] - largest)
    y[i, j] = e[i, j] / tw.sum(e[i, k], over=k, name="total")
    return y[:M, :N]


def test_stages_inside_of_stages() -> None:
    s = softmax.schedule()
    s["y"].parallel("i").vectorize("j", LANES)
    for stage in ("total", "e", "largest"):
        s[stage].compute_at("y.i")
    s["e"].vectorize("j", LANES)
    s["total.update"].reorder("k")
    s["largest.update"].reorder("k")
    fast, a = softmax.compile(s), picture(11, 37)
    found = fast.profile(a, seconds=SHORT)
    sound(found)
    assert entries(found) == {"largest.update": 11, "e": 11, "total.update": 11, "y": 1, ELSE: 1}


@tw.kernel
def norm(x: tw.f32[M, N]):
    i = tw.vars("i")
    k = tw.rdom(k=N)
    m, t = tw.func("m", tw.f32), tw.func("t", tw.f32)
    m[i] = -np.inf
    m[i] = tw.maximum(m[i], x[i, k])
    t[i] = 0.0
    t[i] += tw.exp(x[i, k] - m[i])
    return m[:M], t[:M]


def test_online_reductions() -> None:
    s = norm.schedule()
    s.online(("m", "t"), "k", 8)
    fast, a = norm.compile(s), picture(9, 70)
    outs = np.empty(9, np.float32), np.empty(9, np.float32)
    found = fast.profile(a, out=outs, seconds=SHORT)
    sound(found)
    for x, y in zip(outs, fast(a), strict=True):
        assert x.tobytes() == y.tobytes()


def test_functions_of_the_user() -> None:
    @tw.extern_stage
    def doubled(out, a):
        out[...] = a * 2

    @tw.kernel
    def around(a: tw.f32[M, N]):
        i, j = tw.vars("i j")
        wide, twice, out = tw.func("wide"), tw.func("twice", tw.f32), tw.func("out")
        wide[i, j] = a[i, j] + 1
        twice[i, j] = doubled(wide.box[i, j])
        out[i, j] = twice[i, j] - wide[i, j]
        return out[:M, :N]

    s = around.schedule()
    s["out"].split("i", "io", "ii", 4).parallel("io").vectorize("j", LANES)
    s["twice"].compute_at("out.io")
    s["wide"].compute_at("out.io").vectorize("j", LANES)
    fast, a = around.compile(s), picture(10, 40)
    out = np.empty_like(a)
    found = fast.profile(a, out=out, seconds=SHORT)
    sound(found)
    assert entries(found) == {"wide": 3, "twice": 3, "out": 1, ELSE: 1}
    assert (out == a + 1).all()


# Exclusive times ------------------------------------------------------------------------------------------------

TICKING = """
@ticks = internal global i64 1000
define internal i64 @tick() noinline {
  %old = load i64, ptr @ticks
  %new = add i64 %old, 1
  store i64 %new, ptr @ticks
  ret i64 %new
}
"""


@pytest.mark.parametrize("schedule", BLURS, ids=lambda f: f.__name__)
def test_what_passes_goes_to_whom_it_passes_in(schedule) -> None:
    """With a clock that moves on by one whenever it is read, the time of a stage is how often it is read inside of it."""
    m, n = 29, 3 * LANES + 1
    fast, a = compiled(schedule), picture(m, n)
    program = timed(fast._built.lowered.program)
    layout = clock_layout(program)
    text = emit(program).replace("declare i64 @llvm.readcyclecounter()", TICKING)
    text = text.replace("call i64 @llvm.readcyclecounter()", "call i64 @tick()")
    library = load(target.optimize_and_emit(text), (program.symbol,))
    clock = np.zeros(len(layout), np.int64)
    ready = fast._ready((a,), None, None, {})
    assert (
        replace(ready, kernel=library.address(program.symbol), arrays=[*ready.arrays, clock]).run(runtime.context(1))
        == 0
    )
    assert ready.result.tobytes() == fast(a).tobytes()
    found = {k: int(clock[i]) for k, i in layout.items()}
    n_in = {s: sum(v for k, v in found.items() if k[0] == "entries" and k[1] == s) for s in ("across", "down", ELSE)}
    n_from = {s: sum(v for k, v in found.items() if k[0] == "entries" and k[2] == s) for s in n_in}
    assert {**n_in, ELSE: 1} == {**BLURS[schedule](m, n), ELSE: 1}
    assert {s: found[("cycles", s)] for s in n_in} == {s: n_in[s] + 2 * n_from[s] - n_from[s] for s in n_in}
    assert found[("reading",)] == 1000 + 2 * sum(n_in.values())


# What is timed --------------------------------------------------------------------------------------------------


def without_sections(s: L.Stmt) -> L.Stmt:
    match s:
        case L.Section(L.TIMED, _, body):
            return without_sections(body)
        case L.Block(statements):
            return L.block(*map(without_sections, statements))
        case L.If(then=then, otherwise=otherwise):
            no = None if otherwise is None else without_sections(otherwise)
            return replace(s, then=without_sections(then), otherwise=no)
        case L.For(body=body) | L.Allocate(body=body):
            return replace(s, body=without_sections(body))
    return s


@pytest.mark.parametrize("schedule", [*BLURS, specialized], ids=lambda f: f.__name__)
def test_between_clocks_the_program_is_what_it_was(schedule) -> None:
    program = compiled(schedule)._built.lowered.program
    assert dump(replace(program, body=without_sections(timed(program).body))) == dump(program)


@tw.kernel
def matmul(A: tw.f32[M, N], B: tw.f32[N, M]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :M]


def test_what_is_shorter_than_the_clock_is_part_of_what_is_around() -> None:
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", 2, LANES)
    C.reorder("jo", "io", "k", "ii", "ji").unroll("ii").vectorize("ji")
    s.cache_write("C", at="C.update.io", memory="reg")
    s.cache_read("B", at="C.update.jo")
    a = picture(5 * LANES, 9)
    found = matmul.compile(s).profile(a, a.T, seconds=SHORT)
    sound(found)
    assert entries(found) == {"C.update": 1, "B_C": 5, ELSE: 1}
    assert {"C_tile.init", "C_tile.store"} <= set(found.inside)
    assert "C_tile.init" in str(found)


# Arguments ------------------------------------------------------------------------------------------------------


def test_arrays_of_any_strides_and_one_in_place() -> None:
    fast, a = compiled(by_stages), picture(40, 50)[::-2, ::3]
    out = np.empty((17, 20), np.float32).T
    found = fast.profile(a, out=out, seconds=SHORT)
    sound(found)
    assert entries(found) == {"across": 1, "down": 1, ELSE: 1}
    assert out.tobytes() == fast(a).tobytes()

    @tw.kernel
    def doubled(a: tw.f32[N]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = a[i] * 2
        return f[:N]

    x = np.ones(100, np.float32)
    doubled.compile().profile(x, out=x, seconds=SHORT)
    assert (x == 2).all()  # as one call leaves it


def test_what_is_written_in_place_is_left_as_by_one_call() -> None:
    @tw.kernel
    def step(state: tw.inout(tw.i64[N]), by: tw.i64):
        i = tw.vars("i")
        state[i] += by
        return state[:N]

    x = np.arange(50)
    found = step.compile().profile(x, 3, seconds=SHORT)
    sound(found)
    assert (x == np.arange(50) + 3).all()


def test_packed_inputs_and_promises(monkeypatch) -> None:
    s = matmul.schedule()
    s.layout("B", "k j -> j//8 k j%8")
    s["C.update"].reorder("i", "k", "j").vectorize("j", 8)
    fast, a = matmul.compile(s), picture(16, 12)
    b = np.ascontiguousarray(a.T)
    plain, packed = fast.profile(a, b, seconds=SHORT), fast.profile(a, fast.prepack("B", b), seconds=SHORT)
    assert len(packed.stages) < len(plain.stages)  # nothing to convert

    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")

    @tw.kernel
    def taken(a: tw.f32[N], at: tw.i64[M]):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = a[tw.assume(at[i], 0, N)]
        return f[:M]

    fast, a = taken.compile(), np.ones(3, np.float32)
    sound(fast.profile(a, np.arange(3), seconds=SHORT))
    with pytest.raises(tw.AssumptionError):
        fast.profile(a, np.arange(1, 4), seconds=SHORT)


def test_wrong_use() -> None:
    fast = compiled(by_stages)
    for wrong in (0, -1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(ArgumentError, match=r"seconds= is .*argument\.seconds"):
            fast.profile(picture(3, 4), seconds=wrong)
    with pytest.raises(ArgumentError):
        fast.profile(np.zeros(3, np.float32))


def test_other_processors(monkeypatch) -> None:
    elsewhere = replace(target.host(), triple="aarch64-unknown-linux-gnu")
    monkeypatch.setattr(P.target, "host", functools.cache(lambda: elsewhere))
    with pytest.raises(CompileError, match=r"compile\.profile"):
        P.profile(compiled(by_stages), None, 1.0)  # type: ignore[arg-type]


# The text -------------------------------------------------------------------------------------------------------


def test_table(golden) -> None:
    made = Profile(
        "blur",
        (StageTime("across", 1.5e-3, 1200), StageTime("down", 2.25e-3, 1), StageTime("never", 0, 0), StageTime(ELSE, 0, 1)),
        plain=3.8e-3, clock=1e-6, runs=9,
    )  # fmt: skip
    uncertain = replace(
        made,
        plain=2e-3,
        clock=1e-3,
        inside=("sums.init", "sums.update", *(f"tile.update[{k}]" for k in range(1, 5)), "tile"),
    )
    empty = Profile("nothing", (StageTime(ELSE, 0.0, 1),), 0.0, 0.0, 3)
    golden("\n\n".join(map(str, (made, uncertain, empty))))
    assert made["down"].entries == 1
    lines = [line for line in str(made).splitlines() if re.match(r"\w+ +[\d.]+%", line)]
    assert [line.split()[0] for line in lines] == ["down", "across"]
