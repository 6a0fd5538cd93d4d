"""One definition of the reference path, executed over its domain in NumPy.

Points that can't depend on each other are evaluated together: the Vars of the left side, and those reduction
variables that give every one of their values an own slice of the Func. The other reduction variables run in
lexicographic order, in chunks: what does not depend on the Func itself is evaluated for a whole chunk, the rest
point by point, or by sequential ufunc methods (`accumulate`, `at`), which keep the order of every element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilewright.lang import extern_stage, ir, simplify
from tilewright.lang.assumptions import guarded
from tilewright.lang.buffers import Buffer, flat_points, gather, put, window
from tilewright.lang.evaluate import apply, evaluate
from tilewright.lang.extents import Span
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.lang.types import DType
from tilewright.lang.values import Env, index_values

BLOCK = 1 << 17  # points evaluated at once: their temporaries stay in the cache
FEW = 1 << 11  # below this many independent points, sequences of points go through `accumulate`


@dataclass(frozen=True)
class Machine:
    """What a definition is evaluated with: buffers by tensor, values of sizes and scalars by node."""

    buffers: dict[Any, Buffer]
    constants: dict[Node, Any]

    def load(self, n: Node, where: Sequence[Any]) -> np.ndarray:
        """The value of a load at arrays of coordinates."""
        buffer = self.buffers[n.attr[0]]
        got = gather(buffer.data[n.attr[1]], buffer.origin, [np.asarray(i) for i in where])
        return got if got.dtype == n.dtype.np else got.astype(n.dtype.np)

    def values(self, roots: Sequence[Node], env: dict[Node, Any]) -> list[np.ndarray]:
        return evaluate(roots, {**self.constants, **env}, self.load)


@dataclass(frozen=True, slots=True)
class Axis:
    node: Node
    start: int
    stop: int


@dataclass(frozen=True)
class Plan:
    """How a definition is executed: independent axes, sequential ones, and what its values read of its own Func."""

    d: Definition
    parallel: tuple[Axis, ...]
    sequential: tuple[Axis, ...]
    predicates: tuple[Node, ...]
    own: tuple[Node, ...]  # loads of the Func itself
    step: tuple[Node, ...]  # nodes that depend on them, arguments first
    frontier: tuple[Node, ...]  # what those use besides, and roots that do not depend on them

    @property
    def in_place(self) -> bool:
        """Whether the Func is read at no other point than the one that is written."""
        return all(n.args == self.d.lhs for n in self.own)

    @property
    def fixed_point(self) -> bool:
        """Whether all sequential points write the same element."""
        mine = {a.node for a in self.sequential}
        return not any(n in mine or n.op == "load" for n in ir.postorder(self.d.lhs))


def run_definition(d: Definition, span: Span, m: Machine) -> None:
    """Execute `d` at every point of its domain, where its Func has the region `span`."""
    if extern_stage.of_definition(d) is not None:
        return extern_stage.run(d, span, m)
    if any(a >= b for a, b in span):
        return
    plan = make_plan(d, span, m.constants)
    if any(a.start >= a.stop for a in (*plan.parallel, *plan.sequential)):
        return
    for block in blocks([(a.start, a.stop) for a in plan.parallel]):
        _run_block(plan, parallel_points(plan, block), tuple(hi - lo for lo, hi in block), m)


def parallel_points(plan: Plan, block: Sequence[tuple[int, int]]) -> dict[Node, np.ndarray]:
    """Values of the independent variables in a block, each along a dimension of its own; the first is left free."""
    rank = 1 + len(block)
    return {
        a.node: np.arange(lo, hi).reshape([-1 if j == k + 1 else 1 for j in range(rank)])
        for k, (a, (lo, hi)) in enumerate(zip(plan.parallel, block, strict=True))
    }


def blocks(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of at most BLOCK points that make up the product of `ranges`, in order."""
    sizes, room = [], BLOCK
    for lo, hi in reversed(ranges):
        sizes.insert(0, max(1, min(hi - lo, room)))
        room //= sizes[0]
    yield from product(
        *([(a, min(a + n, hi)) for a in range(lo, hi, n)] for (lo, hi), n in zip(ranges, sizes, strict=True))
    )


# Analysis -------------------------------------------------------------------------------------------------------


