"""A pipeline evaluated on shadow values: numbers that carry what is known about their rounding.

A shadow value is a tuple of arrays that broadcast against each other, the number itself first (f64 for floats).
A `Rules` object says how operations act on them; this module walks the definitions in the same order and with the
same plan as the reference path.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from tilewright.lang import extern_stage
from tilewright.lang.binding import Bound
from tilewright.lang.buffers import Buffer, flat_points, gather
from tilewright.lang.extents import Span, may_run, spans
from tilewright.lang.func import Definition, InoutFunc
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import constants
from tilewright.lang.stepping import (
    BLOCK,
    Machine,
    Plan,
    blocks,
    full_rank,
    make_plan,
    parallel_points,
    sequential_points,
)

Shadow = tuple[Any, ...]  # the number (f64 for floats, else of its type), then what is known about it


class Rules(Protocol):
    """How shadow values are made and combined."""

    def exact(self, value: Any) -> Shadow:
        """The shadow of a number that is known exactly."""
        ...

    def begin(self, d: Definition) -> None:
        """A definition's execution starts."""
        ...

    def apply(self, n: Node, args: Sequence[Shadow]) -> Shadow:
        """One operation."""
        ...

    def foreign(self, value: np.ndarray) -> Shadow:
        """The shadow of what a stage of the user's computed, of which nothing is known."""
        ...

    def stepped(self, step: Sequence[Node], values: Sequence[Shadow]) -> None:
        """A fold that is no sum has computed `values` for some point; `step` are the nodes that depend on the Func."""
        ...

    def loaded(self, value: Shadow, where: Sequence[Shadow]) -> Shadow:
        """A loaded value, whose coordinates carry shadows too."""
        ...

    def terms(self, value: Shadow) -> list[tuple[np.ndarray, str]]:
        """What must be known of the terms of a sum: arrays, and how each is reduced over them ("sum" or "min")."""
        ...

    def total(self, d: Definition, sign: float, state: Shadow, parts: list[np.ndarray], count: np.ndarray) -> Shadow:
        """`state + sign * sum of count terms` in any order, from the reduced `terms`."""
        ...


