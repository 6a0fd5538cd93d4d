"""Helpers of the tests: kernels from plain functions, the one that many schedule, and the reference's answer.

Test modules import them as `from tests.kernels import call`: in importlib mode pytest makes `tests` a package whatever
the current directory is, and no conftest or sys.path entry is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.lang.binding import bind
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import run
from tilewright.lang.trace import read_interface, trace

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def pipeline(fn: Callable, **statics: Any) -> Pipeline:
    """The pipeline of a kernel function."""
    return trace(fn, read_interface(fn), statics)


def call(fn: Callable | Pipeline, *args: Any, sizes: dict[str, int] | None = None, **kwargs: Any) -> Any:
    """What the reference path gives for a kernel function or pipeline."""
    p = fn if isinstance(fn, Pipeline) else pipeline(fn)
    return run(p, bind(p, args, kwargs, sizes))


def same(a: Any, b: Any) -> bool:
    """The same type, shape and bits (or both NaN)."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    bits = f"u{a.dtype.itemsize}"
    nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return bool(((np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)) | nan).all())
