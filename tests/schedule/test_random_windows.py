"""What is kept between iterations of loops, at random: placement, storage further out, folds, under random tails."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.kernels import same
from tests.schedule.algorithms import M, N, blur, made
from tests.schedule.helpers import flat, good
from tests.schedule.native import natively
from tests.schedule.nest_oracle import NestError, run_nest
from tests.schedule.stencils import Choose, arrays, pick, stencils
from tilewright.codegen.compile import compile_schedule
from tilewright.lang import reference
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError, TilewrightError
from tilewright.lang.func import func
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.symbols import vars
from tilewright.lang.types import i32
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.sites import legal_sites

FUZZ = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))
TAILS = ["guard", "guard", "shift", "round_up"]


def try_(act: Any) -> bool:
    try:
        act()
    except ScheduleError:
        return False
    return True


def shaped(s: Schedule, choose: Choose) -> None:
    """Splits with tails, and other orders."""
    k = 0
    for key, stage in list(s.state.stages.items()):
        h = s[s.state.address(key)]
        for x in stage.loops:
            if choose(3) == 0:
                k += 1
                try_(lambda h=h, x=x, k=k: h.split(x.name, f"o{k}", f"i{k}", 1 + choose(5), pick(choose, TAILS)))
        if choose(4) == 0:
            names = [x.name for x in s.state.stages[key].loops]
            order = [names.pop(choose(len(names))) for _ in range(len(names))]
            try_(lambda h=h, order=order: h.reorder(*order))


def placed(s: Schedule, choose: Choose, name: str) -> None:
    """A Func at a loop, kept further out, folded, laid out or padded, or at the root, or inlined."""
    h, kind = s[name], choose(8)
    if kind == 0:
        try_(h.compute_root)
    if kind < 2:
        return
    sites = legal_sites(s.state, s.state.funcs[name].func)
    i = choose(len(sites)) if sites else 0
    if not sites or not try_(lambda: h.compute_at(sites[i])):
        try_(h.compute_root)
        return
    kind = choose(4)
    if kind == 0:
        try_(h.store_root)
    elif kind == 1 and i:
        try_(lambda: h.store_at(sites[choose(i)]))
    elif kind == 2:
        try_(h.hoist_storage)
    axes = [v.attr for v in s.state.funcs[name].func.args]
    if choose(3):
        try_(lambda: h.fold_storage(pick(choose, axes), 1 + choose(7)))
    if choose(6) == 0:
        try_(lambda: h.layout("a -> a//2 a%2" if len(axes) == 1 else pick(choose, ["a b -> b a", "a b -> a b//4 b%4"])))
    if choose(6) == 0:
        try_(lambda: getattr(h, pick(choose, ["align", "pad"]))(pick(choose, axes), 1 + choose(4)))


def marked(s: Schedule, choose: Choose, k: int) -> None:
    """A mark of a loop, a form or a tile."""
    stage = pick(choose, [x for x in s.state.stages.values() if x.loops])
    address, x = s.state.address(stage.key), pick(choose, stage.loops).name
    h = s[address]
    acts = [
        lambda: h.vectorize(x, 2 + choose(3)), lambda: h.unroll(x, 2 + choose(2)), lambda: h.parallel(x),
        lambda: h.peel(x, choose(3), choose(3)), lambda: h.partition(x, pick(choose, ["never", "auto"])),
        lambda: s.specialize(address, pick(choose, ["M % 2 == 0", "M < 5"]), f"s{k}"),
        lambda: s.cache_write(stage.key[0], at=s.state.loop_address(stage.key, x), memory="main"),
    ]  # fmt: skip
    try_(pick(choose, acts))


def drawn(seed: int) -> tuple[Pipeline, Schedule, Choose] | None:
    """A pipeline and a legal schedule; None where there is none."""
    choose = random.Random(seed).randrange
    try:
        p = stencils(choose)
        s = Schedule(p)
        shaped(s, choose)
        for name in reversed([n for n in s.state.order if n not in s.state.outputs]):
            placed(s, choose, name)
        for k in range(choose(3)):
            marked(s, choose, k)
        s.check()
    except TilewrightError as e:
        assert e.code.startswith(("schedule.", "bounds.", "type.")), e
        return None
    return p, s, choose


def asks_more(s: Schedule) -> bool:
    return any(d.kind == "align" or d.option("tail") == "round_up" for d in s.directives)


def expected(p: Pipeline, given: dict[str, Any]) -> Any:
    """The reference's result, None where the call itself is an error."""
    try:
        return reference.run(p, bind(p, (), {k: v.copy() for k, v in given.items()}))
    except BoundsError:
        return None