class Shadows:
    """The shadow buffers of a pipeline's tensors, and its evaluation."""

    def __init__(self, p: Pipeline, bound: Bound, rules: Rules):
        self.p, self.bound, self.rules = p, bound, rules
        self.buffers: dict[Any, Buffer] = {}
        self.constants = {n: rules.exact(_widened(v)) for n, v in constants(p, bound).items()}
        for a in p.arrays:
            self._fill(a, bound.arrays[a.name])
        for t in p.tables:
            self._fill(t, t.values)

    def _fill(self, tensor: Any, values: np.ndarray) -> None:
        shape = values.shape
        shadow = self.rules.exact(_widened(values))
        self.buffers[tensor] = Buffer(tuple(np.broadcast_to(x, shape) for x in shadow), (0,) * len(shape))

    def run(self) -> None:
        """Compute every Func that is needed."""
        with np.errstate(all="ignore"):
            regions = spans(self.p, self.bound.env)
            for f, span in regions.items():
                self._allocate(f, span)
                for d in f.definitions:
                    if may_run(d, regions):
                        self._definition(d, span)

    def _allocate(self, f: Any, span: Span) -> None:
        shape = tuple(b - a for a, b in span)
        for k, t in enumerate(f.dtypes):
            start = np.zeros(shape, np.float64 if t.is_float else t.compute.np)
            if isinstance(f, InoutFunc):
                start = _widened(self.bound.arrays[f.name])
            parts = tuple(np.array(np.broadcast_to(x, shape), order="C") for x in self.rules.exact(start))
            self.buffers[f, k] = Buffer(parts, tuple(a for a, _ in span))

    def buffer(self, tensor: Any, component: int) -> Buffer:
        """The parts of a tensor's shadow values."""
        return self.buffers[tensor] if tensor in self.buffers else self.buffers[tensor, component]

    # expressions ------------------------------------------------------------------------------------------------

    def load(self, n: Node, where: Sequence[Shadow]) -> Shadow:
        b = self.buffer(*n.attr)
        at = [np.asarray(w[0]) for w in where]
        return self.rules.loaded(tuple(gather(x, b.origin, at) for x in b.data), where)

    def values(self, roots: Sequence[Node], env: dict[Node, Shadow]) -> list[Shadow]:
        known = {**self.constants, **env}
        for n in _below(roots, known):
            args = [known[a] for a in n.args]
            if n.op == "load":
                known[n] = self.load(n, args)
            elif n.op == "const":
                known[n] = self.rules.exact(_widened(n.dtype.np.type(n.attr)))
            else:
                known[n] = self.rules.apply(n, args)
        return [known[r] for r in roots]

    # definitions ------------------------------------------------------------------------------------------------

    def _definition(self, d: Definition, span: Span) -> None:
        if any(a >= b for a, b in span):
            return
        if extern_stage.of_definition(d) is not None:
            return self._by_stage(d, span)
        plan = make_plan(d, span, {n: s[0] for n, s in self.constants.items()})
        if any(a.start >= a.stop for a in (*plan.parallel, *plan.sequential)):
            return
        self.rules.begin(d)
        term = sum_term(plan)
        totals = None if term is None else _Totals(self, plan, term)
        for block in blocks([(a.start, a.stop) for a in plan.parallel]):
            env = {n: self.rules.exact(v) for n, v in parallel_points(plan, block).items()}
            self._block(plan, totals, env, tuple(hi - lo for lo, hi in block))
        if totals is not None:
            totals.finish()

    def _by_stage(self, d: Definition, span: Span) -> None:
        """A stage of the user's runs on the numbers alone."""
        buffers: dict[Any, Buffer] = {}
        for n in (n for a in extern_stage.arguments(d) if isinstance(a, tuple) for n in a[:1]):
            tensor = n.attr[0]
            types = getattr(tensor, "dtypes", None) or (tensor.dtype,)
            parts = [self.buffer(tensor, k) for k in range(len(types))]
            data = tuple(b.data[0].astype(t.np) for b, t in zip(parts, types, strict=True))
            buffers[tensor] = Buffer(data, parts[0].origin)
        shape = tuple(b - a for a, b in span)
        made = Buffer(tuple(np.zeros(shape, t.np) for t in d.func.dtypes), tuple(a for a, _ in span))
        buffers[d.func] = made
        extern_stage.run(d, span, Machine(buffers, {n: s[0] for n, s in self.constants.items()}))
        for k, v in enumerate(made.data):
            for data, part in zip(self.buffer(d.func, k).data, self.rules.foreign(_widened(v)), strict=True):
                data[...] = part

    def _block(self, plan: Plan, totals: _Totals | None, env: dict[Node, Shadow], shape: tuple[int, ...]) -> None:
        total = prod(a.stop - a.start for a in plan.sequential)
        chunk = 1 if totals is None and plan.own else max(1, BLOCK // max(1, prod(shape)))
        for first in range(0, total, chunk):
            n = min(chunk, total - first)
            points = {a: self.rules.exact(v) for a, v in sequential_points(plan, first, n, 1 + len(shape)).items()}
            if totals is None:
                self._write(plan, {**env, **points}, (n, *shape))
            else:
                totals.add({**env, **points}, (n, *shape))

    def at_points(
        self, plan: Plan, roots: Sequence[Node], env: dict[Node, Shadow], shape: tuple[int, ...]
    ) -> tuple[list[np.ndarray], np.ndarray | None, list[Shadow]]:
        """Where the points of a chunk write, which of them are executed, and the values of `roots` there."""
        d = plan.d
        got = self.values((*d.lhs, *d.predicates, *roots), env)
        place, rest = got[: len(d.lhs)], got[len(d.lhs) :]
        decisions, values = rest[: len(d.predicates)], rest[len(d.predicates) :]
        mask = None
        for c in decisions:
            mask = c[0] if mask is None else mask & c[0]
        where = [full_rank(np.asarray(w[0]), len(shape)) for w in place]
        return where, mask, [self.rules.loaded(v, [*place, *decisions]) for v in values]

    def _write(self, plan: Plan, env: dict[Node, Shadow], shape: tuple[int, ...]) -> None:
        where, mask, values = self.at_points(plan, plan.d.values, env, shape)
        if plan.own and plan.sequential and plan.in_place:
            self.rules.stepped(plan.step, values)
        stores = []
        for k, value in enumerate(values):
            b = self.buffer(plan.d.func, k)
            at, kept = flat_points(b.data[0], b.origin, where, shape, mask)
            for data, part in zip(b.data, value, strict=True):
                stores.append((data, at, np.broadcast_to(part, shape).reshape(-1)[kept]))
        if len(values) > 1:  # loads may be views, and no component may see what another one stores
            stores = [(data, at, part.copy()) for data, at, part in stores]
        for data, at, part in stores:
            data.reshape(-1)[at] = part


class _Totals:
    """The sums of one definition, element by element, in no particular order."""

    def __init__(self, shadows: Shadows, plan: Plan, term: Node):
        self.shadows, self.plan, self.term = shadows, plan, term
        self.buffer = shadows.buffer(plan.d.func, 0)
        self.count = np.zeros(self.buffer.data[0].size, np.int64)
        self.parts: list[np.ndarray] = []

    def add(self, env: dict[Node, Shadow], shape: tuple[int, ...]) -> None:
        rules, plan = self.shadows.rules, self.plan
        where, mask, (value,) = self.shadows.at_points(plan, [self.term], env, shape)
        at, kept = flat_points(self.buffer.data[0], self.buffer.origin, where, shape, mask)
        terms = rules.terms(tuple(np.broadcast_to(x, shape).reshape(-1)[kept] for x in value))
        if not self.parts:
            self.parts = [np.full(self.count.size, 0.0 if how == "sum" else np.inf) for _, how in terms]
        if plan.fixed_point and mask is None:
            at = at[: prod(shape[1:])]
            self.count[at] += shape[0]
            for part, (a, how) in zip(self.parts, terms, strict=True):
                lines = a.reshape(shape[0], -1)
                part[at] = part[at] + lines.sum(0) if how == "sum" else np.minimum(part[at], lines.min(0))
            return
        np.add.at(self.count, at, 1)
        for part, (a, how) in zip(self.parts, terms, strict=True):
            (np.add if how == "sum" else np.minimum).at(part, at, a)

    def finish(self) -> None:
        touched = np.flatnonzero(self.count)
        if not len(touched):
            return
        state = tuple(data.reshape(-1)[touched] for data in self.buffer.data)
        parts = [part[touched] for part in self.parts]
        sign = -1.0 if sum_node(self.plan).op == "sub" else 1.0  # type: ignore[union-attr]
        new = self.shadows.rules.total(self.plan.d, sign, state, parts, self.count[touched])
        for data, part in zip(self.buffer.data, new, strict=True):
            data.reshape(-1)[touched] = part


def _widened(value: Any) -> np.ndarray:
    a = np.asarray(value)
    known = a.dtype.kind in "biu"
    return a if known else a.astype(np.float64)


def _below(roots: Sequence[Node], known: dict[Node, Any]) -> list[Node]:
    out: list[Node] = []
    seen: set[Node] = set(known)
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        n, ready = stack.pop()
        if ready:
            out.append(n)
        elif n not in seen:
            seen.add(n)
            stack.append((n, True))
            stack.extend((a, False) for a in reversed(n.args))
    return out


def sum_node(plan: Plan) -> Node | None:
    """The node `f + x`, `x + f` or `f - x` of a float sum, without the rounding to a storage type."""
    d = plan.d
    if len(d.values) != 1 or not d.func.dtypes[0].is_float or not plan.sequential or not plan.in_place:
        return None
    v = d.values[0].args[0] if d.values[0].op == "round_to" else d.values[0]
    if v.op not in ("add", "sub") or len(plan.step) != 2 + (v is not d.values[0]):
        return None
    mine = [a in plan.own for a in v.args]
    return v if mine == [True, False] or (v.op == "add" and mine == [False, True]) else None


def sum_term(plan: Plan) -> Node | None:
    """What a float sum adds; None for any other definition."""
    v = sum_node(plan)
    return None if v is None else v.args[1] if v.args[0] in plan.own else v.args[0]
