"""A transposed copy: rows are read, columns are written, and memory wants whole lines of the cache either way."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

M, N = tw.sizes("M N")
LINE = 16  # values in a line of the cache


@tw.kernel
def transpose(a: tw.f32[M, N]):
    i, j = tw.vars("i j")
    out = tw.func("out")
    out[j, i] = a[i, j]
    return out[:N, :M]


def by_rows():
    """Vectors are stored; what they hold is gathered from as many rows."""
    s = transpose.schedule()
    s["out"].vectorize("i", LINE)
    return s


def expert():
    """Tiles of 16 x 16 are turned in registers. A block of 256 of them reads and writes few enough pages of memory."""
    s = transpose.schedule()
    x = s["out"].tile(("j", "i"), ("jb", "ib"), ("j", "i"), (16 * LINE, 16 * LINE))
    x.tile(("j", "i"), ("jt", "it"), ("j", "i"), (LINE, LINE))
    x.parallel("jb").unroll("j").vectorize("i")
    return s


SCHEDULES = (by_rows, expert)


def inputs(M=1000, N=700):
    """Numbers in their order."""
    return np.arange(M * N, dtype=np.float32).reshape(M, N)


def check(**sizes):
    a = inputs(**sizes)
    testing.check_schedules(transpose, SCHEDULES, (a,), np.ascontiguousarray(a.T))


if __name__ == "__main__":
    check()