def make_plan(d: Definition, span: Span, constants: Env) -> Plan:
    """How `d` is executed where its Func has the region `span`; `constants` has sizes and scalars."""
    d, predicates = guarded(d)
    roots = (*d.lhs, *d.values)
    own = tuple(n for n in ir.leaves(roots, "load") if n.attr[0] is d.func)
    dependent: set[Node] = set(own)
    for n in ir.postorder(roots):
        if any(a in dependent for a in n.args):
            dependent.add(n)
    step = tuple(n for n in ir.postorder(roots) if n in dependent)
    frontier = dict.fromkeys(a for n in step for a in n.args if a not in dependent)
    frontier.update(dict.fromkeys(v for v in roots if v not in dependent))
    ranges = domain_ranges(d, constants)
    parallel, free = [], dict(ranges)
    for k, i in enumerate(d.lhs):
        if i.op == "var":
            parallel.append(Axis(i, *span[k]))
        elif (r := _own_slices(k, i, own)) in free:
            parallel.append(Axis(r, *free.pop(r)))
    return Plan(
        d, tuple(parallel), tuple(Axis(r, *ab) for r, ab in free.items()), predicates, own, step, tuple(frontier)
    )


def domain_ranges(d: Definition, constants: Env) -> dict[Node, tuple[int, int]]:
    """Start and stop of every reduction variable, as numbers."""
    if d.rdom is None:
        return {}
    ends = [n for ab in d.rdom.ranges.values() for n in ab]
    values = index_values(ends, constants)
    return {r: (int(a), int(b)) for r, a, b in zip(d.rdom.rvars, values[::2], values[1::2], strict=True)}


def _own_slices(axis: int, index: Node, own: Sequence[Node]) -> Node | None:
    """The reduction variable whose every value has an own slice of the Func along `axis`: written and read alone."""
    coefs, _ = simplify.linear(index)
    found = [n for n in ir.postorder([index]) if n.op in ("rvar", "load")]
    if len(found) == 1 and found[0].op == "rvar" and found[0] in coefs:
        return found[0] if all(n.args[axis] is index for n in own) else None
    return None


# Execution of one block -----------------------------------------------------------------------------------------


