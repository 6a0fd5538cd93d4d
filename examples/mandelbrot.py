"""The Mandelbrot set: a Func of triples (real part, imaginary part, steps before escape), updated step by step.

Mode `strict`: near the edge of the set a single rounding decides, and here every schedule must draw the same picture.
"""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4


@tw.kernel(mode="strict")
def mandelbrot(re: tw.f32[W], im: tw.f32[H], *, steps=48):
    y, x = tw.vars("y x")
    t = tw.rdom(t=steps)
    z = tw.func("z", (tw.f32, tw.f32, tw.i32))
    z[y, x] = (0.0, 0.0, 0)
    a, b, n = z[y, x]
    inside = a * a + b * b < 4.0
    z[y, x] = (
        tw.select(inside, a * a - b * b + re[x], a),
        tw.select(inside, 2.0 * a * b + im[y], b),
        tw.select(inside, tw.cast(tw.i32, t + 1), n),
    )
    picture = tw.func("picture")
    picture[y, x] = z[y, x][2]
    return picture[:H, :W]


def by_steps():
    """Every point of the picture takes a step before any takes the next one."""
    s = mandelbrot.schedule()
    s["z"].compute_root()
    s["z.update"].reorder("t", "y", "x").vectorize("x", VECTOR)
    return s


def by_points():
    """All steps of a vector of points at once."""
    s = mandelbrot.schedule()
    s["z"].compute_root()
    s["z.update"].split("x", "xo", "lane", VECTOR).reorder("y", "xo", "t", "lane").parallel("y").vectorize("lane")
    s.cache_write("z", at="z.update.xo", memory="reg")
    return s


def expert():
    """Four vectors of points at once: a step has to wait for the one before, so others fill the time."""
    s = mandelbrot.schedule()
    s["z"].compute_root()
    z = s["z.update"]
    z.split("x", "xo", "xi", 4 * VECTOR).split("xi", "vector", "lane", VECTOR)
    z.reorder("y", "xo", "t", "vector", "lane").parallel("y").unroll("vector").vectorize("lane")
    s.cache_write("z", at="z.update.xo", memory="reg")
    return s


SCHEDULES = (by_steps, by_points, expert)


def inputs(H=90, W=140):
    """The whole set: real parts from -2.2 to 0.8, imaginary parts from -1.2 to 1.2."""
    return np.linspace(-2.2, 0.8, W, dtype=np.float32), np.linspace(-1.2, 1.2, H, dtype=np.float32)


def independent(re, im, steps=48):
    """The same in NumPy, in two planes (its complex numbers round otherwise)."""
    cr, ci = np.meshgrid(re, im)
    a, b = np.zeros_like(cr), np.zeros_like(ci)
    n = np.zeros(cr.shape, np.int32)
    for _ in range(steps):
        inside = a * a + b * b < 4
        a, b = np.where(inside, a * a - b * b + cr, a), np.where(inside, 2 * a * b + ci, b)
        n += inside
    return n


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(mandelbrot, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()
