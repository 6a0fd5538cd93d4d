"""Products on the units of a machine: blocks as a unit takes them, in tiles whose operands lie where it wants them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tilewright.autotune.generate.extents import Extents
from tilewright.autotune.space import Choose
from tilewright.hw import Machine
from tilewright.hw.parts import Unit
from tilewright.lang import ir
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Func
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.types import as_dtype
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Key, Stage, root_name
from tilewright.schedule.units import Product, as_product

ROLES = ("m", "n", "k")
_TILES = 5  # sizes of tiles along a variable
_LEAST = 8  # of a tile along one of which a call does any number


@dataclass(frozen=True)
class Way:
    """A product that a unit can do: its stage, and as what the unit sees it (one way round or the other)."""

    key: Key
    product: Product
    unit: Unit
    turned: bool

    @property
    def name(self) -> str:
        return f"{self.unit.name} for {self.key[0]}{', turned' if self.turned else ''}"


def ways(pipeline: Pipeline, machine: Machine) -> list[Way]:
    """What units of a machine can do of a pipeline, by types."""
    found = []
    for stage in Schedule(pipeline).state.stages.values():
        p = as_product(stage)
        for turned in (False, True) if p is not None else ():
            assert p is not None
            seen = p.turned() if turned else p
            found += [Way(stage.key, seen, u, turned) for u in machine.units if _takes(u, stage, seen)]
    return found


def _takes(u: Unit, stage: Stage, p: Product) -> bool:
    types = {"a": _type(p.a), "b": _type(p.b), "c": stage.definition.func.dtypes[0].name}
    return dict(u.types) == types and all(p.roles.get(r) or u.shape.get(r, 1) == 1 for r in ("n", "k"))


def _type(load: Node) -> str:
    tensor, component = load.attr
    return (tensor.dtypes[component] if isinstance(tensor, Func) else tensor.dtype).name


def write_unit(s: Schedule, way: Way, at: Extents, machine: Machine, choose: Choose) -> None:
    """Write a product as calls of a unit: a variable of each role inside of it, all others around tiles of these.

    Tiles are as large as the memories of the operands hold, of which copies ahead take two slots.
    """
    stage = s.state.stages[way.key]
    d, address = stage.definition, s.state.address(way.key)
    inside = {r: max(v, key=lambda n: at.of(d, n)) for r in ROLES if (v := way.product.roles.get(r))}
    extents = {r: max(1, at.of(d, n)) for r, n in inside.items()}
    ahead = bool(choose("ahead", (True, False)))
    blocks = {r: min(n, way.unit.shape.get(r, 1) or n) for r, n in extents.items()}
    tiles = _tiles(way, extents, blocks, machine, 2 if ahead else 1, choose)
    order = _order([r for r in inside if tiles[r] < extents[r]], choose)

    names = {r: root_name(n) for r, n in inside.items()}
    handle, loops, calls, inner = s[address], {}, [], []
    for r, v in names.items():
        rest = v
        if r in order:
            handle.split(rest, f"{v}_t", f"{v}_b", tiles[r])
            loops[r], rest = f"{v}_t", f"{v}_b"
        if way.unit.shape.get(r, 1) is not None:  # its extent has to be known
            handle.split(rest, f"{v}_c", f"{v}_u", blocks[r])
            calls.append(f"{v}_c")
            rest = f"{v}_u"
        inner.append(rest)
    others = [x.name for x in stage.loops if x.name not in names.values()]
    outer = [*others, *(loops[r] for r in order)]
    handle.reorder(*outer, *calls, *inner)
    around = {**{n: n for n in others}, **{names[r]: loops[r] for r in order}}
    _operands(s, way, address, stage, [around[n] for n in (*others, *(names[r] for r in order))], around, ahead)
    handle.tensorize(inner[0], way.unit.name)


def _tiles(
    way: Way, extents: Mapping[str, int], blocks: Mapping[str, int], machine: Machine, slots: int, choose: Choose
) -> dict[str, int]:
    """How much of each role a tile has: as much as fits when the later ones have one block."""
    taken = {r: n if way.unit.shape.get(r, 1) is not None else min(n, _LEAST) for r, n in blocks.items()}
    for r, n in extents.items():
        sizes = [n, *(blocks[r] * 2**k for k in reversed(range(n.bit_length())) if blocks[r] * 2**k < n)]
        if way.unit.shape.get(r, 1) is None:  # of any extent: a call does all of the tile
            sizes = [n, *(2**k for k in reversed(range(3, n.bit_length())) if 2**k < n)]
        fitting = [x for x in dict.fromkeys(sizes) if _fits(way, {**taken, r: x}, machine, slots)]
        chosen = choose(f"tile {r}", fitting[:_TILES])
        assert isinstance(chosen, int)
        taken[r] = chosen
    return taken


def _fits(way: Way, tile: Mapping[str, int], machine: Machine, slots: int) -> bool:
    used: dict[str, int] = {}
    for operand, roles in (("a", "mk"), ("b", "kn"), ("c", "mn")):
        load = way.product.a if operand == "a" else way.product.b
        memory, size = way.unit.memories[operand], as_dtype(way.unit.types[operand]).bytes
        halo = 1 if operand == "c" else _halo(way, load)
        used[memory] = used.get(memory, 0) + math.prod(tile.get(r, 1) for r in roles) * size * slots * halo
    return all(n <= (machine.memory(m).capacity or math.inf) for m, n in used.items())


def _halo(way: Way, load: Node) -> int:
    """A tile of an operand with several variables in one index may be this many times as large."""
    inside = {n for nodes in way.product.roles.values() for n in nodes}
    return 2 if any(len(inside & set(ir.postorder((i,)))) > 1 for i in load.args) else 1


def _order(cut: Sequence[str], choose: Choose) -> tuple[str, ...]:
    """The order of the loops over tiles: the reduction innermost first, so that sums stay where they are."""
    orders = {" ".join(o): o for o in itertools.permutations(cut)}
    return orders[str(choose("order", tuple(orders)))] if orders else ()


def _operands(
    s: Schedule, way: Way, address: str, stage: Stage, outer: Sequence[str], around: Mapping[str, str], ahead: bool
) -> None:  # fmt: skip
    """Copies of the operands for each tile, and the tile of results."""

    def innermost(indices: Iterable[Node]) -> str | None:
        used = {
            around[root_name(n)] for n in ir.postorder(tuple(indices)) if n in stage.roots and root_name(n) in around
        }
        return next((f"{address}.{x}" for x in reversed(outer) if x in used), None)

    d = stage.definition
    for operand, load in (("a", way.product.a), ("b", way.product.b)):
        made = s.cache_read(
            load.attr[0].name, at=innermost(load.args), memory=way.unit.memories[operand], consumers=address
        )
        if ahead:
            with suppress(ScheduleError):
                made.double_buffer()
    at = innermost(d.lhs)
    s.cache_write(d.func.name, at=at, memory=way.unit.memories["c"])


__all__ = ["Way", "ways", "write_unit"]
