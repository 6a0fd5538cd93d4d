"""The f32 product in TVM with a schedule by hand: tiles of 8 by 32 in registers, B packed into panels as wide as the tile.

TVM compiles it for its sizes (ours are known at the call only), with the LLVM in its wheel (22 in 0.27) for this
processor. Its arrays are its own, aligned to 64 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te
from tvm.s_tir import Schedule

ROWS, COLUMNS, VECTOR = 8, 32, 16


def schedule(n: int) -> Schedule:
    A, B = (te.placeholder((n, n), "float32", name) for name in "AB")
    along = te.reduce_axis((0, n), "k")
    product = te.compute((n, n), lambda i, j: te.sum(A[i, along] * B[along, j], axis=along), name="C")
    s = Schedule(te.create_prim_func([A, B, product]))
    C = s.get_sblock("C")
    i, j, k = s.get_loops(C)
    panels = s.cache_read(C, 1, "global")
    jo, jt = s.split(j, [None, COLUMNS])
    jv, jl = s.split(jt, [None, VECTOR])
    io, ii = s.split(i, [None, ROWS])
    ko, ki = s.split(k, [None, 4])
    s.reorder(jo, io, ko, ki, ii, jv, jl)
    s.transform_layout(panels, ("write", 0), lambda k, j: (j // COLUMNS, k, j % COLUMNS))
    s.compute_at(panels, jo)
    s.vectorize(s.split(s.get_loops(panels)[-1], [None, VECTOR])[1])
    tile = s.cache_write(C, 0, "local")
    s.reverse_compute_at(tile, io)
    s.vectorize(s.split(s.get_loops(tile)[-1], [None, VECTOR])[1])
    for loop in (ki, ii, jv, *s.get_loops(tile)[-3:-1]):
        s.unroll(loop)
    s.vectorize(jl)
    s.decompose_reduction(C, ko)
    return s


def product(a: np.ndarray, b: np.ndarray) -> tuple[Callable[[], Any], Callable[[], np.ndarray]]:
    """A run of the product of square matrices, and what it gave."""
    n = len(a)
    processor = tvm_ffi.get_global_func("target.llvm_get_system_cpu")()
    built = tvm.compile(schedule(n).mod, target=tvm.target.Target({"kind": "llvm", "mcpu": processor}))
    run = built["main"]
    x, y, z = tvm.runtime.tensor(a), tvm.runtime.tensor(b), tvm.runtime.empty((n, n), "float32")
    return lambda: run(x, y, z), z.numpy
