"""Stages that the user computes (`tw.extern_stage`): what a schedule may say of them and of what they read.

Their function works on strided views of buffers, box by box: it has no loops of ours, is never inlined, and neither are
the Funcs that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.lang import simplify
from tilewright.lang.extern_stage import arguments, of_definition, signature, signatures
from tilewright.lang.func import Func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.regions import reads, require_bounded
from tilewright.schedule.inline import Body
from tilewright.schedule.layout import IndexMap
from tilewright.schedule.nest import Box, Call
from tilewright.schedule.ranges import StageRanges
from tilewright.schedule.state import FuncState, State, refuse


def whole(domain: Mapping[Node, Interval]) -> StageRanges:
    """The ranges of a stage without loops: its variables run over all of their domain at once."""
    values = {v: v for v in domain}
    return StageRanges((), values, domain, (), (), frozenset(), lambda inner: values)


def call(p: Pipeline, address: str, body: Body, region: Box, ranges: StageRanges) -> Call:
    """The call that computes a region."""
    boxes = {}
    for r in reads(body, ranges.env(0)):  # type: ignore[arg-type]
        require_bounded(r.box, r.tensor.name, r.load.args, body)  # type: ignore[arg-type]
        boxes[r.load] = r.box
    given = tuple(a if isinstance(a, Node) else (a[0].attr[0], tuple(boxes[n] for n in a)) for a in arguments(body))
    made = signature(body)
    return Call(address, made.stage.name, signatures(p).index(made), body.func, region, given)


def loads(d: object) -> list[Node]:
    """What a stage reads: a load for each box and component."""
    return [n for group in arguments(d) if isinstance(group, tuple) for n in group]


def steps(layout: IndexMap) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """For every logical axis the (physical axis, step) pairs by which one index more moves; None where a layout is no
    view with strides."""
    out: list[list[tuple[int, int]]] = [[] for _ in layout.names]
    for k, e in enumerate(layout.axes):
        for n, c in simplify.linear(e)[0].items():
            if n.op != "var":
                return None
            out[layout.names.index(n.attr)].append((k, c))
    return tuple(map(tuple, out))


def in_memory(state: State) -> frozenset[str]:
    """Names of the Funcs that are computed by stages of the user's or read by them."""
    found: set[str] = set()
    for s in state.stages.values():
        if of_definition(s.definition) is not None:
            found |= {s.key[0], *(n.attr[0].name for n in loads(s.definition))}
    return frozenset(found)


def check_stages(state: State) -> None:
    """Raise ScheduleError where a stage of the user's could not run: what it reads or fills has no strided view."""
    for s in state.stages.values():
        stage = of_definition(s.definition)
        if stage is None:
            continue
        name = s.key[0]
        _check_func(state, state.funcs[name], f"{name} is computed by the stage {stage.name}")
        for load in loads(s.definition):
            t, why = load.attr[0], f"{load.attr[0].name} is read by the stage {stage.name} of {name}"
            if isinstance(t, Func) and t.name in state.funcs:
                _check_func(state, state.funcs[t.name], why)
            _check_layout(state.given.get(t.name), why)


def _check_func(state: State, fs: FuncState, why: str) -> None:
    if fs.compute.kind == "inline":
        raise refuse(f"{why}, on elements in memory: it can't be inlined", "stage-inline",
                     f"compute it at the root or at a loop: s[{fs.func.name!r}].compute_root()")  # fmt: skip
    if fs.folds or fs.slots > 1:
        what = "folded" if fs.folds else "a ring of slots"
        raise refuse(
            f"{why}, and its buffer is {what}, which is no array with strides", "stage-storage", "leave that out"
        )
    if fs.memory == "reg":
        raise refuse(f"{why}: registers have no address", "stage-storage", "put it into a memory")
    if fs.stream and of_definition(fs.func.init or fs.func.updates[0]) is not None and not fs.func.updates:
        raise refuse(f"{why}, which does its own stores: they can't be streamed", "stage-storage", "leave that out")
    _check_layout(fs.layout, why)


def _check_layout(layout: IndexMap | None, why: str) -> None:
    if layout is not None and steps(layout) is None:
        raise refuse(f"{why}, and its layout {layout} is no array with strides", "stage-storage",
                     "layouts that reorder axes are possible; pack a copy for the other consumers (cache_read)")  # fmt: skip
