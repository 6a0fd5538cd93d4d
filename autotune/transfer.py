"""What other searches know: schedules to begin with, of neighbouring buckets, of records, and of the planner.

Schedules travel in two ways: by the choices that led to them, made again in another space (tile sizes become the nearest
ones there), and as they stand. Whichever is not legal there is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from tilewright.autotune.pinned import PinnedSpace
from tilewright.autotune.space import Point, Space, Value, by_name, draw
from tilewright.autotune.tasks import Candidate, Job
from tilewright.lang.errors import TilewrightError
from tilewright.schedule.schedule import parse_schedule


def replayed(space: Space, text: str) -> Point | None:
    """A point of the schedule that a text describes, as it stands; None where it is not legal for the pipeline, or none
    that the space could have."""
    try:
        made = parse_schedule(text, space.pipeline)
    except TilewrightError:
        return None
    return None if isinstance(space, PinnedSpace) and not space.accepts(made) else Point((), made)


def again(space: Space, values: Mapping[str, Value]) -> Point | None:
    """The point of a space that the same choices lead to, made as nearly as they can be there."""
    return draw(space, by_name(values)) if values else None


def carried(space: Space, values: Mapping[str, Value], text: str) -> Iterator[Point]:
    """What a schedule of another space becomes in this one: by its choices, and as it stands; each once."""
    made = again(space, values)
    if made is not None:
        yield made
    whole = replayed(space, text)
    if whole is not None and (made is None or whole.hash != made.hash):
        yield whole


def distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """How far sizes are from each other: the sum of the logarithms of their ratios."""
    return sum(abs(math.log((b.get(n, v) + 1) / (v + 1))) for n, v in a.items())


def nearest(job: Job, jobs: Iterable[Job], count: int = 2) -> list[Job]:
    """The jobs of the same kernel at the nearest sizes that have found something, nearest first."""
    others = [j for j in jobs if j is not job and j.subject is job.subject and j.best is not None]
    return sorted(others, key=lambda j: distance(job.sizes, j.sizes))[:count]


def offer(job: Job, points: Iterable[Point], origin: str) -> int:
    """Put points that were not judged yet before those that the search asks for; how many these are."""
    known = {*job.found, *job.asked, *(c.hash for c in job.waiting), job.default.hash}
    before = len(job.waiting)
    for p in points:
        if p.hash not in known:
            known.add(p.hash)
            job.waiting.append(Candidate(p, origin))
    return len(job.waiting) - before


def from_neighbours(job: Job, jobs: Iterable[Job]) -> int:
    """Offer a job what its neighbours have found best, each schedule once."""
    offered = 0
    for other in nearest(job, jobs):
        best = other.best
        if best is not None and best.candidate.hash not in {other.default.hash, *job.heard}:
            job.heard.add(best.candidate.hash)
            p = best.candidate.point
            offered += offer(job, carried(job.space, p.values, str(p.schedule)), f"neighbour {other.bucket.text}")
    return offered


__all__ = ["again", "carried", "distance", "from_neighbours", "nearest", "offer", "replayed"]
