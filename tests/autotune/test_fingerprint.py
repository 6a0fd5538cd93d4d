"""Machines are told apart, and how near they are to each other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.autotune.fingerprint import Fingerprint, similar, versions

WORDS = st.sampled_from(["avx", "avx2", "avx512f", "fma", "sse2", "neon"])
MACHINES = st.builds(
    Fingerprint,
    st.sampled_from(["Zen", "Lake", "Peak \u00b5"]),
    st.sets(WORDS).map(lambda s: tuple(sorted(s))),
    st.lists(st.sampled_from([1 << 15, 1 << 20, 1 << 25]), max_size=3).map(lambda c: tuple(sorted(c))),
    st.integers(1, 256),
)


@given(MACHINES)
def test_it_goes_through_json(a: Fingerprint) -> None:
    assert Fingerprint.from_json(a.to_json()) == Fingerprint.from_json(json.loads(a.to_json())) == a
    assert str(a).endswith(f"({a.hash[:8]})")


@given(MACHINES, MACHINES)
def test_equal_ones_alone_are_the_same(a: Fingerprint, b: Fingerprint) -> None:
    assert 0 < similar(a, b) <= 1
    assert similar(a, b) == pytest.approx(similar(b, a))
    assert (similar(a, b) == 1) == (a == b) == (a.hash == b.hash)


def test_nearer_ones_are_nearer() -> None:
    here = Fingerprint("Zen", ("avx", "avx2", "fma"), (1 << 15, 1 << 20), 4)
    order = [
        Fingerprint("Zen 2", here.features, here.caches, 4),
        Fingerprint("Zen", here.features, (1 << 15, 1 << 21), 4),
        Fingerprint("Zen", ("avx",), here.caches, 4),
        Fingerprint("Arm", ("neon",), (1 << 16,), 128),
    ]
    found = [similar(here, other) for other in order]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9 > found[-1]


@pytest.mark.parametrize("data", ["{}", "[]", '{"cpu": 1, "threads": 1, "features": [], "caches": []}',
                                  '{"cpu": "x", "threads": 0, "features": [], "caches": []}',
                                  '{"cpu": "x", "threads": 1, "features": [1], "caches": []}', "no json",
                                  "[" * 100_000])  # fmt: skip
def test_what_is_none_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Fingerprint.from_json(data)


def test_this_machine() -> None:
    here = Fingerprint.here()
    assert here is Fingerprint.here()
    assert here.threads >= 1
    assert here.cpu
    assert set(versions()) == {"code", "llvm", "numpy"}
