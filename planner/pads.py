"""Schedules for a machine with a scratchpad: what a tile reads and what passes inside it is there, its result goes out.

A part is computed in tiles of its root. What its members pass to each other lies in the scratchpad; what a tile reads from
outside is copied there where it begins to be needed, no earlier and no more often than it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tilewright.codegen.accounts.prepared import registers_of
from tilewright.hw import Machine
from tilewright.lang import ir
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Func, InoutFunc
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.tensors import Table, Tensor
from tilewright.planner.boxes import BLOCKS, Axis, Box, Reach, axes_of, hull
from tilewright.planner.tile_loops import Pick, first, inner_loops
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Split, Stage, root_name

Passes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Members:
    """A part with the Funcs that are stored (the root last), the others being inlined; dependent reductions among them
    may run in one pass over `over`. `names` leads to what they are called in the whole."""

    pipeline: Pipeline
    stored: tuple[str, ...]
    group: tuple[str, ...] = ()
    over: str = ""
    names: Mapping[str, str] = field(default_factory=dict, hash=False)

    def shown(self, name: str) -> str:
        """What something of the part is called in the whole."""
        return self.names.get(name, name)

    @property
    def root(self) -> Func:
        return self.pipeline.funcs[-1]


@dataclass(frozen=True)
class Tiling:
    """How a part is cut: the root's axes in `order`, outermost first, and reductions in blocks; `widths` has the width
    along each. With `ring`, copies run ahead."""

    order: tuple[int, ...]
    widths: Mapping[Axis, int] = field(hash=False)
    ring: bool = False

    def width(self, axis: Axis, extent: int) -> int:
        return min(extent, self.widths.get(axis, extent))

    def __str__(self) -> str:
        def name(a: Axis) -> str:
            return f"axis {a}" if isinstance(a, int) else a if isinstance(a, str) else f"{a[0]}.{a[2]}"

        cuts = ", ".join(f"{name(a)} by {w}" for a, w in self.widths.items())
        return f"{cuts or 'whole'}{', copies run ahead' if self.ring else ''}"


@dataclass(frozen=True)
class Copy:
    """What is copied of a tensor: a box of it, where the innermost of `moving` begins anew, for some definitions."""

    tensor: Tensor
    box: Box
    at: Axis | None  # None: once, before everything
    readers: tuple[tuple[str, int], ...]


def levels(m: Members, r: Reach, t: Tiling) -> dict[str, Axis | None]:
    """Where each Func but the root is computed: in the innermost loop over tiles or blocks that its box moves with
    (None: before everything). Reductions in one pass stand together."""
    found = {f.name: innermost(t, axes) for f, axes in r.moving.items()}
    if BLOCKS in t.widths:
        outer = [a for f, axes in r.moving.items() if f.name in m.group for a in axes if isinstance(a, int)]
        found.update(dict.fromkeys(m.group, innermost(t, outer)))
    return found


def innermost(t: Tiling, axes: Iterable[Axis]) -> Axis | None:
    return max((a for a in axes if a in t.widths), key=lambda a: depth_of(t, a), default=None)


def depth_of(t: Tiling, axis: Axis) -> int:
    """How far inside a loop over tiles or blocks stands."""
    if isinstance(axis, int):
        return t.order.index(axis)
    return len(t.order) + (0 if axis == BLOCKS else 1)


def copies_of(r: Reach, t: Tiling, left: frozenset[Tensor] = frozenset()) -> list[Copy]:
    """What is copied into the scratchpad, those `left` where they are aside; boxes that move alike are one copy."""
    found: dict[tuple[Tensor, Axis | None], Copy] = {}
    for read in r.reads:
        if read.tensor in r.boxes or isinstance(read.tensor, Table) or read.tensor in left:
            continue
        own = read.reader.definitions
        values = next(d for d in own if d.number == read.number).values
        if not any(read.tensor is n.attr[0] for n in ir.leaves(values, "load")):
            continue  # conditions read the original
        at = innermost(t, axes_of(read.box))
        key = read.tensor, at
        before = found.get(key)
        box = read.box if before is None else hull([before.box, read.box])
        readers = (*(() if before is None else before.readers), (read.reader.name, read.number))
        found[key] = Copy(read.tensor, box, at, readers)
    return list(found.values())


def schedule_part(
    m: Members, r: Reach, t: Tiling, machine: Machine, pad: str, left: frozenset[Tensor] = frozenset(), pick: Pick = first
) -> tuple[Schedule, Passes]:  # fmt: skip
    """The schedule of a part in tiles, and which pass wrote which of its directives. What the tiling leaves open `pick`
    chooses: which copies run ahead, which loops cores share, register tiles."""
    return _Writer(m, r, t, machine, pad, left, pick).written()


def _read_across(stage: Stage) -> Iterator[Func]:
    """What a stage loads in vectors along another axis than the last."""
    lanes = next((x for x in stage.loops if x.mode == "vectorize"), None)
    if lanes is None:
        return
    name = lanes.name
    for t in reversed(stage.transforms):
        if isinstance(t, Split) and name in (t.outer, t.inner):
            name = t.parent
    variables = [v for v in stage.roots if root_name(v) == name]
    for n in ir.leaves(stage.definition.values, "load"):
        inside = [m for i in n.args[:-1] for m in ir.postorder((i,))]
        if isinstance(n.attr[0], Func) and any(v in inside for v in variables):
            yield n.attr[0]


class _Writer:
    def __init__(
        self, m: Members, r: Reach, t: Tiling, machine: Machine, pad: str, left: frozenset[Tensor], pick: Pick
    ):
        self.m, self.r, self.t, self.machine, self.pad, self.left, self.pick = m, r, t, machine, pad, left, pick
        self.s = Schedule(m.pipeline, machine)
        self.loops: dict[Axis, str] = {}  # the loop over the tiles or blocks of each axis
        self.copied: dict[str, Copy] = {}
        self.passes: list[tuple[str, int]] = []

    def done(self, name: str) -> None:
        self.passes.append((name, len(self.s)))

    def written(self) -> tuple[Schedule, Passes]:
        s, m = self.s, self.m
        for f in m.pipeline.funcs:
            if f.name not in m.stored:
                s[f.name].compute_inline()
        self.done("inline")
        root = s.state.stages_of(m.root.name)[-1]
        address = s.state.address(root.key)
        self.cut_root(address)
        self.done("tile")
        self.place()
        self.done("fuse")
        self.stage()
        self.done("stage")
        for name in m.stored:
            for stage in s.state.stages_of(name):
                inner_loops(s, stage.key, self.sizes_of(name), self.machine, self.pick)
        self.part_banks()
        self.done("loops")
        full = complete(s, registers=registers_of(self.machine))
        self.s = full
        self.done("default")
        added = full.added
        valueless = {g.name for g in full.state.groups}
        for name, fs in tuple(full.state.funcs.items()):
            own = name == m.root.name or name in valueless or isinstance(fs.func, InoutFunc)
            if fs.memory == "main" and not own and fs.compute.kind == "at":
                full.store_in(name, self.pad)
        self.done("stage")
        full.added = added
        return full, tuple(self.passes)

    def part_banks(self) -> None:
        """Rows of what is read across its rows by vectors are an odd number of banks' words long, so that neighbours are in
        different banks."""
        memory = self.machine.memory(self.pad)
        if memory.banks == 1:
            return
        for name in self.m.stored:
            for stage in self.s.state.stages_of(name):
                for t in _read_across(stage):
                    fs = self.s.state.funcs.get(t.name)
                    if fs is None or fs.memory != self.pad or fs.pads or fs.layout is not None or not fs.func.rank:
                        continue
                    words = max(1, memory.bank_bytes // fs.func.dtypes[0].bytes)
                    n = -(-self.columns(t) // words)
                    if n > 1 and n % 2 == 0:
                        with suppress(ScheduleError):
                            self.s[t.name].pad(fs.func.args[-1].attr, (n + 1) * words)

    def columns(self, f: Func) -> int:
        """The extent of the last axis of what is stored of a Func in a tile."""
        source = self.copied.get(f.name)
        if source is None:
            return self.sizes_of(f.name)[-1]
        widths = {a: self.t.width(a, n) for a, n in self.r.along.items()}
        return int(self.r.shape(source.tensor, source.box, widths)[-1])

    def sizes_of(self, name: str) -> tuple[int, ...]:
        f = next((f for f in self.r.boxes if f.name == name), None)
        if f is None:  # nothing of it is needed at these sizes
            return (0,) * self.m.pipeline.func(name).rank
        widths = {a: self.t.width(a, n) for a, n in self.r.along.items()}
        return tuple(map(int, self.r.shape(f, self.r.boxes[f], widths)))

    def cut_root(self, address: str) -> None:
        s, root = self.s, self.m.root
        stage = s.state.stages_of(root.name)[-1]
        variables = [n.attr for n in stage.definition.lhs]
        outer = []
        for a in self.t.order:
            own, width = variables[a], self.t.widths[a]
            name = own
            if width > 1 or self.r.along[a] <= 1:
                name = f"{own}_s"
                s[address].split(own, name, own, width)
            outer.append(name)
            self.loops[a] = f"{address}.{name}"
        if outer:
            now = [x.name for x in s.state.stages[stage.key].loops]
            s[address].reorder(*outer, *(n for n in now if n not in outer))

    def place(self) -> None:
        """Each Func where the tiles or blocks that it goes along with begin, consumers first; reductions cut in blocks."""
        s, m = self.s, self.m
        places = levels(m, self.r, self.t)
        left = list(reversed(m.stored))
        if BLOCKS in self.t.widths:
            last = max(m.stored.index(f) for f in m.group)
            for f in reversed(m.stored[last:]):
                left.remove(f)
                self.put(f, places)
            for f in reversed(m.group[:-1]):
                if f in left:
                    left.remove(f)
                    self.put(f, places)
            online = s.online(m.group, over=m.over, block=self.t.widths[BLOCKS])
            self.loops[BLOCKS] = f"{online.stage}.{m.over}_b"
        for f in left:
            self.put(f, places)

    def put(self, f: str, places: Mapping[str, Axis | None]) -> None:
        if f != self.m.stored[-1]:
            at = places.get(f)  # of what is not needed at all at these sizes there is none
            if at is None:
                self.s[f].compute_root()
            else:
                self.s[f].compute_at(self.loops[at])
        self.cut_reductions(f)

    def cut_reductions(self, f: str) -> None:
        for a, width in self.t.widths.items():
            if not isinstance(a, tuple) or a[0] != f:
                continue
            stage = self.s.state.stages[(a[0], a[1])]
            address = self.s.state.address(stage.key)
            loop = f"{a[2]}_b"
            self.s[address].split(a[2], loop, a[2], width)
            outer = [x.rpartition(".")[2] for x in self.loops.values() if x.rpartition(".")[0] == address]
            now = [x.name for x in self.s.state.stages[stage.key].loops]
            first = [*outer, loop]
            self.s[address].reorder(*first, *(n for n in now if n not in first))
            self.loops[a] = f"{address}.{loop}"

    def stage(self) -> None:
        s, m = self.s, self.m
        site = self.loops[self.t.order[-1]] if self.t.order else None
        for f in m.stored[:-1]:
            s.store_in(f, self.pad)
        for c in copies_of(self.r, self.t, self.left):
            consumers = [s.state.address(k) for k in c.readers]
            at = None if c.at is None else self.loops[c.at]
            made = s.cache_read(c.tensor.name, at=at, memory=self.pad, consumers=consumers).func
            self.copied[made] = c
            if self.t.ring and c.at is not None and self.pick(f"{made}.ahead", (True, False)):
                with suppress(ScheduleError):
                    s[made].double_buffer()
        if site is not None and not isinstance(m.root, InoutFunc):
            with suppress(ScheduleError):
                s.cache_write(m.root.name, at=site, memory=self.pad)
                if self.t.ring and self.pick(f"{m.root.name}.behind", (True, False)):
                    s[m.root.name].double_buffer()


__all__ = ["Copy", "Members", "Passes", "Tiling", "copies_of", "depth_of", "schedule_part"]
