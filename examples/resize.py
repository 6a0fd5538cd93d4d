"""A photograph in another size, up or down, with any kernel: box, linear, cubic, Lanczos.

Kernels are data: for each row (column) of the result the first row (column) that it is made of, and weights. Both
directions are the same pass: weighted sums of rows, then transposed.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image

import tilewright as tw
from tilewright import testing

H, W, OH, OW, R, C = tw.sizes("H W OH OW R C")
VECTOR = tw.host_registers().width // 4
STRIP = 4 * VECTOR  # rows of the result that are made together


@tw.kernel
def resize(
    picture: tw.f32[3, H, W],
    first_row: tw.i64[OH],
    rows: tw.f32[OH, R],
    first_column: tw.i64[OW],
    columns: tw.f32[OW, C],
):
    c, y, x = tw.vars("c y x")

    def mixed(name, source, first, weights, height, taps):
        """Weighted sums of rows of the source, transposed."""
        k = tw.rdom(k=taps)
        mix, turned = tw.func(f"mix_{name}"), tw.func(f"turned_{name}")
        mix[c, y, x] = 0.0
        mix[c, y, x] += weights[y, k] * source[c, tw.clamp(first[y], 0, height - taps) + k, x]
        turned[c, y, x] = mix[c, x, y]
        return turned

    across = mixed("rows", picture, first_row, rows, H, R)
    return mixed("columns", across, first_column, columns, W, C)[:3, :OH, :OW]


def in_vectors(s):
    for name in ("rows", "columns"):
        mix = s[f"mix_{name}.update"].reorder("c", "y", "k", "x")
        mix.split("x", "block", "u", STRIP).split("u", "u", "v", VECTOR).reorder("c", "y", "block", "k", "u", "v")
        mix.unroll("u").vectorize("v")
        s.cache_write(f"mix_{name}", at=f"mix_{name}.update.block", memory="reg")


def turn(s, stage, y, x):
    s[stage].tile(y, x, "yo", "xo", "yi", "xi", VECTOR, VECTOR).unroll("yi").vectorize("xi")


def by_stages():
    """All rows, the transposed of them, all columns, and transposed again."""
    s = resize.schedule()
    in_vectors(s)
    for stage in ("mix_rows", "turned_rows", "mix_columns"):
        s[stage].compute_root()
    for stage in ("mix_rows.update", "turned_rows", "mix_columns.update", "turned_columns"):
        s[stage].parallel("c")
    turn(s, "turned_rows", "y", "x")
    turn(s, "turned_columns", "y", "x")
    return s


def expert():
    """Strips of the result, all stages in the cache."""
    s = resize.schedule()
    in_vectors(s)
    s["turned_columns"].split("y", "strip", "line", STRIP).reorder("strip", "c", "line", "x").parallel("strip")
    turn(s, "turned_columns", "line", "x")
    for stage in ("mix_columns", "turned_rows", "mix_rows"):
        s[stage].compute_at("turned_columns.c")
    turn(s, "turned_rows", "y", "x")
    return s


SCHEDULES = (by_stages, expert)


def sinc3(x):
    return np.where(abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


def cubic(x):
    x = abs(x)
    return np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((2.5 - 0.5 * x) * x - 4) * x + 2, 0))


KERNELS = {  # how far each reaches, and its values
    "box": (0.5, lambda x: np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)),
    "linear": (1.0, lambda x: np.maximum(1 - abs(x), 0)),
    "cubic": (2.0, cubic),
    "lanczos": (3.0, sinc3),
}


def weights(size, new, kernel):
    """For each of `new` pixels the first of `size` ones that it is made of, and the weights of these; where the
    picture becomes smaller, the kernel becomes wider.
    """
    reach, values = KERNELS[kernel]
    scale = max(size / new, 1.0)
    taps = min(size, int(np.ceil(reach * scale)) * 2 + 1)
    centre = (np.arange(new) + 0.5) * size / new
    first = np.clip(np.floor(centre - reach * scale + 0.5).astype(np.int64), 0, size - taps)
    at = first[:, None] + np.arange(taps) + 0.5 - centre[:, None]
    w = np.where(abs(at) < reach * scale + 0.5, values(at / scale), 0)
    return first, np.float32(w / w.sum(1, keepdims=True))


def inputs(rows=600, columns=512, height=400, width=341, kernel="lanczos", repeat=1):
    """A portrait of Grace Hopper, 3 x 600 x 512, values 0 to 1, and what makes a row and a column of the result."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        planes = np.moveaxis(np.asarray(photograph, np.float32) / np.float32(255), 2, 0)
    picture = np.ascontiguousarray(np.tile(planes, (1, repeat, repeat))[:, :rows, :columns])
    return picture, *weights(picture.shape[1], height, kernel), *weights(picture.shape[2], width, kernel)


def independent(picture, first_row, rows, first_column, columns):
    """Products with matrices."""
    wide = np.float64(picture)
    for axis, (first, w) in ((1, (first_row, rows)), (2, (first_column, columns))):
        matrix = np.zeros((len(first), wide.shape[axis]))
        np.put_along_axis(matrix, first[:, None] + np.arange(w.shape[1]), np.float64(w), 1)
        wide = np.moveaxis(np.tensordot(matrix, wide, (1, axis)), 0, axis)
    return np.float32(wide)


def check(rows=200, columns=190, height=120, width=340, kernel="lanczos"):
    args = inputs(rows, columns, height, width, kernel)
    testing.check_schedules(resize, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    for kernel in KERNELS:
        check(kernel=kernel)
