"""What a schedule has decided so far: immutable, so that a refused directive leaves nothing half done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.lang import extern_stage, ir
from tilewright.lang.errors import Location
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Tensor
from tilewright.schedule.causes import refuse
from tilewright.schedule.layout import IndexMap

# A stage: name of the Func, number of the definition (-1: the pure one), and which form of it (specialize) it is
Key = tuple[str, int, *tuple[str, ...]]
REPAIR = 1 << 20  # the number of the stage by which a reduction follows another one (online)

GUARD, SHIFT, ROUND_UP = "guard", "shift", "round_up"


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a stage. `reduction`: it runs over (a part of) a reduction variable."""

    name: str
    reduction: bool
    mode: str = "serial"
    peel: tuple[int, int] = (0, 0)  # iterations at the start and at the end that have copies of the body of their own
    part: str = "auto"  # loop partitioning: auto | always | never
    axis: str = ""  # of a spatial loop: the axis of the machine's array that its iterations lie along
    unit: str = ""  # the unit of the machine that does it, with all loops inside, as one call


@dataclass(frozen=True, slots=True)
class Split:
    """parent = outer * factor + inner."""

    parent: str
    outer: str
    inner: str
    factor: int
    tail: str = GUARD


@dataclass(frozen=True, slots=True)
class Fuse:
    """fused = outer * (extent of inner) + inner."""

    outer: str
    inner: str
    fused: str


@dataclass(frozen=True, slots=True)
class WriteCache:
    """A tile of the stage's own Func that lives for one iteration of `loop` (None: for all of the stage)."""

    loop: str | None
    name: str
    memory: str
    layout: IndexMap | None = None
    location: Location | None = field(default=None, compare=False)
    slots: int = 1  # more than one: a ring that is drained by asynchronous copies


@dataclass(frozen=True, slots=True)
class PrefetchMark:
    """Touch what `tensor` is needed for `distance` iterations of `loop` later."""

    tensor: str
    loop: str
    distance: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Another form of a stage, for where a condition over sizes, scalars and strides holds."""

    name: str
    condition: Node


@dataclass(frozen=True, eq=False)
class Stage:
    """One definition and the loops that run it, outermost first."""

    key: Key
    definition: Definition
    loops: tuple[Loop, ...]
    transforms: tuple[Split | Fuse, ...] = ()
    write_caches: tuple[WriteCache, ...] = ()  # tiles within tiles, in the order in which they were written
    prefetches: tuple[PrefetchMark, ...] = ()
    scheduled: bool = False  # a directive names it
    fused_with: tuple[Key, str] | None = None  # the stage whose loops it shares, and the innermost one of these
    branches: tuple[Branch, ...] = ()  # the first one whose condition holds runs instead; its key is `(*key, name)`

    @property
    def roots(self) -> tuple[Node, ...]:
        """The variables of the definition, in the order of the algorithm: pure ones, then reduction variables."""
        d = self.definition
        return (*d.pure_vars, *(d.rdom.rvars if d.rdom is not None else ()))

    @property
    def tiles(self) -> tuple[WriteCache, ...]:
        """The tiles of its own Func, outermost first."""
        return tuple(sorted(self.write_caches, key=lambda c: self.depth(c.loop)))

    def loop(self, name: str) -> Loop:
        for x in self.loops:
            if x.name == name:
                return x
        raise KeyError(name)

    def depth(self, name: str | None) -> int:
        """Position of a loop, 0 outermost; -1 of the place around all of them (None)."""
        return -1 if name is None else next(k for k, x in enumerate(self.loops) if x.name == name)

    def with_loop(self, name: str, **changes: object) -> Stage:
        return replace(self, loops=tuple(replace(x, **changes) if x.name == name else x for x in self.loops))  # type: ignore[arg-type]


def root_name(root: Node) -> str:
    return root.attr if root.op == "var" else root.attr[1]


def versioned(stage: Stage) -> tuple[Stage, Mapping[str, str]]:
    """The stage with every loop that it ever had under a name of its own, and what these names are shown as.

    A split may give the name of its loop to one of the new ones; here the later loop of that name gets a prime.
    """
    current = {root_name(r): root_name(r) for r in stage.roots}
    shown = dict(current)

    def fresh(name: str) -> str:
        unique = name
        while unique in shown:
            unique += "'"
        shown[unique], current[name] = name, unique
        return unique

    steps: list[Split | Fuse] = []
    for t in stage.transforms:
        if isinstance(t, Split):
            parent = current.pop(t.parent)
            steps.append(replace(t, parent=parent, outer=fresh(t.outer), inner=fresh(t.inner)))
        else:
            outer, inner = current.pop(t.outer), current.pop(t.inner)
            steps.append(replace(t, outer=outer, inner=inner, fused=fresh(t.fused)))
    loops = tuple(replace(x, name=current[x.name]) for x in stage.loops)
    return replace(stage, loops=loops, transforms=tuple(steps)), shown


def roots_of_loops(unique: Stage) -> Mapping[str, frozenset[Node]]:
    """The variables of the definition that each loop runs over, of all loops that a stage ever had (see `versioned`)."""
    over: dict[str, frozenset[Node]] = {root_name(r): frozenset((r,)) for r in unique.roots}
    for t in unique.transforms:
        if isinstance(t, Split):
            over[t.outer] = over[t.inner] = over[t.parent]
        else:
            over[t.fused] = over[t.outer] | over[t.inner]
    return over


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Func is computed or stored: inline, at the root, or inside a loop of a stage."""

    kind: str  # inline | root | at
    stage: Key | None = None
    loop: str | None = None


