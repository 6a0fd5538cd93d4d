"""Directives that no one should write: each is refused with an error of ours and leaves the schedule as it was, or it is
legal after all and then right like any other.

`GARBAGE` are directives made of wrong words, numbers and types; `WRONG` are well-formed ones whose meaning is not
legal: races, impure reorders, places in a circle, names of loops that have gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz import moves, moves_of_buffers
from tests.fuzz.places import Choose, a_loop, a_stage, handle, pick, stages
from tilewright.hw import CapacityError
from tilewright.lang.errors import BoundsError, ParseError, ScheduleError
from tilewright.schedule.directive import Directive, KnobRef
from tilewright.schedule.directives.kinds import KINDS
from tilewright.schedule.schedule import Schedule, parse_schedule

Wrong = Callable[[Schedule, Choose, int], Any]
NAMES: list[Any] = ["", "no such", "i", "k", "C.update.k", "f1", "f1.init", "f1.update[9]", "f1{s}", "update", "..",
                    "f1.", "i'", "A0", "def", "1x", "a" * 300, "$t", "é", "f1.i.j", None, 3, ("i",)]  # fmt: skip
VALUES: list[Any] = [0, -1, 1, 2**31, 2**63, 2**100, 1.5, float("nan"), True, "8", "", None, (), (1,), (0, 0), (3, -3),
                     (2, 2, 2), KnobRef("unbound"), b"4", [4], {"a": 1}, 3 + 0j]  # fmt: skip
TEXTS = ["a b", "-> a", "a -> ", "a -> a a", "a -> a//0", "a -> a%0 a//0", "a b -> a", "a b -> a+b", "a b -> b//4 a b%3",
         "a -> a*a", "a -> b", "a a -> a a", "a -> (a", "N % 0 == 0", "N >", "A0[0] == 1", "1", "True", "t <= 0", "x + ",
         "__import__('os')", "guard", "auto", "reg", "nowhere"]  # fmt: skip
GARBAGE: list[Wrong] = []
WRONG: list[Wrong] = []


def garbage(fn: Wrong) -> Wrong:
    GARBAGE.append(fn)
    return fn


def wrong(fn: Wrong) -> Wrong:
    WRONG.append(fn)
    return fn


def refused(s: Schedule, choose: Choose, k: int, fn: Wrong) -> str | None:
    """The code of the error with which something is refused; None if it is not. Nothing else may come of it."""
    before = s.directives, s.state, str(s)
    try:
        fn(s, choose, k)
    except (ScheduleError, ParseError, BoundsError, CapacityError) as e:
        kept = before[0]
        assert s.directives[: len(kept)] == kept, f"a refused directive has left the schedule changed: {e}"
        if len(s.directives) == len(kept):
            assert s.state is before[1] and str(s) == before[2], f"a refused directive has left its trace: {e}"
        assert e.code.partition(".")[0] in ("schedule", "parse", "bounds", "capacity", "text"), f"{e.code}: {e}"
        assert e.message and "\n\n" not in e.message
        return e.code
    except Exception as e:
        e.add_note(f"{fn.__name__} number {k} of\n{before[2]}")
        raise
    return None


def try_some(s: Schedule, choose: Choose, k: int) -> list[str]:
    """A few illegal directives on copies of a schedule; those that are legal after all must stand up to check()."""
    codes = []
    for n in range(1 + choose(4)):
        fn = pick(choose, WRONG if choose(2) and stages(s) else GARBAGE)
        copy = s.copy()
        code = refused(copy, choose, 1000 * k + n, fn)
        if code is None:
            try:
                copy.check()
            except (ScheduleError, BoundsError, CapacityError) as e:
                code = e.code
        if code != "schedule.nothing-drawn":
            codes.append(f"{fn.__name__}: {code}")
    return codes


# Garbage ------------------------------------------------------------------------------------------------------------


@garbage
def any_words(s: Schedule, choose: Choose, k: int) -> None:
    """A kind with operands, names and options of any kind."""
    kind = pick(choose, [*KINDS, "", "spilt", None, 3])
    words = [*NAMES, *s.state.funcs, *(x for y in s.state.stages.values() for x in map(s.state.address, [y.key]))]
    several = lambda n: tuple(pick(choose, words) for _ in range(choose(n)))  # noqa: E731
    keys = ["by", "at", "in", "tail", "layout", "for", "over", "offset", "name", "=", "of", "given", "colour"]
    known = KINDS.get(kind)  # type: ignore[call-overload]
    if known is not None and choose(2):
        keys = [o.key for o in known.options] or keys
    options = tuple((pick(choose, keys), pick(choose, [*VALUES, *TEXTS, *words])) for _ in range(choose(4)))
    stage = pick(choose, ["", *words])
    s.apply(Directive(kind, stage, several(4), several(4), options))  # type: ignore[arg-type]


@garbage
def one_wrong(s: Schedule, choose: Choose, k: int) -> None:
    """A directive that stands in a schedule already, with one thing changed."""
    made = s.copy()
    if not made.directives:
        moves.grow(made, choose, 2, first=9000)
    d = pick(choose, made.directives)
    what = choose(4)
    if what == 0:
        d = Directive(d.kind, pick(choose, NAMES), d.operands, d.results, d.options)
    elif what == 1:
        at = choose(max(1, len(d.operands)))
        d = Directive(
            d.kind, d.stage, (*d.operands[:at], pick(choose, NAMES), *d.operands[at + 1 :]), d.results, d.options
        )
    elif what == 2:
        d = Directive(d.kind, d.stage, d.operands, (*d.results[1:], pick(choose, NAMES)), d.options)
    elif d.options:
        at = choose(len(d.options))
        changed = (d.options[at][0], pick(choose, [*VALUES, *TEXTS, *NAMES]))
        d = Directive(d.kind, d.stage, d.operands, d.results, (*d.options[:at], changed, *d.options[at + 1 :]))
    s.apply(d)


@garbage
def values_of_methods(s: Schedule, choose: Choose, k: int) -> None:
    """The methods that people call, with any values."""
    name, value, text = pick(choose, [*NAMES, *s.state.funcs]), pick(choose, VALUES), pick(choose, [*TEXTS, *NAMES])
    h = s[pick(choose, s.state.funcs)]
    other = pick(choose, NAMES)
    calls: list[Callable[[], Any]] = [
        lambda: h.split(name, other, "q", value, text), lambda: h.split("i", "io", "ii", value),
        lambda: h.tile((name, "j"), ("a", "b"), ("c", "d"), (value, 2)), lambda: h.fuse(name, other, "q"),
        lambda: h.reorder(name, other), lambda: h.reorder(name, name), lambda: h.reorder(), lambda: h.unroll("i", value),
        lambda: h.vectorize("i", value), lambda: h.parallel(name, value), lambda: h.serial(name),
        lambda: h.spatial(name, other), lambda: h.tensorize(name, value),
        lambda: h.peel("i", value, value), lambda: h.partition("i", text), lambda: h.specialize(text, "sp"),
        lambda: h.specialize("N > 2", name), lambda: h.rfactor(name, other), lambda: h.compute_with(name),
        lambda: h.compute_at(name), lambda: h.store_at(name), lambda: h.fold_storage(name, value),
        lambda: h.hoist_storage(name), lambda: h.double_buffer(value), lambda: h.store_in(name), lambda: h.layout(text),
        lambda: h.bound("i", value, value), lambda: h.align(name, value, value), lambda: h.pad("i", value),
        lambda: s.cache_read(name, at=other), lambda: s.cache_read(name, layout=text, memory=other),
        lambda: s.cache_write(name, at=other), lambda: s.prefetch(name, at=other, distance=value),
        lambda: s.online((name, other), "k", value), lambda: s.online((), "k", 4), lambda: s.layout(name, text, given=True),
        lambda: s.knob(name, value, [value, 2]), lambda: s.constrain(text), lambda: s.clone(name, (other,)),
        lambda: s[name], lambda: s.with_knobs(**{str(name): value}), lambda: s.stream_stores(name),
    ]  # fmt: skip
    pick(choose, calls)()


@garbage
def garbled_text(s: Schedule, choose: Choose, k: int) -> None:
    """The text form with a piece missing, doubled, or in another order."""
    text = str(s)
    for _ in range(1 + choose(2)):
        a = choose(len(text) + 1)
        b = min(len(text), a + choose(12))
        piece = pick(choose, ["", text[a:b] * 2, text[a:b][::-1], " by", "->", "$", "é", "0", ",", "\n"])
        text = text[:a] + piece + text[b:]
    parse_schedule(text, s.pipeline)


# Well-formed and wrong ----------------------------------------------------------------------------------------------


def must_fail(s: Schedule, why: str) -> None:
    raise AssertionError(f"{why}, and nobody minds:\n{s}")


@wrong
def a_circle_of_places(s: Schedule, choose: Choose, k: int) -> None:
    """A Func computed in a loop of what it computes."""
    x = a_stage(s, choose)
    s[x.key[0]].compute_at(s.state.loop_address(x.key, pick(choose, x.loops).name))
    must_fail(s, f"{x.key[0]} is computed in its own loop")


@wrong
def a_ring_of_places(s: Schedule, choose: Choose, k: int) -> None:
    """Two Funcs, each computed in a loop of the other, or of what is computed there."""
    name, x, _ = moves_of_buffers.placed_at(s, choose)
    inner = pick(choose, s.state.stages_of(name))
    s[x.key[0]].compute_at(s.state.loop_address(inner.key, pick(choose, inner.loops).name))
    must_fail(s, f"{name} and {x.key[0]} are computed in loops of each other")


@wrong
def a_loop_that_has_gone(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose)
    if len(x.loops) < 2 or x.loops[0].reduction != x.loops[1].reduction:
        return
    handle(s, x).fuse(x.loops[0].name, x.loops[1].name, f"gone{k}")
    h = handle(s, x)
    old = x.loops[0].name
    ways = [
        lambda: h.split(old, f"go{k}", f"gi{k}", 4), lambda: h.parallel(old), lambda: h.vectorize(old, 4),
        lambda: h.reorder(old, f"gone{k}"), lambda: h.peel(old), lambda: h.fuse(old, f"gone{k}", f"more{k}"),
        lambda: s.cache_write(x.key[0], at=s.state.loop_address(x.key, old)),
    ]  # fmt: skip
    pick(choose, ways)()
    must_fail(s, f"the loop {x.loops[0].name} was fused with another one")


@wrong
def names_twice(s: Schedule, choose: Choose, k: int) -> None:
    h, loop = a_loop(s, choose)
    if choose(2):
        h.split(loop, f"n{k}", f"n{k}", 2)
        must_fail(s, "two loops have one name")
    s.cache_read(pick(choose, s.pipeline.arrays).name, name=pick(choose, s.state.funcs))
    must_fail(s, "two Funcs have one name")


@wrong
def shift_of_an_update(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: y.key[1] >= 0)
    handle(s, x).split(pick(choose, x.loops).name, f"u{k}", f"v{k}", 3, "shift")
    must_fail(s, "an update is computed twice at some points")


@wrong
def more_than_an_output(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: y.key[0] in s.state.outputs or y.key[1] >= 0)
    handle(s, x).split(pick(choose, x.loops).name, f"u{k}", f"v{k}", 3, "round_up")
    must_fail(s, "round_up of an output or a Func with updates")


@wrong
def two_vectors(s: Schedule, choose: Choose, k: int) -> None:
    x = a_stage(s, choose, lambda y: sum(z.mode == "serial" and not z.reduction for z in y.loops) > 1)
    a, b = [z.name for z in x.loops if z.mode == "serial" and not z.reduction][:2]
    handle(s, x).vectorize(a, 2).vectorize(b, 2)
    must_fail(s, "two vector loops in one stage")


@wrong
def shared_window_in_threads(s: Schedule, choose: Choose, k: int) -> None:
    """A window that slides along a parallel loop: each iteration would write what others read."""
    name, _, _ = moves_of_buffers.placed_at(s, choose)
    s[name].store_root()
    if s.state.funcs[name].compute.kind == "at":
        owner = s.state.stages[s.state.funcs[name].compute.stage]  # type: ignore[index]
        handle(s, owner).parallel(str(s.state.funcs[name].compute.loop))
        must_fail(s, f"{name} is stored outside of the parallel loop that it is computed in")


@wrong
def an_output_inside(s: Schedule, choose: Choose, k: int) -> None:
    name = pick(choose, s.state.outputs)
    pick(choose, [lambda: s[name].compute_inline(), lambda: s[name].fold_storage(_axis(s, name), 2),
                  lambda: s[name].pad(_axis(s, name), 4), lambda: s[name].align(_axis(s, name), 4)])()  # fmt: skip
    must_fail(s, f"the output {name} is inlined or stored otherwise")


def _axis(s: Schedule, name: str) -> str:
    return str(pick(lambda n: 0, [v.attr for v in s.state.funcs[name].func.args] or ["none"]))


@wrong
def an_impure_order(s: Schedule, choose: Choose, k: int) -> None:
    """Whatever order two reduction loops are brought into, it is refused or keeps the values (see the trials)."""
    x = a_stage(s, choose, lambda y: sum(z.reduction for z in y.loops) > 1)
    names = [z.name for z in x.loops if z.reduction]
    handle(s, x).reorder(names[1], names[0])
    pick(choose, [handle(s, x).parallel, handle(s, x).vectorize])(names[0], 2)


@wrong
def a_broken_constraint(s: Schedule, choose: Choose, k: int) -> None:
    s.knob(f"w{k}", 4)
    s.constrain(pick(choose, [f"w{k} > 4", f"w{k} % 3 == 0", f"w{k} < nobody"]))
    must_fail(s, "a constraint does not hold")


@wrong
def a_ring_of_what_is_computed(s: Schedule, choose: Choose, k: int) -> None:
    name, _, _ = moves_of_buffers.placed_at(s, choose)
    d = s.state.stages_of(name)[0].definition
    s[name].double_buffer(2)
    if d.values[0].op != "load":
        must_fail(s, f"{name} is computed, not copied")


@wrong
def the_same_twice(s: Schedule, choose: Choose, k: int) -> None:
    """A directive again: refused, or it changes nothing that matters."""
    if s.directives:
        s.apply(pick(choose, s.directives))
