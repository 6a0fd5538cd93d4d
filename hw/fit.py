"""A machine's figures fitted to measured cycles: latency, issue cost and effective bandwidth of each engine, and the rate
of arithmetic.

The model is that of the simulator for copies one after the other, and for work on one core or on all of them:

    copies      cycles = issue * descriptors + bus bytes / bandwidth + latency * waits
    arithmetic  cycles = operations / ops + latency * waits

with bus bytes = runs * (bytes / runs rounded up to the burst of the engine and of the memories that it joins), where the
experiment does not say them. Parameters are not negative. What is made small is the sum of the squares of *relative*
residuals (cycles / measured - 1), since timings are off by a part of themselves (by Lawson and Hanson's active sets, which
find the best solution exactly).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import MeasurementError
from .machine import Machine
from .measurements import COMPUTE, Measurement
from .parts import Dma, Provenance

_TINY = 1e-9  # of scaled figures, which are about 1


@dataclass(frozen=True, slots=True)
class Parameter:
    """One fitted figure. `figure` is its path (`dma.dma.latency`), `before` what the machine says."""

    figure: str
    value: float
    before: float


@dataclass(frozen=True, slots=True)
class Residual:
    """One experiment: measured cycles, those of the fitted model, and those of a model fitted to all others (None where the
    others do not determine the parameters)."""

    measurement: Measurement
    fitted: float
    left_out: float | None

    @property
    def error(self) -> float:
        """Relative: 0.1 where the model is 10 % too high."""
        return self.fitted / self.measurement.cycles - 1

    @property
    def left_out_error(self) -> float | None:
        return None if self.left_out is None else self.left_out / self.measurement.cycles - 1


@dataclass(frozen=True, slots=True)
class Fitted:
    """The fit of one resource: an engine, or `compute`."""

    resource: str
    parameters: tuple[Parameter, ...]
    residuals: tuple[Residual, ...]

    @property
    def error(self) -> float:
        """Root of the mean square of the relative residuals."""
        return math.sqrt(sum(r.error**2 for r in self.residuals) / len(self.residuals))

    @property
    def left_out_error(self) -> float | None:
        """The same of the predictions for experiments that were left out."""
        known = [e for r in self.residuals if (e := r.left_out_error) is not None]
        return math.sqrt(sum(e**2 for e in known) / len(known)) if known else None


@dataclass(frozen=True, slots=True)
class Fit:
    """All that was fitted, and the machine with these figures."""

    machine: Machine
    resources: tuple[Fitted, ...]

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the machine: bandwidths that have no effect."""
        found = []
        for dma in self.machine.dmas:
            pairs = [tuple(self.machine.memory(name) for name in pair) for pair in dma.joins]
            limit = max(min(a.read_bandwidth, b.write_bandwidth) for pair in pairs for a, b in (pair, pair[::-1]))
            if dma.bandwidth > limit and any(f.resource == dma.name for f in self.resources):
                found.append(
                    f"{dma.name}: the memories that it joins allow {limit:g} bytes a cycle at most, so simulated copies "
                    f"are slower than the {dma.bandwidth:g} that were measured: raise their bandwidths"
                )
        return found

    def as_json(self) -> dict[str, Any]:
        """Parameters and residuals as plain data."""
        return {
            "machine": self.machine.name,
            "resources": [
                {
                    "resource": one.resource,
                    "error": one.error,
                    "left_out_error": one.left_out_error,
                    "parameters": [dataclasses.asdict(p) for p in one.parameters],
                    "residuals": [
                        {
                            "line": r.measurement.line,
                            "cycles": r.measurement.cycles,
                            "fitted": r.fitted,
                            "left_out": r.left_out,
                        }
                        for r in one.residuals
                    ],
                }
                for one in self.resources
            ],
            "notes": self.notes,
        }

    def __str__(self) -> str:
        from .render.fit_tables import fit_text

        return fit_text(self)


