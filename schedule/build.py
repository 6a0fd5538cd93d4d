"""Bounds inference and nest construction: from a schedule's state to the Nest.

Funcs are visited consumers first: what a Func must compute at its place is the hull of what everything inside that
place reads. Then the nest is emitted producers first.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tilewright.lang import ir, simplify
from tilewright.lang.errors import BoundsError
from tilewright.lang.extern_stage import of_definition
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer
from tilewright.lang.regions import Use, all_hold, any_runs, domain, hull, reads, require_bounded, runs, writes
from tilewright.lang.tensors import Tensor
from tilewright.schedule import (
    blocks,
    extension,
    externs,
    forms,
    fusing,
    holding,
    idle,
    padding,
    prefetching,
    storage,
    tiles,
    units,
    windows,
)
from tilewright.schedule.inline import Body, effective
from tilewright.schedule.nest import (
    Allocation,
    Box,
    Guard,
    LoopNode,
    Nest,
    NestNode,
    Points,
    Produce,
    Storage,
    sequence,
)
from tilewright.schedule.peeling import loop_node
from tilewright.schedule.points import assignment, box_points, stage_points, window
from tilewright.schedule.prove import Facts
from tilewright.schedule.ranges import (
    ONE,
    ZERO,
    Range,
    StageRanges,
    project,
    stage_ranges,
)
from tilewright.schedule.sites import legal_sites
from tilewright.schedule.sliding import Slide, slide
from tilewright.schedule.state import FuncState, Key, Place, Stage, State, refuse

Site = tuple[Range, ...]  # the loops around a place, outermost first
Enter = Callable[[int, Tensor], NestNode]  # the nest of a stage from a loop on


@dataclass(eq=False)
class Built:
    """What is known of one Func while the nest is made."""

    state: FuncState
    needed: Box  # what must be there while its place runs
    region: Box  # what is computed there: less where a window slides
    site: Site
    guard: Node = ir.TRUE  # where it fails, nothing that reads this Func runs
    stages: dict[Key, StageRanges] = field(default_factory=dict)
    sites: dict[Key, Site] = field(default_factory=dict)  # of stages that stand elsewhere (in a block loop)
    asked: Box = ()  # what is read of it, before tails, bounds or alignment make it larger

    def around(self, key: Key) -> Site:
        """The loops around those of one of its stages."""
        return self.sites.get(key, self.site)


class Builder:
    """One construction; see `build_nest`."""

    def __init__(self, state: State, mode: str, inside: bool = True):
        """With `inside` False, the conditions of specialised forms are not used."""
        self.state = state
        self.promises = extension.promised_outputs(state)
        self.sizes = extension.solved(c for c, _ in self.promises)  # what they say of sizes
        self.forms = forms.known(state, [c for c, _ in self.promises], inside)
        specialized = inside and any(s.branches for s in state.stages.values())
        self.outside = Builder(state, mode, inside=False) if specialized else self  # regions that hold in all forms
        bodies = effective(state, mode)
        self.bodies: Mapping[Key, Body] = {k: b.known(self.forms[k].sizes) for k, b in bodies.items()}
        self.funcs: dict[str, Built] = {}
        self.computed_at: dict[tuple[Key, str], list[str]] = defaultdict(list)
        self.stored_at: dict[tuple[Key, str], list[str]] = defaultdict(list)
        self.rings_at: dict[tuple[Key, str], list[str]] = defaultdict(list)  # allocated right around the loop
        self.at_root: list[str] = []
        self.requirements: list[tuple[Node, str]] = []
        self.slides: dict[str, list[Slide]] = {}
        self.tiles: dict[tuple[Key, Node, str], tuple[Storage, ...]] = {}
        self.exposed: frozenset[str] = frozenset()

    # Regions ------------------------------------------------------------------------------------------------

    def infer(self) -> None:
        if self.outside is not self:
            self.outside.infer()
        names = [n for n in self.state.order if self.state.funcs[n].compute.kind != "inline"]
        for name in reversed(names):
            if any(g.name == name for g in self.state.groups):
                continue  # made with the first member
            fs = self.state.funcs[name]
            uses = [*self._output_uses(fs.func), *self._consumed(fs)]
            boxes, asked = [u.box for u in uses], ()
            if isinstance(fs.func, InoutFunc):
                extents = extension.known(fs.func.inout.extents, self.sizes)  # type: ignore[union-attr]
                region = tuple(Interval(ZERO, simplify.sub(e, ONE)) for e in extents)
            elif boxes:
                region = self._closed(fs, hull(boxes))
                asked, region = region, self._extended(fs, region)
            else:
                continue  # nothing needs it
            site = self.site_of(fs.compute)
            stages = self.state.variants_of(name)
            if stages and stages[0].key[1] < 0:
                d = self.bodies[stages[0].key]
                facts = Facts(tuple((x.var, x.interval) for x in site))
                region = tuple(padding.rounded(stages[0], v, r, facts) for v, r in zip(d.lhs, region, strict=True))
            between = site[len(self.site_of(fs.stored)) :]
            if between:
                region = tuple(windows.tidied_range(r, site) for r in region)
            needed = region
            if between and all(r.bounded for r in region):
                whole = frozenset[int]().union(*map(padding.whole_axes, stages))
                bodies, folded = [self.bodies[s.key] for s in stages], [k for k, _ in fs.folds]
                region, notes = slide(region, site, between, bodies, whole, folded)
                self.slides[name] = notes
            built = Built(fs, needed, region, site, asked=asked)
            built.sites = blocks.sites(self, built, stages)
            if uses and not isinstance(fs.func, InoutFunc):
                built.guard = idle.once(any_runs(uses), between)
            for s in stages:
                built.stages[s.key] = self.ranges(s, region)
            self.funcs[name] = built
        for name in names:
            if name in self.funcs:
                self._attach(self.state.funcs[name])
        self.exposed = idle.exposed(self.state, self.bodies, self.funcs)

    def ranges(self, s: Stage, region: Box, shifted: bool = True) -> StageRanges:
        body = self.bodies[s.key]
        if of_definition(body) is not None:
            return externs.whole(self._domain(s.key, body, region))
        made = stage_ranges(s, body, self._domain(s.key, body, region), self.state.address(s.key), shifted,
                            fusing.shared_vars(self.state, s))  # fmt: skip
        site = self.site_of(self.state.funcs[s.key[0]].compute)
        return replace(made, loops=windows.with_constant_ends(made.loops, site)) if site else made

    def _domain(self, key: Key, body: Body, region: Box) -> dict[Node, Interval]:
        env = domain(body, region)  # type: ignore[arg-type]
        return dict(zip(env, extension.known_box(tuple(env.values()), self.forms[key].sizes), strict=True))

    def _output_boxes(self, f: Func) -> list[Box]:
        return [
            extension.known_box(tuple(extension.output_range(o, k) for k in range(f.rank)), self.sizes)
            for o in self.state.pipeline.outputs
            if o.func is f
        ]

    def _output_uses(self, f: Func) -> list[Use]:
        outputs = [o for o in self.state.pipeline.outputs if o.func is f]
        return [
            Use(o, f, o.component, b, all_hold(runs(b)), None)
            for o, b in zip(outputs, self._output_boxes(f), strict=True)
        ]

    def site_of(self, place: Place) -> Site:
        if place.kind != "at":
            return ()
        assert place.stage is not None and place.loop is not None
        outer = self.funcs[place.stage[0]]
        return outer.around(place.stage) + fusing.site_loops(self, place.stage, place.loop)

    def _consumed(self, fs: FuncState) -> list[Use]:
        """What the other Funcs read of it, in terms of the loops around its place."""
        out: list[Use] = []
        place = fs.compute
        for built in list(self.funcs.values()):
            if built.state.func is fs.func:
                continue
            for key in built.stages:
                if not self.bodies[key].reads(fs.func):
                    continue
                b = self.seen_from(place, key)
                built, body, ranges = b.funcs[key[0]], b.bodies[key], b.funcs[key[0]].stages[key]
                here = place.kind == "at" and (place.stage == key or fusing.shares(self.state, key, place))
                depth = self.state.stages[key].depth(place.loop) + 1 if here else 0  # type: ignore[arg-type]
                between: Site = ()
                if not here:
                    between = b._between(fs, key, built)
                env = fusing.read_env(b, key, ranges, depth)
                guard = idle.over_all(idle.runs_in(body, env, ir.TRUE if here else b._runs(built, place)), between)
                for r in reads(body, env, fs.func):  # type: ignore[arg-type]
                    require_bounded(r.box, fs.func.name, r.load.args, body)  # type: ignore[arg-type]
                    box = tuple(project(x, between) for x in r.box)
                    out.append(Use(body, fs.func, r.component, box, guard, r.load))  # type: ignore[arg-type]
        return out

    def _runs(self, built: Built, place: Place) -> Node:
        """Where a Func is computed at all, seen from a place: it and what it stands in are needed."""
        guard = built.guard
        while built.state.compute.stage is not None and built.state.compute.stage != place.stage:
            built = self.funcs[built.state.compute.stage[0]]
            guard = simplify.conjunction(guard, built.guard)
        return guard

    def seen_from(self, place: Place, key: Key) -> Builder:
        """The construction in which a stage is seen from a place: without its form's conditions where the place is
        outside of that form."""
        known = () if place.stage is None else self.forms[place.stage].conditions
        return self if self.forms[key].conditions == known else self.outside

    def _between(self, fs: FuncState, key: Key, consumer: Built) -> Site:
        """The loops that are around the consumer but not around the place; every use must be inside the place."""
        site = self.site_of(fs.compute)
        around = consumer.around(key)
        if tuple(x.var for x in around[: len(site)]) != tuple(x.var for x in site):
            raise self._illegal(fs, key)
        return around[len(site) :]

    def _illegal(self, fs: FuncState, key: Key) -> Exception:
        place = fs.compute
        at = self.state.loop_address(place.stage, place.loop)  # type: ignore[arg-type]
        uses = self.state.consumers(fs.func)
        legal = ["root", *legal_sites(self.state, fs.func)]
        return refuse(
            f"{fs.func.name} can't be computed at {at}: {self.state.address(key)} uses it outside of that loop",
            "illegal-place",
            "legal places: "
            + ", ".join(legal)
            + "; it is used by "
            + ", ".join(self.state.address(s.key) for s in uses),
        )

    def _closed(self, fs: FuncState, region: Box) -> Box:
        """The region, closed over what the Func's own updates read and write beyond bare Vars."""
        stages = [s for s in self.state.variants_of(fs.func.name) if s.key[1] >= 0]
        for shrink in (True, False):  # predicates may tie ranges to the region: without them a round more is enough
            for _ in range(len(stages) + 2):
                grown = region
                for s in reversed(stages):
                    b = self.seen_from(fs.compute, s.key)
                    body = b.bodies[s.key]
                    grown = b._grown(s.key, body if shrink else replace(body, predicates=()), grown)
                if grown == region:
                    return region
                region = grown
        raise BoundsError(
            f"the region of {fs.func.name} grows without end through its own updates",
            code="bounds.recursive", where=stages[0].definition.location,
            hint="limit the index that it reads itself with: tw.clamp(index, 0, n - 1)",
        )  # fmt: skip

    def _extended(self, fs: FuncState, region: Box) -> Box:
        """The region as `bound` and `align` make it; what a promise leaves out of it is asked for at the call."""
        if fs.func.name in self.state.outputs or not (fs.bounds or fs.aligns):
            return region
        self.promises += extension.promised_region(fs.func.name, fs, region, self.site_of(fs.compute))
        out = extension.extended(fs, region)
        if self._closed(fs, out) != out:
            raise refuse(
                f"the updates of {fs.func.name} need more than the region that bound or align makes", "bound-updates",
                "leave it out, or give a bound that holds all that they read and write",
                about=("bound" if fs.bounds else "align", fs.func.name),
            )  # fmt: skip
        return out

    def _grown(self, key: Key, body: Body, region: Box) -> Box:
        env = self._domain(key, body, region)
        w, name = writes(body, env), body.func.name  # type: ignore[arg-type]
        require_bounded(w, name, body.lhs, body)  # type: ignore[arg-type]
        boxes = [region, tuple(b if i.op == "var" else x for i, b, x in zip(body.lhs, region, w, strict=True))]
        for r in reads(body, env, body.func):  # type: ignore[arg-type]
            require_bounded(r.box, name, r.load.args, body)  # type: ignore[arg-type]
            boxes.append(
                tuple(b if i is a else x for i, a, b, x in zip(body.lhs, r.load.args, region, r.box, strict=True))
            )
        return hull(boxes)

    # Placement ----------------------------------------------------------------------------------------------

    def _attach(self, fs: FuncState) -> None:
        name = fs.func.name
        if fs.compute.kind == "at":
            assert fs.compute.stage is not None and fs.compute.loop is not None
            self.computed_at[(fs.compute.stage, fs.compute.loop)].append(name)
        else:
            self.at_root.append(name)
        if name in self.state.outputs and self._direct_output(fs.func):
            return
        place = fs.hoisted or fs.stored
        if fs.slots > 1:
            assert fs.stored.stage is not None and fs.stored.loop is not None
            self.rings_at[(fs.stored.stage, fs.stored.loop)].append(name)
        elif place.kind == "at":
            assert place.stage is not None and place.loop is not None
            self.stored_at[(place.stage, place.loop)].append(name)
        else:
            self.stored_at[(("", 0), "")].append(name)

    def _direct_output(self, f: Func) -> bool:
        """Whether the Func can be computed right in its output array (else it is copied there at the end)."""
        if isinstance(f, InoutFunc):
            return True
        fs, built = self.state.funcs[f.name], self.funcs[f.name]
        boxes = self._output_boxes(f)
        returned_once = sum(o.func is f for o in self.state.pipeline.outputs) == len(f.dtypes)
        one_box = len({tuple(b) for b in boxes}) == 1 and boxes[0] == built.region
        return returned_once and one_box and fs.memory == "main" and fs.layout is None

    # Storage ------------------------------------------------------------------------------------------------

    def storages(self, name: str) -> tuple[Storage, ...]:
        """The buffers of a Func at the place where it is stored."""
        fs, built = self.state.funcs[name], self.funcs[name]
        stored = self.site_of(fs.stored)
        if tuple(x.var for x in built.site[: len(stored)]) != tuple(x.var for x in stored):
            raise refuse(
                f"{name} is stored inside the place where it is computed", "store-inside", "store it further out"
            )
        box = storage.kept(name, built.needed, built.site[len(stored) :])
        made = storage.padded(fs, storage.make(fs.func, box, stored, fs.memory, fs.layout, name))
        made = tuple(replace(s, stream=fs.stream) for s in made) if fs.stream else made
        if fs.folds:
            made = storage.folded(fs, built.needed, built.site, made)
        if fs.slots > 1:
            made = storage.hoisted(name, stored[-1:], made)
            made = storage.ring(made, stored[-1], fs.slots)
        elif fs.hoisted is not None:
            made = storage.hoisted(name, stored[len(self.site_of(fs.hoisted)) :], made)
        return made

    def arguments(self) -> tuple[Storage, ...]:
        """The kernel's arrays: inputs and inouts, tables, outputs."""
        p = self.state.pipeline
        inout = {f.inout: f for f in p.inouts}
        out = []
        for a in (*p.arrays, *p.tables):
            t: Tensor = inout.get(a, a)  # type: ignore[arg-type]
            zero = (ZERO,) * a.ndim
            extents = extension.known(a.extents, self.sizes)
            role, given = "inout" if a in inout else "input", self.state.given.get(a.name)
            out.append(Storage(t, 0, a.name, a.dtype, zero, extents, layout=given, role=role,
                               stream=isinstance(t, Func) and self.state.funcs[t.name].stream))  # fmt: skip
        for k, o in enumerate(p.outputs):
            starts, extents = (extension.known(x, self.sizes) for x in (o.starts, o.extents))
            given = self.state.given.get(o.func.name)
            made = Storage(o.func, o.component, o.name, o.dtype, starts, extents, layout=given, role="output", slot=k,
                           stream=self.state.funcs[o.func.name].stream)  # fmt: skip
            out.append(made)
        return tuple(out)

    # Emission -----------------------------------------------------------------------------------------------

    def nest(self) -> Nest:
        self.infer()
        b = self.outside
        self.requirements.extend(r for r in dict.fromkeys(b.promises) if r[0] is not ir.TRUE)
        self.requirements.extend(padding.requirements(b.state, b.bodies, b.funcs, b.sizes))
        items = blocks.produce_all(self, self.at_root)
        items += [self._copy_out(n) for n in self.state.order if self._copied(n)]
        body = sequence(*items)
        stored = [s for n in self.stored_at[(("", 0), "")] for s in self.storages(n)]
        if stored:
            body = Allocation(tuple(stored), body)
        return Nest(body, self.arguments(), tuple(self.requirements))

    def _copied(self, name: str) -> bool:
        f = self.state.funcs[name].func
        return (
            any(o.func is f for o in self.state.pipeline.outputs) and name in self.funcs and not self._direct_output(f)
        )

    def _copy_out(self, name: str) -> NestNode:
        """An output that lives in a buffer of ours is copied to its array."""
        f = self.state.funcs[name].func
        out: list[NestNode] = []
        copied: list[Points] = []
        for k, o in enumerate(self.state.pipeline.outputs):
            if o.func is f:
                box = extension.known_box(tuple(extension.output_range(o, j) for j in range(f.rank)), self.sizes)
                target, prefix = tiles.OutputArray(o, k), f"{o.name}.copy{k}"
                out.append(tiles.copy(f, target, box, prefix, components=(o.component,)))
                copied.append(box_points(prefix, f, box))
        return Produce("copy", name, f, self.funcs[name].region, sequence(*out), points=tuple(copied))

    def produce(self, name: str, keys: tuple[Key, ...] = ()) -> NestNode:
        """The computation of a Func, or of the stages `keys` of it."""
        built = self.funcs[name]
        stages = [s for s in self.state.stages_of(name) if not keys or s.key in keys]
        folded = (name, -1) if self.initial_in_tiles(name) else None
        items: list[NestNode] = []
        for s in stages:
            if s.key == folded:
                again = self.no_step(name)
                if again is not None:
                    items.append(Guard(again, self.stage(s)))
                continue
            items.append(self.stage(s))
        ahead = built.state.slots > 1
        made = Produce("produce", name, built.state.func, built.region, sequence(*items), asynchronous=ahead,
                       points=stage_points(self, stages), **window(built, self.site_of(built.state.stored)))  # fmt: skip
        return Guard(built.guard, made) if built.guard is not ir.TRUE and name in self.exposed else made

    def stage(self, s: Stage) -> NestNode:
        """A stage: the first of its forms whose condition holds, else the plain one."""
        out = self._stage(s)
        for b in reversed(s.branches):
            form = self.forms[(*s.key, b.name)]
            around = self.funcs[s.key[0]].around(s.key)
            made = form.simplified(self.stage(self.state.stages[(*s.key, b.name)]), around)
            out = Guard(form.condition, made, out)
        return out

    def _stage(self, s: Stage) -> NestNode:
        region = self.funcs[s.key[0]].region
        built = self.funcs[s.key[0]].stages[s.key]
        if not built.shifts:
            return self.loops(s, built)
        fits: Node = ir.TRUE
        for e, f in built.shifts:
            fits = simplify.conjunction(fits, simplify.compare("ge", e, integer(f)))
        small = self.ranges(s, region, shifted=False)
        return Guard(fits, self.loops(s, built), self.loops(s, small))

    def loops(self, s: Stage, ranges: StageRanges) -> NestNode:
        out = self.held(s, ranges, -1, self.bodies[s.key].func, self.entry(s, ranges))
        for g in reversed(ranges.guards):
            out = Guard(g, out)
        return out

    def entry(self, s: Stage, ranges: StageRanges) -> Enter:
        """What makes the nest of a stage from its loop number `depth` on, writing to a tensor (itself or a tile)."""
        body = self.bodies[s.key]
        address = self.state.address(s.key)

        def leaf(tensor: Tensor) -> NestNode:
            if of_definition(body) is not None:
                return externs.call(self.state.pipeline, address, body, self.funcs[s.key[0]].region, ranges)
            roots = ir.substitute((*body.lhs, *body.values), _redirected(body, ranges.values, tensor))
            n = len(body.lhs)
            return assignment(self, s, ranges, tensor, tuple(roots[:n]), tuple(roots[n:]))

        def enter(depth: int, tensor: Tensor) -> NestNode:
            if depth == len(ranges.loops):
                return leaf(tensor)
            x = ranges.loops[depth]
            inner = self.inside(s, ranges, depth, tensor, enter)
            for g in reversed(x.guards):
                inner = Guard(g, inner, optional=tensor is not body.func and g in ranges.spare)
            loop = loop_node(f"{address}.{x.name}", x, inner, self.funcs[s.key[0]].around(s.key) + ranges.loops[:depth])
            if x.unit and isinstance(loop, LoopNode):
                loop = replace(loop, call=units.call(s, body, ranges, depth, tensor))
            return self.with_rings(s, ranges, depth, loop)

        return enter

    def inside(self, s: Stage, ranges: StageRanges, depth: int, tensor: Tensor, enter: Enter) -> NestNode:
        """The body of a loop: what is stored, computed, staged and prefetched there, then the next loop."""
        x = ranges.loops[depth]
        here = (s.key, x.name)
        items: list[NestNode] = [
            prefetching.prefetched(self, s, ranges, depth, m) for m in s.prefetches if m.loop == x.name
        ]
        items += self.made_at(here)
        items.append(self.held(s, ranges, depth, tensor, enter))
        body = sequence(*items)
        stored = [st for n in self.stored_at.get(here, ()) for st in self.storages(n)]
        return Allocation(tuple(stored), body) if stored else body

    def made_at(self, here: tuple[Key, str]) -> list[NestNode]:
        """What is computed in a loop."""
        return blocks.produce_all(self, self.computed_at.get(here, ()))

    def held(self, s: Stage, ranges: StageRanges, depth: int, tensor: Tensor, enter: Enter) -> NestNode:
        """The stage's own part of a loop's body (-1: around all loops): the next loop, in the tiles that are held here."""
        return holding.held(self, s, ranges, depth, tensor, enter)

    def initial_in_tiles(self, name: str) -> bool:
        """Whether the pure definition is computed into the tiles of the first update."""
        return holding.initial_in_tiles(self, name)

    def no_step(self, name: str) -> Node | None:
        """When it is computed by itself all the same (None: never)."""
        return holding.no_step(self, name)

    def with_rings(self, s: Stage, ranges: StageRanges, depth: int, loop: NestNode) -> NestNode:
        """The buffers of several slots whose copies are made in this loop live around it."""
        x = ranges.loops[depth]
        rings = [st for n in self.rings_at.get((s.key, x.name), ()) for st in self.storages(n)]
        rings += holding.rings(self, s, ranges, depth)
        return Allocation(tuple(rings), loop) if rings else loop


def _redirected(body: Body, values: Mapping[Node, Node], tensor: Tensor) -> dict[Node, Node]:
    """Variables by their values; reads of the stage's own Func go to the tile that stands for it."""
    env = dict(values)
    if tensor is not body.func:
        for n in ir.leaves(body.roots, "load"):
            if n.attr[0] is body.func:
                args = ir.substitute(n.args, values)
                env[n] = ir.node("load", n.dtype, tuple(args), (tensor, n.attr[1]))
    return env


def build_nest(state: State, mode: str = "contract") -> Nest:
    """The Nest of a schedule's state. Raises ScheduleError or BoundsError where the placement is not possible."""
    return _built(state, mode)


@functools.lru_cache(maxsize=4)
def _built(state: State, mode: str) -> Nest:
    """Checking and lowering look at the same nest one after the other."""
    return Builder(state, mode).nest()
