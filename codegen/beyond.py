"""Guards inside register tiles become repairs of what is read.

A tile in registers is computed whole where the region ends inside it, too: what is too much is never stored. A branch for
every row and a mask for every statement would cost more. Only what is read must stay inside its array: rows beyond
its end become its first row, lanes beyond its end are masked. Repairs are `likely` to do nothing, so that loops are parted
by them and the middle part has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.codegen.places import ONE, Key, Place
from tilewright.lang import ir, simplify
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Tensor
from tilewright.lang.types import bool_, index
from tilewright.schedule.nest import Assign, Guard, LoopNode, NestNode, Sequence, Storage
from tilewright.schedule.prove import Facts

Holds = Callable[
    [Storage, tuple[Node, ...], Facts], bool
]  # whether a place is certainly inside the memory of a storage
_FLAT = ("unroll", "vectorize")


class Beyond:
    """Rewrites statements so that a guard around them may go; `modes` are those of the loops around, by variable."""

    def __init__(self, scope: Mapping[Key, Place], modes: Mapping[Node, str], holds: Holds):
        self.scope, self.modes, self.holds = scope, dict(modes), holds

    def of(self, condition: Node, then: NestNode, facts: Facts) -> NestNode | None:
        """`then` such that it may run where `condition` fails; None where it can't be had, or where no loop of a tile
        in registers has to do with it (whole iterations are left out by a branch)."""
        if not any(self.modes.get(v) in _FLAT for v in ir.leaves((condition,), "var")):
            return None
        return self._of(then, facts)

    def _of(self, n: NestNode, facts: Facts) -> NestNode | None:
        match n:
            case Sequence(items):
                made = [self._of(i, facts) for i in items]
                return None if any(m is None for m in made) else Sequence(tuple(m for m in made if m is not None))
            case LoopNode(var=var, start=start, stop=stop, mode=mode, body=body):
                if mode not in _FLAT or not start.op == stop.op == "const":
                    return None
                self.modes[var] = mode
                inner = self._of(body, facts.entering(var, Interval(start, simplify.sub(stop, ONE))))
                return None if inner is None else replace(n, body=inner)
            case Guard(condition, then, None, optional):
                if ir.leaves((condition,), "load"):
                    return None
                inner = self._of(then, facts if optional else facts.where(condition))
                return None if inner is None else Guard(condition, inner, None, optional)
            case Assign(tensor=tensor, indices=indices, values=values):
                return self._assign(n, tensor, indices, values, facts)
        return None

    def _assign(
        self, n: Assign, tensor: Tensor, indices: tuple[Node, ...], values: tuple[Node, ...], facts: Facts
    ) -> NestNode | None:
        mine = self.scope.get((tensor, 0))
        if mine is None or mine.storage.role != "temporary" or mine.buffer.memory != "reg":
            return None
        if not self.holds(mine.storage, indices, facts):
            return None
        memo: dict[Node, Node] = {}
        for load in ir.leaves(values, "load"):
            place = self.scope.get(load.attr)
            if place is None or any(m.op in ("load", "assume") for m in ir.postorder(load.args)):
                return None
            if not self.holds(place.storage, load.args, facts):
                repaired = self._repaired(load, place.storage, facts)
                if repaired is None:
                    return None
                memo[load] = repaired
        return replace(n, values=ir.substitute(values, memo))

    def _repaired(self, load: Node, s: Storage, facts: Facts) -> Node | None:
        """A load that stays inside: another place, or no load at all in lanes that are beyond."""
        if s.folds:
            return None
        args, mask = [], ir.TRUE
        for i, o, e in zip(load.args, s.origin, s.extents, strict=True):
            if i.op == "select" and i.args[0].op == "likely" and i.args[2] is o:
                args.append(i)  # by a guard further out
                continue
            last = simplify.sub(simplify.add(o, e), ONE)
            inside: Node = ir.TRUE
            for end in (simplify.sub(i, o), simplify.sub(last, i)):
                if not facts.nonnegative(end):
                    inside = simplify.conjunction(inside, simplify.compare("ge", end, integer(0)))
            if inside is ir.TRUE:
                args.append(i)
                continue
            inside = simplify.build("likely", bool_, (inside,))
            if any(self.modes.get(v) == "vectorize" for v in ir.leaves((i,), "var")) or not _some(e, facts):
                mask = inside if mask is ir.TRUE else simplify.conjunction(mask, inside)
                args.append(i)
            else:
                args.append(simplify.build("select", index, (inside, i, o)))
        moved = ir.node("load", load.dtype, tuple(args), load.attr)
        return (
            moved if mask is ir.TRUE else simplify.build("select", load.dtype, (mask, moved, ir.const(0, load.dtype)))
        )


def _some(extent: Node, facts: Facts) -> bool:
    """Whether an extent is 1 or more, seen that the loops around run: a loop over its tiles has one if it has."""
    last = simplify.sub(extent, ONE)
    if facts.nonnegative(last):
        return True
    for _, r in facts.loops:
        if r.lo is None or r.hi is None:
            continue
        coefs, d = simplify.linear(simplify.sub(r.hi, r.lo))  # q + d >= 0
        tiles = [t for t in coefs if t.op == "floordiv" and t.args[1].op == "const" and coefs[t] == 1]
        if len(coefs) == len(tiles) == 1:
            n, factor = tiles[0].args
            least = simplify.sub(last, simplify.add(n, integer(d * factor.attr)))  # n // factor + d >= 0
            if least.op == "const" and least.attr >= 0:
                return True
    return False
