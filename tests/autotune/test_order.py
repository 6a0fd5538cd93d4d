"""Equal orders of reductions mean equal bits; a row's bits depend on no batch, bucket or number of threads."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import tilewright as tw
from examples import attention, layer_norm, matmul, softmax
from tests.autotune.orders import Seen, a_case, box_sum, compared, fuzzed, nine_sum, reducing, row_sum
from tilewright.autotune.buckets import Buckets
from tilewright.autotune.dispatch import Dispatch, Entry
from tilewright.autotune.generate import GeneratedSpace
from tilewright.autotune.order import Order, pinned, reduction_order
from tilewright.autotune.space import sample
from tilewright.schedule.schedule import Schedule

FUZZ = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))


def summed(*directives: str, kernel=row_sum) -> Schedule:
    stage = "".join(f"    {d}\n" for d in directives)
    text = f"schedule {kernel.__name__}\n" + (f"  s.update:\n{stage}" if stage else "")
    return tw.parse_schedule(text, kernel)


def order(*directives: str, kernel=row_sum) -> Order:
    return reduction_order(summed(*directives, kernel=kernel))


# What an order is made of -------------------------------------------------------------------------------------------


def test_the_default_order_is_in_lanes_and_blocks() -> None:
    assert str(pinned(row_sum.pipeline())) == (
        "s: partial results by k div 4096, each 64 partial results by k mod 64, each in the algorithm's order"
    )
    assert str(pinned(matmul.matmul.pipeline())) == "all reductions in the algorithm's order"
    assert pinned(row_sum.pipeline()) == reduction_order(row_sum.schedule())


def test_orders_do_not_depend_on_names_or_on_how_partial_results_are_computed() -> None:
    lanes = order("split k -> ko, ki by 16", "rfactor ki -> P")
    assert order("vectorize k by 16") == lanes
    assert order("split k -> a, b by 16", "rfactor b -> Q") == lanes
    assert order("split i -> io, ii by 4", "reorder io k ii", "split k -> a, b by 16", "rfactor b -> Q") == lanes
    # 16 divides 64: the points of a lane come in the same order
    assert order("split k -> a, b by 64", "split b -> c, d by 16", "rfactor d -> Q") == lanes
    assert order("vectorize k by 8") != lanes
    assert order("split k -> ko, ki by 16", "rfactor ko -> P") != lanes
    # blocks of threads are blocks
    assert order("parallel k by 16") == order("split k -> ko, ki by 16", "rfactor ko -> P")


def test_tiles_and_threads_of_pure_loops_are_no_part_of_an_order() -> None:
    serial = order("split k -> ko, ki by 7")
    assert serial.stages == ()
    assert order("split k -> ko, ki by 5", "split ki -> a, b by 3", "parallel i") == serial
    assert order("split i -> io, ii by 8", "reorder io k ii", "vectorize ii") == serial
    assert order("split k -> ko, ki by 4", "fuse ko ki -> f") == serial


def test_a_reduction_loop_that_changes_places_is_told() -> None:
    serial = order("split a -> ao, ai by 4", kernel=box_sum)
    assert serial.stages == ()
    swapped = order("reorder b a", kernel=box_sum)
    blocked = order("split a -> ao, ai by 4", "reorder ao b ai", kernel=box_sum)
    assert len({serial, swapped, blocked}) == 3
    assert str(blocked) == "s: by a div 4, b, a mod 4"
    # back again
    assert order("reorder b a", "reorder a b", kernel=box_sum) == serial


def test_parts_of_unequal_length_are_kept_apart() -> None:
    """16 points cut into 6, 6 and 4 are no part of k that div and mod say."""
    one = order("split k -> ko, ki by 16", "split ki -> a, b by 6", "rfactor b -> P")
    assert one != order("split k -> a, b by 6", "rfactor b -> P")
    assert one == order("split k -> x, y by 16", "split y -> u, v by 6", "rfactor v -> Q")


def test_forms_of_a_stage_must_agree() -> None:
    s = row_sum.schedule()
    s.specialize("s.update", "K >= 64", "wide").vectorize("k", 16)
    assert reduction_order(s).exactly == reduction_order(s).exactly != ""
    assert reduction_order(s) != pinned(row_sum.pipeline())
    t = row_sum.schedule()
    t.specialize("s.update", "M >= 64", "many").parallel("i")
    t["s.update"].vectorize("k", 16)
    u = row_sum.schedule()
    u["s.update"].vectorize("k", 16)
    u.specialize("s.update", "M >= 64", "many")
    assert reduction_order(u) == order("vectorize k by 16")


def test_integers_have_no_order() -> None:
    M, K = tw.sizes("M K")

    @tw.kernel
    def counted(x: tw.i32[M, K]):
        i, k = tw.vars("i"), tw.rdom(k=K)
        s = tw.func("s")
        s[i] = 0
        s[i] += x[i, k]
        return s[:M]

    s = counted.schedule()
    s["s.update"].vectorize("k", 32)
    assert reduction_order(s) == pinned(counted.pipeline())


def test_blocks_of_a_group_are_a_part_of_its_order() -> None:
    def fused(block: int, name: str) -> Order:
        s = softmax.softmax.schedule()
        s["E"].compute_inline()
        s.online(["largest", "total"], over="k", block=block, name=name)
        return reduction_order(s)

    assert fused(64, "g") == fused(64, "other")
    assert fused(64, "g") != fused(128, "g")
    assert fused(64, "g") != pinned(softmax.softmax.pipeline())


def test_in_mode_fast_only_equal_schedules_are_equal() -> None:
    assert reduction_order(summed("split k -> a, b by 4"), "fast") != reduction_order(summed(), "fast")
    assert reduction_order(summed(), "fast") == reduction_order(row_sum.schedule(), "fast")


# Bits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [row_sum, box_sum, nine_sum])
def test_reductions_of_one_order_have_the_same_bits(kernel) -> None:
    p, seen = kernel.pipeline(), Seen()
    for seed in range(2 * FUZZ):
        rnd = random.Random(seed)
        sizes = [{n: rnd.randrange(1, 70) for n in p.sizes}, {n: rnd.randrange(1, 9) for n in p.sizes}]
        compared(p, reducing(p), rnd, 10, sizes, seen)
    assert seen.same > 3 and seen.told_apart > 3


def test_random_schedules_of_one_order_have_the_same_bits() -> None:
    seen = Seen()
    for seed in range(4 * FUZZ):
        rnd = random.Random(seed)
        case = a_case(rnd, seed)
        if case is not None:
            compared(case.pipeline, fuzzed(case.pipeline), rnd, 6, [case.extents, {"M": 7, "N": 9, "K": 11}], seen)
    assert seen.same > 5


def test_schedules_of_one_order_have_the_same_bits_on_any_number_of_threads() -> None:
    x = np.random.default_rng(3).standard_normal((23, 400), np.float32)
    alike = [
        summed("parallel k by 16"), summed("split k -> a, b by 16", "rfactor a -> P"),
        summed("split i -> o, n by 3", "split k -> a, b by 16", "reorder o a n b", "parallel o", "rfactor a -> P"),
    ]  # fmt: skip
    assert len({reduction_order(s) for s in alike}) == 1 and len({s.hash for s in alike}) == 3
    kernels = [row_sum.compile(s) for s in alike]
    assert len({k(x, threads=t).tobytes() for k in kernels for t in (1, 2, 3, 4)}) == 1
    assert row_sum(x).tobytes() != kernels[0](x).tobytes()


def bucketed(kernel, schedules, sizes) -> Dispatch:
    """A dispatch whose buckets have these schedules in turn, those that have the pinned order."""
    p = kernel.pipeline()
    entries = [Entry(b, schedules[k % len(schedules)]) for k, b in enumerate(Buckets.of(p, sizes))]
    return Dispatch(p, entries, order="fixed")


def rows_of(d: Dispatch, batch: int, make, row: int, threads: int) -> bytes:
    return np.ascontiguousarray(np.asarray(d(*make(batch), threads=threads))[row]).tobytes()


def pinned_softmax(rows: int) -> Schedule:
    """Another form of the default order: blocks of 4096 and 64 lanes, tasks of several rows."""
    s = softmax.softmax.schedule()
    s["Y"].split("i", "io", "ii", rows).parallel("io").vectorize("j", 16)
    for stage in ("total", "largest"):
        s[stage].compute_at("Y.ii")
    s["largest.update"].vectorize("k", 64)
    s["total.update"].split("k", "kb", "ki", 4096).rfactor("kb", "blocks")
    s["blocks.update[0]"].vectorize("ki", 64)
    return s


def test_a_row_of_softmax_has_its_bits_in_every_batch() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((37, 5000), np.float32)
    k = softmax.softmax
    d = bucketed(k, [k.schedule(), pinned_softmax(2), pinned_softmax(5)], {"M": (1, 64), "N": 5000})
    assert len({e.schedule.hash for e in d.entries.values()}) == 3 and not d.left
    alone = {r: rows_of(d, 1, lambda n, r=r: (x[r : r + n],), 0, 1) for r in (0, 20, 36)}
    for batch, threads in ((37, 1), (37, 3), (21, 2), (37, 4), (2, 2)):
        for r in (r for r in alone if r < batch):
            assert rows_of(d, batch, lambda n: (x[:n],), r, threads) == alone[r]


def test_a_schedule_of_another_order_is_left_out() -> None:
    x = np.random.default_rng(5).standard_normal((37, 5000), np.float32)
    k, sizes = softmax.softmax, {"M": 37, "N": 5000}
    d = bucketed(k, [softmax.expert()], sizes)
    assert not d.entries and "another order" in d.left[0].why and "left out" in str(d.explain(x))
    free = Dispatch(k.pipeline(), [Entry(b, softmax.expert()) for b in Buckets.of(k.pipeline(), sizes)])
    assert free(x).tobytes() != d(x).tobytes() == k(x).tobytes()


def test_generated_schedules_of_one_order_have_the_bits_of_the_default_one() -> None:
    p = softmax.softmax.pipeline()
    space = GeneratedSpace(p, {"M": 21, "N": 300}, threads=2, order="fixed")
    x = np.random.default_rng(4).standard_normal((21, 300), np.float32)
    expected = softmax.softmax(x).tobytes()
    found = {q.hash: q.schedule for n in range(4) if (q := sample(space, random.Random(n))) is not None}
    assert len(found) > 1
    for s in found.values():
        assert reduction_order(s) == pinned(p)
        k = softmax.softmax.compile(s)
        assert k(x, threads=3).tobytes() == k(x, threads=1).tobytes() == expected
        assert k(x[20:21]).tobytes() == expected[-300 * 4 :]


def test_a_row_of_a_product_has_its_bits_in_every_batch() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((37, 700), np.float32), rng.standard_normal((700, 50), np.float32)
    k = matmul.matmul
    d = bucketed(k, [k.schedule(), matmul.expert(), matmul.tiled()], {"M": (1, 64), "K": 700, "N": 50})
    assert len({e.schedule.hash for e in d.entries.values()}) == 3 and not d.left
    for r in (0, 20, 36):
        alone = rows_of(d, 1, lambda n, r=r: (a[r : r + n], b), 0, 1)
        for batch, threads in ((37, 1), (37, 3), (64, 2)):
            rows = np.concatenate([a, a])[:batch]
            assert rows_of(d, batch, lambda n, rows=rows: (rows, b), r, threads) == alone


def test_a_row_of_a_norm_has_its_bits_in_every_batch() -> None:
    rng = np.random.default_rng(7)
    k = layer_norm.layer_norm
    x, y, gamma, beta = (rng.standard_normal(s, np.float32) for s in ((37, 4500), (37, 4500), 4500, 4500))
    d = bucketed(k, [k.schedule(), layer_norm.by_stages()], {"M": (1, 40), "N": 4500})
    assert len({e.schedule.hash for e in d.entries.values()}) == 2
    for r in (0, 20):
        alone = d(x[r : r + 1], y[r : r + 1], gamma, beta, 1e-5, threads=1)[1][0]
        for threads in (1, 2, 3, 4):
            assert d(x, y, gamma, beta, 1e-5, threads=threads)[1][r].tobytes() == alone.tobytes()


def test_a_query_of_attention_has_its_bits_in_every_batch() -> None:
    rng = np.random.default_rng(8)
    p = attention.attention.pipeline(causal=False)
    q, k, v = (rng.standard_normal(s, np.float32) for s in ((3, 37, 40), (3, 130, 40), (3, 130, 40)))
    unfused, default = tw.from_pipeline(p).schedule(), tw.from_pipeline(p).schedule()
    unfused["score"].compute_root()
    unfused["weight"].compute_root().vectorize("j", 16)
    entries = [
        Entry(b, (default, unfused)[n % 2])
        for n, b in enumerate(Buckets.of(p, {"H": 3, "M": (1, 64), "N": 130, "D": 40}))
    ]
    d = Dispatch(p, entries, order="fixed", keyword_only=())
    assert not d.left
    for r in (0, 20):
        alone = d(q[:, r : r + 1], k, v, 0.15, threads=1)[:, 0]
        for threads in (1, 2, 3, 4):
            assert d(q, k, v, 0.15, threads=threads)[:, r].tobytes() == alone.tobytes()
