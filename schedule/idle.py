"""Funcs that nothing needs after all, because what reads them runs over an empty range.

Their own region need not be empty: with N = 0, `blur[y, x] = edge[y, x - 1] + edge[y, x + 1]` needs two columns of
`edge` for no column of its own, and there is no element that a repeated edge could repeat. Such Funcs are not
computed. Where everything that a Func reads of arrays certainly exists, computing it in vain does no harm, and it
needs no guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.func import InoutFunc
from tilewright.lang.intervals import Env, Interval
from tilewright.lang.ir import Node
from tilewright.lang.regions import all_hold, conditions, executed, reads, runs
from tilewright.lang.tensors import Array
from tilewright.schedule import windows
from tilewright.schedule.inline import Body
from tilewright.schedule.ranges import ONE, ZERO, Range, as_ge0, nonnegative, project, spread
from tilewright.schedule.state import Key, State

if TYPE_CHECKING:
    from tilewright.schedule.build import Built


def runs_in(body: Body, env: Env, guard: Node) -> Node:
    """When a definition runs at all, its variables being in `env` and its Func being computed where `guard` holds."""
    inner = executed(body, env)  # type: ignore[arg-type]
    return all_hold(conditions(guard) | runs(inner[v] for v in env))


def over_all(guard: Node, between: tuple[Range, ...]) -> Node:
    """A guard inside of the loops `between` as a condition outside: they run, and it may hold in one iteration."""
    return once(all_hold(conditions(guard) | runs(x.interval for x in between)), between)


def once(guard: Node, between: tuple[Range, ...]) -> Node:
    """A condition that is the same in all iterations of the loops `between`, and holds where `guard` does in one."""
    found: set[Node] = set()
    for c in conditions(guard):
        if not any(x.var in ir.leaves((c,), "var") for x in between):
            found.add(c)
        elif (g := as_ge0(c)) is not None and (most := project(Interval(g, g), between).hi) is not None:
            found |= set(nonnegative(most))
    return all_hold(found - {ir.TRUE})


def exposed(state: State, bodies: Mapping[Key, Body], funcs: Mapping[str, Built]) -> frozenset[str]:
    """Names of the Funcs whose reads of arrays are not certain to stay inside, and of all that read such a Func."""
    out: set[str] = set()
    for name in state.order:
        built = funcs.get(name)
        if built is None:
            continue
        for key, ranges in built.stages.items():
            body = bodies[key]
            made = {n.attr[0].name for n in ir.leaves(body.roots, "load") if n.attr[0] is not body.func}
            if made & out or not all(_inside(r, built.around(key)) for r in reads(body, ranges.env(0))):  # type: ignore[arg-type]
                out.add(name)
    return frozenset(out)


def _inside(r, site: tuple[Range, ...]) -> bool:
    array = r.tensor.inout if isinstance(r.tensor, InoutFunc) else r.tensor
    if not isinstance(array, Array):
        return True
    facts = windows.facts_at(site)
    for i, e in zip(r.box, array.extents, strict=True):
        whole, last = project(i, site), simplify.sub(e, ONE)
        if whole.lo is None or whole.hi is None:
            return False
        if not (_nonnegative(whole.lo) or windows.at_least(i.lo, ZERO, facts)):
            return False
        if not (_nonnegative(simplify.sub(last, whole.hi)) or windows.at_least(last, i.hi, facts)):
            return False
    return True


def _nonnegative(n: Node) -> bool:
    """Certainly >= 0, made of sizes."""
    lowest = spread(n, "min")
    if len(lowest) > 1:
        return all(map(_nonnegative, lowest))
    highest = spread(n, "max")
    if len(highest) > 1:
        return any(map(_nonnegative, highest))
    coefs, c = simplify.linear(n)
    return c >= 0 and all(k > 0 and t.op == "size" for t, k in coefs.items())
