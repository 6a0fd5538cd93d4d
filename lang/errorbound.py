"""How far computed results may lie from the exact ones: the bound that decides whether two of them agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.lang.binding import Bound
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.running import Running
from tilewright.lang.shadow import Shadows
from tilewright.lang.values import index_values


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """For one output: values in f64 (integers as they are), a bound on any legal result's distance from them, and
    which elements an error could have sent another way (their bound says nothing)."""

    name: str
    value: np.ndarray
    bound: np.ndarray
    ambiguous: np.ndarray


def error_bound(p: Pipeline, bound: Bound) -> list[ErrorBound]:
    """First-order running error bounds of every output, valid for every order of its sums and with fma or without.

    Two computed results a and b agree where |a - b| <= bound(a) + bound(b), that is, twice the bound.
    """
    shadows = Shadows(p, bound, Running())
    shadows.run()
    # f64 kernels have reference values no better than their own; elsewhere the slack covers the errors of f64
    slack = 2.0 if any(t.name == "f64" for f in p.funcs for t in f.dtypes) else 1.0 + 1e-6
    out = []
    for o in p.outputs:
        starts, stops = index_values(o.starts, bound.env), index_values(o.stops, bound.env)
        shape = tuple(b - a for a, b in zip(starts, stops, strict=True))
        if 0 in shape:
            empty = np.zeros(shape, o.dtype.np)
            out.append(ErrorBound(o.name, empty, np.zeros(shape), np.zeros(shape, bool)))
            continue
        buffer = shadows.buffer(o.func, o.component)
        cut = (*(slice(a - c, b - c) for a, b, c in zip(starts, stops, buffer.origin, strict=True)), ...)
        v, e, ambiguous = (x[cut] for x in buffer.data)
        out.append(ErrorBound(o.name, np.array(v), e * slack, np.array(ambiguous, bool)))
    return out
