"""The polynomials of lang/math/coefficients.py: derived here by Remez exchange, and checked against their errors.

`python tests/lang/test_math_coefficients.py` prints the module's tables anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import pytest

Real = Callable[[mp.mpf], mp.mpf]
DIGITS = 50


@dataclass(frozen=True, slots=True)
class Fit:
    """The polynomial of `degree` that minimises max |weight * (target - p)| over low..high."""

    about: str
    target: Real
    low: float
    high: float
    degree: int
    weight: Real
    bits: float


def _root(fn: Real) -> Real:
    return lambda z: fn(mp.sqrt(z))


LN2 = mp.log(2)
LOW, HIGH = float(mp.sqrt(0.5)) - 1 - 1e-7, float(mp.sqrt(2)) - 1 + 1e-7
ATANH = _root(lambda s: 2 * mp.atanh(s) / s)
TINY = 1e-12  # the lower end of a fit in z = x*x, where the target is 0/0

FITS = {
    "EXP_F32": Fit(
        "e^r = 1 + r + r^2 p(r)", lambda r: (mp.exp(r) - 1 - r) / r**2, -0.3475, 0.3475, 4,
        lambda r: r**2 / mp.exp(r), 28.2),
    "EXP_F64": Fit(
        "e^r = 1 + r + r^2 p(r)", lambda r: (mp.exp(r) - 1 - r) / r**2, -0.3475, 0.3475, 10,
        lambda r: r**2 / mp.exp(r), 59.1),
    "EXP2_F32": Fit(
        "2^r = 1 + r ln2 + r^2 p(r)", lambda r: (2**r - 1 - r * LN2) / r**2, -0.5005, 0.5005, 4,
        lambda r: r**2 / 2**r, 28.2),
    "EXP2_F64": Fit(
        "2^r = 1 + r ln2 + r^2 p(r)", lambda r: (2**r - 1 - r * LN2) / r**2, -0.5005, 0.5005, 10,
        lambda r: r**2 / 2**r, 59.0),
    "EXP2_POW": Fit(
        "2^r = 1 + r p(r)", lambda r: (2**r - 1) / r, -0.5005, 0.5005, 6, lambda r: r / 2**r, 34.1),
    "LOG_F32": Fit(
        "log(1+f) = f - f^2/2 + f^3 p(f)", lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, LOW, HIGH, 8,
        lambda f: f**3 / mp.log1p(f), 30.3),
    "LOG2_F32": Fit(
        "log2(1+f) = f/ln2 + f^2 p(f)", lambda f: (mp.log1p(f) - f) / LN2 / f**2, LOW, HIGH, 9,
        lambda f: f**2 * LN2 / mp.log1p(f), 30.3),
    "ATANH_F64": Fit(
        "2 atanh(s) = 2s + s z p(z), z = s^2", lambda z: (ATANH(z) - 2) / z, TINY, 0.02945, 6, lambda z: z / 2, 58.7),
    "ATANH_POW_F32": Fit(
        "2 atanh(s) = 2s + s z p(z), z = s^2", lambda z: (ATANH(z) - 2) / z, TINY, 0.02945, 4, lambda z: z / 2, 44.8),
    "ATANH_POW_F64": Fit(
        "2 atanh(s) = 2s + 2/3 s z + s z^2 p(z), z = s^2", lambda z: (ATANH(z) - 2 - z * 2 / 3) / z**2,
        TINY, 0.02945, 7, lambda z: z * z / 2, 66.2),
    "RECIPROCAL": Fit("1/(1+f) = p(f)", lambda f: 1 / (1 + f), LOW, HIGH, 2, lambda f: 1 + f, 5.9),
    "TANH_F32": Fit(
        "tanh(x) = x + x z p(z), z = x^2", _root(lambda x: (mp.tanh(x) / x - 1) / x**2), TINY, 0.390625, 5,
        _root(lambda x: x**3 / mp.tanh(x)), 32.5),
    "TANH_F64": Fit(
        "tanh(x) = x + x z p(z), z = x^2", _root(lambda x: (mp.tanh(x) / x - 1) / x**2), TINY, 0.390625, 11,
        _root(lambda x: x**3 / mp.tanh(x)), 56.8),
    "ERF_F32": Fit(
        "erf(x) = x + x p(z), z = x^2", _root(lambda x: mp.erf(x) / x - 1), TINY, 1.0, 6,
        _root(lambda x: x / mp.erf(x)), 29.6),
    "ERF_F64": Fit(
        "erf(x) = x + x p(z), z = x^2", _root(lambda x: mp.erf(x) / x - 1), TINY, 1.0, 12,
        _root(lambda x: x / mp.erf(x)), 56.2),
    "LOG_ERFC_F32": Fit("log(1 - erf(a)) = p(a)", lambda a: mp.log(mp.erfc(a)), 1.0, 4.0, 6, mp.erfc, 29.5),
    "LOG_ERFC_F64": Fit("log(1 - erf(a)) = p(a)", lambda a: mp.log(mp.erfc(a)), 1.0, 6.0, 19, mp.erfc, 58.9),
    "SIN_F32": Fit(
        "sin(r) = r + r z p(z), z = r^2", _root(lambda r: (mp.sin(r) / r - 1) / r**2), TINY, 0.66, 3,
        lambda z: z, 37.0),
    "SIN_F64": Fit(
        "sin(r) = r + r z p(z), z = r^2", _root(lambda r: (mp.sin(r) / r - 1) / r**2), TINY, 0.62, 5,
        lambda z: z, 56.1),
    "COS_F32": Fit(
        "cos(r) = 1 - z/2 + z^2 p(z), z = r^2", _root(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4), 1e-9, 0.66, 3,
        lambda z: z * z, 42.5),
    "COS_F64": Fit(
        "cos(r) = 1 - z/2 + z^2 p(z), z = r^2", _root(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4), 1e-9, 0.62, 5,
        lambda z: z * z, 59.7),
    "ATAN_F32": Fit(
        "atan(t) = t + t z p(z), z = t^2", _root(lambda t: (mp.atan(t) / t - 1) / t**2), TINY, 1.0, 10,
        lambda z: z, 34.0),
    "ATAN_F64": Fit(
        "atan(t) = t + t z p(z), z = t^2", _root(lambda t: (mp.atan(t) / t - 1) / t**2), TINY, 0.2501, 12,
        lambda z: z, 57.2),
}  # fmt: skip


def grid(fit: Fit, points: int) -> list[mp.mpf]:
    """Points that crowd towards the ends (Chebyshev), none in the middle of the interval."""
    middle, half = (mp.mpf(fit.low) + mp.mpf(fit.high)) / 2, (mp.mpf(fit.high) - mp.mpf(fit.low)) / 2
    return [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 3) / points) for i in range(points)]


def remez(fit: Fit, points: int = 400, rounds: int = 12) -> list[mp.mpf]:
    """Coefficients from the constant term upwards."""
    xs = grid(fit, points)
    values, weights = [fit.target(x) for x in xs], [abs(fit.weight(x)) for x in xs]
    count = fit.degree + 2
    chosen = [round((points - 1) * i / (count - 1)) for i in range(count)]
    coefficients: list[mp.mpf] = []
    for _ in range(rounds):
        system, right = mp.matrix(count, count), mp.matrix(count, 1)
        for row, i in enumerate(chosen):
            for j in range(fit.degree + 1):
                system[row, j] = xs[i] ** j
            system[row, count - 1] = (-1) ** row / weights[i]
            right[row] = values[i]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[j] for j in range(fit.degree + 1)]
        errors = [w * (v - mp.polyval(coefficients[::-1], x)) for x, v, w in zip(xs, values, weights, strict=True)]
        peaks = _alternating_peaks(errors, count)
        if len(peaks) < count or peaks == chosen:
            break
        chosen = peaks
    return coefficients


def _alternating_peaks(errors: list[mp.mpf], count: int) -> list[int]:
    """Where the error is largest between its changes of sign, the smallest peaks dropped down to `count`."""
    peaks: list[int] = []
    for i, e in enumerate(errors):
        if peaks and (e > 0) == (errors[peaks[-1]] > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        if len(peaks) == count + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        else:
            k = min(range(len(peaks) - 1), key=lambda k: abs(errors[peaks[k]]) + abs(errors[peaks[k + 1]]))
            del peaks[k : k + 2]
    return peaks


def error_bits(fit: Fit, coefficients: list) -> float:
    with mp.workdps(DIGITS):
        powers = [mp.mpf(c) for c in coefficients][::-1]
        worst = max(abs(fit.weight(x) * (fit.target(x) - mp.polyval(powers, x))) for x in grid(fit, 400))
        return float(-mp.log(worst, 2))


def print_tables() -> None:
    with mp.workdps(DIGITS):
        for name, fit in FITS.items():
            coefficients = [float(c) for c in remez(fit)]
            print(f"# {fit.about}; {fit.low:.6g}..{fit.high:.6g}, error 2^-{error_bits(fit, coefficients):.1f}")
            print(f"{name} = (")
            for c in coefficients:
                print(f"    {c!r},")
            print(")\n")


if __name__ == "__main__":
    print_tables()
    raise SystemExit

from tilewright.lang.math import coefficients as tables  # noqa: E402


@pytest.mark.parametrize("name", FITS)
def test_tables_keep_the_stated_error(name: str) -> None:
    fit = FITS[name]
    assert len(getattr(tables, name)) == fit.degree + 1
    assert error_bits(fit, list(getattr(tables, name))) > fit.bits - 0.1


@pytest.mark.parametrize("name", ["EXP_F32", "RECIPROCAL"])
def test_derivation_gives_the_tables(name: str) -> None:
    with mp.workdps(DIGITS):
        found = [float(c) for c in remez(FITS[name])]
    assert found == pytest.approx(list(getattr(tables, name)), rel=1e-12)
