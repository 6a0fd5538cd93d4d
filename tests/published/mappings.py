"""Mappings of convolutions in the terms of tools that count tiles: for every memory its loops in time, its loops in space
(the fan-out below it) and the tensors that it keeps. `scheduled` says one as a schedule, `counted` counts by closed forms.

O[n, k, p, q] += W[k, c, r, s] * I[n, c, u p + r, u q + s]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import tilewright as tw
from tests.published.arrays import machine
from tilewright.schedule.schedule import Schedule

DIMS = "nkcrspq"
AXES = {
    "W": ({"k": 1}, {"c": 1}, {"r": 1}, {"s": 1}),
    "I": ({"n": 1}, {"c": 1}, {"p": 0, "r": 1}, {"q": 0, "s": 1}),  # 0: the stride of the layer
    "O": ({"n": 1}, {"k": 1}, {"p": 1}, {"q": 1}),
}
Loops = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Level:
    """A memory: the loops over its tiles, outermost first, in time and then in space, and what it keeps."""

    memory: str
    temporal: Loops = ()
    spatial: Loops = ()
    keeps: str = "WIO"


@dataclass(frozen=True)
class Mapping:
    """`slides`: (memory, tensor) pairs whose window is filled with its new part only."""

    levels: tuple[Level, ...]
    stride: int = 1
    slides: frozenset[tuple[str, str]] = frozenset()

    @property
    def sizes(self) -> dict[str, int]:
        out = dict.fromkeys(DIMS, 1)
        for _, d, n, _ in self.loops():
            out[d] *= n
        return out

    def loops(self) -> Iterator[tuple[int, str, int, bool]]:
        """(level, dimension, trips, whether in space), outermost first as an index is made up."""
        for k, level in enumerate(self.levels):
            yield from ((k, d, n, False) for d, n in level.temporal)
            yield from ((k, d, n, True) for d, n in level.spatial)

    def coefficient(self, tensor: str, axis: int, d: str) -> int:
        return AXES[tensor][axis].get(d, 0) or (self.stride if d in AXES[tensor][axis] else 0)


def kernel(m: Mapping):
    z, u = m.sizes, m.stride
    rows, columns = (z["p"] - 1) * u + z["r"], (z["q"] - 1) * u + z["s"]

    def layer(W, I):
        n, k, p, q = tw.vars("n k p q")
        d = tw.rdom(c=z["c"], r=z["r"], s=z["s"])
        O = tw.func("O")
        O[n, k, p, q] = 0
        O[n, k, p, q] += W[k, d.c, d.r, d.s] * I[n, d.c, u * p + d.r, u * q + d.s]
        return O[: z["n"], : z["k"], : z["p"], : z["q"]]

    layer.__annotations__ = {
        "W": tw.i32[z["k"], z["c"], z["r"], z["s"]], "I": tw.i32[z["n"], z["c"], rows, columns]
    }  # fmt: skip
    return tw.kernel(layer)


def scheduled(m: Mapping, k) -> Schedule:
    """The mapping as a schedule: loops in space stand outside of those in time of their memory, which does not matter to
    what runs at once; a tile is copied where the innermost loop in time is on which it depends."""
    axes: dict[str, int] = {}
    for level, d, n, space in m.loops():
        if space:
            axes[f"{m.levels[level].memory}_{d}"] = n
    clusters = {
        x.memory: [f"{y.memory}_{d}" for y in m.levels[:level] for d, _ in y.spatial]
        for level, x in enumerate(m.levels)
    }
    s = k.schedule(machine=machine(*(x.memory for x in m.levels), axes=axes or {"x": 1}, clusters=clusters))
    u = s["O.update"]
    names: dict[tuple[int, str, bool], str] = {}
    left = m.sizes
    for level, d, n, space in m.loops():
        if left[d] == n:
            names[level, d, space] = d if not any(key[1] == d for key in names) else f"{d}_rest"
            continue
        rest = d if not any(key[1] == d for key in names) else f"{d}_rest"
        names[level, d, space] = f"{d}{level}{'s' if space else 't'}"
        left[d] //= n
        u.split(rest, names[level, d, space], f"{d}_rest", left[d])
    order: list[tuple[int, str, bool]] = []
    for k_, x in enumerate(m.levels):
        order += [(k_, d, True) for d, _ in x.spatial] + [(k_, d, False) for d, _ in x.temporal]
    u.reorder(*(names[key] for key in order), *(n for n in u.loops if n not in names.values()))
    for level, d, _, space in m.loops():
        if space:
            u.spatial(names[level, d, True], f"{m.levels[level].memory}_{d}")
    last: dict[str, int | None] = dict.fromkeys("WIO")
    for tensor in "WIO":
        source = tensor
        for level in range(1, len(m.levels)):
            x = m.levels[level]
            if tensor not in x.keeps:
                continue
            inside = [key for key in order if key[0] < level]
            at = place_of(m, order, tensor, level, last[tensor])
            last[tensor] = at
            place = None if at is None else f"O.update.{names[inside[at]]}"
            if tensor == "O":
                s.cache_write("O", at=place, memory=x.memory, name=f"O_{x.memory}")
                continue
            made = s.cache_read(source, at=place, memory=x.memory, name=f"{tensor}_{x.memory}")
            if (x.memory, tensor) in m.slides and at is not None:
                made.store_root() if at == 0 else made.store_at(f"O.update.{names[inside[at - 1]]}")
            source = f"{tensor}_{x.memory}"
    return s


def place_of(m: Mapping, order: list[tuple[int, str, bool]], tensor: str, level: int, outer: int | None) -> int | None:
    """The loop at which a tile is copied: the innermost one in time on which it depends. Where nothing but loops in space
    follows it stands inside of these; what an element keeps while tiles around it move is copied outside of them, for all
    elements together. Never further out than the tile that it is a part of."""
    inside = [key for key in order if key[0] < level]
    at = max((i for i, (_, d, space) in enumerate(inside) if not space and depends(tensor, d)), default=-1)
    fan = max((i for i, (_, _, space) in enumerate(inside) if space), default=-1)
    if fan > at and not any(not space for _, _, space in inside[at + 1 : fan]):
        at = fan
    at = max(at, -1 if outer is None else outer)
    return None if at < 0 else at


def depends(tensor: str, d: str) -> bool:
    return any(d in axis for axis in AXES[tensor])


# Closed forms --------------------------------------------------------------------------------------------------------


def counted(m: Mapping) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Words read by what is further in, filled, updated: by memory and tensor, for all elements together."""
    out: dict[str, dict[str, tuple[int, int, int]]] = {x.memory: {} for x in m.levels}
    macs = math.prod(m.sizes.values())
    for tensor in "WIO":
        kept = [k for k, x in enumerate(m.levels) if k == 0 or tensor in x.keeps]
        for i, level in enumerate(kept):
            inner = kept[i + 1] if i + 1 < len(kept) else len(m.levels)
            last = inner == len(m.levels)
            visits, _ = _visits(m, tensor, level)
            share = _shared(m, tensor, level, inner)
            if tensor == "O":
                words = _tile(m, "O", level) * _instances(m, level)
                fills = 0 if level == 0 else (visits - _distinct(m, level)) * words
                if last:
                    updates, first = macs // _apart(m, level, inner) * share, visits - (visits - _distinct(m, level))
                    reads = updates - first * words
                else:
                    v, _ = _visits(m, "O", inner)
                    once = _tile(m, "O", inner) * _instances(m, level) * share
                    updates, reads = v * once, (v - _distinct(m, inner)) * once
                out[m.levels[level].memory]["O"] = reads, fills, updates
                continue
            fills = 0 if level == 0 else _filled(m, tensor, level, None)
            reads = macs // _apart(m, level, inner) * share if last else _filled(m, tensor, inner, level)
            out[m.levels[level].memory][tensor] = reads, fills, 0
    return out


