"""OpenBLAS a second time, with other kernels than those that it takes by itself.

On AMD's processors with AVX-512 it takes the kernels that were made for Intel's; those for AVX2 may be the faster ones.
Which kernels a library takes is decided when it is loaded, so a copy of NumPy's library is loaded beside it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

CORE = "Haswell"  # AVX2
_ROWS, _AS_IT_STANDS, _TRANSPOSED = 101, 111, 112  # CblasRowMajor, CblasNoTrans, CblasTrans
_PREFIX, _SUFFIX = "scipy_", "64_"  # of the names in NumPy's own library, whose integers have 64 bits


@functools.cache
def library() -> ctypes.CDLL | None:
    """The copy; None where NumPy has no OpenBLAS of its own, or one without these kernels."""
    found = sorted((Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas*.so*"))
    before = os.environ.get("OPENBLAS_CORETYPE")
    if not found:
        return None
    os.environ["OPENBLAS_CORETYPE"] = CORE
    try:
        with tempfile.TemporaryDirectory() as folder:
            copy = ctypes.CDLL(shutil.copy(found[0], folder))
        name = getattr(copy, f"{_PREFIX}openblas_get_corename{_SUFFIX}")
        name.restype = ctypes.c_char_p
        return copy if name().decode() == CORE else None
    except (OSError, AttributeError):
        return None
    finally:
        if before is None:
            del os.environ["OPENBLAS_CORETYPE"]
        else:
            os.environ["OPENBLAS_CORETYPE"] = before


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Callable[[], np.ndarray] | None:
    """A call that writes a @ b to c, all of them f32 or f64; c is contiguous, a and b are or stand transposed."""
    copy = library()
    if copy is None:
        return None
    long, number = ctypes.c_int64, ctypes.c_float if a.dtype == np.float32 else ctypes.c_double
    gemm = getattr(copy, f"{_PREFIX}cblas_{'s' if a.dtype == np.float32 else 'd'}gemm{_SUFFIX}")
    (m, k), n = a.shape, b.shape[1]
    orders = [_AS_IT_STANDS if x.flags.c_contiguous else _TRANSPOSED for x in (a, b)]
    leading = [
        long(x.shape[1] if order == _AS_IT_STANDS else x.shape[0]) for x, order in zip((a, b), orders, strict=True)
    ]
    modes, extents = [ctypes.c_int(x) for x in (_ROWS, *orders)], [long(x) for x in (m, n, k)]
    pa, pb, pc = (ctypes.c_void_p(x.ctypes.data) for x in (a, b, c))
    args = (*modes, *extents, number(1), pa, leading[0], pb, leading[1], number(0), pc, long(n))

    def run() -> np.ndarray:
        gemm(*args)
        return c

    return run
