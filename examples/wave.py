"""A wave in a lake of varying depth, stepped in time: every step a stage, several steps a pass over memory.

A call takes the last two moments and gives the two that are `STEPS` later, so that calls can follow one another.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4
STEPS = 6
STRIP = 128  # rows


@tw.kernel
def wave(before: tw.f32[H, W], now: tw.f32[H, W], speed: tw.f32[H, W], *, steps=STEPS):
    y, x = tw.vars("y x")
    past, present = before, now
    for step in range(1, steps + 1):
        u = tw.func(f"u{step}")
        lake = tw.constant_exterior(present, 0.0, (0, H), (0, W))
        around = lake[y - 1, x] + lake[y + 1, x] + lake[y, x - 1] + lake[y, x + 1]
        u[y, x] = 2.0 * present[y, x] - past[y, x] + speed[y, x] * (around - 4.0 * present[y, x])
        past, present = present, u
    moments = tw.func("moments")
    moments[y, x] = (past[y, x], present[y, x])
    return moments[:H, :W]


def by_steps(steps=STEPS):
    """Every step over the whole lake."""
    s = wave.schedule(steps=steps)
    for step in range(1, steps + 1):
        s[f"u{step}"].compute_root().parallel("y").vectorize("x", VECTOR)
    s["moments"].parallel("y").vectorize("x", VECTOR)
    return s


def expert(steps=STEPS):
    """Down a strip each step follows a row behind the step before, and keeps but the few rows that others still read."""
    s = wave.schedule(steps=steps)
    s["moments"].split("y", "strip", "row", STRIP).parallel("strip").vectorize("x", VECTOR).partition("row", "never")
    for step in range(steps, 0, -1):
        u = s[f"u{step}"].compute_at("moments.row").store_at("moments.strip")
        u.fold_storage("y", 2 * (steps - step) + 3).vectorize("x", VECTOR).partition("y", "never")
    return s


SCHEDULES = (by_steps, expert)


def inputs(H=300, W=400):
    """A drop into a round lake at rest, deep in the middle: two moments, and the square of the speed of waves."""
    y, x = np.mgrid[:H, :W]
    depth = np.clip(1 - ((2 * y / H - 1) ** 2 + (2 * x / W - 1) ** 2), 0, 1)
    drop = np.exp(-((y - H / 3) ** 2 + (x - W / 2) ** 2) / 30) * (depth > 0)
    return np.float32(0.98 * drop), np.float32(drop), np.float32(0.4 * depth)


def independent(before, now, speed, steps=STEPS):
    past, present = np.float64(before), np.float64(now)
    laplace = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    for _ in range(steps):
        step = 2 * present - past + speed * ndimage.convolve(present, laplace, mode="constant")
        past, present = present, step
    return np.float32(past), np.float32(present)


def check(steps=STEPS, **sizes):
    args = inputs(**sizes)
    testing.check_schedules(wave, SCHEDULES, args, independent(*args, steps), statics={"steps": steps})


if __name__ == "__main__":
    check()
