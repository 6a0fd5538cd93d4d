"""Operations that round exactly once, built from NumPy's: fused multiply-add, and rounding to f16 and bf16.

Rounding first to odd in a wider format and then to nearest rounds once as a whole, if the wider format has at
least two bits more (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

_SPLITTER = float(2**27 + 1)  # halves an f64 into two parts of at most 26 bits (Veltkamp)
_APART = 200  # binary orders after which one addend only tells on which side of the other the sum lies


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and its exact error (no overflow)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded product and its exact error (Dekker; f64 of moderate size)."""

    def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        t = x * _SPLITTER
        high = t - (t - x)
        return high, x - high

    p = a * b
    (ah, al), (bh, bl) = halves(a), halves(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """`value + error` rounded to odd, where `value` is that sum rounded to nearest (f64)."""
    even = (np.asarray(value).view(np.int64) & 1) == 0
    step = even & (error != 0) & np.isfinite(value) & np.isfinite(error)
    return np.where(step, np.nextafter(value, np.where(error > 0, np.inf, -np.inf)), value)


def _add_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _odd(*two_sum(a, b))


def to_f32_odd(x: np.ndarray) -> np.ndarray:
    """f64 rounded to odd in f32: beyond the range the largest finite value (it is odd)."""
    x = np.asarray(x, np.float64)
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    even = (np.asarray(near).view(np.int32) & 1) == 0
    step = even & (back != x) & ~np.isnan(x)
    toward = np.where(x > back, np.inf, -np.inf).astype(np.float32)
    return np.where(step, np.nextafter(near, toward), near)


def round_to(x: np.ndarray, storage: np.dtype) -> np.ndarray:
    """f32 or f64 rounded once to `storage` (f16 or bf16) and widened to f32."""
    x = np.asarray(x)
    if x.dtype == np.float64 and storage.name == "bfloat16":
        x = to_f32_odd(x)  # ml_dtypes goes through f32, which alone would round twice
    return x.astype(storage).astype(np.float32)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a*b + c rounded once, for arrays (or scalars) that are all f32 or all f64."""
    with np.errstate(all="ignore"):
        if np.asarray(a).dtype == np.float32:
            wide = [np.asarray(x, np.float64) for x in (a, b, c)]
            return _add_to_odd(wide[0] * wide[1], wide[2]).astype(np.float32)  # the product is exact
        return _fma64(*np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (a, b, c))))


def _fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Scaled so that a and b lie in [1/2, 1); only subnormal results need exact rationals."""
    (fa, ea), (fb, eb) = np.frexp(a), np.frexp(b)
    scale = ea.astype(np.int64) + eb
    _, ec = np.frexp(c)
    gap = ec - scale
    near = np.ldexp(np.frexp(c)[0], np.clip(gap, -_APART, _APART).astype(np.int32))
    high, low = _two_product(fa, fb)
    t, t_error = two_sum(near, low)
    v, v_error = two_sum(high, t)
    scaled = v + _add_to_odd(t_error, v_error)
    out = np.ldexp(scaled, np.clip(scale, -4000, 4000).astype(np.int32))
    out = np.where((gap >= _APART) & (c != 0), c, out)

    plain = ~(np.isfinite(a) & np.isfinite(b)) | (a == 0) | (b == 0)
    out = np.where(plain, a * b + c, np.where(np.isfinite(c), out, c))
    tiny = ~plain & (np.abs(out) < 2.0**-1021) & np.isfinite(c) & (scaled != 0)
    if tiny.any():
        triples = zip(a[tiny].tolist(), b[tiny].tolist(), c[tiny].tolist(), strict=True)
        out = np.array(out)
        out[tiny] = [_fma_exact(*t) for t in triples]
    return out


def _fma_exact(a: float, b: float, c: float) -> float:
    """By rational numbers; slow, right everywhere (finite arguments whose product is not zero)."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    rounded = exact.numerator / exact.denominator  # Python divides integers with one rounding
    return rounded if rounded else float(np.copysign(0.0, float(exact.numerator > 0) - 0.5))