def _run_block(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    counts = [a.stop - a.start for a in plan.sequential]
    total = prod(counts)
    chunk = max(1, min(total, BLOCK // max(1, prod(shape))))
    execute = _executor(plan)
    for first in range(0, total, chunk):
        n = min(chunk, total - first)
        points = sequential_points(plan, first, n, 1 + len(shape))
        execute(plan, {**env, **points}, (n, *shape), m)


def sequential_points(plan: Plan, first: int, n: int, ndim: int) -> dict[Node, np.ndarray]:
    """Values of the sequential variables at `n` points from number `first` on, along the first of `ndim` dimensions."""
    counts = [a.stop - a.start for a in plan.sequential]
    at = np.unravel_index(np.arange(first, first + n), counts) if counts else ()
    lead = (n,) + (1,) * (ndim - 1)
    return {a.node: (a.start + i).reshape(lead) for a, i in zip(plan.sequential, at, strict=True)}


def _executor(plan: Plan) -> Any:
    if not plan.own or not plan.sequential:
        return _at_once
    if plan.in_place:
        simple = increment(plan)
        if plan.fixed_point:
            return _fold_by_ufunc if simple and simple[0] in _ACCUMULATE else _fold
        if simple and simple[0] in _SCATTER:
            return _scatter_by_ufunc
    return _point_by_point


def _mask(plan: Plan, env: dict[Node, Any], m: Machine) -> np.ndarray | None:
    if not plan.predicates:
        return None
    out = None
    for v in m.values(plan.predicates, env):
        out = v if out is None else out & v
    return out


def _at_once(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    """No point of the chunk reads what another one writes; of several writes to one element the last stays."""
    d, buffer = plan.d, m.buffers[plan.d.func]
    rank = len(d.lhs)
    got = m.values((*d.lhs, *d.values), env)
    mask = _mask(plan, env, m)
    where = [full_rank(i, len(shape)) for i in got[:rank]]
    for data, v in zip(buffer.data, _components(plan, got[rank:], shape, m), strict=True):
        put(data, buffer.origin, where, v, mask)


def _components(plan: Plan, values: Sequence[Any], shape: tuple[int, ...], m: Machine) -> list[np.ndarray]:
    """A value for each component, as it is stored. Loads may be views: none may see what another component stores."""
    d, data = plan.d, m.buffers[plan.d.func].data
    stored = [_stored_as(np.asarray(v), t.np) for v, t in zip(values, d.func.dtypes, strict=True)]
    if len(stored) > 1:
        stored = [v.copy() if any(np.may_share_memory(v, a) for a in data) else v for v in stored]
    return [np.broadcast_to(v, shape) for v in stored]


def full_rank(a: np.ndarray, ndim: int) -> np.ndarray:
    return a.reshape((1,) * (ndim - a.ndim) + a.shape)


# Folds: every sequential point updates the same element ---------------------------------------------------------

_ACCUMULATE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_SCATTER = _ACCUMULATE
_SWAPPABLE = frozenset(["add", "mul", "and", "or", "xor"])


def increment(plan: Plan) -> tuple[str, Node] | None:
    """(op, x) if the definition is `f[...] = f[...] op x` where x does not depend on f."""
    d = plan.d
    if len(d.values) != 1 or len(plan.step) != 2:
        return None
    v = d.values[0]
    if len(v.args) != 2 or d.func.dtypes[0].is_storage_only:
        return None
    a, b = v.args
    if a in plan.own and b not in plan.own:
        return v.op, b
    if b in plan.own and a not in plan.own and v.op in _SWAPPABLE:
        return v.op, a
    return None


def _neutral(op: str, t: DType) -> Any:
    """x with `a op x` equal to a, bit for bit, for every a."""
    if op in ("add", "sub"):
        value: Any = (-0.0 if op == "add" else 0.0) if t.is_float else 0
    elif op == "and":
        value = True if t.is_bool else -1 if t.kind == "i" else t.high
    else:
        value = 1 if op == "mul" else 0
    return t.np.type(value)


class _State:
    """The elements that a block updates, with a leading dimension of 1: views of the buffers if slices express them."""

    def __init__(self, plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine):
        self.buffer = m.buffers[plan.d.func]
        self.shape = (1, *shape[1:])
        self.where = [full_rank(i, len(shape)) for i in m.values(plan.d.lhs, env)]
        self.values: list[np.ndarray] = []
        for data in self.buffer.data:
            view = window(data, self.buffer.origin, self.where) if self.where else data.reshape((1,))
            self.whole = view is not None and view.shape == self.shape
            got = view if view is not None and self.whole else gather(data, self.buffer.origin, self.where)
            self.values.append(got)

    def store(self, values: Sequence[np.ndarray], mask: np.ndarray | None) -> None:
        """Put new values back; without a mask of their own for points that no step executes."""
        executed = None if mask is None else np.asarray(full_rank(mask, len(self.shape)).any(axis=0, keepdims=True))
        for k, v in enumerate(values):
            if self.whole:
                self.values[k][...] = v
            else:
                new = np.broadcast_to(_stored_as(v, self.values[k].dtype), self.shape)
                put(self.buffer.data[k], self.buffer.origin, self.where, new, executed)


def _stored_as(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return value if value.dtype == dtype else value.astype(dtype)


def _fold_by_ufunc(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    found = increment(plan)
    assert found is not None
    op, x = found
    ufunc, t = _ACCUMULATE[op], plan.d.func.dtypes[0]
    values, mask = m.values([x], env)[0], _mask(plan, env, m)
    if mask is not None:
        values = np.where(mask, values, _neutral(op, t))
    values = full_rank(values, len(shape))
    state = _State(plan, env, shape, m)
    n, total = shape[0], state.values[0]
    with np.errstate(all="ignore"):
        if n > 4 and prod(shape[1:]) < FEW:
            line = np.empty((n + 1, *shape[1:]), t.np)
            line[:1] = total
            line[1:] = values
            total = ufunc.accumulate(line, axis=0, dtype=t.np)[-1:]
        else:
            for k in range(n):
                ufunc(total, values[k : k + 1] if len(values) > 1 else values, out=total)
    if total is not state.values[0] or not state.whole:
        state.store([total], mask)


def _fold(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    """Point by point, with the block's elements at hand."""
    d = plan.d
    kept = _State(plan, env, shape, m)
    mask = _mask(plan, env, m)
    state: list[Any] = [v.astype(t.compute.np) for v, t in zip(kept.values, d.func.dtypes, strict=True)]
    chunk = _Chunk(plan.frontier, m.values(plan.frontier, env), len(shape))
    masks = None if mask is None else full_rank(mask, len(shape))
    with np.errstate(all="ignore"):
        for k in range(shape[0]):
            values = chunk.at(k)
            for n in plan.own:
                values[n] = state[n.attr[1]]
            _step(plan, values, m)
            new = [values[v] for v in d.values]
            if masks is not None:
                here = masks[min(k, len(masks) - 1)][None]
                new = [np.where(here, v, s) for v, s in zip(new, state, strict=True)]
            state = new
    kept.store(state, mask)


class _Chunk:
    """Values of a chunk of sequential points, to be taken point by point (keeping a leading dimension of 1)."""

    def __init__(self, nodes: Sequence[Node], values: Sequence[np.ndarray], ndim: int):
        self.fixed: dict[Node, Any] = {}
        self.moving: list[tuple[Node, np.ndarray]] = []
        for n, v in zip(nodes, values, strict=True):
            if v.ndim == ndim and len(v) > 1:
                self.moving.append((n, v))
            else:
                self.fixed[n] = v

    def at(self, k: int) -> dict[Node, Any]:
        out = dict(self.fixed)
        for n, v in self.moving:
            out[n] = v[k : k + 1]
        return out


def _step(plan: Plan, values: dict[Node, Any], m: Machine) -> None:
    """Evaluate what depends on the Func itself, its loads being given."""
    for n in plan.step:
        if n not in values:
            args = [values[a] for a in n.args]
            values[n] = m.load(n, args) if n.op == "load" else apply(n, args)


# Scatters and recursions ----------------------------------------------------------------------------------------


def _scatter_by_ufunc(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    found = increment(plan)
    assert found is not None
    op, x = found
    buffer = m.buffers[plan.d.func]
    rank = len(plan.d.lhs)
    got = m.values((*plan.d.lhs, x), env)
    at, kept = flat_points(buffer.data[0], buffer.origin, got[:rank], shape, _mask(plan, env, m))
    with np.errstate(all="ignore"):
        _SCATTER[op].at(buffer.data[0].reshape(-1), at, np.broadcast_to(got[rank], shape).reshape(-1)[kept])


def _point_by_point(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    """The general case: each sequential point reads the Func as the one before left it."""
    if prod(shape[1:]) == 1:
        return _one_by_one(plan, env, shape, m)
    d, buffer, ndim = plan.d, m.buffers[plan.d.func], len(shape)
    chunk = _Chunk(plan.frontier, m.values(plan.frontier, env), ndim)
    mask = _mask(plan, env, m)
    masks = None if mask is None else full_rank(mask, ndim)
    with np.errstate(all="ignore"):
        for k in range(shape[0]):
            here = None if masks is None else masks[min(k, len(masks) - 1)][None]
            if here is not None and not here.any():
                continue
            values = chunk.at(k)
            for n in plan.step:
                if n.op == "load":
                    values[n] = m.load(n, [values[a] for a in n.args])
                elif n not in values:
                    values[n] = apply(n, [values[a] for a in n.args])
            where = [full_rank(np.asarray(values[i]), ndim) for i in d.lhs]
            new = _components(plan, [values[v] for v in d.values], (1, *shape[1:]), m)
            for data, v in zip(buffer.data, new, strict=True):
                put(data, buffer.origin, where, v, here)


def _one_by_one(plan: Plan, env: dict[Node, Any], shape: tuple[int, ...], m: Machine) -> None:
    """Sequential points of a single element each, on NumPy's scalars: much faster than arrays of one element."""
    d, buffer, n = plan.d, m.buffers[plan.d.func], shape[0]
    lines = [np.broadcast_to(v.reshape(-1), n) for v in m.values(plan.frontier, env)]
    mask = _mask(plan, env, m)
    executed = np.broadcast_to(True if mask is None else mask.reshape(-1), n)
    types = [t.np.type for t in d.func.dtypes]
    with np.errstate(all="ignore"):
        for k in np.flatnonzero(executed):
            values = {node: line[k] for node, line in zip(plan.frontier, lines, strict=True)}
            for node in plan.step:
                if node.op == "load" and node.attr[0] is d.func:
                    got = _element(buffer.data[node.attr[1]], buffer.origin, [values[a] for a in node.args])
                    values[node] = node.dtype.np.type(got)
                elif node.op == "load":
                    values[node] = m.load(node, [values[a] for a in node.args])
                else:
                    values[node] = apply(node, [values[a] for a in node.args])
            at = tuple(int(values[i]) - o for i, o in zip(d.lhs, buffer.origin, strict=True))
            for data, v, t in zip(buffer.data, d.values, types, strict=True):
                data[at] = t(values[v])


def _element(data: np.ndarray, origin: Sequence[int], where: Sequence[Any]) -> Any:
    """One element; beyond the buffer (an arm that is not selected), the nearest."""
    at = (min(max(int(i) - o, 0), n - 1) for i, o, n in zip(where, origin, data.shape, strict=True))
    return data[tuple(at)]
