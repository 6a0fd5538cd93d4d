"""What larger regions (`round_up`, `bound`, `align`) ask of the inputs: they may need more than the algorithm does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.func import InoutFunc
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.regions import reads
from tilewright.lang.tensors import Array
from tilewright.lang.types import bool_
from tilewright.schedule.extension import known
from tilewright.schedule.idle import over_all
from tilewright.schedule.inline import Body
from tilewright.schedule.nest import Box
from tilewright.schedule.prove import Facts
from tilewright.schedule.ranges import extent, project, spread
from tilewright.schedule.state import ROUND_UP, Key, Split, Stage, State, refuse, root_name, versioned

if TYPE_CHECKING:
    from tilewright.schedule.build import Built


def requirements(
    state: State, bodies: Mapping[Key, Body], funcs: Mapping[str, Built], sizes: Mapping[Node, Node]
) -> Iterator[tuple[Node, str]]:
    """(condition, meaning): every input holds what Funcs with larger regions, and those that they read, need of it."""
    for name in _affected(state):
        built = funcs.get(name)
        if built is None:
            continue
        idle = _or(_empty(built.region), negated(over_all(built.guard, built.site)))
        for key, ranges in built.stages.items():
            for r in reads(bodies[key], ranges.env(0)):  # type: ignore[arg-type]
                array = r.tensor.inout if isinstance(r.tensor, InoutFunc) else r.tensor
                if isinstance(array, Array):
                    for k, (i, e) in enumerate(zip(r.box, known(array.extents, sizes), strict=True)):
                        fits = _fits(project(i, built.around(key)), e, state.address(key), array.name)
                        if fits is not ir.TRUE:
                            yield (
                                _or(idle, fits),
                                (
                                    f"axis {k} of {array.name} holds what the larger region of {state.address(key)} needs "
                                    "of it (round_up, bound or align); use tail guard or shift, or leave bound and align out"
                                ),
                            )


def rounds_up(s: Stage) -> bool:
    """Whether a stage computes whole tiles, beyond the region that is needed."""
    return any(isinstance(t, Split) and t.tail == ROUND_UP for t in s.transforms)


def whole_axes(s: Stage) -> frozenset[int]:
    """The axes of a pure definition that it computes in whole tiles."""
    split = {t.parent for t in versioned(s)[0].transforms if isinstance(t, Split) and t.tail == ROUND_UP}
    return frozenset(k for k, v in enumerate(s.definition.lhs) if v.op == "var" and root_name(v) in split)


def _affected(state: State) -> list[str]:
    """Funcs that round up, have bounds or are aligned, and all that they are computed from."""
    todo = [key[0] for key, s in state.stages.items() if rounds_up(s)]
    todo += [name for name, fs in state.funcs.items() if fs.bounds or fs.aligns]
    found: dict[str, None] = {}
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = None
            todo.extend(state.producers(name))
    return list(found)


def _fits(r: Interval, e: Node, stage: str, array: str) -> Node:
    if r.lo is None or r.hi is None:
        raise refuse(f"what {stage} needs of {array} with its larger region has no bounds", "tail",
                     "use tail guard or shift, or leave bound and align out")  # fmt: skip
    low = simplify.compare("ge", r.lo, integer(0))
    return simplify.conjunction(low, simplify.compare("lt", r.hi, e))


def _empty(region: Box) -> Node:
    """Where nothing is computed at all, as far as sizes say."""
    out = ir.FALSE
    for r in region:
        c = simplify.compare("lt", extent(r), integer(1))
        out = out if ir.leaves((c,), "var") else _or(out, c)
    return out


def _or(a: Node, b: Node) -> Node:
    if ir.TRUE in (a, b):
        return ir.TRUE
    return b if a is ir.FALSE else a if b is ir.FALSE else ir.node("or", bool_, (a, b))


def negated(c: Node) -> Node:
    """The opposite of a condition over sizes."""
    return ir.FALSE if c is ir.TRUE else ir.TRUE if c is ir.FALSE else ir.node("not", bool_, (c,))


def rounded(s: Stage, root: Node, r: Interval, facts: Facts) -> Interval:
    """A pure variable's range, extended where a split of it rounds up; `facts` are those of the place."""
    name = root_name(root)
    for t in versioned(s)[0].transforms:
        if isinstance(t, Split) and t.parent == name and t.tail == ROUND_UP:
            assert r.lo is not None
            n = simplify.mul(_tiles(extent(r), t.factor, facts), integer(t.factor))
            return Interval(r.lo, simplify.sub(simplify.add(r.lo, n), integer(1)))
    return r


def _tiles(e: Node, factor: int, facts: Facts) -> Node:
    """How many tiles cover an extent. Where one of its limits is certainly the least, that one decides: inside of a
    tile of a consumer, what is needed is seldom more and never less than one tile."""
    whole = [simplify.floordiv(simplify.add(t, integer(factor - 1)), integer(factor)) for t in spread(e, "min")]
    for n in whole:
        if all(n is m or facts.nonnegative(simplify.sub(m, n)) for m in whole):
            return n
    return simplify.floordiv(simplify.add(e, integer(factor - 1)), integer(factor))