def check(seed: int, p: Pipeline, s: Schedule, run: Any, m: int, n: int) -> None:
    given = arrays(p, m, n, seed)
    theirs = expected(p, given)
    if theirs is None:
        return
    try:
        ours = run(given)
    except (NestError, BoundsError) as e:
        if asks_more(s) and ("required" in str(e) or isinstance(e, BoundsError)):
            return
        raise AssertionError(f"seed {seed} at {m}, {n}\n{s}\n{s.loops()}") from e
    for a, b in zip(flat(theirs), flat(ours), strict=True):
        assert same(a, b), f"seed {seed} at {m}, {n}:\n{a}\nis not\n{b}\nwith\n{s}\n{s.loops()}"


@pytest.mark.parametrize("batch", range(3 * FUZZ))
def test_nests(batch: int) -> None:
    """Nothing is read that was overwritten or never computed, nothing outside is touched, the values are right."""
    for seed in range(batch * 20, batch * 20 + 20):
        found = drawn(seed)
        if found is not None:
            p, s, choose = found
            for _ in range(2):
                check(seed, p, s, lambda given, s=s: run_nest(s, *given.values()), choose(9), choose(8))


@pytest.mark.parametrize("seed", range(5000, 5000 + 12 * FUZZ))
def test_native(seed: int) -> None:
    found = drawn(seed)
    if found is None:
        return
    p, s, choose = found
    try:
        compiled = compile_schedule(p, s, "strict")
    except CompileError as e:
        assert e.code.startswith(("vectorize.", "compile.")), e
        return
    for _ in range(4):
        check(seed, p, s, lambda given: compiled(**given, threads=1 + choose(2)), choose(41), choose(30))


# Kinds of mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis, loop, slides", [("x", "x", False), ("y", "x", True), ("y", "y", True)])
def test_a_window_does_not_slide_over_what_a_fold_overwrites(axis, loop, slides):
    """Rows slide along y while x runs inside: a fold over x would have overwritten the rows before."""
    s = Schedule(blur())
    s["blur_x"].compute_at(f"blur_y.{loop}").store_root().fold_storage(axis, 3)
    good(s)
    natively(s, *({"M": m, "N": n} for m in (3, 5, 9) for n in (3, 4, 12)))
    (rows,) = (n for n in s.report().of("sliding") if n.what == "blur_x.y")
    assert rows.done == slides


def test_what_stands_in_loops_that_do_not_run_needs_nothing():
    """A producer of a producer that is computed in the loops of a Func that nobody needs is not computed either."""

    def triple(A: i32[M, N]):
        y, x = vars("y x")
        a, b, c, d = (func(n) for n in "abcd")
        a[y, x] = A[y % M, x % N]
        b[y, x] = a[y - 1, x] + a[y + 1, x + 1]
        c[y, x] = b[y, x] - b[y + 1, x]
        d[y, x] = c[y + 1, x] + c[5 - y, x]
        return d[:M, :N]

    for place in ("c.y", "c.x"):
        s = Schedule(made(triple))
        s["a"].compute_root()
        s["c"].compute_root()
        s["b"].compute_at(place)
        s.check()
        natively(s, *({"M": m, "N": n} for m in (0, 1, 3) for n in (0, 1, 4)))
        for m, n in ((0, 0), (0, 3), (2, 0), (2, 3)):
            run_nest(s, arrays(s.pipeline, m, n)["A"])
