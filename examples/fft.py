"""Fourier transforms of many signals, of any power of two: stages of radix 4, each a Func, made by a Python loop.

A stage joins four transforms of length l to one of length 4 l. Of each it keeps four complex values at a place, as the
components of a tuple: part k of the joined transform. A length that is no power of four begins with radix 2. The
signals lie side by side in vectors, so that a stage is nothing but arithmetic on whole vectors.

One long signal, seen as lines of a matrix, takes four steps (Bailey, 1990): its columns are transformed, all values are
turned by phases, the lines are transformed, and what comes out lies along the other axis.
"""

from __future__ import annotations

import numpy as np
from scipy import fft as scipy_fft

import tilewright as tw
from tilewright import testing

B, N = tw.sizes("B N")
LANES = 8  # signals side by side: what a stage gives for 256 points of them is 16 KiB
LINE = 16  # values in a line of the cache
LENGTH = 256


def radices(length):
    """The stages of a transform: 4 wherever possible, 2 first where the length is no power of four."""
    bits = int(length).bit_length() - 1
    if length < 2 or length != 1 << bits:
        raise ValueError(f"the length of a transform is a power of two from 2 on, not {length}")
    return [2] * (bits % 2) + [4] * (bits // 2)


def turned(value, by):
    """A product of complex numbers."""
    (x, y), (c, s) = value, by
    return x * c - y * s, x * s + y * c


def joined(parts):
    """The discrete Fourier transform of two or four complex numbers."""
    plus = lambda a, b: (a[0] + b[0], a[1] + b[1])  # noqa: E731
    minus = lambda a, b: (a[0] - b[0], a[1] - b[1])  # noqa: E731
    if len(parts) == 2:
        return plus(*parts), minus(*parts)
    a, b, c, d = parts
    even, odd, rest, (x, y) = plus(a, c), plus(b, d), minus(a, c), minus(b, d)
    return plus(even, odd), plus(rest, (y, -x)), minus(even, odd), minus(rest, (y, -x))


def transformed(name, length, source):
    """The stages of a transform of `source(q, b)` along q: gives its value at frequency p as a function of p and b."""
    b, p, q = tw.vars("b p q")
    value, known = lambda p, q, b: source(q, b), 1  # transform q of those of length `known`, at frequency p
    for k, radix in enumerate(radices(length)):
        step = length // (known * radix)
        angles = -2 * np.pi * np.outer(np.arange(known), np.arange(radix)) / (known * radix)
        c, s = (tw.const(np.float32(f(angles))) for f in (np.cos, np.sin))
        parts = [value(p, q + r * step, b) for r in range(radix)]
        if known > 1:
            parts = [parts[0], *(turned(parts[r], (c[p, r], s[p, r])) for r in range(1, radix))]
        stage = tw.func(f"{name}{k}")
        stage[p, q, b] = tuple(x for part in joined(parts) for x in part)

        def value(p, q, b, stage=stage, known=known, radix=radix):
            found = stage[p % known, q, b]
            pairs = [(found[2 * k], found[2 * k + 1]) for k in range(radix)]
            out = pairs[-1]
            for k in reversed(range(radix - 1)):
                out = tuple(tw.select(p // known == k, x, y) for x, y in zip(pairs[k], out, strict=True))
            return out

        known *= radix
    return lambda p, b: value(p, 0, b)


def phases(name, whole, step=1):
    """exp(-2 pi i step p b / whole) by p and b."""
    b, p = tw.vars("b p")
    phase = tw.func(name)
    angle = tw.cast(tw.f32, tw.cast(tw.i64, step * p * b + whole // 2) % whole - whole // 2) * (-2 * np.pi / whole)
    phase[p, b] = tw.cos(angle), tw.sin(angle)
    return phase


@tw.kernel
def fft(real: tw.f32[B, N], imag: tw.f32[B, N], *, length=LENGTH, lines=0):
    """With `lines` the B = lines signals are the pieces of a single one, whose frequencies come in lines of B."""
    b, p, q = tw.vars("b p q")
    signal, spectrum = tw.func("signal"), tw.func("spectrum")
    if lines:
        columns = transformed("down", lines, lambda q, b: (real[q, b], imag[q, b]))
        coarse, fine = phases("coarse", lines * length, LINE), phases("fine", lines * length)
        signal[q, b] = turned(turned(columns(b, q), coarse[b, q // LINE]), fine[b, q % LINE])
    else:
        signal[q, b] = (real[b, q], imag[b, q])
    frequency = transformed("stage", length, lambda q, b: signal[q, b])
    if lines:
        spectrum[p, b] = frequency(p, b)
        return spectrum[:length, :lines]
    spectrum[b, p] = frequency(p, b)
    return spectrum[:B, :length]


def stages(length, name="stage"):
    """Names of the stages, and how many frequencies each part of what they read has."""
    part, known = 1, 1
    for k, radix in enumerate(radices(length)):
        yield f"{name}{k}", part
        part, known = known, known * radix


def by_stages(length=LENGTH):
    """Every stage over all signals."""
    s = fft.schedule(length=length)
    s["signal"].compute_root()
    for stage, _ in stages(length):
        s[stage].compute_root().vectorize("b", LANES)
    return s


def expert(length=LENGTH):
    """A vector of signals takes all stages in the cache, and is turned in tiles of registers on the way in and out."""
    s = fft.schedule(length=length)
    last = length // radices(length)[-1]
    x = s["spectrum"].split("b", "strip", "b", LANES).split("p", "k", "p", last).split("p", "pt", "p", LANES)
    x.reorder("strip", "k", "pt", "b", "p").unroll("k").unroll("b").vectorize("p").parallel("strip")
    for stage, part in reversed(list(stages(length))):
        s[stage].compute_at("spectrum.strip").split("p", "k", "p", part).unroll("k").vectorize("b", LANES)
    s["signal"].compute_at("spectrum.strip").split("q", "qt", "q", LANES)
    s["signal"].reorder("qt", "q", "b").unroll("q").vectorize("b", LANES)
    return s


def expert_long(length=LENGTH, lines=LENGTH):
    """Of one long signal: a line of the cache from every piece is transformed down the pieces, turned in tiles of
    registers and kept as the second round reads it, a line of the cache from every piece again.
    """
    s = fft.schedule(length=length, lines=lines)
    x = s["spectrum"].split("b", "strip", "b", LINE).split("p", "k", "p", length // radices(length)[-1])
    x.reorder("strip", "p", "k", "b").unroll("k").vectorize("b").parallel("strip")
    y = s["signal"].compute_root().layout(f"q b -> b//{LINE} q b%{LINE}").split("q", "strip", "q", LINE)
    y.split("b", "k", "b", lines // radices(lines)[-1]).split("b", "bt", "b", LINE)
    y.reorder("strip", "k", "bt", "b", "q").unroll("k").unroll("b").vectorize("q").parallel("strip")
    for stage, part in [*reversed([*stages(length)]), *reversed([*stages(lines, "down")])]:
        s[stage].compute_at("signal.strip" if stage.startswith("down") else "spectrum.strip")
        s[stage].split("p", "k", "p", part).unroll("k").vectorize("b", LINE)
    for table in ("coarse", "fine"):
        s[table].compute_root().vectorize("b", LINE)
    return s


SCHEDULES = (by_stages, expert)


def inputs(B=100, length=LENGTH):
    """Short pieces of a sum of tones in noise, as a receiver gives them: real and imaginary parts."""
    rng = np.random.default_rng(0)
    time = np.arange(B * length).reshape(B, length)
    tones = sum(a * np.exp(2j * np.pi * f * time) for a, f in ((1.0, 0.11), (0.5, -0.037), (0.1, 0.3)))
    signal = tones + 0.05 * (rng.standard_normal(time.shape) + 1j * rng.standard_normal(time.shape))
    return np.float32(signal.real), np.float32(signal.imag)


def independent(real, imag):
    wide = scipy_fft.fft(np.float64(real) + 1j * np.float64(imag), axis=1)
    return np.float32(wide.real), np.float32(wide.imag)


def check(B=100, length=LENGTH):
    args = inputs(B, length)
    testing.check_schedules(fft, SCHEDULES, args, independent(*args), statics={"length": length})


if __name__ == "__main__":
    check()
