"""What stages store, value by value, in the order in which it happens: the record of an instrumented run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen import instrumented
from tilewright.codegen import loops as L
from tilewright.codegen.emit import RECORD_HEAD, record_layout
from tilewright.lang import ir
from tilewright.lang.binding import check_sizes
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.types import DType
from tilewright.lang.values import index_values
from tilewright.schedule.state import State, find_stage, root_name

ROOM = 100_000  # stores that are recorded where nothing else is said


@dataclass(frozen=True, slots=True)
class Stored:
    """One store: `stage` computed `values` (one a component) at the point `at` (variable -> value, outermost first).

    `element` is where it went, None where data decide. `spare`: nobody needs it, or it was computed before (tails).
    """

    stage: str
    at: Mapping[str, int]
    element: tuple[int, ...] | None
    values: tuple[Any, ...]
    spare: bool = False

    @property
    def value(self) -> Any:
        """The value; a tuple where the Func has several."""
        return self.values[0] if len(self.values) == 1 else self.values

    def __str__(self) -> str:
        func, _, definition = self.stage.partition(".")
        where = "..." if self.element is None else ", ".join(map(str, self.element))
        said = f"{func}[{where}] = {self.value}"
        notes = [f"{k} = {v}" for k, v in self.at.items()] if definition.startswith("update") else []
        notes += ["spare"] * self.spare
        return said + (f"    ({', '.join([self.stage, *notes] if definition else notes)})" if notes else "")


@dataclass(frozen=True)
class Trace(Sequence[Stored]):
    """The stores of a run in order, and its result. `str()` prints one a line."""

    stores: tuple[Stored, ...]
    result: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.stores)

    def __getitem__(self, k: Any) -> Any:
        return self.stores[k]

    def of(self, stage: str) -> tuple[Stored, ...]:
        """The stores of one stage."""
        return tuple(s for s in self.stores if s.stage == stage)

    def __str__(self) -> str:
        return "\n".join(map(str, self.stores))


def trace(
    p: Pipeline,
    schedule: Any,
    sizes: Mapping[str, int],
    stages: str | Sequence[str] | None = None,
    mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
    room: int = ROOM,
) -> Trace:
    """Run `p` under `schedule` (None: the default) at the given sizes and record what `stages` store (None: all).

    Raises ScheduleError for a stage that is not there, ArgumentError argument.trace for more stores than there is
    room for.
    """
    from tilewright.schedule.default import complete
    from tilewright.schedule.schedule import Schedule

    check_sizes(p, sizes)
    full = complete(Schedule(p) if schedule is None else schedule, mode)
    full.check()
    wanted = _addresses(full.state, stages)
    done = instrumented.run(p, full.state, sizes, mode, dict(inputs or {}), recorded=wanted, room=room)
    assert done.record is not None
    count = int(done.record[0])
    if count > room:
        raise ArgumentError(
            f"{p.name} makes {count} stores in {', '.join(wanted)} at these sizes, and {room} are recorded",
            code="argument.trace", where=user_location(), hint="take smaller sizes, fewer stages, or room=...",
        )  # fmt: skip
    layout = record_layout(done.program, wanted)
    entries = done.record[RECORD_HEAD:].reshape(-1, layout.words)[:count]
    readers = {name: _Reader(full.state, done.program, name, done.bound.env) for name in wanted}
    return Trace(tuple(readers[wanted[e[0]]].read(e[1:], layout.point) for e in entries.tolist()), done.result)


def _addresses(state: State, stages: str | Sequence[str] | None) -> tuple[str, ...]:
    """The stages that are meant; a Func stands for all of its definitions."""
    if stages is None:
        return tuple(map(state.address, state.stages))
    found: dict[str, None] = {}
    for text in [stages] if isinstance(stages, str) else stages:
        keys = [s.key for s in state.variants_of(text)] or [find_stage(state, text).key]
        found |= dict.fromkeys(map(state.address, keys))
    return tuple(found)


class _Reader:
    """Entries of one stage as stores."""

    def __init__(self, state: State, program: L.Program, address: str, env: Mapping[Any, Any]):
        stage = find_stage(state, address)
        self.address, self.env = address, env
        self.variables = stage.roots
        self.names = tuple(map(root_name, stage.roots))
        self.lhs = stage.definition.lhs
        self.known = not ir.leaves(self.lhs, "load")
        stores = (s for s in L.walk(program.body) if isinstance(s, L.Store) and s.origin is not None)
        values = next((s.values for s in stores if s.origin is not None and s.origin.stage == address), ())
        self.types = [v.dtype for v in values]

    def read(self, words: list[int], width: int) -> Stored:
        point = words[: len(self.names)]
        env: dict[Any, Any] = {**self.env, **dict(zip(self.variables, point, strict=True))}
        element = tuple(index_values(self.lhs, env)) if self.known else None
        values = tuple(_decoded(w, t) for w, t in zip(words[width + 1 :], self.types, strict=False))
        return Stored(self.address, dict(zip(self.names, point, strict=True)), element, values, bool(words[width]))


def _decoded(word: int, t: DType) -> Any:
    """The value whose bits stand in the low part of a word."""
    if t.is_bool:
        return bool(word & 1)
    bits = np.array([word], np.int64).view(np.uint8)[: t.np.itemsize]  # the machine is little-endian
    return bits.view(t.np)[0].item()


__all__ = ["ROOM", "Stored", "Trace", "trace"]
