"""Where a Func may be computed and stored, and whether what a state says about it is possible."""

from __future__ import annotations

from tilewright.lang.tensors import Tensor
from tilewright.schedule.fusing import shared_loops
from tilewright.schedule.state import FuncState, Key, Place, Stage, State, refuse

Site = tuple[Key, str]  # a loop: its stage and its name


class Sites:
    """The loops around every stage of one state; each is worked out once."""

    def __init__(self, state: State):
        self.state = state
        self._around: dict[str, list[Site]] = {}
        self._open: set[str] = set()

    def chain(self, s: Stage) -> list[Site]:
        """The loops around a stage's innermost body, outermost first (an inlined stage stands in its consumers).

        Loops at or inside a vector loop are left out: nothing can be computed there. Shared loops are their base's.
        """
        g = self.state.block_of(s.key)
        outer = self.around(s.key[0]) if g is None else self.chain(self.state.stages[g.key])
        if self.state.funcs[s.key[0]].compute.kind == "inline":
            return outer
        own: list[Site] = []
        shared = {x.name for x in shared_loops(s)}
        base = s.fused_with[0] if s.fused_with is not None else s.key
        for x in s.loops:
            if x.mode == "vectorize":
                break
            own.append((base if x.name in shared else s.key, x.name))
        return outer + own

    def around(self, name: str) -> list[Site]:
        """The loops around the place where a Func is computed (of an inlined one: around all its uses)."""
        known = name in self._around or name in self._open
        waiting = [] if known else [name]  # chains may be long: what stands further out is worked out first
        while waiting:
            top = waiting[-1]
            later = [n for n in self._outer(top) if n not in self._around and n not in self._open and n != top]
            self._open.add(top)
            if later:
                waiting += later
            else:
                self._around.setdefault(top, self._worked_out(top))
                self._open.discard(waiting.pop())
        return self._around.get(name, [])  # what stands in itself, in a circle, stands nowhere

    def _outer(self, name: str) -> list[str]:
        """The Funcs in whose loops a Func may stand."""
        place = self.state.funcs[name].compute
        if place.kind == "at":
            stages = [self.state.stages[place.stage]] if place.stage is not None else []
        else:
            stages = self.state.consumers(self.state.funcs[name].func) if place.kind == "inline" else []
        groups = (self.state.block_of(s.key) for s in stages)
        return [s.key[0] if g is None else g.name for s, g in zip(stages, groups, strict=True)]

    def _worked_out(self, name: str) -> list[Site]:
        place = self.state.funcs[name].compute
        if place.kind == "inline":
            return self.common(self.state.funcs[name].func)
        if place.kind == "at":
            assert place.stage is not None and place.loop is not None
            chain = self.chain(self.state.stages[place.stage])
            here = (place.stage, place.loop)
            return chain[: chain.index(here) + 1] if here in chain else []
        return []

    def common(self, f: Tensor) -> list[Site]:
        """The loops around all uses of a Func, outermost first."""
        chains = [self.chain(s) for s in self.state.consumers(f)]
        return [c for c in chains[0] if all(c in k for k in chains[1:])] if chains else []


def legal_sites(state: State, f: Tensor) -> list[str]:
    """Addresses of the loops at which a Func may be computed: those around all its uses."""
    return [state.loop_address(k, n) for k, n in Sites(state).common(f)]


def uses(state: State, f: Tensor) -> str:
    """Where a Func is used, for messages."""
    found = [state.address(s.key) for s in state.consumers(f)]
    return "it is used by " + ", ".join(found) if found else "nothing uses it"


def check_places(state: State) -> None:
    """Raise ScheduleError unless every Func can be computed and stored where the state says."""
    sites = Sites(state)
    for fs in state.funcs.values():
        name = fs.func.name
        if name in state.outputs and fs.compute.kind != "root":
            raise refuse(f"{name} is an output and must be computed at the root", "output-place",
                         f"cache_write holds a part of it closer: s.cache_write({name!r}, at=...)")  # fmt: skip
        if fs.compute.kind == "at":
            _check_compute(state, sites, fs)
        if fs.compute.kind != "inline":
            _check_store(state, sites, fs)
    for stage in state.stages.values():
        _check_inside_vectors(state, stage)


