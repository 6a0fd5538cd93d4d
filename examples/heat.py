"""The heat equation on an insulated plate, stepped in time: every step a stage, several steps a pass over memory."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4
STEPS = 5


@tw.kernel
def heat(plate: tw.f32[H, W], rate: tw.f32, *, steps=STEPS):
    y, x = tw.vars("y x")
    before = tw.repeat_edge(plate)
    for step in range(1, steps + 1):
        u = tw.func(f"u{step}")
        around = before[y - 1, x] + before[y + 1, x] + before[y, x - 1] + before[y, x + 1]
        u[y, x] = before[y, x] + rate * (around - 4.0 * before[y, x])
        before = tw.repeat_edge(u, (0, H), (0, W))
    return u[:H, :W]


def by_steps():
    """Every step over the whole plate."""
    s = heat.schedule()
    for step in range(1, STEPS):
        s[f"u{step}"].compute_root().parallel("y").vectorize("x", VECTOR)
    s[f"u{STEPS}"].parallel("y").vectorize("x", VECTOR)
    return s


def expert():
    """Strips of 64 rows take all steps in the cache; the earlier steps reach a few rows beyond their strip."""
    s = heat.schedule()
    last = s[f"u{STEPS}"].split("y", "strip", "row", 64).parallel("strip").vectorize("x", VECTOR)
    for step in reversed(range(1, STEPS)):
        s[f"u{step}"].compute_at(f"{last.func}.strip").vectorize("x", VECTOR)
    return s


SCHEDULES = (by_steps, expert)


def inputs(H=120, W=170):
    """A warm plate with a hot spot and a cold bar, and the rate of exchange between neighbours."""
    y, x = np.mgrid[:H, :W]
    plate = 20 + 80 * np.exp(-((y - H / 3) ** 2 + (x - W / 2) ** 2) / (H / 6) ** 2)
    plate[2 * H // 3 : 2 * H // 3 + 5] = 5
    return np.float32(plate), np.float32(0.2)


def independent(plate, rate):
    u = plate.astype(np.float64)
    for _ in range(STEPS):
        e = np.pad(u, 1, mode="edge")
        u = u + np.float64(rate) * (e[:-2, 1:-1] + e[2:, 1:-1] + e[1:-1, :-2] + e[1:-1, 2:] - 4 * u)
    return np.float32(u)


def check(**sizes):
    args = inputs(**sizes)
    testing.check_schedules(heat, SCHEDULES, args, independent(*args))


if __name__ == "__main__":
    check()
