"""What `s["C"]` and `s["C.update"]` give: directives as methods that can be chained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.schedule.directive import Directive, Value
from tilewright.schedule.state import State, refuse

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class Handle:
    """A Func (placement, storage, layout) and, where the address means one, its stage (loops).

    Every method appends a directive to the schedule and returns the handle.
    """

    __slots__ = ("func", "schedule", "stage")

    def __init__(self, schedule: Schedule, func: str, stage: str | None):
        self.schedule, self.func, self.stage = schedule, func, stage

    def __repr__(self) -> str:
        return f"<{self.stage or self.func} in {self.schedule!r}>"

    @property
    def loops(self) -> tuple[str, ...]:
        """Names of the stage's loops, outermost first."""
        address = self._stage()
        s = next(s for s in self._state.stages.values() if self._state.address(s.key) == address)
        return tuple(x.name for x in s.loops)

    # Loops ------------------------------------------------------------------------------------------------------

    def split(self, loop: str, outer: str, inner: str, factor: Value, tail: str = "guard") -> Handle:
        """`loop` becomes `outer` and `inner`, the inner one `factor` long. Tails: guard, shift, round_up."""
        return self._loop("split", (loop,), (outer, inner), by=factor, tail=tail)

    def tile(self, *args: str | Value | Sequence[str] | Sequence[Value], tail: str = "guard") -> Handle:
        """Split several loops and put the outer ones outside.

        `tile("i", "j", "io", "jo", "ii", "ji", 8, 16)`, or the same in groups:
        `tile(("i", "j"), ("io", "jo"), ("ii", "ji"), (8, 16))`.
        """
        groups = [a for a in args if isinstance(a, (tuple, list))]
        if len(groups) != len(args):
            n = len(args) // 4
            groups = [args[:n], args[n : 2 * n], args[2 * n : 3 * n], args[3 * n :]]
        if len(groups) != 4 or len({len(g) for g in groups}) != 1 or not groups[0]:
            raise refuse("tile takes as many outer names, inner names and factors as loops", "arity",
                         "such as tile('i', 'j', 'io', 'jo', 'ii', 'ji', 8, 16)")  # fmt: skip
        loops, outers, inners, factors = (tuple(g) for g in groups)
        return self._loop("tile", loops, (*outers, *inners), by=factors, tail=tail)  # type: ignore[arg-type]

    def fuse(self, outer: str, inner: str, fused: str) -> Handle:
        """Two loops, one right inside the other, become one."""
        return self._loop("fuse", (outer, inner), (fused,))

    def reorder(self, *loops: str) -> Handle:
        """The named loops, outermost first, share out the positions that they occupy."""
        return self._loop("reorder", loops)

    def unroll(self, loop: str, factor: Value | None = None) -> Handle:
        """Unroll a loop; with a factor its inner part of that length, `{loop}_u`."""
        return self._loop("unroll", (loop,), by=factor)

    def vectorize(self, loop: str, factor: Value | None = None) -> Handle:
        """Run a loop in vectors; with a factor its inner part of that length, `{loop}_v`."""
        return self._loop("vectorize", (loop,), by=factor)

    def parallel(self, loop: str, factor: Value | None = None) -> Handle:
        """Run a loop's iterations on several threads; with a factor, that many in a task (a loop `{loop}_p` inside)."""
        return self._loop("parallel", (loop,), by=factor)

    def serial(self, loop: str) -> Handle:
        """An ordinary loop again."""
        return self._loop("serial", (loop,))

    def spatial(self, loop: str, axis: str) -> Handle:
        """Lay a loop's iterations along an axis of the machine's array."""
        return self._loop("spatial", (loop,), on=axis)

    def tensorize(self, loop: str, unit: str) -> Handle:
        """Let a unit of the machine do a loop and all loops inside it as one call."""
        return self._loop("tensorize", (loop,), by=unit)

    def peel(self, loop: str, first: int = 1, last: int = 1) -> Handle:
        """The first and the last iterations run as copies of their own, so that conditions in the others vanish."""
        return self._loop("peel", (loop,), by=(first, last))

    def partition(self, loop: str, how: str = "always") -> Handle:
        """Whether the loop is parted where conditions inside always hold: always, never, auto (as it pays)."""
        return self._loop("partition", (loop,), **{"=": how})  # type: ignore[arg-type]

    def specialize(self, condition: object, name: str) -> Handle:
        """Another form of the stage for where a condition over sizes, scalars and strides holds; returns its handle."""
        from tilewright.schedule.conditions import canonical_condition

        self._loop("specialize", (canonical_condition(self.schedule.pipeline, condition),), (name,))
        return self.schedule[f"{self._stage()}{{{name}}}"]

    def rfactor(self, loop: str, name: str) -> Handle:
        """Partial results over a reduction loop, in a Func `name`."""
        return self._loop("rfactor", (loop,), (name,))

    def compute_with(self, at: str) -> Handle:
        """Share the loops of an independent stage down to the loop `at` (`"U.y"`)."""
        return self._loop("compute_with", (), at=at)

    def unscheduled(self) -> Handle:
        """Leave this stage as the algorithm has it."""
        return self._loop("unscheduled", ())

    # Placement and storage ----------------------------------------------------------------------------------------

    def compute_inline(self) -> Handle:
        """The expression stands wherever the Func is used."""
        return self._place("compute_inline")

    def compute_root(self) -> Handle:
        """The whole region, before everything that uses it."""
        return self._place("compute_root")

    def compute_at(self, at: str) -> Handle:
        """In each iteration of a loop (`"C.update.io"`), the part that it needs."""
        return self._place("compute_at", at=at)

    def store_at(self, at: str) -> Handle:
        """The buffer lives for one iteration of a loop."""
        return self._place("store_at", at=at)

    def store_root(self) -> Handle:
        """The buffer lives for the whole run."""
        return self._place("store_root")

    def fold_storage(self, axis: str, extent: Value) -> Handle:
        """An axis of the buffer wraps around after `extent` points."""
        return self._place("fold_storage", over=axis, by=extent)

    def hoist_storage(self, at: str | None = None) -> Handle:
        """The buffer is allocated further out (at the root without `at`)."""
        return self._place("hoist_storage", at=at)

    def double_buffer(self, slots: Value = 2) -> Handle:
        """A ring of slots, filled (a staged copy) or drained (a tile) by asynchronous copies."""
        return self._place("double_buffer", by=slots)

    def store_in(self, memory: str) -> Handle:
        """The memory that the buffer lives in."""
        return self._place("store_in", **{"in": memory})

    def layout(self, index_map: str, given: bool = False) -> Handle:
        """How the elements lie in the buffer (with `given`, in the caller's array), such as `i j -> j//8 i j%8`."""
        return self._place("layout", given=1 if given else None, layout=index_map)

    def bound(self, axis: str, start: int, extent: Value) -> Handle:
        """The promise that an axis is needed over start..start + extent."""
        return self._place("bound", over=axis, by=extent, offset=start)

    def align(self, axis: str, modulus: Value, remainder: int = 0) -> Handle:
        """What is computed starts and ends at multiples of `modulus` (plus `remainder`) along an axis."""
        return self._place("align", over=axis, by=modulus, offset=remainder)

    def pad(self, axis: str, multiple: Value) -> Handle:
        """The stored extent of an axis is rounded up to a multiple."""
        return self._place("pad", over=axis, by=multiple)

    def stream_stores(self) -> Handle:
        """Whole vectors are stored past the caches."""
        return self._place("stream_stores")

    # How ------------------------------------------------------------------------------------------------------------

    @property
    def _state(self) -> State:
        return self.schedule.state

    def _stage(self) -> str:
        if self.stage is None:
            stages = ", ".join(self._state.address(s.key) for s in self._state.stages_of(self.func))
            raise refuse(f"{self.func} has several stages; loops belong to one of them", "ambiguous-stage",
                         f"say which: {stages}")  # fmt: skip
        return self.stage

    def _loop(
        self, kind: str, operands: Sequence[str], results: tuple[str, ...] = (), **options: Value | None
    ) -> Handle:
        given = tuple((k, v) for k, v in options.items() if v is not None)
        self.schedule.apply(Directive(kind, self._stage(), tuple(operands), results, given))
        return self

    def _place(self, kind: str, **options: Value | None) -> Handle:
        several = len(self._state.stages_of(self.func)) > 1
        if self.stage is not None and (several or self.stage.endswith("}")):
            raise refuse(
                f"{kind} is for all of {self.func}, and this is its stage {self.stage}", "func-directive",
                f"write s[{self.func!r}].{kind}(...)",
            )  # fmt: skip
        given = tuple((k, v) for k, v in options.items() if v is not None)
        self.schedule.apply(Directive(kind, operands=(self.func,), options=given))
        return self