INLINE, ROOT = Place("inline"), Place("root")


Steps = tuple[tuple[str, int], ...]  # from a variable to a part of it: ("div", n) or ("mod", n), the first one first


@dataclass(frozen=True, slots=True)
class Partials:
    """What partial results are of: one for each value of the part `steps` of the reduction variable `root` of a stage,
    `count` in all. `parts` are what is left of `root`, by the names of their own reduction variables."""

    stage: Key
    root: str
    steps: Steps
    parts: tuple[tuple[str, Steps], ...]
    count: Node


@dataclass(frozen=True, eq=False)
class FuncState:
    """Placement, storage and layout of one Func. `origin`: algorithm, cache_read or rfactor."""

    func: Func
    compute: Place
    store: Place | None = None  # None: where it is computed
    memory: str = "main"
    layout: IndexMap | None = None
    origin: str = "algorithm"
    placed: bool = False  # a directive said where
    folds: tuple[tuple[int, int], ...] = ()  # (axis, extent): the axis wraps around in the buffer
    hoisted: Place | None = None  # where the buffer is allocated, if further out than where it is stored
    slots: int = 1  # more than one: a ring that is filled by asynchronous copies
    bounds: tuple[tuple[int, int, int], ...] = ()  # (axis, start, extent): what is promised of the region
    aligns: tuple[tuple[int, int, int], ...] = ()  # (axis, modulus, remainder) of the ends of what is computed
    pads: tuple[tuple[int, int], ...] = ()  # (axis, n): the stored extent is a multiple of n
    stream: bool = False  # its vectors are stored past the caches
    partials: Partials | None = None  # what it holds partial results of
    clone_of: str = ""  # the Func whose definitions it has

    @property
    def stored(self) -> Place:
        return self.store or self.compute

    @property
    def has_region(self) -> bool:
        """Whether something is said of its region or its buffer, which what is inlined does not have."""
        said = (self.store, self.layout, self.folds, self.hoisted, self.bounds, self.aligns, self.pads, self.stream)
        return (
            any(x is not None and x != () and x is not False for x in said) or self.memory != "main" or self.slots > 1
        )


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Reductions that run together over blocks of `block` points of `over` (online).

    `name` is the Func that has the loop over the blocks, `loop` that loop. `definitions` are the members' updates as
    the algorithm has them, `before` the names of the Funcs that keep what a member was before a block.
    """

    name: str
    members: tuple[str, ...]
    over: str
    loop: str
    block: int
    definitions: tuple[Definition, ...]
    before: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.name, 0


@dataclass(frozen=True, eq=False)
class State:
    """The program under a schedule: Funcs and stages by name, and what has been promised."""

    pipeline: Pipeline
    funcs: Mapping[str, FuncState]
    stages: Mapping[Key, Stage]
    reassociations: tuple[str, ...] = ()  # directives that change the order of float reductions
    given: Mapping[str, IndexMap] = field(default_factory=dict)  # arguments that the caller has in a layout of ours
    groups: tuple[Group, ...] = ()

    @cached_property
    def outputs(self) -> frozenset[str]:
        return frozenset(o.func.name for o in self.pipeline.outputs) | {f.name for f in self.pipeline.inouts}

    @cached_property
    def _keys(self) -> Mapping[str, list[Key]]:
        found: dict[str, list[Key]] = {}
        for k in sorted(self.stages):
            found.setdefault(k[0], []).append(k)
        return found

    @cached_property
    def _counts(self) -> Mapping[str, tuple[int, int]]:
        """Of every Func the number of its definitions, and of its updates."""
        plain = {n: [k[1] for k in keys if k[1] != REPAIR and len(k) == 2] for n, keys in self._keys.items()}
        return {n: (len(numbers), sum(i >= 0 for i in numbers)) for n, numbers in plain.items()}

    def stages_of(self, func: str) -> tuple[Stage, ...]:
        """The definitions of a Func, each in its plain form."""
        return tuple(self.stages[k] for k in self._keys.get(func, ()) if len(k) == 2)

    def variants_of(self, func: str) -> tuple[Stage, ...]:
        """The definitions of a Func in all their forms."""
        return tuple(self.stages[k] for k in self._keys.get(func, ()))

    def conditions(self, key: Key) -> tuple[Node, ...]:
        """What holds wherever a stage runs: its forms' conditions, and those of the loops that its Func is computed in."""
        out: list[Node] = []
        seen: set[Key] = set()  # places in a circle are refused elsewhere
        while key not in seen:
            seen.add(key)
            for k in range(2, len(key)):
                outer = self.stages[key[:k]]  # type: ignore[index]
                out += [b.condition for b in outer.branches if b.name == key[k]]
            key = self.funcs[key[0]].compute.stage or key
        return tuple(out)

    def group_of(self, name: str) -> Group | None:
        """The group that a Func is a member of, or whose block loop it has."""
        return next((g for g in self.groups if name in g.members or name == g.name), None)

    def block_of(self, key: Key) -> Group | None:
        """The group in whose block loop a stage stands because its Func is a member (pure definitions stand before)."""
        g = self.group_of(key[0]) if key[1] >= 0 else None
        return g if g is not None and key[0] != g.name else None

    def address(self, key: Key) -> str:
        """How a stage is written: `C`, `C.init`, `C.update`, `C.update[1]`, `C.repair`."""
        name, number, *forms = key
        if forms:
            return self.address((name, number)) + "".join(f"{{{f}}}" for f in forms)
        if number == REPAIR:
            return f"{name}.repair"
        definitions, updates = self._counts[name]
        if number < 0:
            return name if definitions == 1 else f"{name}.init"
        return f"{name}.update" if updates == 1 else f"{name}.update[{number}]"

    def loop_address(self, key: Key, loop: str | None) -> str:
        """How a loop is written (None: the stage, around all of them)."""
        return self.address(key) if loop is None else f"{self.address(key)}.{loop}"

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names of the Funcs, producers first (of a circle, which is refused elsewhere, in some order)."""
        done: dict[str, None] = {}
        opened: set[str] = set()
        for root in self.funcs:
            stack = [(root, False)]
            while stack:
                name, ready = stack.pop()
                if name in done:
                    continue
                if ready:
                    done[name] = None
                    continue
                if name in opened:
                    continue
                opened.add(name)
                stack.append((name, True))
                stack.extend((p, False) for p in reversed(self._earlier(name)) if p not in done and p != name)
        return tuple(done)

    def _earlier(self, name: str) -> list[str]:
        """What it reads, and what stands in the loops that its stages share with others."""
        base = {s.key: s.fused_with[0] for s in self.stages.values() if s.fused_with is not None}
        mine = {base.get(s.key, s.key) for s in self.variants_of(name)} & set(base.values())
        if not mine:
            return self.producers(name)
        group = mine | {k for k, b in base.items() if b in mine}
        inside = [n for n, fs in self.funcs.items() if fs.compute.kind == "at" and fs.compute.stage in group]
        return list(dict.fromkeys([*self.producers(name), *inside]))

    def producers(self, name: str) -> list[str]:
        """Names of the Funcs that the stages of `name` read."""
        found: dict[str, None] = {}
        for s in self.variants_of(name):
            for t in loaded(s.definition):
                if isinstance(t, Func) and t.name in self.funcs:
                    found[t.name] = None
        return list(found)

    @cached_property
    def _readers(self) -> Mapping[Tensor, list[Stage]]:
        found: dict[Tensor, list[Stage]] = {}
        for s in self.stages.values():
            for t in loaded(s.definition):
                if t is not s.definition.func:
                    found.setdefault(t, []).append(s)
        return found

    def consumers(self, tensor: Tensor) -> list[Stage]:
        """Stages of other Funcs that read a tensor."""
        return list(self._readers.get(tensor, ()))

    def with_stage(self, stage: Stage) -> State:
        after = replace(self, stages={**self.stages, stage.key: stage})
        return self._passed_on(after) if stage.key in self.stages else after

    def with_func(self, func: FuncState) -> State:
        return self._passed_on(replace(self, funcs={**self.funcs, func.func.name: func}))

    def _passed_on(self, after: State) -> State:
        """A state with the same stages by name, which need not find again what follows from the names."""
        names = ("outputs", "_keys", "_counts")
        after.__dict__.update({n: self.__dict__[n] for n in names if n in self.__dict__})
        return after


def loaded(d: Definition) -> tuple[Tensor, ...]:
    """The tensors that a definition reads, in first-use order. Found once and kept with the definition."""
    found = d.__dict__.get("_loaded")
    if found is None:
        found = d.__dict__["_loaded"] = tuple(dict.fromkeys(n.attr[0] for n in ir.leaves(d.roots, "load")))
    return found


def make_stage(definition: Definition) -> Stage:
    """A stage as the algorithm has it: pure loops outside, reduction loops inside in declared order.

    A stage that the user computes (`tw.extern_stage`) has no loops.
    """
    d = definition
    loops = [] if extern_stage.of_definition(d) is not None else [Loop(v.attr, False) for v in d.pure_vars]
    if d.rdom is not None:
        loops += [Loop(n, True) for n in d.rdom.ranges]
    return Stage((d.func.name, d.number), d, tuple(loops))


def initial_state(pipeline: Pipeline) -> State:
    """Nothing scheduled: pure Funcs are inlined; reductions, outputs, stages that the user computes and what these read
    stand at the root."""
    funcs: dict[str, FuncState] = {}
    stages: dict[Key, Stage] = {}
    fixed = {o.func.name for o in pipeline.outputs} | {f.name for f in pipeline.inouts}
    for d in pipeline.definitions():
        if extern_stage.of_definition(d) is not None:
            fixed |= {d.func.name, *(t.name for t in loaded(d))}
    for f in pipeline.funcs:
        inline = not f.updates and f.name not in fixed
        funcs[f.name] = FuncState(f, INLINE if inline else ROOT)
        for d in f.definitions:
            stages[(f.name, d.number)] = make_stage(d)
    return State(pipeline, funcs, stages)


# Names ----------------------------------------------------------------------------------------------------------


def _closest(word: str, known: Iterable[str]) -> str:
    import difflib

    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, names, 1)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return (f"did you mean {near[0]}? " if near else "") + f"known: {shown}"


def find_stage(state: State, text: str) -> Stage:
    """A stage by its address; a Func's name alone is its only stage, or its last one where it has several."""
    for end in (k for k in range(1, len(text) + 1) if text[k : k + 1] in ("", ".", "{")):
        for stage in state.variants_of(text[:end]):
            key = stage.key
            if state.address(key) == text or (len(key) == 2 and f"{key[0]}.update[{key[1]}]" == text):
                return stage
    if text in state.funcs:
        found = state.stages_of(text)
        if len(found) == 1:
            return found[0]
        raise refuse(
            f"{text} has several stages", "ambiguous-stage",
            "say which: " + ", ".join(state.address(s.key) for s in found),
        )  # fmt: skip
    head, _, tail = text.partition(".")
    if tail == "update" and len([s for s in state.stages_of(head) if 0 <= s.key[1] < REPAIR]) > 1:
        raise refuse(f"{text}: {head} has several updates", "ambiguous-stage", f"write {head}.update[0], ...")
    raise refuse(f"there is no stage {text!r}", "unknown-stage", _closest(text, map(state.address, state.stages)))