def fit(machine: Machine, measurements: Sequence[Measurement], source: str = "measurements") -> Fit:
    """Fit a machine's figures to measurements. `source` says in the machine what they were.

    Figures of what was not measured stay as they are; fitted ones have the confidence `measured`.

    Raises MeasurementError `measurements.undetermined`: the experiments of a resource do not tell its parameters apart,
    or its time does not grow with bytes or operations.
    """
    grouped: dict[str, list[Measurement]] = {}
    for m in measurements:
        grouped.setdefault(m.engine, []).append(m)
    if not grouped:
        raise MeasurementError("there are no measurements", code="measurements.none")
    results = tuple(_fit_one(machine, resource, rows) for resource, rows in grouped.items())
    for one in results:
        machine = _updated(machine, one, source)
    return Fit(machine, results)


def _fit_one(machine: Machine, resource: str, rows: list[Measurement]) -> Fitted:
    names, matrix = _model(machine, resource, rows)
    cycles = np.array([m.cycles for m in rows])
    used = np.any(matrix, axis=0)  # a parameter that no experiment has anything of stays as the machine says
    names, matrix = [name for name, u in zip(names, used.tolist(), strict=True) if u], matrix[:, used]
    _check_determined(resource, names, matrix, cycles)
    found = _non_negative(matrix, cycles)
    for name, value in zip(names, found, strict=True):
        if _is_rate(name) and value <= 0:
            what = f"operations of {name.rpartition('.')[2]}" if resource == COMPUTE else "bytes"
            raise _undetermined(resource, f"measured cycles do not grow with {what}", f"vary the number of {what}")
    residuals = []
    for i, m in enumerate(rows):
        rest, others = np.delete(matrix, i, axis=0), np.delete(cycles, i)
        left_out = float(matrix[i] @ _non_negative(rest, others)) if _determined(rest, others) else None
        residuals.append(Residual(m, float(matrix[i] @ found), left_out))
    parameters = tuple(
        Parameter(name, _rounded(1 / value if _is_rate(name) else value), _before(machine, name))
        for name, value in zip(names, found, strict=True)
    )
    return Fitted(resource, parameters, tuple(residuals))


def _model(machine: Machine, resource: str, rows: Sequence[Measurement]) -> tuple[list[str], np.ndarray]:
    """Names of the parameters, and what each experiment has of them. Of a rate it is the inverse that is fitted."""
    if resource == COMPUTE:
        types = list(dict.fromkeys(m.type for m in rows))
        table = [[*(m.operations if m.type == t else 0.0 for t in types), m.waits] for m in rows]
        return [*(f"{COMPUTE}.ops.{t}" for t in types), f"{COMPUTE}.latency"], np.array(table)
    dma = _engine(machine, resource)
    near = [memory for memory in machine.memories if any(memory.name in pair for pair in dma.joins)]
    burst = max([dma.burst, *(memory.burst for memory in near)])
    names = [f"dma.{dma.name}.{figure}" for figure in ("bandwidth", "issue", "latency")]
    return names, np.array([[_bus_bytes(m, burst), m.descriptors, m.waits] for m in rows])


def _is_rate(figure: str) -> bool:
    return figure.endswith(".bandwidth") or figure.startswith(f"{COMPUTE}.ops.")


def _bus_bytes(m: Measurement, burst: int) -> float:
    if m.burst_bytes is not None:
        return m.burst_bytes
    return m.runs * math.ceil(m.bytes / m.runs / burst) * burst


def _engine(machine: Machine, name: str) -> Dma:
    return next(dma for dma in machine.dmas if dma.name == name)


