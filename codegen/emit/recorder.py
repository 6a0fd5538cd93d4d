"""Recorded kernels: what chosen stages store, in the order in which they store it.

The record is an array of i64 whose pointer follows that of the counters. Word 0 counts the stores, word 1 says how
many have room; then come entries of equal length: the number of the stage, the point (the values of the definition's
variables), whether it is spare, and the bits of the values. Lanes of a vector are entries one after the other, those
that a mask switches off are none.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.emit.builder import value_type
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.emit.values import value
from tilewright.codegen.loops import Origin, Program, Store, walk
from tilewright.lang.types import DType

RECORD = "record"
RECORD_HEAD = 2  # words before the first entry


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things stand in an entry: after the number of the stage, `point` words, one for spare, `values` words."""

    stages: tuple[str, ...]
    point: int
    values: int

    @property
    def words(self) -> int:
        return 2 + self.point + self.values


def record_layout(program: Program, stages: tuple[str, ...]) -> Layout:
    """The layout of the entries for these stages."""
    found = [s for s in walk(program.body) if isinstance(s, Store) and s.origin is not None]
    mine = [s for s in found if s.origin is not None and s.origin.stage in stages]
    points = [len(s.origin.point) for s in mine if s.origin is not None]
    return Layout(stages, max(points, default=0), max((len(s.values) for s in mine), default=0))


def record(r: Region, origin: Origin, types: list[DType], values: list[Value]) -> None:
    """Record what a store has just stored, if its stage is one of those."""
    layout = r.shared.recorded
    if layout is None or origin.stage not in layout.stages:
        return
    words: list[tuple[str, Value]] = [("i64", (str(layout.stages.index(origin.stage)), False))]
    words += (("i64", value(r, n)) for n in origin.point)
    words += [("i64", ("0", False))] * (layout.point - len(origin.point))
    words.append(("i1", value(r, origin.spare)))
    words += ((value_type(t), v) for t, v in zip(types, values, strict=True))
    for lane in range(1 if r.lanes is None else r.lanes.n):
        _entry(r, layout, words, lane)


def _entry(r: Region, layout: Layout, words: list[tuple[str, Value]], lane: int) -> None:
    """One entry; it counts where the lane is active, else the next one takes its place."""
    f, base = r.f, r.captured(RECORD)
    active = "1"
    if r.mask is not None and r.lanes is not None:
        active = f.op(f"zext i1 {f.extract('i1', r.lanes.n, r.mask, lane)} to i64")
    count = f.op(f"load i64, ptr {base}")
    room = f.op(f"load i64, ptr {f.op(f'getelementptr i64, ptr {base}, i64 1')}")
    place = f.intrinsic("llvm.smin", "i64", 0, [count, room])
    start = f.op(f"add i64 {f.op(f'mul i64 {place}, {layout.words}')}, {RECORD_HEAD}")
    for k, (ty, (x, varying)) in enumerate(words):
        if varying and r.lanes is not None:
            x = f.extract(ty, r.lanes.n, x, lane)
        at = f.op(f"getelementptr i64, ptr {base}, i64 {f.op(f'add i64 {start}, {k}')}")
        f.do(f"store i64 {_bits(r, ty, x)}, ptr {at}")
    f.do(f"store i64 {f.op(f'add i64 {count}, {active}')}, ptr {base}")


def _bits(r: Region, ty: str, x: str) -> str:
    if ty == "i64":
        return x
    if ty in ("float", "double"):
        whole = {"float": "i32", "double": "i64"}[ty]
        x, ty = r.f.op(f"bitcast {ty} {x} to {whole}"), whole
    return x if ty == "i64" else r.f.op(f"zext {ty} {x} to i64")
