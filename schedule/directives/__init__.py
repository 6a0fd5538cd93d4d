"""The directives: one file a family. `step` carries one out, and `check_whole` looks at what it leads to."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.schedule.dense import check_tiles
from tilewright.schedule.directive import Directive, Value
from tilewright.schedule.directives import (
    buffers,
    clones,
    loops,
    machine,
    meta,
    online,
    parts,
    placement,
    reductions,
    regions,
    sharing,
    special,
    staging,
    streams,
)
from tilewright.schedule.directives.kinds import KINDS, Kind, Option, canonical, directive, resolved
from tilewright.schedule.externs import check_stages
from tilewright.schedule.fusing import check_fused
from tilewright.schedule.online import check_groups
from tilewright.schedule.sites import check_places
from tilewright.schedule.state import State
from tilewright.schedule.units import check_units


def step(state: State, d: Directive, knobs: Mapping[str, Value]) -> tuple[Directive, State]:
    """Carry out one directive: its canonical form and the state after it, which `check_whole` has still to look at.

    Raises ScheduleError for what is not legal; `state` stays as it is.
    """
    d = canonical(state, d)
    known = resolved(d, knobs)
    return d, KINDS[d.kind].run(state, d if known == d else canonical(state, known))


def check_whole(after: State) -> None:
    """Raise ScheduleError where what directives say does not go together."""
    check_fused(after)
    check_groups(after)
    check_places(after)
    check_stages(after)
    check_tiles(after)
    machine.check_spatial(after)
    check_units(after)
    loops.check_order(after)
    staging.check_prefetches(after)
    parts.check_copies(after)
    regions.check_regions(after)
    streams.check_streams(after)
    buffers.check_rings(after)


__all__ = [
    "KINDS", "Kind", "Option", "buffers", "canonical", "check_whole", "clones", "directive", "loops", "machine",
    "meta", "online", "parts", "placement", "reductions", "regions", "resolved", "sharing", "special", "staging",
    "step", "streams",
]  # fmt: skip
