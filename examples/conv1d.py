"""One-dimensional convolution: a finite impulse response filter over a long signal."""

from __future__ import annotations

import numpy as np
from scipy import signal as scipy_signal

import tilewright as tw
from tilewright import testing

N, K = tw.sizes("N K")
REGISTERS = tw.host_registers()
VECTOR = REGISTERS.width // 4


@tw.kernel
def conv1d(signal: tw.f32[N], taps: tw.f32[K]):
    n = tw.vars("n")
    k = tw.rdom(k=K)
    filtered = tw.func("filtered")
    filtered[n] = 0.0
    filtered[n] += taps[k] * signal[n + k]
    return filtered[: N - K + 1]


def by_taps():
    """A pass over the whole signal for every tap."""
    s = conv1d.schedule()
    s["filtered.update"].reorder("k", "n").vectorize("n", VECTOR)
    return s


def expert():
    """Several vectors of results stay in registers while the taps go by."""
    s = conv1d.schedule()
    F = s["filtered.update"]
    F.split("n", "task", "rest", 1 << 14).split("rest", "block", "point", REGISTERS.count // 2 * VECTOR)
    F.split("point", "vector", "lane", VECTOR)
    F.reorder("task", "block", "k", "vector", "lane").parallel("task").unroll("vector").vectorize("lane")
    s.cache_write("filtered", at="filtered.update.block", memory="reg")
    return s


SCHEDULES = (by_taps, expert)


def inputs(N=20_000, K=65):
    """A chirp with noise, and a low-pass filter."""
    time = np.arange(N) / 8000
    noise = np.random.default_rng(0).standard_normal(N)
    chirp = scipy_signal.chirp(time, 100, time[-1], 3000)
    return np.float32(chirp + 0.2 * noise), np.float32(scipy_signal.firwin(K, 1000, fs=8000))


def check(**sizes):
    x, taps = inputs(**sizes)
    independent = np.convolve(x.astype(np.float64), taps[::-1].astype(np.float64), mode="valid")
    testing.check_schedules(conv1d, SCHEDULES, (x, taps), np.float32(independent))


if __name__ == "__main__":
    check()
