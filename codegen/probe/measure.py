"""Timing of the probe's kernels: the best of many samples of a few milliseconds."""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import time
from collections.abc import Callable

import numpy as np

from tilewright.codegen import jit, target

from . import kernels

SAMPLE = 2e-3  # seconds of one sample at least: long beside the clock's resolution and a call's cost
PAGE = 4096
_MOST = 1 << 40  # repetitions of a sample, were one to take no time
_WARM = 1 << 16  # turns of a chase before it is timed: all lines of a cache, and enough of a memory
_P, _N = ctypes.c_void_p, ctypes.c_int64


def best(run: Callable[[int], object], seconds: float) -> float:
    """Seconds of one repetition of `run(repeats)`: the least of all samples within about `seconds`, three at least."""
    end = time.perf_counter() + seconds
    sample = min(SAMPLE, seconds / 4)
    repeats, took = 1, 0.0
    while True:
        took = _time(run, repeats)
        if took >= sample or repeats > _MOST:
            break
        repeats = max(repeats + 1, min(repeats * 10, math.ceil(1.2 * repeats * sample / max(took, 1e-7))))
    least, samples = took / repeats, 1
    while samples < 3 or time.perf_counter() < end:
        least, samples = min(least, _time(run, repeats) / repeats), samples + 1
    return least


def _time(run: Callable[[int], object], repeats: int) -> float:
    start = time.perf_counter()
    run(repeats)
    return time.perf_counter() - start


_ARRAYS = {"read": 1, "copy": 2, "pass": 2, "triad": 3}


@functools.cache
def _function(kind: str, type_: str, width: int) -> Callable[..., object]:
    """A kernel, compiled when first used and kept."""
    text, result, arguments = {
        "stream": (kernels.streams, None, (_P, _P, _P, _N, _N, _P)),
        "chase": (lambda width: kernels.chase(), _P, (_P, _N)),
        "clock": (lambda width: kernels.clock(), _N, (_N, _N, _N)),
        "peak": (lambda width: kernels.arithmetic(type_, width), None, (_P, _N, _P)),
    }["stream" if kind in _ARRAYS else kind]
    name = kernels.symbol(kind, type_)
    library = jit.load(target.optimize_and_emit(text(width), "none"), (name,)).pin()
    return ctypes.CFUNCTYPE(result, *arguments)(library.address(name))


def clock(seconds: float) -> float:
    """Cycles a second: of a chain of integer operations that take a cycle each."""
    run = _function("clock", "", 0)
    return 2 * kernels.CHAIN / best(lambda repeats: run(3, 5, repeats), seconds)


def stream(kind: str, memory: np.ndarray, size: int, width: int, seconds: float) -> float:
    """Bytes a second that a kernel of `kernels.streams` loads and stores, over arrays of `size` bytes together."""
    arrays = _ARRAYS[kind]
    turn = kernels.UNROLL * width
    each = max(turn, size // arrays // turn * turn)
    # Arrays start at different places of a page, so that they do not fight for the same sets of a cache.
    starts = [memory.ctypes.data + i * (each + 2 * turn) for i in range(3)] if arrays > 1 else [memory.ctypes.data] * 3
    assert starts[arrays - 1] + each <= memory.ctypes.data + memory.nbytes
    sink = aligned(kernels.UNROLL * width)
    run = _function(kind, "", width)
    return arrays * each / best(lambda repeats: run(*starts, each, repeats, sink.ctypes.data), seconds)


def bandwidth(kind: str, memory: np.ndarray, size: int, width: int, seconds: float) -> float:
    """Bytes a second at most that are read (`read`), or read and written (`copy`: with plain stores, or with such that go
    past the caches, whichever is faster)."""
    kinds = ("copy", "pass") if kind == "copy" else (kind,)
    return max(stream(k, memory, size, width, seconds / len(kinds)) for k in kinds)


def latency(memory: np.ndarray, size: int, line: int, seconds: float) -> float:
    """Seconds from a load's address to its data: a chase through all lines of `size` bytes, in random order."""
    count = max(2, size // line)
    pointers = memory[: count * line].view(np.uint64)
    order = np.random.default_rng(1).permutation(count).astype(np.uint64) * np.uint64(line)
    pointers[order // np.uint64(8)] = np.roll(order, -1) + np.uint64(memory.ctypes.data)
    chase = _function("chase", "", 0)
    at = memory.ctypes.data

    def run(repeats: int) -> None:
        nonlocal at
        at = chase(at, repeats)  # it goes on where it was: the lines that it has seen are those seen longest ago

    run(min(count // kernels.HOPS + 1, _WARM))
    return best(run, seconds) / kernels.HOPS


def peak(type_: str, width: int, seconds: float) -> float | None:
    """Operations a second of a type, a multiply-add as two; None where this processor does not compute it in vectors."""
    if type_ == "f16" and not _converts_halves():
        return None
    if type_ in ("f64", "f32", "f16", "bf16"):
        x, y = {"f64": ("<f8", "<f8"), "f32": ("<f4", "<f4"), "f16": ("<f2", "<f2"), "bf16": ("<u2", "<u2")}[type_]
        values = (0x3F40, 0x3E80) if type_ == "bf16" else (0.75, 0.25)  # s = 0.75 s + 0.25 stays at about 1
    else:
        x, y = (f"<i{kernels.TYPES[type_][1]}",) * 2
        values = (3, 1)
    pair = aligned(2 * width)
    pair[:width].view(x)[:] = values[0]
    pair[width:].view(y)[:] = values[1]
    sink = aligned(kernels.ACCUMULATORS * width)
    run = _function("peak", type_, width)
    each = best(lambda repeats: run(pair.ctypes.data, repeats, sink.ctypes.data), seconds)
    return 2 * kernels.lanes(type_, width) * kernels.ACCUMULATORS / each


def _converts_halves() -> bool:
    """Whether conversions from and to f16 are instructions: else LLVM calls functions that are not there."""
    features, triple = target.host().features.split(","), target.host().triple
    return "+f16c" in features if triple.startswith(("x86_64", "i686")) else triple.startswith("aarch64")


def aligned(size: int) -> np.ndarray:
    """Bytes that start at a page, all written to (an untouched page is not there yet, and reads fast)."""
    block = np.empty(size + PAGE, np.uint8)
    start = -block.ctypes.data % PAGE
    block[start : start + size] = 1
    return block[start : start + size]


def supported() -> bool:
    """Whether the kernels' layout of numbers is this processor's."""
    return sys.byteorder == "little" and ctypes.sizeof(ctypes.c_void_p) == 8
