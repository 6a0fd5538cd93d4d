"""The parts of conditions."""

from __future__ import annotations

from tilewright.lang import ir
from tilewright.lang.ir import Node


def conjuncts(c: Node) -> list[Node]:
    """The parts of a conjunction, `likely` marks removed."""
    return ir.spread(c, "and")
