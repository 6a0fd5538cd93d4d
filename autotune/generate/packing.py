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
_WHOLE = "whole"  # of it is copied, before anything else
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
    depth: int = -1  # the axis that runs along the innermost reduction variable alone

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
        found[t] = None if t in found else _operand(draft, n, (vector, *rows), d.rdom.rvars[-1] if d.rdom else None)
    return tuple(x for x in found.values() if x is not None)


def _stored(t: Tensor) -> int:
    """Bytes of an element in memory."""
    return t.dtype.bytes if isinstance(t, Array) else t.dtypes[0].bytes  # type: ignore[union-attr]


def _operand(draft: Draft, n: Node, tile: Sequence[Node], innermost: Node | None) -> Operand | None:
    t = n.attr[0]
    if not isinstance(t, Array | Func) or len(n.args) < 2:
        return None
    if isinstance(t, Func) and (t.name not in draft.s.state.funcs or len(t.dtypes) > 1):
        return None
    inside = [set(ir.leaves((a,), "var")) | set(ir.leaves((a,), "rvar")) for a in n.args]
    for v in tile:
        axes = [k for k, used in enumerate(inside) if v in used]
        if len(axes) == 1 and n.args[axes[0]] is v:
            names = frozenset(x.attr if x.op == "var" else x.attr[1] for used in inside for x in used)
            deep = [k for k, a in enumerate(n.args) if a is innermost and sum(a in used for used in inside) == 1]
            return Operand(t, len(n.args), axes[0], v.attr, names, _stored(t), deep[0] if deep else -1)
    return None


def pack_operands(
    draft: Draft, name: str, address: str, found: Sequence[Operand], levels: Sequence[Level], parallel: str | None,
    vector: str,
    tiles: Mapping[str, int], whole: Mapping[str, int], group: int,
) -> None:  # fmt: skip
    """Choose for each operand where it is copied into panels of a tile's width, if anywhere. With `group` more than 1, so
    many steps of the reduction lie side by side: what runs along the vectors then is always packed."""
    around = [x.loop for x in levels]
    for x in found:
        places = _places(x, levels, tiles)
        if _again(draft, name, x, levels) and math.prod(n for v, n in whole.items() if v not in x.vars) >= _USES:
            places = [*places, _WHOLE]
        own = isinstance(x.tensor, Func) and _lies_for(draft, x.tensor, name)
        among = ["", *places, *(("own",) if own else ())]
        if draft.at.cache(2) < 2 * x.size(whole) and places:  # it does not stay in the cache as it stands
            first = _once(x, levels, places)
            among = [first, *(y for y in among if y != first)]
        if group > 1 and x.along == vector:
            among = [y for y in among if y] or [""]
        chosen = str(draft.choose(f"{name}.pack {x.tensor.name}", among)) if len(among) > 1 else among[0]
        if chosen == "own":
            apply(draft.s, "layout", "", (x.tensor.name,), layout=_panels(x, tiles[x.along], group))
        elif chosen:
            depth = -1 if chosen == _WHOLE else around.index(chosen)
            outside = chosen == _WHOLE or (parallel is not None and depth < around.index(parallel))
            _pack(draft, x, address, chosen, tiles[x.along], outside, group)


def _places(x: Operand, levels: Sequence[Level], tiles: Mapping[str, int]) -> list[str]:
    """Loops that choose a part of the operand whose elements are used often enough inside; the innermost first."""
    found = []
    for k, level in enumerate(levels):
        inside = [y for y in levels[k + 1 :] if y.axis not in x.vars]
        uses = math.prod(y.trips for y in inside) * math.prod(n for a, n in tiles.items() if a not in x.vars)
        if level.axis in x.vars and inside and uses >= _USES:
            found.append(level.loop)
    return found[::-1]


def _again(draft: Draft, name: str, x: Operand, levels: Sequence[Level]) -> bool:
    """Whether an input that is copied in the outermost loop is copied again and again."""
    inside = draft.s.state.funcs[name].compute.kind != "root"
    return isinstance(x.tensor, Array) and (inside or (bool(levels) and levels[0].axis not in x.vars))


def _once(x: Operand, levels: Sequence[Level], places: Sequence[str]) -> str:
    """The innermost place at which nothing is copied twice, else the outermost one."""
    again = next((k for k, y in enumerate(levels) if y.axis not in x.vars and y.trips > 1), len(levels))
    outside = [y.loop for y in levels[:again]] if _WHOLE not in places else [_WHOLE]
    return next((y for y in places if y in outside), places[-1])


def _lies_for(draft: Draft, f: Func, reader: str) -> bool:
    """Whether a Func may lie in its buffer as one reader likes it: nobody else reads it, and nothing is said of that yet."""
    fs = draft.s.state.funcs[f.name]
    others = [k for k in draft.s.state.consumers(f) if k.key[0] != reader]
    plain = fs.layout is None and fs.origin == "algorithm" and f.name not in draft.s.state.outputs
    return plain and not others and not fs.folds and fs.compute.kind != "inline"


def _panels(x: Operand, width: int, group: int) -> str:
    """The layout in panels of a width along the tile's axis, and of so many neighbours along the reduction."""
    names = [f"a{k}" for k in range(x.rank)]
    a, k = names[x.axis], names[x.depth] if x.depth >= 0 and group > 1 else ""
    rest = [f"{n}//{group}" if n == k else n for n in names if n != a]
    return f"{' '.join(names)} -> {a}//{width} {' '.join(rest)} {a}%{width}{f' {k}%{group}' if k else ''}"


def _pack(draft: Draft, x: Operand, address: str, loop: str, width: int, shared: bool, group: int) -> None:
    s = draft.s
    names = [f"a{k}" for k in range(x.rank)]
    a, last = names[x.axis], names[-1]
    rest = [n for n in names if n != a]
    place = {"consumers": address} if loop == _WHOLE else {"at": f"{address}.{loop}"}
    copy = s.cache_read(x.tensor.name, layout=_panels(x, width, group), **place).func
    if group > 1 and x.depth >= 0:
        _grouped(draft, copy, x, width, shared, group)
        return
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
        if x.straight:
            apply(s, "parallel", copy, (loops[0],), by=_TASK)
        else:
            apply(s, "parallel", copy, (loops[0],))


def _grouped(draft: Draft, copy: str, x: Operand, width: int, shared: bool, group: int) -> None:
    """The loops of a copy in which neighbours along the reduction lie side by side."""
    s = draft.s
    names = [f"a{k}" for k in range(x.rank)]
    a, k = names[x.axis], names[x.depth]
    outer = [n for n in names if n not in (a, k)]
    lanes = max(2, draft.at.registers.width // 4)
    along, across = (k, a) if x.depth == x.rank - 1 else (a, k)
    by = group * lanes if along == k else width, min(width, 16) if across == a else group
    tiled = (f"{along}_o", f"{across}_o", f"{along}_t", f"{across}_t")
    apply(s, "tile", copy, (along, across), results=tiled, by=by)
    apply(s, "reorder", copy, (*outer, f"{across}_o", f"{along}_o", f"{across}_t", f"{along}_t"))
    apply(s, "unroll", copy, (f"{across}_t",))
    apply(s, "vectorize", copy, (f"{along}_t",))
    if shared:
        apply(s, "parallel", copy, ((*outer, f"{across}_o")[0],))


__all__ = ["Operand", "operands", "pack_operands"]
