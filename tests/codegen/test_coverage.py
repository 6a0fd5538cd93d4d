"""After lowering, every point that a stage promises is computed exactly as often as promised.

At first stores are counted by buffer and element while the loop IR is interpreted: guards may be merged into loop
bounds, loops parted or dropped, but no point may be lost, and none doubled. Then the check of `codegen.coverage` is
tested, which needs no values.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.codegen.loops_oracle import run_program
from tests.schedule import nest_oracle, random_schedules
from tests.schedule.algorithms import ALL, M, arguments, made
from tests.schedule.algorithms import N as COLUMNS
from tilewright.codegen import coverage
from tilewright.codegen import loops as L
from tilewright.codegen.lower import Lowered, Request, lower
from tilewright.lang import simplify
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, CompileError, CoverageError, ScheduleError
from tilewright.lang.func import func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import integer
from tilewright.lang.symbols import rdom
from tilewright.lang.symbols import vars as variables
from tilewright.lang.types import i32, i64
from tilewright.lang.values import index_value
from tilewright.schedule import nest as N
from tilewright.schedule.schedule import Schedule

SIZES = [{"M": 5, "N": 7, "K": 3}, {"M": 1, "N": 2, "K": 1}, {"M": 9, "N": 4, "K": 5}]
LOOP_MOVES = (
    random_schedules.split, random_schedules.split, random_schedules.fuse, random_schedules.reorder, random_schedules.mark,
)  # fmt: skip


def stores(s: Schedule, sizes: dict[str, int]) -> Counter[tuple[str, int]]:
    """How often each element of each buffer is stored to. Raises ScheduleError or CompileError."""
    p = s.pipeline
    given = arguments(p, sizes)
    bound = bind(p, given, {}, {k: v for k, v in sizes.items() if k in p.sizes})
    outputs = [np.empty([index_value(e, bound.env) for e in o.extents], o.dtype.np) for o in p.outputs]
    every = [*given, *outputs]
    program = lower(Request(s.state, "contract", "tw_counted", ("contiguous",) * len(every))).program
    failed, counts = run_program(program, every, [bound.sizes[n] for n in p.sizes], rewrites="tail shift" in str(s))
    assert failed is None or asks_more(s)
    return counts


def asks_more(s: Schedule) -> bool:
    """Whether a schedule may need larger inputs than the algorithm."""
    return "round_up" in str(s) or any(d.kind in ("bound", "align", "pad") for d in s.directives)


def at_the_root(name: str) -> Schedule:
    s = Schedule(ALL[name]())
    for f in s.state.funcs:
        s[f].compute_root()
    return s


def loop_schedule(name: str, rnd: random.Random) -> Schedule:
    """Loops split, fused, reordered, unrolled, in vectors and threads, in other ways than over reductions."""
    s = at_the_root(name)
    for k in range(8):
        before = s.copy()
        try:
            LOOP_MOVES[rnd.randrange(len(LOOP_MOVES))](s, rnd.randrange, k)
        except ScheduleError:
            continue
        if len(s.state.funcs) != len(before.state.funcs) or "tail" in str(s):
            s = before
    return s


@pytest.mark.parametrize("name", sorted(ALL))
def test_loops_cover_what_they_covered(name: str) -> None:
    """Every element of every buffer is stored to as often as with the loops of the algorithm."""
    for seed in range(12):
        s, sizes = loop_schedule(name, random.Random(seed)), SIZES[seed % len(SIZES)]
        try:
            counts, plain = stores(s, sizes), stores(at_the_root(name), sizes)
        except BoundsError:
            continue
        except CompileError as e:
            assert e.code.startswith("vectorize."), e
            continue
        assert counts == plain, f"seed {seed}\n{s}\n{(counts - plain) + (plain - counts)}"


def nest_stores(s: Schedule, sizes: dict[str, int], monkeypatch: Any) -> Counter[tuple[str, int]]:
    """The same from the nest, for outputs and inouts."""
    counts: Counter[tuple[str, int]] = Counter()
    write = nest_oracle.Interpreter.write

    def counted(self: Any, tensor: Any, component: int, at: tuple[int, ...], value: Any) -> None:
        m = self.memory(tensor, component)
        if m.storage.role != "temporary":
            name = f"out.{m.storage.name}" if m.storage.role == "output" else m.storage.name
            flat = 0
            for i, o, e in zip(at, m.origin, m.extents, strict=True):
                flat = flat * e + i - o
            counts[(name, flat)] += 1
        write(self, tensor, component, at, value)

    with monkeypatch.context() as patch:
        patch.setattr(nest_oracle.Interpreter, "write", counted)
        known = {k: v for k, v in sizes.items() if k in s.pipeline.sizes}
        nest_oracle.run_nest(s, *arguments(s.pipeline, sizes), sizes=known)
    return counts


@pytest.mark.parametrize("name", sorted(ALL))
def test_lowering_keeps_the_points_of_the_nest(name: str, monkeypatch: Any) -> None:
    """Whatever is placed, staged and held: what is stored to the arrays of the caller is what the nest stores, and an
    output with a pure definition gets each element once (but for tails that shift)."""
    p = ALL[name]()
    for seed in range(12):
        rnd = random.Random(seed)
        s, sizes = random_schedules.grow(p, rnd.randrange, 8)[0], SIZES[seed % len(SIZES)]
        try:
            s.check()
            found = stores(s, sizes)
            expected = nest_stores(s, sizes, monkeypatch)
        except (ScheduleError, CompileError, BoundsError) as e:
            assert e.code.startswith(("schedule.", "compile.", "vectorize.", "bounds.")), e
            continue
        except nest_oracle.NestError as e:
            assert "required:" in str(e) and asks_more(s)
            continue
        arrays = {b for b, _ in expected}
        found = Counter({k: n for k, n in found.items() if k[0] in arrays})
        assert found == expected, f"seed {seed}\n{s}\n{(found - expected) + (expected - found)}"
        pure = {f"out.{o.name}" for o in p.outputs if not o.func.updates}
        if "tail shift" not in str(s):
            assert {n for (b, _), n in found.items() if b in pure} <= {1}, f"seed {seed}\n{s}"


# The check that every lowered program can be put through -----------------------------------------------------------


def lowered(s: Schedule, **how: Any) -> Lowered:
    p = s.pipeline
    n = len(p.arrays) + len(p.tables) + len(p.outputs)
    return lower(Request(s.state, "contract", "tw_covered", ("contiguous",) * n, covered=True, **how))


def changed(body: L.Stmt, loop: str, change: Any) -> L.Stmt:
    """A program with another loop in the place of those of a name."""
    match body:
        case L.Block(statements):
            return L.Block(tuple(changed(t, loop, change) for t in statements))
        case L.Allocate(buffer, inner):
            return L.Allocate(buffer, changed(inner, loop, change))
        case L.If(_, then, otherwise):
            return replace(
                body, then=changed(then, loop, change), otherwise=otherwise and changed(otherwise, loop, change)
            )
        case L.For(body=inner):
            made = replace(body, body=changed(inner, loop, change))
            return change(made) if body.var.attr == loop else made
    return body


def tiled() -> Schedule:
    s = Schedule(ALL["matmul"]())
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 4, 4).reorder("io", "jo", "k", "ii", "ji").vectorize("ji")
    return s


CHANGES = {
    "missing": lambda x: replace(x, stop=simplify.sub(x.stop, integer(1))),
    "twice": lambda x: L.Block((x, replace(x, start=simplify.sub(x.stop, integer(1))))),
    "beyond": lambda x: replace(x, stop=simplify.add(x.stop, integer(1))),
}


@pytest.mark.parametrize("code", CHANGES)
@pytest.mark.parametrize("loop", ["C.update.k", "C.update.ii", "C.init.j"])
def test_a_changed_loop_is_found(code: str, loop: str) -> None:
    """The error names the stage, the point, the loops and the sizes."""
    s = tiled()
    found = lowered(s)
    body = changed(found.program.body, loop, CHANGES[code])
    with pytest.raises(CoverageError) as e:
        coverage.check(replace(found.program, body=body), found.results["nest"], s.pipeline, 12)
    stage = loop.rpartition(".")[0]
    codes = {code, "twice"} if loop == "C.update.ii" else {code}  # beyond a tile is in the next one
    assert e.value.code.removeprefix("coverage.") in codes and e.value.stage == stage
    assert str(e.value).split(": ", 1)[1].startswith(f"{stage}: i=") and "in the loops " in str(e.value)
    assert len(e.value.points[0]) == (3 if stage == "C.update" else 2)
    assert "M=" in str(e.value) and "report it" in str(e.value)


def test_a_lost_branch_and_a_lost_store_are_found() -> None:
    s = tiled()
    found = lowered(s)
    init, update = found.program.body.statements  # type: ignore[attr-defined]
    for rest, stage in ((init, "C.update"), (update, "C.init")):
        with pytest.raises(CoverageError) as e:
            coverage.check(replace(found.program, body=rest), found.results["nest"], s.pipeline, 4)
        assert (e.value.code, e.value.stage) == ("coverage.missing", stage)


def with_produce(n: N.NestNode, name: str, change: Any) -> N.NestNode:
    """A nest with another production of a Func."""
    match n:
        case N.Sequence(items):
            return N.Sequence(tuple(with_produce(i, name, change) for i in items))
        case N.LoopNode(body=body) | N.Allocation(body=body) | N.Produce(body=body):
            same = replace(n, body=with_produce(body, name, change))
            return change(same) if isinstance(same, N.Produce) and same.name == name else same
    return n


def less(box: N.Box) -> N.Box:
    """A box without its first row."""
    assert box[0].lo is not None
    return (Interval(simplify.add(box[0].lo, integer(1)), box[0].hi), *box[1:])


def test_a_nest_that_promises_too_little_is_found() -> None:
    """Returned arrays and what is needed of a sliding window are known from elsewhere."""
    s = Schedule(ALL["blur"]())
    s["blur_x"].compute_at("blur_y.y").store_root()
    found = lowered(s)
    nest = found.results["nest"]

    def fewer(p: N.Produce) -> N.Produce:
        return replace(p, points=tuple(replace(q, box=less(q.box)) for q in p.points))

    body = with_produce(nest.body, "blur_x", lambda p: replace(p, region=less(p.region)))
    with pytest.raises(CoverageError, match="what is needed of blur_x in a sliding window: ") as e:
        coverage.check(found.program, replace(nest, body=body), s.pipeline, 12)
    assert e.value.code == "coverage.missing"
    later = changed(found.program.body, "blur_y.y", lambda x: replace(x, start=simplify.add(x.start, integer(1))))
    body = with_produce(nest.body, "blur_y", fewer)
    with pytest.raises(CoverageError) as e:
        coverage.check(replace(found.program, body=later), replace(nest, body=body), s.pipeline, 12)
    assert e.value.code == "coverage.missing"


def test_slots_of_a_ring_are_not_used_again_too_early(monkeypatch: Any) -> None:
    from tilewright.schedule import build, storage

    def ringed() -> Schedule:
        s = tiled()
        s.cache_read("A", at="C.update.k")
        s["A_C"].double_buffer(3)
        return s

    lowered(ringed())
    ring = storage.ring
    early = lambda made, x, slots: tuple(replace(t, slots=slots) for t in ring(made, x, slots - 1))  # noqa: E731
    monkeypatch.setattr(storage, "ring", early)
    build._built.cache_clear()
    with pytest.raises(CoverageError, match="a slot of the ring A_C") as e:
        lowered(ringed())
    assert e.value.code == "coverage.slot"
    build._built.cache_clear()


def test_large_and_illegal_calls_are_left_out() -> None:
    s = tiled()
    found = lowered(s)
    args = (found.program, found.results["nest"], s.pipeline)
    every, _ = coverage.check(*args, 12)
    some, _ = coverage.check(*args, 12, most=20)
    assert 0 < some < every <= 12


def test_what_depends_on_computed_values_is_not_judged() -> None:
    def counted(A: i32[M, COLUMNS]):
        i = variables("i")
        limit, s = func("limit"), func("s")
        limit[i] = A[i, 0]
        d = rdom(k=COLUMNS)
        d.where(d.k < limit[i])
        s[i] = 0
        s[i] += A[i, d.k]
        return s[:M]

    s = Schedule(made(counted))
    s["limit"].compute_root()
    found = lowered(s)
    looked, unknown = coverage.check(found.program, found.results["nest"], s.pipeline, 6)
    assert looked and unknown == {"s.update"}


def test_data_in_conditions() -> None:
    """Where inputs decide, made up inputs do: the check follows them."""

    def ragged(A: i32[M, COLUMNS], L: i64[M]):
        i = variables("i")
        d = rdom(k=COLUMNS)
        d.where(d.k < L[i])
        s = func("s")
        s[i] = 0
        s[i] += A[i, d.k]
        return s[:M]

    s = Schedule(made(ragged))
    s["s.update"].split("k", "ko", "ki", 4)
    found = lowered(s)
    assert coverage.check(found.program, found.results["nest"], s.pipeline, 8) == (8, frozenset())


def test_debug_mode_checks(monkeypatch: Any) -> None:
    """TILEWRIGHT_DEBUG=1 checks what it compiles; without it nothing is looked at."""
    from tilewright.codegen import compile as compiling

    s = tiled()
    looked: list[int] = []
    monkeypatch.setattr(coverage, "check", lambda program, nest, pipeline, trials: looked.append(trials))
    monkeypatch.setenv("TILEWRIGHT_COVERAGE", "0")
    compiling.compile_schedule(s.pipeline, s, "contract").build()
    assert not looked
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    made = compiling.compile_schedule(s.pipeline, s, "contract").build()
    assert set(looked) == {12} and "coverage" in made.timings
