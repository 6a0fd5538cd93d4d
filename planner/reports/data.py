"""A plan as plain data, in a form that stays: `plan.schema.json` beside this file describes it. Equal plans give equal data,
but for what was measured (`measured`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.values import index_values
from tilewright.planner.given import ROWS, Assignment
from tilewright.planner.metrics import StepFigures, Totals
from tilewright.planner.plan import Plan, Step
from tilewright.planner.reports.words import tile_data

FORMAT, VERSION = "tilewright-plan", 1


def plan_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `plan.to_json()` writes."""
    return json.loads((Path(__file__).parent / "plan.schema.json").read_text(encoding="utf-8"))


def plan_data(plan: Plan) -> dict[str, Any]:
    """Everything that was decided, and the figures of it."""
    m = plan.metrics
    return {
        "format": FORMAT, "version": VERSION, "kernel": plan.pipeline.name, "digest": plan.pipeline.digest,
        "machine": plan.machine.name, "clock_ghz": plan.machine.clock_ghz, "goal": asdict(plan.goal),
        "sizes": dict(plan.sizes), "tokens": plan.tokens,
        "valid_for": {
            "ranges": {n: list(r) for n, r in plan.valid_for.ranges.items()},
            "points": [
                {"sizes": dict(x.sizes), "cycles": _finite(x.cycles), "ratio": _finite(x.ratio), "tight": list(x.tight)}
                for x in plan.valid_for.points
            ],
        },
        "stopped": dict(plan.stopped),
        "metrics": {
            "plan": totals_data(m.plan), "naive": totals_data(m.naive), "seconds": m.seconds,
            "bytes_per_token": m.bytes_per_token, "roofs": dict(m.roofs),
        },
        "steps": [_step(plan, s, f) for s, f in zip(plan.steps, m.steps, strict=True)],
        "kernels": list(_kernels(plan)),
        "buffers": list(_buffers(plan)),
        "order": _order(plan),
        "layouts": _layouts(plan),
        "funcs": list(_funcs(plan)),
        "outputs": [{"name": o.name, "func": o.func.name, "dtype": o.dtype.name} for o in plan.pipeline.outputs],
        "measured": {f"{what}_s": s for what, s in plan.seconds.items()},
    }  # fmt: skip


def totals_data(t: Totals) -> dict[str, Any]:
    memory = asdict(t.memory) | {"peak": t.memory.peak}
    return {
        "funcs": t.funcs, "stored": t.stored, "steps": t.steps, "kernels": t.kernels, "fusion_rate": t.fusion_rate,
        "cycles": _finite(t.cycles), "computing": t.computing, "utilisation": t.utilisation, "flops": t.flops,
        "read": t.read, "written": t.written, "bytes": t.bytes, "intensity": _finite(t.intensity), "memory": memory,
        "conversions": t.conversions,
    }  # fmt: skip


def _step(plan: Plan, s: Step, f: StepFigures) -> dict[str, Any]:
    return {
        "name": s.name, "kernel": f.kernel, "funcs": list(f.funcs), "tiled": list(f.tiled), "inlined": list(f.inlined),
        "tile": tile_data(s),
        "inputs": [x.name for x in s.part.inputs],
        "outputs": [b.name for b in s.part.outputs],
        "updates": [x.name for x in s.part.inputs if isinstance(x, InoutFunc) and _updates(s, x)],
        "flops": f.flops, "read": f.read, "written": f.written, "bytes": f.bytes, "intensity": _finite(f.intensity),
        "computing": f.computing, "moving": f.moving, "cycles": _finite(f.cycles), "limit": f.limit, "peak": f.peak,
        "ridge": f.ridge,
    }  # fmt: skip


def _updates(s: Step, f: InoutFunc) -> bool:
    """Whether a step writes in place what is among its inputs: then it is a Func of its part."""
    return any(s.part.names.get(x.name) == f.name and x.updates for x in s.part.pipeline.inouts)


def _kernels(plan: Plan) -> Iterator[dict[str, Any]]:
    """Equal steps share a kernel."""
    numbers = [f.kernel for f in plan.metrics.steps]
    for number in range(plan.metrics.plan.kernels):
        steps = [k for k, n in enumerate(numbers) if n == number]
        s = plan.steps[steps[0]]
        yield {"steps": steps, "digest": s.part.pipeline.digest, "schedule": str(s.schedule)}


def _buffers(plan: Plan) -> Iterator[dict[str, Any]]:
    """What passes between steps: `spans` are the first and the last step of each use (more than one for what is computed
    again), `over` is the buffer that it takes the place of, `layout` how it lies ("" for row-major), `shape` so."""
    offsets = plan.places(plan.sizes).offsets
    for b, x in zip(plan.buffers, plan.lifetimes(plan.sizes), strict=True):
        shape = [max(0, n) for n in index_values(plan.shape(b), plan.sizes)]
        yield {
            "name": b.name, "func": b.func.name, "dtype": b.func.dtypes[b.component].name, "shape": shape,
            "layout": plan.layouts.homes.get(b.name, ROWS), "bytes": x.size, "offset": offsets[b.name],
            "spans": [[first, min(last, len(plan.steps) - 1)] for first, last in x.spans],
            "over": plan.order.in_place.get(b.name),
        }  # fmt: skip


def _order(plan: Plan) -> dict[str, Any]:
    """`groups` are the numbers of steps that run at once, in turn; `naive` is the peak of steps as the pipeline has them."""
    o = plan.order
    return {
        "policy": o.policy, "peak": o.peak, "naive": o.naive, "least": o.least, "groups": list(o.groups),
        "cycles": o.cycles, "serial": o.serial, "in_place": dict(o.in_place), "again": list(o.again), "fits": o.fits,
    }  # fmt: skip


def _layouts(plan: Plan) -> dict[str, Any]:
    """What layouts were chosen, and what other assignments come to."""
    x = plan.layouts
    return {
        "homes": dict(x.homes),
        "weights": [{"step": s, "weight": w, "layout": layout} for (s, w), layout in x.weights.items()],
        **{name: _assignment(a) for name, a in (("chosen", x.chosen), ("greedy", x.greedy), ("plain", x.plain))},
    }  # fmt: skip


def _assignment(a: Assignment) -> dict[str, Any]:
    return {"cost": a.cost, "bytes": a.bytes, "conversions": [asdict(c) for c in a.conversions]}


def _funcs(plan: Plan) -> Iterator[dict[str, Any]]:
    """The graph: every Func with what it reads, and the steps that compute it."""
    from tilewright.planner.measure import measure

    computed: dict[str, list[int]] = {}
    for k, f in enumerate(plan.metrics.steps):
        for name in f.funcs:
            computed.setdefault(name, []).append(k)
    for f, w in measure(plan.pipeline, plan.sizes).items():
        yield {"name": f.name, "reads": [t.name for t in w.reads if _is_named(t)], "shape": list(w.extents),
               "steps": computed.get(f.name, [])}  # fmt: skip


def _is_named(t: Any) -> bool:
    return isinstance(t, Func) or not hasattr(t, "values")  # tables are part of what reads them


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None  # JSON has no infinity


__all__ = ["FORMAT", "VERSION", "plan_data", "plan_schema", "totals_data"]
