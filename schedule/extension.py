"""What `bound`, `align` and `pad` make of a Func's region and of its buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.func import InoutFunc
from tilewright.lang.intervals import Interval, certainly_nonnegative
from tilewright.lang.ir import Node, integer
from tilewright.lang.types import bool_
from tilewright.schedule.nest import Box
from tilewright.schedule.ranges import ONE, ZERO, Range, extent, project
from tilewright.schedule.state import FuncState, State

if TYPE_CHECKING:
    from tilewright.lang.pipeline import Output

Requirement = tuple[Node, str]


def extended(fs: FuncState, region: Box) -> Box:
    """The region that is computed: a bounded axis whole, an aligned one in whole blocks."""
    out = list(region)
    for axis, start, n in fs.bounds:
        out[axis] = fixed(start, n)
    for axis, modulus, remainder in fs.aligns:
        out[axis] = aligned(out[axis], modulus, remainder)
    return tuple(out)


def fixed(start: int, n: int) -> Interval:
    """The range of `bound`."""
    return Interval(integer(start), integer(start + n - 1))


def aligned(r: Interval, modulus: int, remainder: int) -> Interval:
    """The least range around `r` whose start, and the point after whose end, are `remainder` modulo `modulus`.

    An empty range stays empty.
    """
    assert r.lo is not None and r.hi is not None
    m, shift = integer(modulus), integer(remainder)
    low = simplify.mul(simplify.floordiv(simplify.sub(r.lo, shift), m), m)
    high = simplify.mul(simplify.floordiv(simplify.add(simplify.sub(r.hi, shift), m), m), m)
    start, end = simplify.add(low, shift), simplify.sub(simplify.add(high, shift), ONE)
    n = extent(r)
    if start is not r.lo and not certainly_nonnegative(simplify.sub(n, ONE)):
        # no more blocks than points, so none for no points
        most = simplify.mul(simplify.maximum(n, ZERO), m)
        end = simplify.minimum(end, simplify.sub(simplify.add(start, most), ONE))
    return Interval(start, end)


def padded(fs: FuncState, extents: Iterable[Node]) -> tuple[Node, ...]:
    """Stored extents, rounded up where the buffer is padded."""
    out = list(extents)
    for axis, n in fs.pads:
        blocks = simplify.floordiv(simplify.add(out[axis], integer(n - 1)), integer(n))
        out[axis] = simplify.mul(blocks, integer(n))
    return tuple(out)


# What a promise asks of the sizes ---------------------------------------------------------------------------------


def promised_outputs(state: State) -> list[Requirement]:
    """Every output with bounds (and every inout) has exactly that range."""
    out: list[Requirement] = []
    for name, fs in state.funcs.items():
        for axis, start, n in fs.bounds:
            for whole in _argument_ranges(state, fs, axis):
                out += _same(name, fs, axis, start, n, whole)
    return out


def _argument_ranges(state: State, fs: FuncState, axis: int) -> list[Interval]:
    if isinstance(fs.func, InoutFunc):
        assert fs.func.inout is not None
        return [Interval(ZERO, simplify.sub(fs.func.inout.extents[axis], ONE))]
    return [output_range(o, axis) for o in state.pipeline.outputs if o.func is fs.func]


def output_range(o: Output, axis: int) -> Interval:
    """The points of an output along an axis."""
    return Interval(o.starts[axis], simplify.sub(o.stops[axis], ONE))


def _same(name: str, fs: FuncState, axis: int, start: int, n: int, whole: Interval) -> list[Requirement]:
    assert whole.lo is not None and whole.hi is not None
    text = _promise(name, fs, axis, start, n)
    ends = ((whole.lo, integer(start)), (whole.hi, integer(start + n - 1)))
    return [(simplify.compare("eq", a, b), text) for a, b in ends]


def promised_region(name: str, fs: FuncState, needed: Box, site: tuple[Range, ...]) -> list[Requirement]:
    """What is needed of a Func with bounds lies inside them, or nothing is needed."""
    out: list[Requirement] = []
    for axis, start, n in fs.bounds:
        whole = project(needed[axis], site)
        text = _promise(name, fs, axis, start, n)
        if whole.lo is None or whole.hi is None:
            out.append((ir.FALSE, text))
            continue
        low = simplify.compare("ge", whole.lo, integer(start))
        held = simplify.conjunction(low, simplify.compare("lt", whole.hi, integer(start + n)))
        if held is not ir.TRUE:
            none = simplify.compare("lt", whole.hi, whole.lo)
            out.append((held if none is ir.FALSE else ir.node("or", bool_, (none, held)), text))
    return out


def _promise(name: str, fs: FuncState, axis: int, start: int, n: int) -> str:
    return (
        f"{name} is needed over {start}..{start + n} of its axis {fs.func.args[axis].attr}, as the schedule promises "
        f"(bound {name} over {fs.func.args[axis].attr})"
    )


# What equations say of sizes --------------------------------------------------------------------------------------


def solved(conditions: Iterable[Node]) -> dict[Node, Node]:
    """Sizes by what conditions that hold say of them: `N == 32` gives N -> 32, `N % 16 == 0` gives N -> 16 * (N // 16),
    `M == N` one of the two by the other."""
    found: dict[Node, Node] = {}
    for c in (part for whole in conditions for part in ir.spread(whole, "and")):
        if c.op != "eq" or ir.leaves((c,), "load"):
            continue
        (difference,) = ir.substitute((simplify.sub(*c.args),), found) if found else (simplify.sub(*c.args),)
        new = _solution(difference)
        if new is not None:
            size, value = new
            found = {s: ir.substitute((v,), {size: value})[0] for s, v in found.items()}
            found[size] = value
    return found


def _solution(zero: Node) -> tuple[Node, Node] | None:
    """(size, what it is) where an expression is 0."""
    coefs, c = simplify.linear(zero)
    if len(coefs) == 1:
        ((t, k),) = coefs.items()
        if c % k:
            return None
        return (t, integer(-c // k)) if t.op == "size" else _residue(t, -c // k)
    for t, k in coefs.items():
        if t.op == "size" and abs(k) == 1 and all(u.op == "size" for u in coefs):
            rest = simplify.from_linear({u: -k * v for u, v in coefs.items() if u is not t}, -k * c)
            return t, rest
    return None


def _residue(t: Node, r: int) -> tuple[Node, Node] | None:
    """size % m == r: the size is a multiple of m, and r."""
    if t.op != "mod" or t.args[1].op != "const" or not 0 <= r < t.args[1].attr:
        return None
    coefs, c = simplify.linear(t.args[0])
    if len(coefs) != 1:
        return None
    ((size, k),) = coefs.items()
    if size.op != "size" or k != 1:
        return None
    m = t.args[1].attr
    r = (r - c) % m
    whole = ir.node("floordiv", size.dtype, (size, integer(m)))
    return size, simplify.add(simplify.mul(whole, integer(m)), integer(r))


def known(roots: tuple[Node, ...], sizes: Mapping[Node, Node]) -> tuple[Node, ...]:
    """Expressions with sizes by what is known of them."""
    return ir.substitute(roots, sizes) if sizes else roots


def known_box(box: Box, sizes: Mapping[Node, Node]) -> Box:
    """A box with sizes by what is known of them."""
    if not sizes:
        return box

    def one(n: Node | None) -> Node | None:
        return None if n is None else ir.substitute((n,), sizes)[0]

    return tuple(Interval(one(r.lo), one(r.hi)) for r in box)