def _outer(m: Mapping, level: int) -> list[tuple[str, int]]:
    return [(d, n) for k, d, n, space in m.loops() if k < level and not space]


def _visits(m: Mapping, tensor: str, level: int) -> tuple[int, int | None]:
    """How often a tile is another one than before, and the number of the innermost loop that makes it so."""
    outer = _outer(m, level)
    last = max((i for i, (d, _) in enumerate(outer) if depends(tensor, d)), default=None)
    return (1 if last is None else math.prod(n for _, n in outer[: last + 1])), last


def _distinct(m: Mapping, level: int) -> int:
    return math.prod(n for d, n in _outer(m, level) if depends("O", d))


def _instances(m: Mapping, level: int) -> int:
    return math.prod(n for k, _, n, space in m.loops() if space and k < level)


def _apart(m: Mapping, level: int, inner: int) -> int:
    """Elements below one instance of a memory, down to another one."""
    return math.prod(n for k, _, n, space in m.loops() if space and level <= k < inner)


def _span(m: Mapping, d: str, level: int) -> int:
    """What a tile of a memory has of a dimension."""
    return math.prod(n for k, e, n, _ in m.loops() if k >= level and e == d)


def _lengths(m: Mapping, tensor: str, level: int) -> list[int]:
    return [
        sum(m.coefficient(tensor, a, d) * (_span(m, d, level) - 1) for d in axis) + 1
        for a, axis in enumerate(AXES[tensor])
    ]


