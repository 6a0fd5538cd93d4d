"""Sliding windows: a Func that is stored outside a serial loop and computed inside computes only what is new.

    for y                                        for y
      blur_x over rows y-1..y+1           =>       blur_x over rows (y-1..y+1 at first, then y+1)
      blur_y[y] = f(blur_x[y-1..y+1])              blur_y[y] = f(blur_x[y-1..y+1])

What is computed for a point does not depend on when, so the values stay. It needs, for an axis and a loop between
storage and computation: the ends of the region move one way with the loop, no other axis moves with it, no iteration
is left out, and every definition of the Func runs over that axis point by point.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node
from tilewright.schedule import windows
from tilewright.schedule.inline import Body
from tilewright.schedule.nest import Box
from tilewright.schedule.ranges import ONE, Range, spread
from tilewright.schedule.windows import Site

UP, DOWN, STILL = 1, -1, 0


@dataclass(frozen=True)
class Slide:
    """What became of one axis: the loop it slides along, or why it does not."""

    axis: int
    loop: str | None
    reason: str = ""


def slide(
    region: Box,
    site: Site,
    between: Site,
    bodies: Sequence[Body],
    whole: Collection[int] = (),
    folded: Collection[int] = (),
) -> tuple[Box, list[Slide]]:
    """The region that is left to compute in each iteration of the loops `between` storage and computation.

    `site` are all loops around, `bodies` are the Func's definitions, `whole` the axes that are computed in whole tiles
    (round_up), `folded` those of which the buffer keeps a part only. The second result says for every axis that moves
    whether it slides.
    """
    out, notes = list(region), []
    for k, r in enumerate(region):
        moving = [x for x in between if _varies(r, x.var)]
        if not moving:
            continue
        x = moving[-1]
        why = "its tiles are whole" if k in whole else _obstacle(region, k, x, site, between, bodies, folded)
        if why is None:
            out[k] = _new_part(r, x, site)
        notes.append(Slide(k, x.name if why is None else None, why or ""))
    return tuple(out), notes


def _varies(r: Interval, var: Node) -> bool:
    assert r.lo is not None and r.hi is not None
    return var in ir.leaves((r.lo, r.hi), "var")


def _obstacle(
    region: Box, axis: int, x: Range, site: Site, between: Site, bodies: Sequence[Body], folded: Collection[int]
) -> str | None:
    """Why an axis can't slide along a loop; None if it can."""
    r = region[axis]
    assert r.lo is not None and r.hi is not None
    if x.mode not in ("serial", "unroll"):
        return f"{x.name} is {x.mode}"
    if any(_varies(other, x.var) for j, other in enumerate(region) if j != axis):
        return f"another axis moves with {x.name} as well"
    inner = between[between.index(x) :]
    if any(y.guards for y in inner):
        return f"iterations of {x.name} may be left out"
    if any(x.var in ir.leaves((y.start, y.stop), "var") for y in inner[1:]):
        return f"the loops inside {x.name} change with it"
    if any(_varies(region[j], y.var) for j in folded for y in inner[1:]):
        return f"a folded axis moves inside {x.name}: what the iteration before has computed is gone"
    for b in bodies:
        if b.lhs[axis].op != "var":
            return "an update writes that axis out of order"
    if _way(r, x, site) is None:
        return f"its ends do not move one way with {x.name}"
    return None


def _way(r: Interval, x: Range, site: Site) -> int | None:
    """UP or DOWN where both ends of a region move that way with a loop."""
    assert r.lo is not None and r.hi is not None
    outer = site[: site.index(x)]
    low, high = _moves(r.lo, x, outer), _moves(r.hi, x, outer)
    return low if low == high and low != STILL else None


def _moves(n: Node, x: Range, outer: Site) -> int | None:
    """The direction in which an end of a region moves with a loop, whose first iteration may be told apart."""
    first = windows.in_first(n, x)
    if first is None:
        return direction(n, x.var)
    later = windows.in_later(n, x)
    moves, second = direction(later, x.var), windows.in_second(later, x)
    facts = windows.where_two(x, outer)
    if moves in (UP, STILL) and windows.at_least(second, first, facts):
        return UP
    return DOWN if moves in (DOWN, STILL) and windows.at_least(first, second, facts) else None


def _new_part(r: Interval, x: Range, site: Site) -> Interval:
    """The part of the region that the iteration before did not have."""
    assert r.lo is not None and r.hi is not None
    before = {x.var: simplify.sub(x.var, ONE)}
    if _way(r, x, site) == UP:
        (end,) = ir.substitute((r.hi,), before)
        later = simplify.maximum(r.lo, simplify.add(end, ONE))
        return Interval(windows.tidied(windows.choice(x, later, r.lo), site), r.hi)
    (end,) = ir.substitute((r.lo,), before)
    later = simplify.minimum(r.hi, simplify.sub(end, ONE))
    return Interval(r.lo, windows.tidied(windows.choice(x, later, r.hi), site))


def direction(n: Node, var: Node) -> int | None:
    """UP if `n` never falls as `var` grows, DOWN if it never rises, STILL if it does not depend on it, None if unknown."""
    if var not in ir.leaves((n,), "var"):
        return STILL
    if n is var:
        return UP
    if n.op in ("min", "max"):
        return _common([direction(a, var) for a in spread(n, n.op)])
    if n.op == "floordiv" and n.args[1].op == "const" and n.args[1].attr > 0:
        return direction(n.args[0], var)
    coefs, _ = simplify.linear(n)
    if list(coefs) == [n]:
        return None
    parts = []
    for t, k in coefs.items():
        d = direction(t, var)
        parts.append(None if d is None else d * (1 if k > 0 else -1))
    return _common(parts)


def _common(parts: list[int | None]) -> int | None:
    moving = {d for d in parts if d != STILL}
    if None in moving or len(moving) > 1:
        return None
    return moving.pop() if moving else STILL
