"""After lowering, every point that a stage promises is computed exactly as often as promised.

Stores are counted by buffer and element while the loop IR is interpreted: guards may be merged into loop bounds, loops
parted or dropped, but no point may be lost, and none doubled.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.codegen.loops_oracle import run_program
from tests.schedule import nest_oracle, random_schedules
from tests.schedule.algorithms import ALL, arguments
from tilewright.codegen.lower import Request, lower
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError
from tilewright.lang.values import index_value
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
