"""Packed copies of what products read: by tiles, transposed in registers where they lie across."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.autotune.generate.draft import Draft
from tilewright.lang import ir
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.tensors import Array, Tensor
from tilewright.schedule.default_loops import apply
from tilewright.schedule.transposes import tile_size

_USES = 48  # of an element of a copy: for fewer it does not pay
_TASK = 16  # rows of a copy that a thread takes


@dataclass(frozen=True)
class Level:
    """A loop around a tile: the variable that it runs over, how often it turns, and points of the variable in a turn."""

    loop: str
    axis: str
    trips: int
    part: int


@dataclass(frozen=True)
class Operand:
    """A tensor that a product reads at one place. `axis` is the one that runs along the vectors, or along the rows, of
    the register tile by the variable `along` alone; `vars` are the variables that its place depends on."""

    tensor: Tensor
    rank: int
    axis: int
    along: str
    vars: frozenset[str]
    bytes: int

    def size(self, whole: Mapping[str, int]) -> int:
        """Bytes of all of it, from how far variables run."""
        return self.bytes * math.prod(whole.get(v, 1) for v in self.vars)

    @property
    def straight(self) -> bool:
        """Whether it lies along that axis."""
        return self.axis == self.rank - 1


def operands(draft: Draft, d: Definition, vector: Node, rows: Sequence[Node]) -> tuple[Operand, ...]:
    """What can be packed for a tile: tensors that are in memory and read at one place by the tile's variables alone."""
    found: dict[Tensor, Operand | None] = {}
    for n in ir.leaves(d.values, "load"):
        t = n.attr[0]
        if t is d.func:
            continue
        found[t] = None if t in found else _operand(draft, n, (vector, *rows))
    return tuple(x for x in found.values() if x is not None)


def _operand(draft: Draft, n: Node, tile: Sequence[Node]) -> Operand | None:
    t = n.attr[0]
    if isinstance(t, Func) and (
        t.name not in draft.s.state.funcs or draft.s.state.funcs[t.name].compute.kind == "inline"
    ):
        return None
    if not isinstance(t, Array | Func) or len(n.args) < 2 or (isinstance(t, Func) and len(t.dtypes) > 1):
        return None
    inside = [set(ir.leaves((a,), "var")) | set(ir.leaves((a,), "rvar")) for a in n.args]
    for v in tile:
        axes = [k for k, used in enumerate(inside) if v in used]
        if len(axes) == 1 and n.args[axes[0]] is v:
            names = frozenset(x.attr if x.op == "var" else x.attr[1] for used in inside for x in used)
            return Operand(t, len(n.args), axes[0], v.attr, names, n.dtype.bytes)
    return None


def pack_operands(
    draft: Draft, name: str, address: str, found: Sequence[Operand], levels: Sequence[Level], parallel: str | None,
    tiles: Mapping[str, int], whole: Mapping[str, int],
) -> None:  # fmt: skip
    """Choose for each operand where it is copied into panels of a tile's width, if anywhere."""
    around = [x.loop for x in levels]
    for x in found:
        places = _places(x, levels, tiles)
        own = isinstance(x.tensor, Func) and _lies_for(draft, x.tensor, name)
        among = ["", *places, *(("own",) if own else ())]
        if draft.at.cache(2) < 2 * x.size(whole) and places:  # it does not stay in the cache as it stands
            first = _once(x, levels, places)
            among = [first, *(y for y in among if y != first)]
        chosen = str(draft.choose(f"{name}.pack {x.tensor.name}", among)) if len(among) > 1 else ""
        if chosen == "own":
            apply(draft.s, "layout", "", (x.tensor.name,), layout=_panels(x, tiles[x.along]))
        elif chosen:
            outside = parallel is not None and around.index(chosen) < around.index(parallel)
            _pack(draft, x, f"{address}.{chosen}", tiles[x.along], outside)


def _places(x: Operand, levels: Sequence[Level], tiles: Mapping[str, int]) -> list[str]:
    """Loops that choose a part of the operand whose elements are used often enough inside; the innermost first."""
    found = []
    for k, level in enumerate(levels):
        inside = [y for y in levels[k + 1 :] if y.axis not in x.vars]
        uses = math.prod(y.trips for y in inside) * math.prod(n for a, n in tiles.items() if a not in x.vars)
        if level.axis in x.vars and inside and uses >= _USES:
            found.append(level.loop)
    return found[::-1]


def _once(x: Operand, levels: Sequence[Level], places: Sequence[str]) -> str:
    """The innermost place at which nothing is copied twice, else the outermost one."""
    again = next((k for k, y in enumerate(levels) if y.axis not in x.vars and y.trips > 1), len(levels))
    outside = [y.loop for y in levels[:again]]
    return next((y for y in places if y in outside), places[-1])


def _lies_for(draft: Draft, f: Func, reader: str) -> bool:
    """Whether a Func may lie in its buffer as one reader likes it: nobody else reads it, and nothing is said of that yet."""
    fs = draft.s.state.funcs[f.name]
    others = [k for k in draft.s.state.consumers(f) if k.key[0] != reader]
    plain = fs.layout is None and fs.origin == "algorithm" and f.name not in draft.s.state.outputs
    return plain and not others and not fs.folds and fs.compute.kind != "inline"


def _panels(x: Operand, width: int) -> str:
    """The layout in panels of a width along the tile's axis."""
    names = [f"a{k}" for k in range(x.rank)]
    a = names[x.axis]
    return f"{' '.join(names)} -> {a}//{width} {' '.join(n for n in names if n != a)} {a}%{width}"


def _pack(draft: Draft, x: Operand, at: str, width: int, shared: bool) -> None:
    s = draft.s
    names = [f"a{k}" for k in range(x.rank)]
    a, last = names[x.axis], names[-1]
    rest = [n for n in names if n != a]
    before = set(s.state.funcs)
    apply(s, "cache_read", "", (x.tensor.name,), at=at, layout=_panels(x, width))
    (copy,) = set(s.state.funcs) - before
    lanes = max(2, draft.at.registers.width // max(4, x.bytes))
    if x.straight:
        n = lanes if width % lanes == 0 else width
        if width > n or width % lanes == 0:
            apply(s, "vectorize", copy, (a,), by=n)
        else:
            apply(s, "split", copy, (a,), results=(f"{a}_o", f"{a}_t"), by=n)
            apply(s, "reorder", copy, (f"{a}_o", *rest, f"{a}_t"))
            apply(s, "vectorize", copy, (f"{a}_t",))
        loops = rest
    else:
        n = tile_size(draft.at.registers.width, x.bytes)
        panel = width <= n  # a whole panel across: its rows are read along the last axis
        by = width if panel else n
        apply(s, "tile", copy, (a, last), results=(f"{a}_o", f"{last}_o", f"{a}_t", f"{last}_t"), by=(by, n))
        outer = [r for r in rest if r != last]
        tile = (f"{a}_t", f"{last}_t") if panel else (f"{last}_t", f"{a}_t")
        apply(s, "reorder", copy, (*outer, f"{a}_o", f"{last}_o", *tile))
        apply(s, "unroll", copy, (tile[0],))
        apply(s, "vectorize", copy, (tile[1],))
        loops = [*outer, f"{a}_o"]
    if shared and loops:
        chunk = _TASK if x.straight else 1
        apply(s, "parallel", copy, (loops[0],), **({"by": chunk} if chunk > 1 else {}))


__all__ = ["Operand", "operands", "pack_operands"]
