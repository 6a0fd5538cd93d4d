"""Directives about how much of a Func is computed and stored: promised, aligned and padded."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tilewright.lang import ir
from tilewright.lang.errors import user_location
from tilewright.lang.ir import Node
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.extension import known, promised_outputs, solved
from tilewright.schedule.state import ROUND_UP, FuncState, Split, State, find_func, refuse

_OVER = Option("over", "name", required=True)
_BY = Option("by", "factor", required=True)


def axis_of(fs: FuncState, d: Directive) -> int:
    """The axis that `over` names."""
    names, axis = [v.attr for v in fs.func.args], str(d.option("over"))
    if axis not in names:
        raise refuse(f"{fs.func.name} has no axis {axis!r}", "axis", f"its axes: {', '.join(names)}")
    return names.index(axis)


def _placed(state: State, d: Directive) -> FuncState:
    fs = find_func(state, d.operands[0])
    if fs.compute.kind == "inline":
        raise refuse(f"{fs.func.name} is inlined and has no region of its own", "inlined",
                     f"compute it somewhere first: s[{fs.func.name!r}].compute_root()")  # fmt: skip
    return fs


def check_regions(state: State) -> None:
    """Raise ScheduleError where a Func with a promised, aligned or padded region is inlined, or rests on promises."""
    rounded = {
        s.key[0] for s in state.stages.values() for t in s.transforms if isinstance(t, Split) and t.tail == ROUND_UP
    }
    for fs in state.funcs.values():
        if fs.compute.kind == "inline" and (fs.bounds or fs.aligns or fs.pads):
            raise refuse(f"{fs.func.name} can't be inlined: its region is bounded, aligned or padded", "inlined",
                         "leave out those directives: what is inlined has no region")  # fmt: skip
        how = _larger(state, fs, rounded)
        promise = _promise(state, fs.func.name) if how else None
        if promise is not None:
            raise refuse(
                f"{fs.func.name} is computed beyond what is needed ({how}), and its values rest on a promise of the "
                f"algorithm's (assume), which says nothing of those points", "bound-assumed",
                f"leave {how} out, or limit the index instead: tw.clamp(x, low, high - 1)",
                (user_location(), promise.attr),
            )  # fmt: skip


def _larger(state: State, fs: FuncState, rounded: Set[str]) -> str | None:
    """What makes the region of a Func larger than what is needed of it; some are `rounded` up."""
    if fs.func.name in state.outputs:
        return None
    if fs.func.name in rounded:
        return "tail round_up"
    return "align" if fs.aligns else "bound" if fs.bounds else None


def _promise(state: State, name: str) -> Node | None:
    """A promise that the values of a Func rest on, in what it reads too."""
    todo, seen = [name], {name}
    while todo:
        n = todo.pop()
        for s in state.stages_of(n):
            found = ir.leaves(s.definition.roots, "assume")
            if found:
                return found[0]
        new = [p for p in state.producers(n) if p not in seen]
        seen.update(new)
        todo += new
    return None


def _ours(state: State, d: Directive, what: str) -> FuncState:
    fs = _placed(state, d)
    if fs.func.name in state.outputs:
        raise refuse(f"{fs.func.name} is an output and can't be {what}: its elements live in the caller's array",
                     "output-place", "give a larger array, or a slice of one")  # fmt: skip
    return fs


def _once(found: tuple[tuple[int, ...], ...], axis: int, fs: FuncState, d: Directive) -> None:
    if any(a == axis for a, *_ in found):
        raise refuse(f"axis {d.option('over')} of {fs.func.name} has that already", "axis-twice", "say it once")


@directive("bound", "func", options=(_OVER, _BY, Option("offset", "integer", default=0)))
def bound(state: State, d: Directive) -> State:
    """The promise that an axis of a Func is needed over a known range: `bound C over j by 512`, `... offset -1`.

        for j in 0..N            for j in 0..512
          C[j] = ..       =>       C[j] = ..        (and N is 512 everywhere)

    `by` is the extent, `offset` the start. Loops, buffers and strides get constants. For an output the range is
    exactly that of the array, for other Funcs what is needed lies inside, and the whole range is computed. The promise
    is checked at each call: a call that breaks it raises BoundsError bounds.schedule before anything runs. Numerics:
    none. Errors: schedule.axis, schedule.axis-twice, schedule.inlined, schedule.bound (never true),
    schedule.bound-updates, schedule.bound-assumed.
    """
    fs = _placed(state, d)
    k, n, start = axis_of(fs, d), d.option("by"), d.option("offset", 0)
    assert isinstance(n, int) and isinstance(start, int)
    _once(fs.bounds, k, fs, d)
    after = state.with_func(replace(fs, bounds=(*fs.bounds, (k, start, n)), placed=True))
    asked = promised_outputs(after)
    if ir.FALSE in known(tuple(c for c, _ in asked), solved(c for c, _ in asked)):
        raise refuse(f"axis {d.option('over')} of {fs.func.name} never has the range {start}..{start + n}", "bound",
                     "it has another start or constant extent, or a bound before gives the size another value")  # fmt: skip
    return after


@directive("align", "func", options=(_OVER, _BY, Option("offset", "integer", default=0)))
def align(state: State, d: Directive) -> State:
    """More is computed, so that the region starts and ends at multiples: `align P over x by 8`, `... offset 1`.

        for x in lo..hi          for x in lo//8*8..(hi + 7)//8*8
          P[x] = ..       =>       P[x] = ..

    With `offset` r the ends are r modulo the number. What P reads must exist over the larger region: other Funcs
    compute more, arrays must hold it, which is checked at the call. An empty region stays empty. Numerics: none.
    Errors: schedule.output-place, schedule.axis, schedule.axis-twice, schedule.inlined, schedule.bound-updates,
    schedule.bound-assumed.
    """
    fs = _ours(state, d, "aligned")
    k, n, r = axis_of(fs, d), d.option("by"), d.option("offset", 0)
    assert isinstance(n, int) and isinstance(r, int)
    _once(fs.aligns, k, fs, d)
    return state.with_func(replace(fs, aligns=(*fs.aligns, (k, n, r)), placed=True))


@directive("pad", "func", options=(_OVER, _BY))
def pad(state: State, d: Directive) -> State:
    """The stored extent of an axis is rounded up to a multiple: `pad P over x by 16`.

        buffer P[H, W + 2]   =>   buffer P[H, (W + 17)//16*16]

    Along the last axis that is the distance of rows. What is computed stays the same. Numerics: none. Errors:
    schedule.output-place, schedule.axis, schedule.axis-twice, schedule.inlined, schedule.fold (a folded axis).
    """
    fs = _ours(state, d, "padded")
    k, n = axis_of(fs, d), d.option("by")
    assert isinstance(n, int)
    _once(fs.pads, k, fs, d)
    if any(a == k for a, _ in fs.folds):
        raise refuse(f"axis {d.option('over')} of {fs.func.name} is folded: it has the extent that the fold says", "fold",
                     "fold by the padded number")  # fmt: skip
    return state.with_func(replace(fs, pads=(*fs.pads, (k, n)), placed=True))
