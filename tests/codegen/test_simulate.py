"""Simulated runs: counts that can be worked out by hand, peak footprint, capacity, values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import matmul
from tilewright.hw import Account, CapacityError


def staged(tile: int = 16, depth: int = 32):
    """Tiles of all three matrices in the scratchpad."""
    s = matmul.schedule(machine="toy")
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", tile, tile).split("k", "ko", "ki", depth)
    C.reorder("io", "jo", "ko", "ii", "ki", "ji")
    s.cache_read("A", at="C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm")
    s.cache_write("C", at="C.update.jo", memory="spm")
    return s


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 70))
def test_counts_of_a_staged_product(m: int, n: int, k: int) -> None:
    """Every block row of A is read once a block column of C, every block column of B once a block row, C written once."""
    got = matmul.simulate(staged(), machine="toy", sizes={"M": m, "N": n, "K": k}).account
    rows, columns = -(-m // 16), -(-n // 16)
    assert got.of("dram", "A").reads == m * k * columns
    assert got.of("dram", "B").reads == n * k * rows
    assert got.of("dram", "C").writes == m * n
    assert got.of("dram", "C").reads == 0
    assert got.of("spm", "A_C").writes == m * k * columns
    assert got.of("spm", "A_C").reads == m * n * k
    assert got.of("spm", "C_tile").writes >= m * n * k + m * n


def test_footprint_is_the_live_buffers_at_the_worst_moment() -> None:
    got = matmul.simulate(staged(), machine="toy", sizes={"M": 64, "N": 64, "K": 64}).account
    (spm,) = (f for f in got.footprint if f.memory == "spm")
    assert {b.name: b.size for b in spm.buffers} == {"C_tile": 1024, "A_C": 2048, "B_C": 2048}
    assert spm.peak == 5120


def test_what_does_not_fit_is_refused_before_anything_runs() -> None:
    with pytest.raises(CapacityError) as e:
        staged(tile=128, depth=128).check()
        matmul.simulate(staged(tile=128, depth=128), machine="toy", sizes={"M": 256, "N": 256, "K": 256})
    assert e.value.code == "capacity.exceeded"
    assert "A_C" in str(e.value) and "# was 128" in str(e.value)


@pytest.mark.parametrize("schedule", [None, staged()], ids=["default", "staged"])
def test_values_are_those_of_the_native_run(schedule) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((37, 45), dtype=np.float32), rng.standard_normal((45, 51), dtype=np.float32)
    sizes = {"M": 37, "N": 51, "K": 45}
    simulated = matmul.simulate(schedule, machine="toy", sizes=sizes, inputs={"A": a, "B": b})
    native = matmul.compile(schedule)(a, b)
    assert simulated.result.tobytes() == native.tobytes()


def test_the_account_survives_json() -> None:
    got = matmul.simulate(staged(), machine="toy", sizes={"M": 20, "N": 20, "K": 20})
    assert Account.from_json(got.to_json()) == got.account
