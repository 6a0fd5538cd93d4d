"""A fit as text: parameters before and after, and how far each experiment is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import Table

if TYPE_CHECKING:
    from tilewright.hw.fit import Fit, Fitted


def fit_text(fit: Fit) -> str:
    """Everything about a fit, for a terminal."""
    return "\n\n".join([*map(_one, fit.resources), *fit.notes])


def _one(fitted: Fitted) -> str:
    error = f"{fitted.resource}: off by {_percent(fitted.error)} (root mean square)"
    if fitted.left_out_error is not None:
        error += f", by {_percent(fitted.left_out_error)} where an experiment is left out of the fit"
    parameters = Table(
        "", ("parameter", "before", "fitted"),
        tuple((p.figure, f"{p.before:g}", f"{p.value:g}") for p in fitted.parameters),
    )  # fmt: skip
    rows = tuple(
        (
            f"line {r.measurement.line}" if r.measurement.line else f"number {i + 1}", f"{r.measurement.cycles:g}",
            f"{r.fitted:.1f}", f"{_tenths(r.fitted - r.measurement.cycles):+.1f}", _percent(r.error, "+"),
            "" if r.left_out_error is None else _percent(r.left_out_error, "+"),
        )
        for i, r in enumerate(fitted.residuals)
    )  # fmt: skip
    residuals = Table("", ("experiment", "measured", "model", "off", "", "left out"), rows)
    return f"{error}\n{parameters}\n\n{residuals}"


def _percent(part: float, sign: str = "") -> str:
    return f"{_tenths(100 * part):{sign}.1f} %"


def _tenths(value: float) -> float:
    """Rounded to one place, and never to minus zero."""
    return round(value, 1) + 0.0
