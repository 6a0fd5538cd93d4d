"""How far the variables of a pipeline's definitions run at given sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress

from tilewright.lang import ir
from tilewright.lang.errors import TilewrightError
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.values import index_value
from tilewright.schedule.build import Builder
from tilewright.schedule.padding import requirements
from tilewright.schedule.schedule import Schedule

_SIZES = (0, 1, 2, 3, 5, 17, 63, 64, 65, 130, 257)
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
        self._whole, self._rounds = s, dict[str, bool]()
        for name, built in b.funcs.items():
            self.axes[name] = tuple(self._length(r.lo, r.hi) + 1 for r in built.region)

    def _length(self, lo: Node | None, hi: Node | None) -> int:
        if lo is None or hi is None:
            return UNKNOWN - 1
        try:
            return max(0, index_value(hi, self.sizes) - index_value(lo, self.sizes))
        except (TilewrightError, KeyError, TypeError):
            return UNKNOWN - 1

    def rounds(self, name: str) -> bool:
        """Whether rows of a Func may be computed in whole vectors: no input is read outside of where it is, at any size."""
        if name not in self._rounds:
            self._rounds[name] = self._may_round(name)
        return self._rounds[name]

    def _may_round(self, name: str) -> bool:
        trial = self._whole.copy()
        f = trial.state.funcs[name].func
        if f.updates or not f.args:
            return False
        x = f.args[-1].attr
        try:
            trial[name].split(x, f"{x}_outer", f"{x}_inner", 64, tail="round_up")
            b = Builder(trial.state, "strict")
            b.infer()
            asked = [c for c, _ in requirements(b.state, b.bodies, b.funcs, b.sizes) if c is not ir.TRUE]
            return all(index_value(c, sizes) for sizes in self._some_sizes() for c in asked)
        except (TilewrightError, KeyError, TypeError):
            return False

    def _some_sizes(self) -> Iterator[dict[str, int]]:
        """Sizes at which a row in whole vectors sticks out in every way, and those at hand: conditions that hold at all of
        them are about nothing else."""
        yield self.sizes
        rng = random.Random(0)
        for n in _SIZES:
            yield dict.fromkeys(self.sizes, n)
        for _ in range(4 * len(_SIZES)):
            yield {name: rng.choice(_SIZES) for name in self.sizes}

    def of(self, d: Definition, var: Node) -> int:
        """About how many values a variable of a definition has, at least 1."""
        if var.op != "var":
            assert d.rdom is not None
            return max(1, self._length(*d.rdom.ranges[var.attr[1]]))
        axes = self.axes.get(d.func.name, ())
        found = [n for i, n in zip(d.lhs, axes, strict=False) if i is var]
        return max(1, found[0]) if found else UNKNOWN


__all__ = ["Extents"]
