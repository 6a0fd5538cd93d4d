"""The call of a program without Python: the builtin that serves kernels checks the arguments, then all steps run in one go.

What the steps are called with is laid out once for the sizes that buffers go by; a call only puts its own addresses,
strides, sizes and scalars there (runtime/steps_ir.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen import abi, runtime
from tilewright.codegen.bound_call import Ready
from tilewright.codegen.compile import Compiled, stride_class
from tilewright.codegen.entry import make_entry, scalar_slot
from tilewright.codegen.interface import argument_roles, signature
from tilewright.codegen.native_calls import missed, native, shaping
from tilewright.codegen.runtime import steps_ir
from tilewright.lang.pipeline import Pipeline, ScalarParam
from tilewright.planner.cut import Buffer, Source
from tilewright.planner.given import ROWS
from tilewright.planner.weights import Weight


@dataclass(frozen=True, eq=False)
class Linked:
    """A step that is ready to run: its kernel, what that is called with, and what its parameters and outputs are in the
    whole."""

    kernel: Compiled
    ready: Ready
    inputs: tuple[Source | Weight, ...]
    outputs: tuple[Buffer, ...]


@dataclass(frozen=True, eq=False)
class Caller:
    """What the builtin of a program is made for: its pipeline, where its results are made, the sizes and scalars that its
    buffers go by, and what holds these."""

    pipeline: Pipeline
    results: Mapping[Buffer, int]  # -> number of the output
    fixed: Mapping[str, int]
    keep: Any
    keyword_only: tuple[str, ...] = ()

    def entry(
        self, steps: Sequence[Linked], groups: Sequence[int], arrays: Sequence[np.ndarray], threads: int | None
    ) -> Callable[..., Any] | None:
        """The builtin for calls with arrays like these (inputs, then outputs); None where there is none. It gives
        MISSED for other calls. `groups` are the numbers of steps that run at once, in turn."""
        p = self.pipeline
        words = _Words(self)
        if not all(native(s.kernel) for s in steps) or not all(map(words.add, steps)):
            return None
        table = _Table(words, groups, self._checks())
        context = _Context(runtime.context(threads), ctypes.addressof(table.words))
        inputs = [stride_class(a) for a in arrays[: len(p.arrays)]]
        outputs = [stride_class(a) for a in arrays[len(p.arrays) :]]
        classes = (*inputs, *("contiguous" for _ in p.tables), *outputs)
        made = make_entry(
            signature(p, classes, self.keyword_only), runtime.steps_address(), ctypes.addressof(context), missed,
            constants={t.name: t.values for t in p.tables}, shaping=shaping(p.structure),
            keep=(table, context, [(s.kernel, s.ready.keep) for s in steps], self.keep),
        )  # fmt: skip
        return None if made is missed else made

    def _checks(self) -> Iterator[tuple[int, int, int]]:
        p = self.pipeline
        scalars = [s.name for s in p.scalars]
        for name, value in self.fixed.items():
            if name in p.sizes:
                yield 0, p.sizes.index(name), value
            else:
                number = scalars.index(name)
                yield 1, number, scalar_slot(p.scalars[number].dtype.np.name, value)


class _Context(ctypes.Structure):
    """The context of a pool, and behind it the table of the steps."""

    _fields_ = [("pool", abi.Context), ("table", ctypes.c_void_p)]


@dataclass
class _Words:
    """The words that steps are called with, and which of a call's own are put there."""

    caller: Caller
    steps: list[tuple[int, ...]] = field(default_factory=list)
    patches: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {k: [] for k in steps_ir.KINDS})
    keep: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        p = self.caller.pipeline
        self.arrays: dict[str, tuple[int, int]] = {}  # number and first axis
        axis = 0
        for number, (name, *_, extents) in enumerate(argument_roles(p)):
            self.arrays[name] = number, axis
            axis += len(extents)
        self.scalars = {s.name: k for k, s in enumerate(p.scalars)}

    def add(self, step: Linked) -> bool:
        """Lay a step's words out; False where a call does not say what it needs."""
        p, ready = step.kernel.interface, step.ready
        sources: dict[str, Any] = dict(zip((q.name for q in p.params), step.inputs, strict=True))
        if not all(n in self.caller.pipeline.sizes for n in p.sizes):
            return False
        data, sizes, strides, scalars = ready.words
        own: list[Any] = [sources[a.name] for a in p.arrays]
        own += [None] * len(p.tables) + list(step.outputs)
        axis = 0
        for k, (source, a) in enumerate(zip(own, ready.arrays, strict=True)):
            if (at := self._array(source)) is not None:
                number, first = at
                self._patch("data", data, k, number)
                for d in range(a.ndim):
                    self._patch("strides", strides, axis + d, first + d)
            axis += a.ndim
        for k, n in enumerate(p.sizes):
            self._patch("sizes", sizes, k, self.caller.pipeline.sizes.index(n))
        for k, s in enumerate(p.scalars):
            self._patch("scalars", scalars, k, self.scalars[sources[s.name].name])
        self.steps.append((ready.kernel, *map(ctypes.addressof, ready.words)))
        self.keep.append(ready.words)
        return True

    def _array(self, source: Any) -> tuple[int, int] | None:
        """Where the arrays of a call have what a step reads or writes; None for buffers."""
        if isinstance(source, Weight):  # packed: the same in every call
            return None if source.layout != ROWS else self.arrays.get(source.name)
        if isinstance(source, Buffer):
            number = self.caller.results.get(source)
            return None if number is None else self.arrays[f"out.{self.caller.pipeline.outputs[number].name}"]
        return None if source is None or isinstance(source, ScalarParam) else self.arrays[source.name]

    def _patch(self, kind: str, words: ctypes.Array[ctypes.c_int64], k: int, number: int) -> None:
        self.patches[kind].append((ctypes.addressof(words) + 8 * k, number))


class _Table:
    """The table that the driver reads, see steps_ir.py."""

    def __init__(self, words: _Words, groups: Sequence[int], checks: Iterator[tuple[int, int, int]]):
        beside = [n - k for n in groups for k in range(n)]
        steps = [(*step, n) for step, n in zip(words.steps, beside, strict=True)]
        parts = {"checks": list(checks), "steps": steps, **words.patches}
        self.parts = {name: _flat(records) for name, records in parts.items()}
        head = {
            word: len(parts[name]) if word == name else ctypes.addressof(self.parts[name])
            for word in steps_ir.TABLE
            for name in (word.removesuffix("_at"),)
        }
        self.words = _flat([tuple(head[w] for w in steps_ir.TABLE)])
        self.keep = words.keep


def _flat(records: Sequence[tuple[int, ...]]) -> ctypes.Array[ctypes.c_int64]:
    flat = [w for r in records for w in r]
    return (ctypes.c_int64 * len(flat))(*flat)


__all__ = ["Caller", "Linked"]
