"""How far the variables of a pipeline's definitions run at given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tilewright.lang.errors import TilewrightError
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import index_value
from tilewright.schedule.build import Builder
from tilewright.schedule.schedule import Schedule

UNKNOWN = 256  # where data say how far


class Extents:
    """Regions of the Funcs of a pipeline, each computed as a whole, at sizes. What data decide is taken for 256."""

    def __init__(self, pipeline: Pipeline, sizes: Mapping[str, int]):
        self.sizes = dict(sizes)
        self.axes: dict[str, tuple[int, ...]] = {}
        s = Schedule(pipeline)
        for f in pipeline.funcs:
            with suppress(TilewrightError):
                s[f.name].compute_root()
        b = Builder(s.state, "strict")
        with suppress(TilewrightError):
            b.infer()
        for name, built in b.funcs.items():
            self.axes[name] = tuple(self._length(r.lo, r.hi) + 1 for r in built.region)

    def _length(self, lo: Node | None, hi: Node | None) -> int:
        if lo is None or hi is None:
            return UNKNOWN - 1
        try:
            return max(0, index_value(hi, self.sizes) - index_value(lo, self.sizes))
        except (TilewrightError, KeyError, TypeError):
            return UNKNOWN - 1

    def of(self, d: Definition, var: Node) -> int:
        """About how many values a variable of a definition has, at least 1."""
        if var.op != "var":
            assert d.rdom is not None
            return max(1, self._length(*d.rdom.ranges[var.attr[1]]))
        axes = self.axes.get(d.func.name, ())
        found = [n for i, n in zip(d.lhs, axes, strict=False) if i is var]
        return max(1, found[0]) if found else UNKNOWN


__all__ = ["Extents"]
