"""Lesson 22: compile once, call often. What is kept: in the compiled kernel, in the kernel, on disk."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen import lower as lowering

N = tw.sizes("N")


def transposition(row: int = 256) -> tw.Kernel:
    """A table is filled and turned. Tests that count what is lowered have an algorithm of their own, by `row`."""

    @tw.kernel
    def turned(first: tw.u16[N]):
        y, x = tw.vars("y x")
        table, out = tw.func("table", tw.u16), tw.func("out", tw.u16)
        table[y, x] = tw.cast(tw.u16, row * y) + first[x]
        out[y, x] = table[x, y]
        return out[:N, :N]

    return turned


def in_blocks(kernel: tw.Kernel):
    """Blocks of 8 x 8: rows of the table in vectors into a block, the block turned into rows of the result."""
    s = kernel.schedule()
    s["out"].tile("y", "x", "yo", "xo", "yi", "xi", 8, 8).vectorize("xi").unroll("yi").parallel("yo")
    s["table"].compute_root().parallel("y").vectorize("x", 16)
    s.cache_read("table", at="out.xo", name="block").vectorize("x", 8)
    return s


def first(n: int) -> np.ndarray:
    return (np.arange(n) * 7919 % 1000).astype(np.uint16)


def by_numpy(n: int, row: int = 256) -> np.ndarray:
    return (row * np.arange(n) + first(n)[:, None]).astype(np.uint16)


@pytest.fixture
def lowered(monkeypatch) -> list[str]:
    """The names of the kernels that are lowered in a test, in order."""
    found: list[str] = []
    real = lowering.lower

    def lower(request):
        found.append(request.state.pipeline.name)
        return real(request)

    monkeypatch.setattr(lowering, "lower", lower)
    return found


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))


def test_a_compiled_kernel_serves_all_sizes(lowered, empty_cache):
    kernel = transposition(100)
    fast = kernel.compile(in_blocks(kernel))
    for n in (0, 1, 7, 8, 70, 128):
        np.testing.assert_array_equal(fast(first(n)), by_numpy(n, 100))
    assert lowered == ["turned"]


def test_a_kernel_keeps_its_default(lowered, empty_cache):
    kernel = transposition(101)
    for n in (5, 6, 7):
        np.testing.assert_array_equal(kernel(first(n)), by_numpy(n, 101))
    assert lowered == ["turned"]


def test_other_strides_are_compiled_when_they_are_met(lowered, empty_cache):
    kernel = transposition(102)
    fast = kernel.compile(in_blocks(kernel))
    spread, plain = np.zeros((20, 40), np.uint16)[:, ::2], np.zeros((20, 20), np.uint16)
    for out in (plain, spread, plain, spread):
        assert fast(first(20), out=out) is out
        np.testing.assert_array_equal(out, by_numpy(20, 102))
    assert lowered == ["turned"] * 2


def test_the_same_kernel_made_again_comes_from_the_disk(lowered, empty_cache):
    """Tracing and scheduling are done anew, lowering and machine code are not: the key is what is said, not the object."""
    for _ in range(3):
        kernel = transposition(103)
        np.testing.assert_array_equal(kernel.compile(in_blocks(kernel))(first(33)), by_numpy(33, 103))
    assert lowered == ["turned"]
    other = in_blocks(kernel)
    other["table"].serial("y")
    kernel.compile(other)(first(33))
    assert lowered == ["turned"] * 2


def test_calls_do_not_go_through_python(monkeypatch):
    """After the first call a compiled kernel is a builtin that reads the arrays itself."""
    kernel = transposition()
    fast = kernel.compile(in_blocks(kernel))
    fast(first(40))
    monkeypatch.setattr(type(fast), "_slow", None)  # what is not native would fail
    monkeypatch.setattr(type(fast), "_checked", None)
    for n in (40, 16):
        out = np.zeros((n, n), np.uint16)
        fast(first(n), out=out)
        np.testing.assert_array_equal(out, by_numpy(n))
    np.testing.assert_array_equal(fast(first(9)), by_numpy(9))