def find_loop(state: State, text: str, within: Stage | None = None) -> tuple[Stage, str]:
    """A loop by address (`C.update.io`) or by its short name where that is unique."""
    if within is not None:
        if any(x.name == text for x in within.loops):
            return within, text
        raise refuse(
            f"{state.address(with_loops_of_ours(state, within).key)} has no loop {text!r}", "unknown-loop",
            _closest(text, [x.name for x in within.loops]),
        )  # fmt: skip
    head, dot, name = text.rpartition(".")
    if dot:
        stage = find_stage(state, head)
        return find_loop(state, name, stage)
    found = [s for s in state.stages.values() if any(x.name == text for x in s.loops)]
    if len(found) == 1:
        return found[0], text
    every = [state.loop_address(s.key, x.name) for s in state.stages.values() for x in s.loops]
    if found:
        raise refuse(
            f"the loop name {text!r} is ambiguous", "ambiguous-loop",
            "write one of: " + ", ".join(state.loop_address(s.key, text) for s in found),
        )  # fmt: skip
    raise refuse(f"there is no loop {text!r}", "unknown-loop", _closest(text, every))


def with_loops_of_ours(state: State, s: Stage) -> Stage:
    """The stage, refused where the user computes it (`tw.extern_stage`)."""
    stage = extern_stage.of_definition(s.definition)
    if stage is not None:
        raise refuse(
            f"{state.address(s.key)} is computed by the stage {stage.name}: its loops are its own", "stage-loops",
            "place it (compute_at, store_at), or schedule the loops around it",
        )  # fmt: skip
    return s


def find_func(state: State, name: str) -> FuncState:
    if name not in state.funcs:
        raise refuse(f"there is no Func {name!r}", "unknown-func", _closest(name, state.funcs))
    return state.funcs[name]