def _tile(m: Mapping, tensor: str, level: int) -> int:
    return math.prod(_lengths(m, tensor, level))


def _steps(m: Mapping) -> list[int]:
    """For each of the loops the distance in its dimension that one of its steps is."""
    loops = list(m.loops())
    return [math.prod(n for _, e, n, _ in loops[i + 1 :] if e == d) for i, (_, d, _, _) in enumerate(loops)]


def _union(m: Mapping, tensor: str, axis: int, lo: int, hi: int, level: int, inner: int) -> int:
    """Points of an axis that elements between two memories have in lo..hi of their tiles together."""
    offsets = [
        [m.coefficient(tensor, axis, d) * step * x for x in range(n)]
        for (k, d, n, space), step in zip(m.loops(), _steps(m), strict=True)
        if space and level <= k < inner and d in AXES[tensor][axis]
    ]
    return len({sum(combination) + x for combination in product(*offsets) for x in range(lo, hi)})


def _shared(m: Mapping, tensor: str, level: int, inner: int) -> int:
    """How many different words the elements below a memory want at once, of the same place in their tiles."""
    return math.prod(_union(m, tensor, a, 0, 1, level, inner) for a in range(len(AXES[tensor])))


def _filled(m: Mapping, tensor: str, level: int, parent: int | None) -> int:
    """Words filled into all instances of a memory, or read for that from the one further out."""
    lengths = _lengths(m, tensor, level)
    visits, last = _visits(m, tensor, level)

    def size(parts: list[tuple[int, int]]) -> int:
        if parent is None:
            return math.prod(hi - lo for lo, hi in parts) * _instances(m, level)
        found = (_union(m, tensor, a, lo, hi, parent, level) for a, (lo, hi) in enumerate(parts))
        return math.prod(found) * _instances(m, parent)

    whole = size([(0, n) for n in lengths])
    if last is None or (m.levels[level].memory, tensor) not in m.slides:
        return visits * whole
    d, trips = _outer(m, level)[last]
    axis = next(a for a, x in enumerate(AXES[tensor]) if d in x)
    steps = [x for (k, _, _, space), x in zip(m.loops(), _steps(m), strict=True) if not space and k < level]
    move = m.coefficient(tensor, axis, d) * steps[last]
    new = [(max(0, n - move), n) if a == axis else (0, n) for a, n in enumerate(lengths)]
    return visits // trips * (whole + (trips - 1) * size(new))
