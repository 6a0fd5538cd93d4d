"""Buckets cover their ranges once, and every size has one."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.autotune.buckets import ANY, EXACT, GRIDS, MOST, Axis, Bucket, Buckets
from tilewright.autotune.errors import TuneError
from tilewright.lang.errors import ArgumentError

M, N, K = tw.sizes("M N K")
pipeline = tw.Pipeline("product", A=tw.f32[M, K], B=tw.f32[K, N])
i, j, k = *tw.vars("i j"), tw.rdom(k=K)
C = tw.func("C")
C[i, j] = 0.0
C[i, j] += pipeline.A[i, k] * pipeline.B[k, j]
P = pipeline.returns(C[:M, :N]).pipeline()  # its sizes: M, K, N
FIXED = {"N": 1024, "K": 1024}


def of(low: int, high: int, **options) -> Buckets:
    return Buckets.of(P, {"M": (low, high), **FIXED}, **options)


def ranges(b: Buckets) -> list[tuple[int, int]]:
    return [(x.ranges[0].low, x.ranges[0].high) for x in b]


def test_default_buckets_are_exact_to_16_then_powers_of_two_with_their_middles() -> None:
    found = of(1, 4096)
    assert ranges(found)[:16] == [(n, n) for n in range(1, 17)]
    assert [high for _, high in ranges(found)[16:]] == [
        24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    ]  # fmt: skip
    assert found.all[16].text == "M=17..24,K=1024,N=1024" and found.all[16].point == {"M": 24, "K": 1024, "N": 1024}
    assert len(found) == 32 and not found.coarser and found.varying == ("M",)


@given(st.integers(0, 300), st.integers(0, 3000), st.data())
@settings(deadline=None)
def test_every_size_of_a_range_lies_in_one_bucket(low: int, more: int, data) -> None:
    high = low + more
    points = data.draw(st.none() | st.lists(st.integers(low, high), min_size=1, max_size=6))
    found = of(low, high, points=None if points is None else {"M": points})
    ends = ranges(found)
    assert ends[0][0] == low and ends[-1][1] == high
    assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(ends))
    if points is not None:
        assert [b.at[0] for b in found] == sorted(set(points))
    for size in data.draw(st.lists(st.integers(low, high), max_size=5)):
        b, inside = found.find({"M": size, **FIXED})
        assert inside and size in b.ranges[0]
    assert all(b.point["M"] in b.ranges[0] for b in found)


@given(st.integers(0, 1 << 40), st.sampled_from([(1, 4096), (7, 7), (100, 3000), (0, 5)]))
@settings(deadline=None)
def test_sizes_outside_get_the_nearest_bucket(size: int, ends: tuple[int, int]) -> None:
    found = of(*ends)
    b, inside = found.find({"M": size, **FIXED})
    assert inside == (ends[0] <= size <= ends[1])
    assert size in b.ranges[0] if inside else b is found.all[0 if size < ends[0] else -1]
    # what is fixed counts as well
    assert found.find({"M": size, "N": 1000, "K": 1024})[1] is False
    assert found.find({"M": size, "N": 1000, "K": 1024})[0] is b


def test_nearest_is_by_ratio() -> None:
    found = Buckets.read(["M=1..10", "M=1000..2000"])
    assert found.find({"M": 50})[0].text == "M=1..10"
    assert found.find({"M": 101})[0].text == "M=1000..2000"
    assert found.find({})[1]


def test_of_buckets_that_overlap_the_smaller_one_counts() -> None:
    found = Buckets.read(["M=1..100", "M=64", "M=50..70"])
    assert [found.find({"M": m})[0].text for m in (64, 65, 49)] == ["M=64", "M=50..70", "M=1..100"]


@given(st.lists(st.integers(1, 6), min_size=3, max_size=3), st.integers(1, 40))
@settings(deadline=None)
def test_several_axes_have_no_more_buckets_than_asked(powers: list[int], most: int) -> None:
    sizes = {n: (1, 1 << e) for n, e in zip("MNK", powers, strict=True)}
    found = Buckets.of(P, sizes, most=most)
    assert len(found) <= most
    assert sum(b.volume for b in found) == math.prod(1 << e for e in powers)
    for at in ({"M": 1, "N": 1, "K": 1}, {n: high for n, (_, high) in sizes.items()}):
        assert found.find(at)[1]
    full = Buckets.of(P, sizes, most=10**9)
    assert bool(found.coarser) == (len(full) > most)


def test_grids_get_coarser() -> None:
    for high in (1, 5, 16, 17, 1000, 4096):
        counts = [len(grid(high)) for _, grid in GRIDS]
        assert counts == sorted(counts, reverse=True) and counts[-1] == 1
        assert all(grid(high)[-1] == high for _, grid in GRIDS)
    assert GRIDS[0][1](40) == [*range(1, EXACT + 1), 24, 32, 40]
    assert len(Buckets.of(P, {"M": (1, 4096), "N": (1, 4096), "K": 64})) <= MOST


def test_traffic_gives_points_and_weights() -> None:
    found = of(1, 4096, weights={"M": {1: 80, 700: 15, 1000: 5, 5000: 0}})
    assert found["M=1,N=1024,K=1024"].weight == pytest.approx(0.8)
    assert found["M=513..768,N=1024,K=1024"].point["M"] == 700
    assert found["M=769..1024,N=1024,K=1024"].at[0] == 1000
    assert found["M=2,N=1024,K=1024"].weight == 0 and sum(b.weight for b in found) == pytest.approx(1)
    pairs = of(1, 64, weights=[({"M": 3}, 1), ({"M": 3, "N": 1024}, 1), ({"M": 40}, 2)])
    assert pairs.find({"M": 3})[0].weight == pairs.find({"M": 40})[0].weight == 0.5


def test_a_bucket_is_split_at_the_middle_of_its_longest_axis() -> None:
    found = Buckets.of(P, {"M": (1, 4096), "N": (1, 4096), "K": 64}, most=4)
    whole = found.all[-1]
    halves = [b for b in found.split(whole) if b not in found.all]
    assert sum(b.volume for b in halves) == whole.volume and sum(b.weight for b in halves) == whole.weight
    again = of(17, 24)
    both = again.split(again.all[0])
    assert ranges(both) == [(17, 20), (21, 24)] and [b.at[0] for b in both] == [20, 24]
    two = of(17, 18)
    assert ranges(two.split(two.all[0])) == [(17, 17), (18, 18)]
    with pytest.raises(TuneError) as e:
        of(3, 3).split(of(3, 3).all[0])
    assert e.value.code == "tune.bucket"


def test_samples_are_the_ends_and_the_middle_beside_the_point() -> None:
    b = Bucket((Axis("M", 769, 1024), Axis("N", 5, 5)), (1024, 5))
    assert b.samples() == ({"M": 769, "N": 5}, {"M": 887, "N": 5})
    assert Bucket((Axis("M", 4, 4),), (4,)).samples() == ()


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=3))
def test_texts_are_read_back(ends: list[tuple[int, int]]) -> None:
    axes = tuple(Axis(n, min(e), max(e)) for n, e in zip("MNK", ends, strict=False))
    b = Bucket(axes, tuple(a.high for a in axes))
    assert Bucket.read(b.text) == b
    opened = b.over(["M", "N", "K", "L"])
    assert opened.text == b.text and opened.ranges[-1].high == ANY and opened.distance({"L": 10**9}) == 0


@pytest.mark.parametrize("text", ["M", "M=5..3", "M=1,M=2", "M=a", "=3", "M=1..", "M=1;N=2"])
def test_what_is_no_bucket_is_refused(text: str) -> None:
    with pytest.raises(TuneError) as e:
        Bucket.read(text)
    assert e.value.code == "tune.bucket" and e.value.hint


@pytest.mark.parametrize(
    ("sizes", "options", "code"),
    [
        ({"M": (5, 1), **FIXED}, {}, "tune.sizes"),
        ({"M": (1, 2, 3), **FIXED}, {}, "tune.sizes"),
        ({"M": (1, 2.5), **FIXED}, {}, "tune.sizes"),
        (17, {}, "tune.sizes"),
        ({"M": 1, "N": 2}, {}, "argument.size-undetermined"),
        ({"M": 1, "N": 2, "K": 3, "L": 4}, {}, "argument.size-unknown"),
        ({"M": (-1, 4), **FIXED}, {}, "argument.size-negative"),
        ({"M": (1, 9), **FIXED}, {"points": {"L": [1]}}, "tune.points"),
        ({"M": (1, 9), **FIXED}, {"points": {"M": [1, 70]}}, "tune.points"),
        ({"M": (1, 9), **FIXED}, {"points": {"M": []}}, "tune.points"),
        ({"M": (1, 9), **FIXED}, {"points": [3]}, "tune.points"),
        ({"M": (1, 9), **FIXED}, {"weights": {"L": {1: 2}}}, "tune.weights"),
        ({"M": (1, 9), **FIXED}, {"weights": {"M": {1: -2}}}, "tune.weights"),
        ({"M": (1, 9), **FIXED}, {"weights": {"M": {1: 0}}}, "tune.weights"),
        ({"M": (1, 9), **FIXED}, {"weights": {"M": {1: math.nan}}}, "tune.weights"),
        ({"M": (1, 9), **FIXED}, {"weights": 5}, "tune.weights"),
    ],
)  # fmt: skip
def test_what_can_not_be_cut_is_refused(sizes, options, code: str) -> None:
    with pytest.raises((TuneError, ArgumentError)) as e:
        Buckets.of(P, sizes, **options)
    assert e.value.code == code


def test_a_kernel_without_sizes_has_one_bucket() -> None:
    q = tw.Pipeline("constant", A=tw.f32[3])
    v = tw.vars("v")
    f = tw.func("f")
    f[v] = q.A[v] + 1.0
    found = Buckets.of(q.returns(f[:3]).pipeline(), {})
    assert len(found) == 1 and found.all[0].text == "" and found.find({}) == (found.all[0], True)
    assert str(found.all[0]) == "any call" and found.all[0].samples() == ()
