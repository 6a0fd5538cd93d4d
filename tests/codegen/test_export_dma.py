"""Copies of exported C, made by the worst DMA engine that the hooks allow."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codegen.export_support import COMPILER, REFUSED, Job, Library, check, job, of, tiled
from tests.schedule.algorithms import ALL, arguments
from tests.schedule.random_schedules import grow
from tests.schedule.test_random_rings import NAMES, SIZES, pick, site, tensors_of, try_
from tilewright.codegen.export.expressions import Json
from tilewright.codegen.export.touched import statements
from tilewright.schedule.schedule import Schedule

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
LATE = (Path(__file__).parent / "late_dma.c").read_text()


def ring(s: Schedule, choose: Callable[[int], int], name: str) -> None:
    """A copy of what a stage reads, or a tile, in a ring of a scratchpad."""
    stage, at = site(s, choose)
    memory, slots = pick(choose, ("spm", "spm", "l2")), 2 + choose(3)
    found = sorted(tensors_of((*stage.definition.lhs, *stage.definition.values)))
    if found and choose(3):
        made = try_(lambda: s.cache_read(pick(choose, found), at=at, name=name, memory=memory))
    else:
        name = stage.key[0]
        made = try_(lambda: s.cache_write(name, at=at, memory=memory))
    if made:
        try_(lambda: s[name].double_buffer(slots))


def ringed(seed: int) -> Job | None:
    r = random.Random(seed)
    p = ALL[pick(r.randrange, NAMES)]()
    s, _ = grow(p, r.randrange, r.randrange(3))
    for k in range(2 + r.randrange(2)):
        ring(s, r.randrange, f"c{k}")
    z = {k: v for k, v in pick(r.randrange, SIZES).items() if k in p.sizes}
    values = dict(zip((a.name for a in p.arrays), arguments(p, z, seed), strict=True))
    try:
        return job(f"ring {seed}\n{s}", s, values, "strict", seed % 2 == 0)
    except REFUSED as e:
        assert e.code.startswith(("bounds.", "schedule.", "dma.")), e
        return None


def test_copies_may_be_made_as_late_as_they_are_waited_for(tmp_path: Path) -> None:
    """An engine that copies when it is waited for and puts garbage in the target until then: every wait is where it must
    be, and none is missing at the end."""
    jobs = [
        j for j in map(ringed, range(50)) if j is not None and any(map(_asynchronous, statements(j.document["body"])))
    ]
    assert len(jobs) > 12
    library = check([*jobs, *of("matmul", tiled)], tmp_path, [LATE])
    library.library.late_dma.restype = ctypes.c_int64
    longest, left = _late(library)
    assert left == 0 and longest > 2


def _asynchronous(s: Json) -> bool:
    return s["do"] == "copy" and s["asynchronous"]


def _late(library: Library) -> tuple[int, int]:
    found = library.library.late_dma()
    return found % 1_000_000, found // 1_000_000


def test_loads_run_ahead_and_no_further_than_there_are_slots(tmp_path: Path) -> None:
    """Three slots: two loads of each operand are on their way while one is used."""
    (j, _) = of("matmul", tiled, sizes={"M": 4, "N": 4, "K": 20})
    library = check([j], tmp_path, [LATE])
    library.library.late_dma.restype = ctypes.c_int64
    assert _late(library) == (6, 0)  # the third is begun before the first is waited for
