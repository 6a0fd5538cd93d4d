"""Loops of updates that are no products: reductions in lanes or of rows, scans, and scatters (histograms)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.autotune.generate.draft import Draft, Form
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.schedule import algebra
from tilewright.schedule.default_loops import (
    RowsBy,
    Shape,
    Threads,
    add_rows,
    apply,
    is_outermost,
    is_reused,
    lanes_of,
    shape,
    single_axes,
)
from tilewright.schedule.state import Stage

_VECTORS = (4, 2, 8, 1)  # registers' worth of partial results
_TASKS = (1, 4, 16, 64)  # rows of a task
_BLOCK = 4096  # points between two levels of pairwise combination
_TURNS = (8, 4, 2, 0)  # partial results that take turns
_STRIPS = (64, 16, 32, 128)  # rows with a partial result of their own


def update_forms(d: Draft, name: str) -> Sequence[Form]:
    """Rule: the loops of updates."""
    stages = d.stages(name)
    if not d.free(name) or len(stages) < 2 or any(x.scheduled or x.branches for x in stages):
        return ()
    if d.s.state.block_of(stages[1].key) is not None:
        return ()
    single = single_axes(d.regions(), stages[1].definition)
    found = [(x, shape(x.definition, single, d.at.mode == "strict")) for x in stages[1:]]
    kind = found[0][1].kind
    if any(form.kind != kind for _, form in found):
        return ()
    if len(found) == 1 and kind in ("lanes", "scalar") and any(i.op != "var" for i in found[0][0].definition.lhs):
        return _scatters(d, name, found[0][0])
    match kind:
        case "lanes" if len(found) == 1 and (d.at.reorders or _exact(found[0][0].definition)):
            return (Form("lanes", lambda d: _lanes(d, name, found[0][0])),)
        case "rows" if (
            len(found) == 1 and d.at.reorders and not is_reused(found[0][0].definition, _vector(found[0][1]))
        ):
            return (Form("rows", lambda d: _rows(d, name, *found[0], single)),)
        case "plain":
            return (Form("vectors", lambda d: _plain(d, name, found)),)
    return ()


def _exact(f: Definition) -> bool:
    found = algebra.match(f)
    return found is not None and found.exact


def _vector(form: Shape) -> Node:
    assert form.vector is not None
    return form.vector


def _at_root(d: Draft, name: str) -> bool:
    return d.s.state.funcs[name].compute.kind == "root"


def _share(d: Draft, name: str, f: Definition, address: str, loops: Sequence[str]) -> list[str]:
    """Threads over the first loop of a stage at the root, some rows a task. The loops as they then are."""
    if not loops or not _at_root(d, name):
        return list(loops)
    first = loops[0]
    n = next((d.extent(f, v) for v in f.pure_vars if v.attr == first), 1)
    by = d.number(f"{name}.task", [t for t in _TASKS if t * d.at.threads <= n] or [1])
    if by > 1:
        apply(d.s, "split", address, (first,), results=(f"{first}_s", first), by=by)
    apply(d.s, "parallel", address, (f"{first}_s" if by > 1 else first,))
    return ([f"{first}_s"] if by > 1 else []) + list(loops)


def _lanes(d: Draft, name: str, stage: Stage) -> None:
    """A reduction along contiguous data: in lanes, sums in blocks that combine pairwise or not."""
    f, s, address = stage.definition, d.s, d.s.state.address(stage.key)
    found = algebra.match(f)
    assert found is not None and f.rdom is not None
    d.written(stage.key)
    rvar = f.rdom.rvars[-1]
    k, n = rvar.attr[1], d.extent(f, rvar)
    _share(d, name, f, address, [v.attr for v in f.pure_vars])
    unit = max(4, d.at.registers.width // max(t.bytes for t in f.func.dtypes))
    lanes = unit * d.number(f"{name}.vectors", [v for v in _VECTORS if v == 1 or v * unit <= n])
    if found.operator == "add" and not found.exact and n > _BLOCK and d.flag(f"{name}.pairwise", True):
        apply(s, "split", address, (k,), results=(f"{k}_b", f"{k}_i"), by=_BLOCK)
        before = set(s.state.funcs)
        kind = "parallel" if _at_root(d, name) and not f.pure_vars else "rfactor"
        results = () if kind == "parallel" else (f"{name}_{k}_b",)
        apply(s, kind, address, (f"{k}_b",), results=results)
        address, k = f"{next(x for x in s.state.funcs if x not in before)}.update[0]", f"{k}_i"
    apply(s, "vectorize", address, (k,), by=lanes)


def _rows(d: Draft, name: str, stage: Stage, form: Shape, single: set[Node]) -> None:
    """Rows of data that are added up as they lie in memory."""
    root = _at_root(d, name)
    outer = root or is_outermost(d.s.state, stage)
    d.written(stage.key)
    by = RowsBy(
        d.number(f"{name}.vectors", (2, 4, 1)),
        d.number(f"{name}.together", (4, 8, 2, 12)),
        d.number(f"{name}.strip", (1024, 512, 2048)) if outer else 0,
        d.number(f"{name}.block", (128, 0, 512)),
    )
    threads = Threads(root, outer, frozenset(single))
    address = d.s.state.address(stage.key)
    add_rows(d.s, address, stage.definition, form, threads, d.at.registers, d.at.mode == "strict", by)


def _plain(d: Draft, name: str, found: Sequence[tuple[Stage, Shape]]) -> None:
    """Scans and other updates along a pure axis: vectors of it innermost, strips of it on threads."""
    s = d.s
    for stage, form in found:
        f, address, x = stage.definition, s.state.address(stage.key), _vector(form)
        d.written(stage.key)
        lanes, n = lanes_of(f, d.at.registers), d.extent(f, x)
        vectors = d.number(f"{name}.vectors", [v for v in (2, 4, 1, 8) if v == 1 or v * lanes <= n])
        strip = 0
        if _at_root(d, name):
            strip = d.number(f"{name}.strip", (0, *(c * lanes for c in (64, 16, 8, 32, 128) if 2 * c * lanes <= n)))
        others = [v.attr for v in f.pure_vars if v is not x]
        last, width = x.attr, lanes * vectors
        if strip:
            apply(s, "split", address, (last,), results=(f"{last}_s", last), by=max(strip, width))
            others = [*others, f"{last}_s"]
        rvars = [] if f.rdom is None else [r for r in f.rdom.ranges if any(y.name == r for y in stage.loops)]
        if len(others) + len(rvars) > 0:
            apply(s, "reorder", address, (*others, *rvars, last))
        for v in others[:1] if _at_root(d, name) else ():
            apply(s, "parallel", address, (v,))
        apply(s, "vectorize", address, (last,), by=width)


def _scatters(d: Draft, name: str, stage: Stage) -> Sequence[Form]:
    """Updates of elements that data tell: partial results for strips and for neighbours that take turns."""
    f = stage.definition
    found = algebra.match(f)
    if f.rdom is None or not f.rdom.rvars or any(x.mode != "serial" for x in stage.loops):
        return ()
    outer = [v for v in f.pure_vars if d.extent(f, v) > 1]
    if outer:
        return (Form("turns", lambda d: _by_turns(d, name, stage, outer)),)
    parts = found is not None and (found.exact or d.at.reorders) and not found.ordered and not f.func.updates[1:]
    own = any(algebra.own_elements(f, r) for r in f.rdom.rvars)
    return (Form("partials", lambda d: _partials(d, name, stage)),) if parts and not own else ()


def _by_turns(d: Draft, name: str, stage: Stage, outer: Sequence[Node]) -> None:
    """Points of a pure axis take turns, so that the steps of one do not wait for those before."""
    s, f, address, last = d.s, stage.definition, d.s.state.address(stage.key), outer[-1].attr
    d.written(stage.key)
    loops = [v.attr for v in f.pure_vars]
    assert f.rdom is not None
    turns = d.number(f"{name}.turns", [t for t in _TURNS if t <= d.extent(f, outer[-1])])
    if turns:
        apply(s, "split", address, (last,), results=(last, f"{last}_t"), by=turns)
    if len(outer) > 1 or not turns:
        _share(d, name, f, address, [v for v in loops if v != last] or loops)
    if turns:
        order = [v for v in (x.name for x in s.state.stages[stage.key].loops) if v != f"{last}_t"]
        apply(s, "reorder", address, (*order, f"{last}_t"))
        apply(s, "unroll", address, (f"{last}_t",))


def _partials(d: Draft, name: str, stage: Stage) -> None:
    """A partial result for every strip of the first reduction axis, and in it some that take turns along the last one."""
    s, f, address = d.s, stage.definition, d.s.state.address(stage.key)
    assert f.rdom is not None
    d.written(stage.key)
    first, last = f.rdom.rvars[0], f.rdom.rvars[-1]
    a, b = first.attr[1], last.attr[1]
    n = d.extent(f, first)
    if first is last:
        strip = d.number(
            f"{name}.strip", [c for c in (1 << 16, 1 << 14, 1 << 18) if c * d.at.threads <= n] or [1 << 14]
        )
    else:
        strip = d.number(f"{name}.strip", [c for c in _STRIPS if c * d.at.threads <= n] or [_STRIPS[1]])
    turns = d.number(f"{name}.turns", _TURNS)
    before = set(s.state.funcs)
    apply(s, "split", address, (a,), results=(f"{a}_s", a), by=strip)
    apply(s, "parallel" if _at_root(d, name) else "rfactor", address, (f"{a}_s",),
          results=() if _at_root(d, name) else (f"{name}_{a}_s",))  # fmt: skip
    partial = next(x for x in s.state.funcs if x not in before)
    if not turns:
        return
    inner = f"{partial}.update[0]"
    before = set(s.state.funcs)
    apply(s, "split", inner, (b,), results=(b, f"{b}_t"), by=turns)
    apply(s, "rfactor", inner, (f"{b}_t",), results=(f"{name}_{b}_t",))
    apply(s, "compute_at", "", (f"{name}_{b}_t",), at=f"{inner}.{a}_s")
    apply(s, "unroll", f"{name}_{b}_t.update[0]", (f"{b}_t",))


__all__ = ["update_forms"]
