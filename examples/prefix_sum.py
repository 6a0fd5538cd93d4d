"""Running totals: a scan along time of several channels. Each total needs the one before, the channels do not."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import testing

T, C = tw.sizes("T C")
VECTOR = tw.host_registers().width // 8


@tw.kernel
def prefix_sum(values: tw.f64[T, C]):
    t, c = tw.vars("t c")
    now = tw.rdom(now=(1, T))
    total = tw.func("total")
    total[t, c] = values[t, c]
    total[now, c] = total[now - 1, c] + values[now, c]
    return total[:T, :C]


def by_channel():
    """One channel after the other, from its beginning to its end."""
    s = prefix_sum.schedule()
    s["total.update"].reorder("c", "now")
    return s


def by_time():
    """All channels of a moment at once, in vectors."""
    s = prefix_sum.schedule()
    s["total.update"].reorder("now", "c").vectorize("c", VECTOR)
    return s


def expert():
    """Strips of channels on threads; four vectors at a time, so narrow that the moment before is still near."""
    s = prefix_sum.schedule()
    total = s["total.update"]
    total.split("c", "strip", "channel", 64 * VECTOR).reorder("strip", "now", "channel").parallel("strip")
    total.vectorize("channel", 4 * VECTOR)
    return s


SCHEDULES = (by_channel, by_time, expert)


def inputs(T=300, C=100):
    """Daily returns of some funds."""
    return (np.random.default_rng(0).standard_normal((T, C)) * 0.01 + 0.0003,)


def check(**sizes):
    (values,) = inputs(**sizes)
    testing.check_schedules(prefix_sum, SCHEDULES, (values,), independent=np.cumsum(values, axis=0))


if __name__ == "__main__":
    check()
