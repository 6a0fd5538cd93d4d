"""No account is faster than its machine: products with any copies ahead or waited for, either way of meeting."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.hw.variants import changed

M, N, K = tw.sizes("M N K")
TILES = st.sampled_from([1, 3, 4, 8, 16])
SIZES = st.fixed_dictionaries({n: st.integers(1, 40) for n in ("M", "N", "K")})


@tw.kernel
def gemm(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    r = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, r] * B[r, j]
    return C[:M, :N]


def staged(
    tiles: tuple[int, int, int], slots: tuple[int, int], cores: bool, in_rings: bool, writes: bool
) -> tw.Schedule:
    """A and B in the scratchpad, each waited for (no slots) or ahead; `in_rings`: A's tile is that of a loop further out."""
    s = gemm.schedule()
    u = s["C.update"]
    u.tile("i", "j", "io", "jo", "ii", "ji", *tiles[:2]).split("k", "ko", "ki", tiles[2])
    u.reorder("io", "jo", "ko", "ii", "ki", "ji")
    if cores:
        u.parallel("io")
    s.cache_read("A", at="C.update.jo" if in_rings else "C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm")
    if writes:
        s.cache_write("C", at="C.update.jo", memory="spm")
    for name, n in zip(("A_C", "B_C"), slots, strict=True):
        if n:
            s[name].double_buffer(n)
    return s


@given(
    st.tuples(TILES, TILES, TILES), st.tuples(*[st.sampled_from([0, 2, 3])] * 2), st.booleans(), st.booleans(),
    st.booleans(), SIZES, st.sampled_from([1, 8]), st.sampled_from([0, 30]), st.sampled_from([1, 2]),
    st.sampled_from(["independent", "fifo", "partitioned"]), st.sampled_from(["decoupled", "barrier"]),
)  # fmt: skip
@settings(max_examples=40)
def test_time_is_no_less_than_the_roofline(
    tiles, slots, cores, in_rings, writes, sizes, bandwidth, latency, channels, contention, sync
) -> None:
    figures = {"bandwidth": bandwidth, "latency": latency, "channels": channels, "contention": contention}
    toy = changed(tw.machines.load("toy"), {f"dma.dma.{k}": v for k, v in figures.items()} | {"compute.cores": 4})
    toy = changed(toy, {"memory.spm.capacity": 1 << 20})
    schedule = staged(tiles, slots, cores, in_rings, writes)
    time = gemm.account(schedule, machine=toy, sizes=sizes, sync=sync).time
    assert time is not None and time.sync == sync
    assert time.cycles >= time.bound * (1 - 1e-9)
    assert all(time.cycles >= use.busy for use in time.uses)


def test_copies_that_run_ahead_share_the_channel_with_those_waited_for() -> None:
    """Nearly all of this is one channel's time: it is taken all along, by one copy at a time."""
    toy = changed(tw.machines.load("toy"), {"dma.dma.bandwidth": 1, "dma.dma.latency": 0})
    schedule = staged((16, 1, 8), (0, 3), False, False, True)
    a = gemm.account(schedule, machine=toy, sizes={"M": 12, "N": 30, "K": 24}, sync="barrier", timeline=4000)
    assert a.time is not None
    assert a.time.bound <= a.time.cycles < 1.05 * a.time.bound
    taken = sorted((i.start, i.end) for i in a.time.intervals if i.track == "dma.0")
    assert all(one[1] <= other[0] for one, other in pairwise(taken))
    assert sum(end - start for start, end in taken) == next(u.busy for u in a.time.uses if u.resource == "dma.0")
