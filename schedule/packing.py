"""Schedules whose inputs have a layout, and the same for callers who have the inputs in that layout already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.lang.errors import ScheduleError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Array
from tilewright.schedule.causes import refuse
from tilewright.schedule.directive import Directive
from tilewright.schedule.layout import IndexMap, parse_index_map

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


def input_layouts(p: Pipeline, directives: Iterable[Directive]) -> tuple[Mapping[str, IndexMap], frozenset[str]]:
    """The layouts that a schedule has for inputs, and the names of inputs and outputs that are given in theirs."""
    inputs = {q.name for q in p.params if isinstance(q, Array)}
    layouts: dict[str, IndexMap] = {}
    given: set[str] = set()
    for d in directives:
        name = d.operands[0] if d.kind == "layout" else ""
        if d.kind == "layout" and (d.option("given") or (name in inputs and name not in given)):
            layouts[name] = parse_index_map(str(d.option("layout")))
            if d.option("given"):
                given.add(name)
    return layouts, frozenset(given)


def with_given(s: Schedule, names: Collection[str]) -> Schedule:
    """The schedule for a caller who has the inputs `names` in the layout to which it converts them.

    What it says of the converted copy falls away; what is staged from the copy is staged from the input itself.
    """
    from tilewright.schedule.schedule import Schedule

    made = Schedule(s.pipeline, s.machine)
    try:
        for d in _translated(s, names):
            made.apply(d)
    except ScheduleError as e:
        raise refuse(
            f"the schedule can't do without the conversion of {', '.join(sorted(names))}: {e.message}", "layout-packed",
            f"pass the array itself, or give the layout with given ({e.hint})", e.where,
        ) from None  # fmt: skip
    return made


def _translated(s: Schedule, names: Collection[str]) -> Iterator[Directive]:
    from tilewright.schedule.directives.kinds import KINDS  # the whole of the directives, which input_layouts spares

    copies: dict[str, str] = {}  # the converted copy -> the input
    before: set[str] = set()
    for k, d in enumerate(s.directives):
        if d.kind == "layout" and d.operands[0] in names and not d.option("given"):
            before = set(s.prefix(k).state.funcs)
            (copy,) = set(s.prefix(k + 1).state.funcs) - before
            copies[copy] = d.operands[0]
            yield replace(d, options=(("given", 1), *d.options))
        elif d.stage.partition(".")[0] in copies or (KINDS[d.kind].role == "func" and d.operands[0] in copies):
            continue
        else:
            yield replace(d, operands=tuple(copies.get(o, o) for o in d.operands))


__all__ = ["input_layouts", "with_given"]
