"""Products: reductions whose operands are reused, in register tiles, blocks for the caches and packed panels."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.autotune.generate.draft import Draft, Form
from tilewright.autotune.generate.packing import Level, Operand, operands, pack_operands
from tilewright.lang import ir
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.schedule.default_loops import apply, as_it_lies, is_reused, lanes_of, shape, single_axes
from tilewright.schedule.state import REPAIR, Stage

_ROOM = 2  # registers beside the sums and a row of vectors: what they are multiplied with
_ROWS = 20  # of a tile: more need too many streams
_PIECE = 32  # of a reduction in blocks: shorter ones store sums too often
_SHORT = 600  # of a reduction that needs no blocks
_LONG = 2048  # of a reduction without blocks: what longer ones read does not stay in the caches


@dataclass(frozen=True)
class Product:
    """An update in a register tile: `vector` is the axis of the vectors, `rows` those along which vectors of operands are
    reused (the innermost first), `outer` all other axes, `reductions` the names of the reduction variables."""

    stage: Stage
    d: Definition
    vector: Node
    rows: tuple[Node, ...]
    outer: tuple[str, ...]
    reductions: tuple[str, ...]
    operands: tuple[Operand, ...]
    lanes: int
    group: int  # steps of the reduction that one instruction may take for each sum


def product(draft: Draft, name: str) -> Product | None:
    """The product that a Func is, with loops that nobody has written."""
    s = draft.s
    stages = [x for x in draft.stages(name) if x.key[1] != REPAIR]
    if len(stages) != 2 or not draft.free(name) or stages[1].branches or len(stages[1].loops) < 2:
        return None
    stage = stages[1]
    if s.state.block_of(stage.key) is None and any(fs.compute.stage == stage.key for fs in s.state.funcs.values()):
        return None  # others are computed in its loops
    b = draft.regions()
    if name not in b.funcs:
        return None
    d = as_it_lies(stage.definition, s.state)
    single = single_axes(b, stage.definition)
    form = shape(d, single, draft.at.mode == "strict")
    if form.kind not in ("tile", "rows") or form.vector is None:
        return None
    others = [v for v in reversed(d.pure_vars) if v is not form.vector]
    rows = tuple(v for v in others if v not in single and is_reused(d, v, form.vector))[:2]
    outer = tuple(v.attr for v in d.pure_vars if v is not form.vector and v not in rows)
    blocked = {x.name for x in stage.loops}
    reductions = tuple(r for r in (d.rdom.ranges if d.rdom is not None else ()) if r in blocked)
    found = operands(draft, stage.definition, form.vector, rows)
    return Product(stage, stage.definition, form.vector, rows, outer, reductions, found,
                   lanes_of(d, draft.at.registers), _group(stage.definition, form.vector, found))  # fmt: skip


def _group(d: Definition, vector: Node, found: Sequence[Operand]) -> int:
    """How many products of small integers a processor may add up at once: as many as fill the bytes of a sum."""
    loads = {n.attr[0] for n in ir.leaves(d.values, "load") if n.attr[0] is not d.func}
    sums = [t for t in d.func.dtypes if t.is_int and t.bytes == 4]
    if len(sums) != 1 or len(loads) != len(found) or any(x.depth < 0 or x.bytes > 2 for x in found):
        return 1
    along = any(x.along == vector.attr for x in found)
    return 4 // max(x.bytes for x in found) if found and along else 1


def tile_forms(draft: Draft, name: str) -> Sequence[Form]:
    """A rule: a product in a register tile."""
    p = product(draft, name)
    return () if p is None or not p.reductions else (Form("tile", lambda d: write_tile(d, name, p)),)


def pieces(n: int, unit: int, least: int, most: int, among: Iterable[int] = (1, 2, 3, 4, 8, 16)) -> list[int]:
    """Lengths of equal parts of `n` in multiples of `unit`, from `least` to `most`; larger ones first."""
    found = [-(-n // (k * unit)) * unit for k in among]
    return sorted({x for x in found if least <= x <= max(most, least)}, reverse=True)


def write_tile(draft: Draft, name: str, p: Product) -> None:
    """The directives of a register tile, of blocks around it, and of the packed copies of what it reads."""
    address = draft.s.state.address(p.stage.key)
    sizes = {v.attr: draft.local(name, p.d, v) for v in (p.vector, *p.rows)}
    v = p.vector.attr
    vectors, heights = _tile(draft, name, p, sizes)
    width = vectors * p.lanes
    inner = _Split(draft, address)
    blocks = _blocks(draft, name, p, sizes, width, heights)

    loops_of = {v: inner.levels(v, blocks.get(v, 0), width)}
    inner.split(f"{v}_t", f"{v}_m", f"{v}_v", p.lanes)
    for r, h in heights.items():
        loops_of[r] = inner.levels(r, blocks.get(r, 0), h)
    k = p.reductions[0]
    running = list(p.reductions)
    if blocks.get(k):
        inner.split(k, f"{k}_c", f"{k}_1", blocks[k])
        running[0] = f"{k}_1"
    group = p.group if p.group > 1 and draft.flag(f"{name}.dots", True) else 1
    unroll = draft.number(f"{name}.unroll", _unrolls(draft, name, p, blocks, heights, vectors * group))
    if group > 1:
        last = running.pop()
        inner.split(last, f"{last}_1", f"{p.reductions[-1]}_g", group)
        running.append(f"{last}_1")
    if unroll > 1:
        last = running.pop()
        inner.split(last, f"{last}_o", f"{last}_u", unroll)
        running += [f"{last}_o", f"{last}_u"]
    around = _order(draft, name, p, blocks, heights)
    rows = [f"{r}_t" for r in reversed(heights)]
    grouped = [f"{p.reductions[-1]}_g"] if group > 1 else []
    apply(draft.s, "reorder", address, (*p.outer, *around, *running, *rows, f"{v}_m", f"{v}_v", *grouped))
    held = around[-1] if around else p.outer[-1]
    levels = _levels(draft, p, around, sizes, blocks, {v: width, **heights})
    parallel = _parallel(draft, name, p, levels)
    for x in [*(running[-1:] if unroll > 1 else ()), *rows, f"{v}_m", *grouped]:
        apply(draft.s, "unroll", address, (x,))
    apply(draft.s, "vectorize", address, (f"{v}_v",))
    whole = {**{x.axis: x.part * x.trips for x in levels}, **sizes, **{r: _deep(draft, p, r) for r in p.reductions}}
    pack_operands(draft, name, address, p.operands, levels, parallel, v, {v: width, **heights}, whole, group)
    apply(draft.s, "cache_write", "", (name,), at=f"{address}.{held}")
    if blocks.get(k) and draft.flag(f"{name}.prefetch", True):
        apply(draft.s, "prefetch", "", (name,), at=f"{address}.{held}", offset=0)
    draft.written(p.stage.key)


class _Split:
    """Splits of the loops of one stage."""

    def __init__(self, draft: Draft, address: str):
        self.draft, self.address = draft, address

    def split(self, loop: str, outer: str, inner: str, by: int) -> None:
        apply(self.draft.s, "split", self.address, (loop,), results=(outer, inner), by=by)

    def levels(self, x: str, block: int, tile: int) -> tuple[str, ...]:
        """A loop in blocks (unless 0) of tiles."""
        rest = x
        if block:
            self.split(x, f"{x}_c", f"{x}_1", block)
            rest = f"{x}_1"
        self.split(rest, f"{x}_o", f"{x}_t", tile)
        return (f"{x}_c", f"{x}_o") if block else (f"{x}_o",)


def _tile(draft: Draft, name: str, p: Product, sizes: dict[str, int]) -> tuple[int, dict[str, int]]:
    """How many vectors and, by axis, how many rows a tile has: as many as registers hold."""
    count = draft.at.registers.count
    most = -(-sizes[p.vector.attr] // p.lanes)
    few = not p.rows or sizes[p.rows[0].attr] <= 2
    usual = (4, 2, 1, 8) if few else (2, 4, 1, 3, 6)
    fitting = [n for n in usual if n <= max(most, 1) or n == 1]
    vectors = draft.number(f"{name}.vectors", fitting)
    limit = max(1, min(_ROWS, (count - _ROOM - vectors) // vectors))
    heights: dict[str, int] = {}
    for number, r in enumerate(p.rows):
        top = max(1, min(limit, sizes[r.attr]))
        if number == 0:
            choices = dict.fromkeys((min(top, 8), top, -(-top * 2 // 3), -(-top // 2), -(-top // 3)))
            even = [-(-sizes[r.attr] // k) for k in (1, 2, 3, 4, 5, 6, 7, 8)]  # no rest
            choices = [*choices, *(e for e in even if top // 2 < e <= top)]
        else:
            choices = [1, *(n for n in (2, 3, 4) if n <= top)]
        heights[r.attr] = draft.number(f"{name}.rows {r.attr}", choices)
        limit = max(1, limit // heights[r.attr])
    return vectors, heights


def _blocks(
    draft: Draft, name: str, p: Product, sizes: dict[str, int], width: int, heights: dict[str, int]
) -> dict[str, int]:
    """By axis, how long blocks for the caches are; 0 for none."""
    k = p.reductions[0]
    deep = _deep(draft, p, k)
    blocks: dict[str, int] = {}
    size = max(1, min(t.bytes for t in p.d.func.dtypes))
    few = len(heights) == 0 or sizes[p.rows[0].attr] <= 2 * max(heights.values())
    streams = [8, 16] if few and len(p.reductions) == 1 and deep > 32 else []  # rows that are streamed at once
    cut = (
        [x for x in pieces(deep, 8, _PIECE, _LONG, (2, 3, 4, 6, 8, 16)) if x < deep][:4]
        if len(p.reductions) == 1
        else []
    )
    if cut or streams:
        usual = [0, *cut] if deep <= _SHORT else [*cut, 0]
        alone = not p.rows or sizes[p.rows[0].attr] == 1  # then all that there is to do is to read the other operand
        blocks[k] = draft.number(f"{name}.block {k}", [*streams, *usual] if alone else [*usual, *streams])
    depth = blocks.get(k) or deep
    v = p.vector.attr
    panels = [
        x
        for x in pieces(sizes[v], width, width, draft.at.cache(3) // (4 * size * depth), (2, 4, 8, 16))
        if x < sizes[v]
    ]
    if panels:
        blocks[v] = draft.number(f"{name}.block {v}", [0, *panels[:4]])
    if p.rows:
        r = p.rows[0].attr
        fitting = draft.at.cache(2) // (2 * size * depth) // heights[r] * heights[r]
        strips = [n * heights[r] for n in (8, 16, 4, 2, 32) if n * heights[r] < sizes[r]]
        strips = [n for n in strips if n <= max(fitting, 2 * heights[r])]
        if strips:
            blocks[r] = draft.number(f"{name}.block {r}", [*strips, 0])
    return {x: n for x, n in blocks.items() if n}


def _unrolls(
    draft: Draft, name: str, p: Product, blocks: dict[str, int], heights: dict[str, int], vectors: int
) -> list[int]:
    """How many steps of the innermost reduction are unrolled; code stays short."""
    last = p.reductions[-1]
    deep = blocks.get(last) or _deep(draft, p, last)
    tile = vectors
    for h in heights.values():
        tile *= h
    return [n for n in ((8, 4, 2, 1) if deep < _PIECE else (4, 1, 2, 8)) if n <= deep and (n == 1 or n * tile <= 256)]


def _order(draft: Draft, name: str, p: Product, blocks: dict[str, int], heights: dict[str, int]) -> list[str]:
    """The loops over blocks and those over tiles, outermost first."""
    k, v = p.reductions[0], p.vector.attr
    outer = [x for x in (v, k, p.rows[0].attr if p.rows else "") if x in blocks]
    orders = [" ".join(o) for o in itertools.permutations(outer)]
    chosen = str(draft.choose(f"{name}.blocks", orders)).split() if len(outer) > 1 else outer
    rows = [f"{r}_o" for r in reversed(heights)]
    by_columns = [f"{v}_o", *rows]
    swapped = rows and bool(draft.choose(f"{name}.rows outside", (False, True)))
    return [*(f"{x}_c" for x in chosen), *([*rows, f"{v}_o"] if swapped else by_columns)]


def _levels(
    draft: Draft, p: Product, around: Sequence[str], sizes: dict[str, int], blocks: dict[str, int],
    tiles: dict[str, int],
) -> list[Level]:  # fmt: skip
    """What loops around the tile run over, outermost first."""
    found = []
    for x in p.outer:
        var = next(u for u in p.d.pure_vars if u.attr == x)
        found.append(Level(x, x, draft.extent(p.d, var), 1))
    for x in around:
        a, kind = x[:-2], x[-1]
        whole = sizes[a] if a in sizes else _deep(draft, p, a)
        part = blocks.get(a) or whole
        found.append(
            Level(x, a, -(-whole // part), part) if kind == "c" else Level(x, a, -(-part // tiles[a]), tiles[a])
        )
    return found


def _deep(draft: Draft, p: Product, name: str) -> int:
    """How many points a reduction variable has: of a member of a pass over blocks those of a block."""
    var = next(x for x in p.d.rdom.rvars if x.attr[1] == name)  # type: ignore[union-attr]
    group = draft.s.state.block_of(p.stage.key)
    return group.block if group is not None and group.over == name else draft.extent(p.d, var)


def _parallel(draft: Draft, name: str, p: Product, levels: Sequence[Level]) -> str | None:
    """The loop that is shared out."""
    stage = p.stage.key
    if draft.s.state.funcs[name].compute.kind != "root" or draft.s.state.block_of(stage) is not None:
        return None
    pure = [x for x in levels if x.axis not in p.reductions]
    enough = [x.loop for x in pure if x.trips >= 2 * draft.at.threads] or [x.loop for x in pure]
    chosen = str(draft.choose(f"{name}.parallel", enough[:3])) if draft.at.threads > 1 else enough[0]
    apply(draft.s, "parallel", draft.s.state.address(stage), (chosen,))
    return chosen


__all__ = ["Product", "pieces", "product", "tile_forms", "write_tile"]
