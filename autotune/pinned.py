"""A space without what would change bits: reductions combine as the default schedule has them."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.autotune.order import pinned, reduction_order
from tilewright.autotune.space import Choose, Dead, Space
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule


@dataclass(frozen=True)
class PinnedSpace:
    """The schedules of another space that give the same bits as the default schedule, at all sizes, batches and numbers of
    threads: choices that lead to another order of a reduction lead to no schedule."""

    free: Space
    mode: str

    @property
    def name(self) -> str:
        return f"{self.free.name}, one order of reductions"

    @property
    def pipeline(self) -> Pipeline:
        return self.free.pipeline

    def build(self, choose: Choose) -> Schedule:
        made = self.free.build(choose)
        if not self.accepts(made):
            raise Dead
        return made

    def accepts(self, s: Schedule) -> bool:
        """Whether a schedule is one that this space could have."""
        return reduction_order(s, self.mode) == pinned(self.pipeline, self.mode)


__all__ = ["PinnedSpace"]