def _scaled(matrix: np.ndarray, cycles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Relative rows, in columns of one size so that ranks and tolerances mean something; and these sizes."""
    relative = matrix / cycles[:, None]
    size = np.abs(relative).max(axis=0, initial=0.0)
    size = np.where(size > 0, size, 1)
    return relative / size, size


def _determined(matrix: np.ndarray, cycles: np.ndarray) -> bool:
    return bool(np.linalg.matrix_rank(_scaled(matrix, cycles)[0], tol=_TINY) == matrix.shape[1])


def _non_negative(matrix: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """The non-negative parameters with the least sum of squares of relative residuals (Lawson and Hanson 1974)."""
    scaled, size = _scaled(matrix, cycles)
    x = np.zeros(matrix.shape[1])
    free = np.zeros(len(x), bool)  # the parameters that are above zero
    while True:
        pull = scaled.T @ (1 - scaled @ x)
        pull[free] = 0
        if pull.max(initial=0.0) <= _TINY:
            return x / size
        free[pull.argmax()] = True
        while True:
            trial = np.zeros_like(x)
            trial[free] = np.linalg.lstsq(scaled[:, free], np.ones(len(cycles)), rcond=None)[0]
            below = free & (trial <= 0)
            if not below.any():
                break
            x += (x[below] / (x[below] - trial[below])).min() * (trial - x)
            free &= x > _TINY
        x = trial


def _check_determined(resource: str, names: Sequence[str], matrix: np.ndarray, cycles: np.ndarray) -> None:
    if _determined(matrix, cycles):
        return
    short = [name.rpartition(".")[2] for name in names]
    if len(cycles) < len(names):
        many = "experiments" if len(cycles) > 1 else "experiment"
        problem = f"{len(cycles)} {many} for {len(names)} parameters ({', '.join(short)})"
    else:
        problem = f"the experiments do not tell {', '.join(short[:-1])} and {short[-1]} apart"
    vary = "operations and waits" if resource == COMPUTE else "bytes, descriptors and waits"
    raise _undetermined(resource, problem, f"vary {vary} independently of each other (waits = 0 where nobody waited)")


def _undetermined(resource: str, problem: str, hint: str) -> MeasurementError:
    return MeasurementError(f"{resource}: {problem}", code="measurements.undetermined", hint=hint)


def _before(machine: Machine, figure: str) -> float:
    table, name, *rest = figure.split(".")
    if table == COMPUTE:
        return machine.compute.latency if name == "latency" else machine.compute.ops.get(rest[0], 0.0)
    return getattr(_engine(machine, name), rest[0])


def _rounded(value: float) -> float:
    """Four digits: no timing is better than that."""
    return float(f"{value:.4g}")


def _updated(machine: Machine, fitted: Fitted, source: str) -> Machine:
    """The machine with the figures of one resource."""
    many = len(fitted.residuals)
    error = f", {100 * fitted.error:.1f} % off" if many > len(fitted.parameters) else ""
    origin = Provenance(f"fitted to {many} experiment{'s' * (many > 1)} of {source}{error}", "measured")
    provenance = dict(machine.provenance)
    compute, dmas = machine.compute, list(machine.dmas)
    rates: dict[str, float] = {}
    for p in fitted.parameters:
        table, name, *rest = p.figure.split(".")
        if table != COMPUTE:
            at = next(i for i, dma in enumerate(dmas) if dma.name == name)
            dmas[at] = dataclasses.replace(dmas[at], **{rest[0]: p.value})
            provenance[p.figure] = origin
        elif rest:
            rates[rest[0]] = p.value
        else:
            compute = dataclasses.replace(compute, latency=p.value)
            provenance[p.figure] = origin
    if rates:
        figure = f"{COMPUTE}.ops"
        others = [t for t in compute.ops if t not in rates]
        before = machine.origin(figure)
        said = f"{', '.join(rates)}: {origin.source}; {', '.join(others)}: {before.source}"
        provenance[figure] = Provenance(said, before.confidence) if others else origin
        compute = dataclasses.replace(compute, ops={**compute.ops, **rates})
    return dataclasses.replace(machine, compute=compute, dmas=tuple(dmas), provenance=provenance)
