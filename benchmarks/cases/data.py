"""Data, programs of examples/, and the judging of values."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.testing import assert_within_bound

ROWS = 16  # rows that are judged where an error bound of all of them takes too long


def example(name: str) -> ModuleType:
    """A program of examples/ as a module."""
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def uniform(*shape: int) -> np.ndarray:
    """Numbers in 0..1: long sums of them do not cancel, so that their error bounds say something."""
    return np.random.default_rng(0).random(shape, np.float32)


def judged(kernel: Any, results: list[Callable[[], np.ndarray]], rows: slice, *args: Any) -> Callable[[], None]:
    """A check that these results lie within the kernel's error bound, given what their `rows` are made of."""

    def check() -> None:
        for result in results:
            assert_within_bound(kernel, np.ascontiguousarray(result()[rows]), *args)

    return check


def close(results: list[Callable[[], Any]], exact: Callable[[], np.ndarray], relative: float) -> Callable[[], None]:
    """A check that results differ from an f64 computation by no more than `relative` of its largest value: for peers whose
    order of operations is theirs, beside which the tests judge ours exactly."""

    def check() -> None:
        right = exact()
        scale = float(np.abs(right).max())
        for result in results:
            error = float(np.abs(np.asarray(result(), np.float64) - right).max())
            if not error <= relative * scale:
                raise AssertionError(f"off by {error:.3g} where {relative * scale:.3g} is allowed")

    return check


def every(m: int) -> slice:
    """Rows to judge of m."""
    return slice(0, m, max(1, m // ROWS))