def _check_inside_vectors(state: State, stage: Stage) -> None:
    """Nothing but plain loops may stand inside a vector loop."""
    vector = next((k for k, x in enumerate(stage.loops) if x.mode == "vectorize"), None)
    if vector is None:
        return
    if vector == len(stage.loops) - 1 and not stage.prefetches and not stage.write_caches:
        return
    inside = {x.name for x in stage.loops[vector:]}
    name = state.loop_address(stage.key, stage.loops[vector].name)
    hint = "move the vector loop further in, or that further out"
    for x in stage.loops[vector + 1 :]:
        if x.mode in ("parallel", "spatial"):
            raise refuse(f"the {x.mode} loop {x.name} would stand inside the vector loop {name}", "vector-inside", hint)
    for m in stage.prefetches:
        if m.loop in inside:
            raise refuse(f"the prefetch of {m.tensor} would stand inside the vector loop {name}", "vector-inside", hint)
    held = next((c.name for c in stage.write_caches if c.loop in inside), None)
    if held is not None:
        raise refuse(f"the tile {held} would stand inside the vector loop {name}", "vector-inside", hint)


def _check_compute(state: State, sites: Sites, fs: FuncState) -> None:
    place, name = fs.compute, fs.func.name
    assert place.stage is not None and place.loop is not None
    if any(g.name == name for g in state.groups):
        return  # it stands where its members do
    legal = sites.common(fs.func)
    if (place.stage, place.loop) in legal:
        return
    at = state.loop_address(place.stage, place.loop)
    why = f"{name} is not used there or also outside of it"
    stage = state.stages[place.stage]
    vector = next((x.name for x in stage.loops if x.mode == "vectorize"), None)
    if place.stage[0] == name:
        why = f"that is one of its own loops; cache_write holds a part of {name} there"
    elif state.funcs[place.stage[0]].compute.kind == "inline":
        why = f"{place.stage[0]} is inlined, so that it has no loops"
    elif all(x.name != place.loop for x in stage.loops):
        why = f"{state.address(place.stage)} has no such loop any more"
    elif vector is not None and stage.depth(vector) <= stage.depth(place.loop):
        why = f"{vector} is a vector loop, and nothing can be computed inside it"
    choices = ["root", *(state.loop_address(k, n) for k, n in legal)]
    hint = f"legal places: {', '.join(choices)}; {uses(state, fs.func)}"
    if any(len(s.key) > 2 for s in state.consumers(fs.func)):
        hint += (
            "; several forms of a stage read it, and a place is in one of them: compute it at a loop before specialize, "
            "so that each form has its own, or clone it for one form"
        )
    elif len(state.consumers(fs.func)) > 1:
        hint += "; for one of them a copy (cache_read) or a clone can stand there"
    raise refuse(f"{name} can't be computed at {at}: {why}", "illegal-place", hint)


def _check_store(state: State, sites: Sites, fs: FuncState) -> None:
    """A buffer lives in loops around the place where its Func is computed, and is allocated there or further out."""
    if fs.store is None and fs.hoisted is None:
        return
    around = sites.around(fs.func.name)
    if fs.store is not None:
        _check_outside(state, fs, fs.store, around, "stored")
    if fs.hoisted is not None:
        last = next((k for k, x in enumerate(around) if x == (fs.stored.stage, fs.stored.loop)), -1)
        _check_outside(state, fs, fs.hoisted, around[: last + 1], "allocated")


def _check_outside(state: State, fs: FuncState, place: Place, around: list[Site], what: str) -> None:
    """`place` is one of the loops `around` or the root, and no parallel or spatial loop stands inside of it."""
    name, how = fs.func.name, "store_at" if what == "stored" else "hoist_storage"
    if place.stage is not None and place.loop is not None:
        here = (place.stage, place.loop)
        if here not in around:
            choices = ["root", *(state.loop_address(k, n) for k, n in around)]
            inner = "computed" if what == "stored" else "stored"
            raise refuse(
                f"{name} can't be {what} at {state.loop_address(*here)}: that is not around where it is {inner}",
                "store-inside", f"legal places: {', '.join(choices)}",
            )  # fmt: skip
        around = around[around.index(here) + 1 :]
    for key, loop in around:
        mode = state.stages[key].loop(loop).mode
        if mode in ("parallel", "spatial"):
            at = state.loop_address(key, loop)
            raise refuse(
                f"{name} is {what} outside the {mode} loop {at} and computed inside: its iterations would race",
                "store-race", f"inside it is no race: s[{name!r}].{how}({at!r}); or make that loop serial",
            )  # fmt: skip
