"""What `s.loops()` gives: the nest to be printed, and the same facts as Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node
from tilewright.schedule.build import build_nest
from tilewright.schedule.nest import Allocation, Assign, Box, Call, LoopNode, Nest, NestNode, Produce, Storage, children
from tilewright.schedule.printer import print_nest
from tilewright.schedule.state import State


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """One loop: `start <= variable < stop`. `depth` counts the loops around it, `parent` is the next one's address."""

    address: str
    name: str
    mode: str
    reduction: bool
    start: Node
    stop: Node
    depth: int
    parent: str | None

    @property
    def extent(self) -> Node:
        """stop - start; negative where the loop does not run."""
        return simplify.sub(self.stop, self.start)


@dataclass(frozen=True, slots=True)
class BufferFacts:
    """A buffer and the address of the loop in whose iterations it lives (None: the whole run)."""

    storage: Storage
    at: str | None


@dataclass(frozen=True, eq=False)
class LoopView:
    """A nest. `str()` prints it.

    loops     every loop in the order of the text
    regions   Func -> what is computed of it at its place (one interval an axis, inclusive)
    uses      tensor -> addresses of the stages that read it
    buffers   every buffer of ours with its place
    """

    nest: Nest
    loops: tuple[LoopFacts, ...]
    regions: Mapping[str, Box]
    uses: Mapping[str, tuple[str, ...]]
    buffers: tuple[BufferFacts, ...]

    def __str__(self) -> str:
        return print_nest(self.nest)

    def _repr_html_(self) -> str:
        from tilewright.hw.render.html import code_html

        return code_html(str(self))

    def __repr__(self) -> str:
        return f"<nest of {len(self.loops)} loops and {len(self.buffers)} buffers>"

    def loop(self, address: str) -> LoopFacts:
        """The first loop with this address, or the only one with this name."""
        found = [x for x in self.loops if x.address == address] or [x for x in self.loops if x.name == address]
        if not found:
            known = ", ".join(dict.fromkeys(x.address for x in self.loops))
            raise KeyError(f"there is no loop {address!r} in this nest: {known}")
        return found[0]


def view(state: State) -> LoopView:
    """Build the nest of a state and collect its facts. Multiplications and additions are shown unfused."""
    nest = build_nest(state, "strict")
    loops: list[LoopFacts] = []
    regions: dict[str, Box] = {}
    uses: dict[str, dict[str, None]] = {}
    buffers: list[BufferFacts] = []
    stack: list[tuple[NestNode, tuple[str, ...]]] = [(nest.body, ())]
    while stack:
        n, around = stack.pop()
        at = around[-1] if around else None
        inside = around
        match n:
            case LoopNode():
                loops.append(LoopFacts(n.address, n.name, n.mode, n.reduction, n.start, n.stop, len(around), at))
                inside = (*around, n.address)
            case Produce(label="produce"):
                regions.setdefault(n.name, n.region)
            case Allocation(storages):
                buffers.extend(BufferFacts(s, at) for s in storages)
            case Assign():
                for x in ir.leaves((*n.indices, *n.values), "load"):
                    uses.setdefault(x.attr[0].name, {})[n.stage] = None
            case Call(arguments=given):
                for a in given:
                    if isinstance(a, tuple):
                        uses.setdefault(a[0].name, {})[n.stage] = None
        stack.extend((c, inside) for c in reversed(children(n)))
    return LoopView(nest, tuple(loops), regions, {k: tuple(v) for k, v in uses.items()}, tuple(buffers))
