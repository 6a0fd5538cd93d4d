"""How the axes of what is read run with those of its reader: the same index, a shifted or wider one, or a scaled one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tilewright.lang import ir
from tilewright.lang.func import Func
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.ir import Node, integer
from tilewright.lang.regions import Box, domain, executed
from tilewright.lang.tensors import Tensor
from tilewright.lang.values import Env
from tilewright.schedule.inline import Body

# Points of a tile that is looked at, the most of which four go into an axis, as its ends are no middle. What is scaled by
# other numbers than its factors runs along with nothing.
_PROBES = (192, 96, 64, 8, 2)

_FAR = 16  # points between places that are counted one by one


@dataclass(frozen=True)
class Met:
    """The points `slope * x + low .. slope * x + high` of the axis `axis` of a tensor are read for a point x of an axis
    of its reader (in the middle of it: at its ends there may be less). Where that is in places far from each other,
    `apart` has how many these are, and how many points they have together."""

    axis: int
    slope: Fraction = Fraction(1)
    low: int = 0
    high: int = 0
    apart: tuple[int, int] | None = None

    @property
    def same(self) -> bool:
        """Whether it is one point for each, so that parts of a tensor do not overlap."""
        return self.slope == 1 and self.low == self.high

    @property
    def _places(self) -> tuple[int, int]:
        return self.apart or (1, self.high - self.low + 1)

    def extent(self, width: int) -> int:
        """How many points are read for `width` points in a row."""
        moved, (places, points) = int(abs(self.slope) * (width - 1)), self._places
        return max(1, min(moved + self.high - self.low + 1, places * moved + points))

    def together(self, width: int, tiles: int, part: int) -> int:
        """How many points all `tiles` read that cover `width` points in parts of `part`, those that several of them read for
        each."""
        overlapping = int(abs(self.slope) * (width - tiles)) + tiles * (self.high - self.low + 1)
        return max(1, min(overlapping, tiles * self.extent(part)))

    def through(self, o: Met) -> Met:
        """What is read of a tensor that meets `o.axis` of another as this says, where that meets a reader as `o`."""
        ends = [self.slope * e for e in (o.low, o.high)]
        low, high = int(min(ends) // 1), int(-(-max(ends) // 1))
        apart = self.apart and (self.apart[0], self.apart[1] + self.apart[0] * (high - low))
        return Met(self.axis, self.slope * o.slope, low + self.low, high + self.high, apart)

    def joined(self, o: Met) -> Met | None:
        """Both together, if they run alike."""
        if (self.axis, self.slope) != (o.axis, o.slope):
            return None
        low, high = min(self.low, o.low), max(self.high, o.high)
        places, points = self._places[0] + o._places[0], self._places[1] + o._places[1]
        far = high - low + 1 > _FAR + 2 * points
        return Met(self.axis, self.slope, low, high, (places, points) if far else None)


# An axis of a reader (or, by name, one of its reduction variables) -> how a tensor meets it.
Axes = Mapping[int | str, Met]


def joined(a: Mapping, b: Mapping) -> dict:
    """What two readers (or two loads) have in common."""
    both = {x: a[x].joined(b[x]) for x in a if x in b}
    return {x: m for x, m in both.items() if m is not None}


def met_by(f: Func, bodies: Iterable[Body], region: Box, sizes: Env) -> dict[Tensor, Axes]:
    """What `f` reads, itself aside, and how."""
    found: dict[Tensor, Axes] = {}
    for body in bodies:
        probes = _Probes(body, region, sizes)
        for n in ir.leaves(body.roots, "load"):
            t = n.attr[0]
            if t is not f:
                met = _met(n, body, probes)
                found[t] = joined(found[t], met) if t in found else met
    return found


def _met(load: Node, body: Body, probes: _Probes) -> Axes:
    found: dict[int | str, Met] = {}
    for k, i in enumerate(load.args):
        if i.op == "rvar":
            found.setdefault(i.attr[1], Met(k))
        for v in ir.leaves((i,), "var"):
            if v in body.lhs:
                met = Met(k) if i is v else probes.met(k, i, v)
                if met is not None:
                    found.setdefault(body.lhs.index(v), met)
    return found


class _Probes:
    """What indices of a definition are for two tiles in the middle of one axis, the others whole."""

    def __init__(self, body: Body, region: Box, sizes: Env):
        self.body, self.sizes = body, sizes
        whole = domain(body, region)  # type: ignore[arg-type]
        self.whole = {v: Interval(*map(self._known, (r.lo, r.hi))) for v, r in whole.items()}

    def _known(self, n: Node | None) -> Node | None:
        """With the numbers that sizes are."""
        if n is None:
            return None
        open_ = [x for x in ir.postorder((n,)) if x.op in ("size", "scalar") and x.attr in self.sizes]
        return ir.substitute((n,), {x: ir.const(self.sizes[x.attr], x.dtype) for x in open_})[0]

    def met(self, k: int, index: Node, v: Node) -> Met | None:
        """How axis `k`, which is read at `index`, runs with `v`; None if it does not."""
        lo, hi = self.whole[v].lo, self.whole[v].hi
        if lo is None or hi is None or lo.op != "const" or hi.op != "const":
            return None
        width = next((n for n in _PROBES if 4 * n <= hi.attr - lo.attr + 1), None)
        if width is None:
            return None
        start = -(-(lo.attr + hi.attr) // (2 * width)) * width
        known = self._known(index)
        assert known is not None
        ends = [_numbers(bounds(known, self._tile(v, x, width))) for x in (start - width, start)]
        return None if None in ends else _fitted(k, start, width, *ends)  # type: ignore[arg-type]

    def _tile(self, v: Node, start: int, width: int) -> dict[Node, Interval]:
        env = {**self.whole, v: Interval(integer(start), integer(start + width - 1))}
        return dict(executed(self.body, env))  # type: ignore[arg-type]


def _numbers(r: Interval) -> tuple[int, int] | None:
    if r.lo is None or r.hi is None or r.lo.op != "const" or r.hi.op != "const":
        return None
    return r.lo.attr, r.hi.attr


def _fitted(k: int, start: int, width: int, before: tuple[int, int], at: tuple[int, int]) -> Met | None:
    """What leads from tiles at `start - width` and `start` to these ends."""
    slope = Fraction(at[0] - before[0], width)
    if slope == 0 or slope != Fraction(at[1] - before[1], width):
        return None
    first, last = slope * start, slope * (start + width - 1)
    low, high = at[0] - min(first, last), at[1] - max(first, last)
    return Met(k, slope, int(low // 1), int(-(-high // 1)))


__all__ = ["Axes", "Met", "joined", "met_by"]
