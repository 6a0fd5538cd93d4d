"""What is known inside the forms of specialised stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.lang import ir
from tilewright.lang.ir import Node
from tilewright.schedule.conditions import expanded
from tilewright.schedule.extension import solved
from tilewright.schedule.nest import NestNode
from tilewright.schedule.peeling import Simplifier
from tilewright.schedule.prove import Facts
from tilewright.schedule.ranges import Range
from tilewright.schedule.state import Key, State


@dataclass(frozen=True, eq=False)
class Form:
    """`condition`: when this form of a stage runs, given that the one that it is a form of does. `conditions` hold
    where it runs, `sizes` are what they say of sizes."""

    condition: Node
    conditions: tuple[Node, ...]
    sizes: Mapping[Node, Node]

    def simplified(self, n: NestNode, around: tuple[Range, ...]) -> NestNode:
        """The nest of this form inside of loops, with what the conditions decide decided."""
        facts = Facts(tuple((x.var, x.interval) for x in around))
        inside = ir.substitute(self.conditions, self.sizes)
        for c in (*self.conditions, *inside):
            facts = facts.where(c)
        true = [part for c in (*self.conditions, *inside) for part in ir.spread(c, "and")]
        return Simplifier(facts, true).nest(n)


def known(state: State, promises: Sequence[Node], inside: bool = True) -> dict[Key, Form]:
    """What is known where each stage runs; `promises` hold everywhere. With `inside` False, nothing but them."""
    plain = Form(ir.TRUE, (), solved(promises))
    if not inside or not any(s.branches for s in state.stages.values()):
        return dict.fromkeys(state.stages, plain)
    out: dict[Key, Form] = {}
    for key in state.stages:
        conditions = tuple(expanded(state.pipeline, c) for c in state.conditions(key))
        if not conditions:
            out[key] = plain
            continue
        condition = ir.TRUE
        if len(key) > 2:
            outer = state.stages[key[:-1]]  # type: ignore[index]
            (own,) = (b.condition for b in outer.branches if b.name == key[-1])
            condition = expanded(state.pipeline, own)
        out[key] = Form(condition, conditions, solved([*promises, *conditions]))
    return out
