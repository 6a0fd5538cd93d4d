"""What `s.report()` gives: for every optimisation whether it was done, how, or why not.

sliding    done      blur_x.y: only what is new, along y of blur_y
folding    not done  blur_x.y: 3 points are needed at once: fold_storage('y', 3)
vectors    done      blur_y.x_v: 8 lanes
vectors    not done  blur_y.x_v: B is gathered (its rows run along another axis)
tails      done      blur_y x -> x, x_v by 8: guard, conditions in vector lanes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Tensor
from tilewright.schedule.build import Builder
from tilewright.schedule.nest import (
    Allocation,
    Assign,
    Guard,
    LoopNode,
    Nest,
    NestNode,
    Storage,
    children,
    walk,
)
from tilewright.schedule.ranges import StageRanges, constant_extent, extent
from tilewright.schedule.state import Fuse, Split, Stage, State, root_name, versioned
from tilewright.schedule.tiles import OutputArray

KINDS = ("sliding", "folding", "skipping", "tails", "vectors", "parallel")


@dataclass(frozen=True, slots=True)
class Note:
    """One optimisation: `what` is the loop, axis or stage that it is about, `how` says how it was done or why not."""

    kind: str
    what: str
    done: bool
    how: str

    def __str__(self) -> str:
        return f"{self.kind:<10} {'done' if self.done else 'not done':<9} {self.what}: {self.how}"


@dataclass(frozen=True, slots=True)
class Report:
    """All notes, by kind in the order of `KINDS`. `str()` prints one a line."""

    notes: tuple[Note, ...]

    def of(self, kind: str) -> tuple[Note, ...]:
        """The notes of one kind: sliding, folding, skipping, tails, vectors or parallel."""
        return tuple(n for n in self.notes if n.kind == kind)

    @property
    def not_done(self) -> tuple[Note, ...]:
        return tuple(n for n in self.notes if not n.done)

    def __str__(self) -> str:
        return "\n".join(map(str, self.notes))


def report(state: State) -> Report:
    """Build the nest of a state and say what was done. Raises what building it raises."""
    b = Builder(state, "strict")
    nest = b.nest()
    found = [*_sliding(b), *_folding(b), *_skipping(b), *_tails(b), *_vectors(nest), *_parallel(nest)]
    return Report(tuple(dict.fromkeys(found)))


def _axis(b: Builder, name: str, axis: int) -> str:
    return f"{name}.{b.state.funcs[name].func.args[axis].attr}"


def _sliding(b: Builder) -> Iterator[Note]:
    for name, slides in b.slides.items():
        for x in slides:
            how = f"only what is new, along {x.loop}" if x.loop is not None else x.reason
            yield Note("sliding", _axis(b, name, x.axis), x.loop is not None, how)


def _folding(b: Builder) -> Iterator[Note]:
    for name, built in b.funcs.items():
        fs = built.state
        for axis, n in fs.folds:
            yield Note("folding", _axis(b, name, axis), True, f"{n} points, then it wraps around")
        for x in b.slides.get(name, ()):
            if x.loop is None or any(a == x.axis for a, _ in fs.folds):
                continue
            window = constant_extent(built.needed[x.axis], built.site)
            axis = fs.func.args[x.axis].attr
            how = "an iteration needs no constant number of points"
            if window is not None:
                how = f"{window} points are needed at once: fold_storage({axis!r}, {window}) would keep just these"
            yield Note("folding", _axis(b, name, x.axis), False, how)


def _skipping(b: Builder) -> Iterator[Note]:
    """Whether pure definitions are computed right into the tiles of their first updates, and what is left out where
    nothing needs it."""
    for name, built in b.funcs.items():
        if name in b.exposed and built.guard is not ir.TRUE:
            yield Note("skipping", name, True, "left out where what reads it runs over nothing")
    for name in b.funcs:
        tiled = [s for s in b.state.variants_of(name) if s.key[1] == 0 and s.write_caches]
        if not tiled or (name, -1) not in b.state.stages:
            continue
        address, into = b.state.address((name, -1)), b.state.address((name, 0))
        if b.initial_in_tiles(name):
            extra = "" if b.no_step(name) is None else "; by itself only where the reduction is empty"
            yield Note("skipping", address, True, f"computed into the tiles of {into}{extra}")
        else:
            yield Note("skipping", address, False, f"runs by itself, tiles of {into} are loaded: {_why_not(b, name)}")


def _why_not(b: Builder, name: str) -> str:
    body = b.bodies[(name, 0)]
    if body.predicates:
        return "a where() leaves points out"
    if any(i.op != "var" for i in body.lhs):
        return "the update does not write every point"
    return "not every form of the update has a tile"


# Tails --------------------------------------------------------------------------------------------------------------


def _tails(b: Builder) -> Iterator[Note]:
    for name, built in b.funcs.items():
        for s in b.state.variants_of(name):
            ranges = built.stages.get(s.key)
            if ranges is not None:
                yield from _tails_of(b.state.address(s.key), s, ranges)


def _tails_of(address: str, s: Stage, ranges: StageRanges) -> Iterator[Note]:
    unique, shown = versioned(s)
    modes = {x.name: x.mode for x in unique.loops}
    extents: dict[str, Node] = {root_name(r): extent(ranges.domain[r]) for r in s.roots}
    for t in unique.transforms:
        if isinstance(t, Fuse):
            extents[t.fused] = simplify.mul(extents[t.outer], extents[t.inner])
            continue
        e, f = extents[t.parent], integer(t.factor)
        extents[t.outer] = simplify.floordiv(simplify.add(e, integer(t.factor - 1)), f)
        extents[t.inner] = f
        what = f"{address} {shown[t.parent]} -> {shown[t.outer]}, {shown[t.inner]} by {t.factor}"
        yield Note("tails", what, True, _tail(t, simplify.mod(e, f) is integer(0), modes.get(t.inner, "")))


def _tail(t: Split, exact: bool, mode: str) -> str:
    if t.tail == "round_up":  # by now the region has been rounded, which hides where it was exact before
        return "round_up, whole parts are computed"
    if exact:
        return "exact"
    if t.tail == "shift":
        return f"shift, the last part moves back; guard where there are fewer than {t.factor}"
    how = {
        "vectorize": "lanes beyond the end are masked", "unroll": "conditions in the unrolled body",
        "": "conditions in the loops that it was split into",
    }  # fmt: skip
    return f"guard, {how.get(mode, 'the inner loop is shorter at the end')}; code generation parts loops where it pays"


# Vectors and threads ------------------------------------------------------------------------------------------------


def _vectors(nest: Nest) -> Iterator[Note]:
    scope = {(s.tensor, s.component): s for s in nest.arguments}
    yield from _vectors_in(nest.body, scope)


def _vectors_in(n: NestNode, scope: Mapping[tuple[Tensor, int], Storage]) -> Iterator[Note]:
    if isinstance(n, Allocation):
        scope = {**scope, **{(s.tensor, s.component): s for s in n.storages}}
    if isinstance(n, LoopNode) and n.mode == "vectorize":
        lanes = simplify.sub(n.stop, n.start)
        yield Note("vectors", n.address, True, f"{lanes.attr if lanes.op == 'const' else '?'} lanes")
        yield from _accesses(n, scope)
        return
    for c in children(n):
        yield from _vectors_in(c, scope)


def streams(nest: Nest, func: Func) -> bool:
    """Whether a vector loop stores elements of a Func that lie side by side."""
    scope = {(s.tensor, s.component): s for s in nest.arguments}
    return _stores_vectors(nest.body, scope, func, None)


def _stores_vectors(n: NestNode, scope: Mapping[tuple[Tensor, int], Storage], func: Func, var: Node | None) -> bool:
    if isinstance(n, Allocation):
        scope = {**scope, **{(s.tensor, s.component): s for s in n.storages}}
    if isinstance(n, LoopNode) and n.mode == "vectorize":
        var = n.var
    if isinstance(n, Assign) and var is not None:
        output = isinstance(n.tensor, OutputArray) and n.tensor.output.func is func
        s = scope.get((func if output else n.tensor, 0))
        moves = var in ir.leaves(n.indices, "var")
        return s is not None and (output or n.tensor is func) and moves and not _apart(s, n.indices, var)
    return any(_stores_vectors(c, scope, func, var) for c in children(n))


def _accesses(loop: LoopNode, scope: Mapping[tuple[Tensor, int], Storage]) -> Iterator[Note]:
    for n in walk(loop.body):
        if isinstance(n, Assign):
            for x in ir.leaves((*n.indices, *n.values), "call_extern"):
                yield Note("vectors", loop.address, False, f"the function {x.attr.name} is called lane by lane")
            for x in ir.leaves((*n.indices, *n.values), "load"):
                s = scope.get(x.attr)
                if s is None or not (how := _apart(s, x.args, loop.var)):
                    continue
                if not _apart(s, _inside(x.args), loop.var):
                    yield Note("vectors", loop.address, True, f"{s.name} lies side by side where no edge is repaired")
                else:
                    yield Note("vectors", loop.address, False, f"{s.name} is gathered: {how}")
            s = scope.get((n.tensor, 0))
            if s is not None and (how := _apart(s, n.indices, loop.var)):
                yield Note("vectors", loop.address, False, f"{s.name} is scattered: {how}")
        elif isinstance(n, Guard) and ir.leaves((n.condition,), "load"):
            yield Note("vectors", loop.address, False, "a condition on data masks the lanes")


def _inside(indices: tuple[Node, ...]) -> tuple[Node, ...]:
    """Indices where boundary conditions have nothing to repair."""
    return ir.substitute(indices, dict.fromkeys(ir.leaves(indices, "likely"), ir.TRUE))


def _apart(s: Storage, indices: tuple[Node, ...], var: Node) -> str:
    """Why the lanes of an access don't lie side by side (or in one place); "" where they do."""
    relative = [simplify.sub(i, o) for i, o in zip(indices, s.origin, strict=True)]
    physical = s.layout.apply(relative) if s.layout else tuple(relative)
    moving = [k for k, i in enumerate(physical) if var in ir.leaves((i,), "var")]
    if not moving:
        return ""
    if any(ir.leaves((physical[k],), "load") for k in moving):
        return "its index is data"
    if moving != [len(physical) - 1]:
        return "its lanes run along another axis than the last one"
    step = simplify.linear(physical[-1])[0].get(var)
    if step is None:
        return "its index is not linear in the lane"
    return "" if step in (1, -1) else f"its lanes are {abs(step)} elements apart"


def _parallel(nest: Nest) -> Iterator[Note]:
    stack: list[tuple[NestNode, str | None]] = [(nest.body, None)]
    while stack:
        n, around = stack.pop()
        inside = around
        if isinstance(n, LoopNode) and n.mode == "parallel":
            inside = n.address
            how = "iterations are tasks" if around is None else f"inside of the parallel loop {around}"
            yield Note("parallel", n.address, around is None, how)
        stack.extend((c, inside) for c in reversed(children(n)))


__all__ = ["KINDS", "Note", "Report", "report", "streams"]
