"""Buffers: how large they are where they live, and what folding, hoisting and rings make of them."""

from __future__ import annotations

from dataclasses import replace

from tilewright.lang import simplify
from tilewright.lang.errors import BoundsError, user_location
from tilewright.lang.func import Func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import integer
from tilewright.schedule import extension, windows
from tilewright.schedule.layout import IndexMap
from tilewright.schedule.nest import Box, Storage
from tilewright.schedule.ranges import ZERO, Range, constant_extent, extent, project
from tilewright.schedule.state import FuncState, refuse

Site = tuple[Range, ...]  # the loops around a place, outermost first
Storages = tuple[Storage, ...]  # one a component


def _no_threads(name: str, what: str, between: Site) -> None:
    apart = [x for x in between if x.mode in ("parallel", "spatial")]
    if apart:
        x = apart[0]
        raise refuse(
            f"{name} is {what} outside the {x.mode} loop {x.name} and computed inside: its iterations would race",
            "store-race", "store it inside that loop (store_at), or make the loop serial",
        )  # fmt: skip


def _unbounded(what: str, directive: str) -> BoundsError:
    return BoundsError(f"{what} has no bounds", code="bounds.unbounded", where=user_location(),
                       hint=f"choose a loop closer to where it is computed: {directive}")  # fmt: skip


def kept(name: str, needed: Box, between: Site) -> Box:
    """What must be kept of a Func over the loops between where it is stored and where it is computed."""
    _no_threads(name, "stored", between)
    box = tuple(project(r, between) for r in needed)
    if not all(r.bounded for r in box):
        raise _unbounded(f"what {name} needs at the place where it is stored", "store_at")
    return box


def make(f: Func, box: Box, site: Site, memory: str, layout: IndexMap | None, name: str) -> Storages:
    """Buffers for `box`; extents are constants where the loops around allow it."""
    extents = []
    for r in box:
        c = constant_extent(r, site)
        extents.append(integer(c) if c is not None else simplify.maximum(extent(r), ZERO))
    origin = tuple(r.lo for r in box)
    out = []
    for k, t in enumerate(f.dtypes):
        label = name if len(f.dtypes) == 1 else f"{name}.{k}"
        out.append(Storage(f, k, label, t, origin, tuple(extents), memory, layout))  # type: ignore[arg-type]
    return tuple(out)


def padded(fs: FuncState, made: Storages) -> Storages:
    """Axes whose stored extent is rounded up."""
    if not fs.pads:
        return made
    return tuple(replace(s, extents=extension.padded(fs, s.extents)) for s in made)


def folded(fs: FuncState, needed: Box, site: Site, made: Storages) -> Storages:
    """Axes that wrap around: what an iteration needs of them must fit at once."""
    extents = list(made[0].extents)
    for axis, n in fs.folds:
        found = [constant_extent(r, site) for r in windows.cases(needed[axis], site)]
        most = [w for w in found if w is not None]
        if len(most) < len(found) or max(most) > n:
            known = len(most) == len(found)
            size, name = f"{max(most)} points" if known else "no constant number of points", fs.func.args[axis].attr
            legal = f"fold_storage({name!r}, {max(most)}) keeps enough" if known else "compute it where it needs less"
            raise refuse(
                f"{fs.func.name} can't be folded to {n} along {name}: one iteration needs {size} of it at once", "fold",
                f"{legal}: its place is {'the root' if fs.compute.kind == 'root' else fs.compute.loop}",
                about=("fold_storage", fs.func.name),
            )  # fmt: skip
        extents[axis] = integer(n)
    return tuple(replace(s, extents=tuple(extents), folds=fs.folds) for s in made)


def hoisted(name: str, between: Site, made: Storages) -> Storages:
    """Buffers that are allocated outside of the loops `between`: as large as any of their iterations needs."""
    _no_threads(name, "allocated", between)
    extents = []
    for e in made[0].extents:
        top = project(Interval(ZERO, e), between).hi
        if top is None:
            raise _unbounded(f"the size of {name} at the place where it is allocated", "hoist_storage")
        extents.append(top)
    return tuple(replace(s, extents=tuple(extents)) for s in made)


def ring(made: Storages, x: Range, slots: int) -> Storages:
    """Buffers of several slots, which iterations use one after the other. The slots are counted from where the loop
    starts as far as sizes say: where data say that it starts later, another slot is the first one."""
    if x.guards:
        raise refuse(f"iterations of {x.name} may be left out, so that its ring has no order", "ring-guards",
                     "double_buffer a loop whose iterations all run",
                     about=("double_buffer", made[0].tensor.name))  # fmt: skip
    first = x.interval.lo
    assert first is not None
    turn = simplify.mod(simplify.sub(x.var, first), integer(slots))
    return tuple(replace(s, slots=slots, turn=turn) for s in made)
