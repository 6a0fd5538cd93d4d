"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.hw import humane
from tilewright.hw.render.tables import Table, cut, table
from tilewright.planner.metrics import Metrics, StepFigures
from tilewright.planner.plan import Plan
from tilewright.planner.reports.words import count, listed, seconds, tile_words, title

_LISTED = 30  # steps that are listed one by one; of more only the kernels
_NAME = 40  # columns of a name


def plan_text(plan: Plan) -> str:
    """What was decided, and what it comes to."""
    m = plan.metrics
    t = m.plan
    head = (
        f"{title(plan)}\n{_plural(t.funcs, 'Func')} in {_plural(t.steps, 'step')} of {_plural(t.kernels, 'kernel')}: "
        f"{count(t.cycles)} cycles by the model, {seconds(m.seconds)} at {m.clock_ghz:g} GHz"
    )
    steps = _steps(plan) if len(plan.steps) <= _LISTED else _kernels(plan)
    parts = [head, metrics_text(m), str(steps)]
    if plan.buffers:
        parts.append(str(_buffers(plan)))
    return "\n\n".join([*parts, "\n".join(notes(plan))])


def _plural(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def notes(plan: Plan) -> Iterator[str]:
    """For what the plan holds, and what was not looked at."""
    yield str(plan.valid_for)
    for point in plan.valid_for.points:
        at = " ".join(f"{n}={v}" for n, v in point.sizes.items())
        tight = f"; tiles of {listed(point.tight)} do not stay near" if point.tight else ""
        yield f"  at {at}: {count(point.cycles)} cycles, {point.ratio:.2f} x the best plan that was tried{tight}"
    yield from _order_notes(plan)
    yield from _layout_notes(plan)
    for name, why in plan.stopped.items():
        yield f"the search for {name} stopped early: {why}"
    said = [f"{'planned' if what == 'plan' else 'compiled'} in {seconds(s)}" for what, s in plan.seconds.items()]
    if said:
        yield ", ".join(said)


def _order_notes(plan: Plan) -> Iterator[str]:
    """By what the steps are in this order, and what came of it."""
    o = plan.order
    least = ", the least of all orders" if o.least else ""
    if o.peak:
        yield f"order: {o.policy}; at most {humane.size(o.peak)} of results and buffers at once{least}"
    together = [n for n in o.groups if n > 1]
    if together:
        yield f"  {_plural(len(together), 'group')} of up to {max(together)} steps at once, on cores of their own"
    if o.in_place:
        yield f"  made in place: {listed(f'{a} over {b}' for a, b in o.in_place.items())}"
    if o.again:
        yield f"  computed again instead of kept: {listed(o.again)}"


def _layout_notes(plan: Plan) -> Iterator[str]:
    """Which tensors do not lie row-major."""
    x = plan.layouts
    if x.weights:
        packed = dict.fromkeys(f"{w} as {layout}" for (_, w), layout in x.weights.items())
        yield f"weights that are packed once: {listed(packed)}"
    if x.homes:
        yield f"buffers in layouts of their own: {listed(f'{n} as {layout}' for n, layout in x.homes.items())}"
    if x.chosen.conversions:
        told = dict.fromkeys(f"{c.tensor} at {c.at}" for c in x.chosen.conversions)
        yield (
            f"layout conversions: {listed(told)}, {humane.size(x.chosen.bytes)} in all (each step at its best: "
            f"{len(x.greedy.conversions)}; all row-major: {len(x.plain.conversions)})"
        )


# Tables -----------------------------------------------------------------------------------------------------------


def metrics_text(m: Metrics) -> str:
    return str(metrics_table(m))


def metrics_table(m: Metrics) -> Table:
    """The figures of a plan, those of the naive one, and how they compare."""
    rows = [(name, of(m.plan), of(m.naive), compared(m)) for name, of, compared in _figures(m)]
    return Table("", ("", "plan", "op by op", ""), tuple(rows))


def _figures(m: Metrics) -> Iterator[tuple]:
    def ratio(get):  # type: ignore[no-untyped-def]
        return lambda m: humane.ratio(get(m.plan), get(m.naive))

    def nothing(_: Metrics) -> str:
        return ""

    def by(get, show):  # type: ignore[no-untyped-def]
        return lambda t: show(get(t))

    yield "cycles (modelled)", by(lambda t: t.cycles, count), ratio(lambda t: t.cycles)
    yield "Funcs stored", lambda t: f"{t.stored} of {t.funcs}", nothing
    yield "fusion rate", by(lambda t: t.fusion_rate, humane.share), nothing
    yield "bytes moved", by(lambda t: t.bytes, humane.size), ratio(lambda t: t.bytes)
    if m.tokens is not None:
        tokens = max(1, m.sizes[m.tokens])
        yield f"  by {m.tokens}", by(lambda t: t.bytes / tokens, humane.size), nothing
    yield "operations a byte", by(lambda t: t.intensity, count), nothing
    yield "utilisation", by(lambda t: t.utilisation, humane.share), nothing
    yield "kernels", by(lambda t: t.kernels, str), nothing
    yield "layout conversions", by(lambda t: t.conversions, str), nothing
    yield "peak memory", by(lambda t: t.memory.peak, humane.size), ratio(lambda t: t.memory.peak)
    for name in ("weights", "inputs", "caches", "outputs", "buffers"):
        if any(getattr(t.memory, name) for t in (m.plan, m.naive)):
            yield f"  {name}", by(lambda t, name=name: getattr(t.memory, name), humane.size), nothing


def step_cells(s: StepFigures) -> tuple[str, ...]:
    return count(s.flops), humane.size(s.bytes), count(s.intensity), s.limit, count(s.cycles)


_HEAD = ("operations", "bytes", "op/byte", "limit", "cycles")


def _steps(plan: Plan) -> Table:
    rows = [
        (str(k), cut(s.name, _NAME), str(len(f.funcs)), tile_words(s), str(f.kernel), *step_cells(f))
        for k, (s, f) in enumerate(zip(plan.steps, plan.metrics.steps, strict=True))
    ]
    return table("", ("step", "region of", "Funcs", "tile", "kernel", *_HEAD), rows, left=4)


def _kernels(plan: Plan) -> Table:
    """Equal steps in one row: the layers of a model."""
    rows = []
    for number in range(plan.metrics.plan.kernels):
        found = [k for k, f in enumerate(plan.metrics.steps) if f.kernel == number]
        s, f = plan.steps[found[0]], plan.metrics.steps[found[0]]
        total = sum(plan.metrics.steps[k].cycles for k in found)
        cells = step_cells(f)
        rows.append(
            (
                str(number),
                cut(s.name, _NAME),
                str(len(f.funcs)),
                tile_words(s),
                str(len(found)),
                *cells,
                count(total),
            )
        )
    head = ("kernel", "such as", "Funcs", "tile", "steps", *_HEAD, "together")
    return table(f"{len(plan.steps)} steps, equal ones in one row", head, rows, left=4)


def _buffers(plan: Plan) -> Table:
    places = plan.places(plan.sizes)
    n = len(plan.steps)
    lived = sorted(plan.lifetimes(plan.sizes), key=lambda x: (-x.size, x.first, x.name))
    rows = [
        (cut(x.name, _NAME), humane.size(x.size), str(places.offsets[x.name]), ", ".join(_when(a, b, n) for a, b in x.spans))
        for x in lived[:_LISTED]
    ]  # fmt: skip
    more = f", the largest {_LISTED}" if len(lived) > _LISTED else ""
    head = f"{_plural(len(lived), 'buffer')} in {humane.size(places.size)} (at once {humane.size(places.bound)}){more}"
    return Table(head, ("buffer", "bytes", "offset", "steps"), tuple(rows))


def _when(first: int, last: int, steps: int) -> str:
    return f"{first}..{'end' if last >= steps else last}"


__all__ = ["metrics_table", "metrics_text", "notes", "plan_text", "step_cells"]
