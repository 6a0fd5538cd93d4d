"""Random schedules of a matrix product and a stencil, and how the estimate of cache misses ranks them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.small import matmul
from tilewright.hw import Cache, Machine, load_machine

H, W = tw.sizes("H W")
LEVELS = ("L1", "L2")


@tw.kernel
def stencil(a: tw.f64[H, W]):
    i, j = tw.vars("i j")
    b = tw.func("b")
    b[i, j] = a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]
    return b[1 : H - 1, 1 : W - 1]


def machine() -> Machine:
    """A CPU whose caches are scaled down, so that small problems do what large ones do."""
    l1 = Cache("L1", 2 << 10, 64, 4, 64.0, 4.0)
    return replace(
        load_machine("generic-avx2"), name="small-caches", caches=(l1, Cache("L2", 16 << 10, 64, 8, 32.0, 12.0))
    )


def schedules(seed: int, count: int) -> Iterator[tuple[Any, Any, dict[str, int]]]:
    """(kernel, schedule, sizes): products and stencils in turns."""
    r = random.Random(seed)
    for k in range(count):
        yield (_stencil if k % 2 else _matmul)(r)


def _matmul(r: random.Random) -> tuple[Any, Any, dict[str, int]]:
    s = matmul.schedule()
    s["C.init"].unscheduled()
    update = s["C.update"].unscheduled()
    _shaped(r, update, "ijk", (2, 4, 5, 8, 12, 16, 24, 32))
    sizes = {n: r.choice((24, 32, 40, 48, 64, 70, 80, 96)) for n in "MNK"}
    return matmul, s, sizes


def _stencil(r: random.Random) -> tuple[Any, Any, dict[str, int]]:
    s = stencil.schedule()
    _shaped(r, s["b"].unscheduled(), "ij", (2, 3, 4, 8, 16, 32, 50))
    return stencil, s, {"H": r.choice((20, 50, 64, 100, 130)), "W": r.choice((34, 66, 100, 130, 256, 300))}


def _shaped(r: random.Random, stage: Any, loops: str, factors: tuple[int, ...]) -> None:
    """Tiles of random sizes, loops in any order, now and then vectors."""
    names = []
    for v in loops:
        if r.random() < 0.7:
            stage.split(v, f"{v}o", f"{v}i", r.choice(factors))
            names += [f"{v}o", f"{v}i"]
        else:
            names.append(v)
    r.shuffle(names)
    stage.reorder(*names)
    if r.random() < 0.25 and names[-1][0] != "k":
        stage.vectorize(names[-1], 4)


@dataclass(frozen=True)
class Ranks:
    """Rank correlations and the middle relative error by level, seconds of an estimate (lowered before) and of a run."""

    schedules: int
    correlation: dict[str, float]
    error: dict[str, float]
    estimate_s: float
    exact_s: float


def ranks(seed: int, count: int) -> Ranks:
    """Estimates of random schedules against the exact model."""
    on, estimated, exact, times = machine(), [], [], []
    for kernel, s, sizes in schedules(seed, count):
        kernel.cache_estimate(s, machine=on, sizes=sizes)
        start = time.perf_counter()
        levels = kernel.cache_estimate(s, machine=on, sizes=sizes)
        middle = time.perf_counter()
        account = kernel.simulate(s, machine=on, sizes=sizes, caches=True).account
        times.append((middle - start, time.perf_counter() - middle))
        estimated.append([level.total.misses for level in levels[:-1]])
        exact.append([level.total.misses for level in account.caches[:-1]])
    guess, truth = np.array(estimated, float), np.array(exact, float)
    correlation = {n: spearman(guess[:, k], truth[:, k]) for k, n in enumerate(LEVELS)}
    error = {n: float(np.median(np.abs(guess[:, k] / truth[:, k] - 1))) for k, n in enumerate(LEVELS)}
    estimate_s, exact_s = np.median(np.array(times), axis=0).tolist()
    return Ranks(count, correlation, error, estimate_s, exact_s)


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """The correlation of ranks; equal values share the mean of theirs."""
    a, b = (_ranked(v) for v in (x, y))
    return float(np.corrcoef(a, b)[0, 1])


def _ranked(x: np.ndarray) -> np.ndarray:
    ordered = np.sort(x)
    return (np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right") - 1) / 2
