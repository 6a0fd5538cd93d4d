"""Staged copies and tiles in rings of slots, and loops that independent stages share, at random."""

from __future__ import annotations

import os
import random

import pytest

from tests.schedule.algorithms import ALL
from tests.schedule.helpers import agrees
from tests.schedule.native import natively
from tests.schedule.stencils import Choose, pick
from tests.schedule.test_random_windows import shaped, try_
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError
from tilewright.schedule.directives.staging import tensors_of
from tilewright.schedule.schedule import Schedule

FUZZ = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))
NAMES = ["matmul", "blur", "edge_blur", "convolution", "accumulate", "two_outputs", "prefix_sum", "triangle", "chain"]
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((5, 7, 4), (8, 6, 3), (3, 4, 1), (0, 5, 2), (9, 1, 0), (2, 13, 7))]


def site(s: Schedule, choose: Choose) -> tuple:
    stage = pick(choose, [x for x in s.state.stages.values() if x.loops])
    return stage, s.state.loop_address(stage.key, pick(choose, stage.loops).name)


def copied(s: Schedule, choose: Choose, k: int) -> None:
    """A copy of what a stage reads, in a ring; now and then another loop later."""
    stage, at = site(s, choose)
    found = tensors_of((*stage.definition.lhs, *stage.definition.values))
    if found and try_(lambda: s.cache_read(pick(choose, sorted(found)), at=at, name=f"c{k}")):
        try_(lambda: s[f"c{k}"].double_buffer(2 + choose(3)))


def drained(s: Schedule, choose: Choose, k: int) -> None:
    """A tile in a ring."""
    stage, at = site(s, choose)
    if try_(lambda: s.cache_write(stage.key[0], at=at, memory="main")):
        try_(lambda: s[stage.key[0]].double_buffer(2 + choose(2)))


def shared(s: Schedule, choose: Choose, k: int) -> None:
    a, _ = site(s, choose)
    _, at = site(s, choose)
    try_(lambda: s[s.state.address(a.key)].compute_with(at))


def placed(s: Schedule, choose: Choose, k: int) -> None:
    name = pick(choose, sorted(s.state.funcs))
    _, at = site(s, choose)
    try_(lambda: s[name].compute_at(at) if choose(4) else s[name].compute_root())


def marked(s: Schedule, choose: Choose, k: int) -> None:
    stage, at = site(s, choose)
    h, x = s[s.state.address(stage.key)], at.rpartition(".")[2]
    try_(pick(choose, [lambda: h.peel(x, choose(3), choose(3)), lambda: h.vectorize(x, 4), lambda: h.parallel(x),
                       lambda: h.unroll(x, 2), lambda: h.partition(x, "never"),
                       lambda: s.specialize(s.state.address(stage.key), "N % 2 == 0", f"s{k}")]))  # fmt: skip


def drawn(seed: int) -> Schedule | None:
    choose = random.Random(seed).randrange
    s = Schedule(ALL[pick(choose, NAMES)]())
    for name in list(s.state.funcs):
        if choose(2):
            try_(s[name].compute_root)
    shaped(s, choose)
    for k in range(2 + choose(5)):
        pick(choose, [copied, copied, drained, shared, placed, marked])(s, choose, k)
    try:
        s.check()
    except (ScheduleError, BoundsError):
        return None
    return s


def asks_more(s: Schedule) -> bool:
    return any(d.option("tail") == "round_up" for d in s.directives)


@pytest.mark.parametrize("batch", range(3 * FUZZ))
def test_nests(batch: int) -> None:
    """Every slot is read in the iteration that it was filled in, every value is the reference's."""
    for seed in range(batch * 25, batch * 25 + 25):
        s = drawn(seed)
        if s is None or asks_more(s):
            continue
        least = 3 if s.pipeline.name in ("blur", "chain", "two_outputs") else 0
        for z in SIZES[:2] + SIZES[3:4] if least == 0 else SIZES[:2]:
            try:
                agrees(s, z, seed)
            except BoundsError:
                assert least == 0
            except AssertionError as e:
                raise AssertionError(f"seed {seed} at {z}\n{s}\n{s.loops()}") from e


@pytest.mark.parametrize("seed", range(9000, 9000 + 10 * FUZZ))
def test_native(seed: int) -> None:
    s = drawn(seed)
    if s is None or asks_more(s):
        return
    least = 3 if s.pipeline.name in ("blur", "chain", "two_outputs") else 0
    try:
        natively(s, *(z for z in SIZES if min(z["M"], z["N"]) >= least))
    except CompileError as e:
        assert e.code.startswith(("vectorize.", "compile.")), e
