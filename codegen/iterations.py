"""All iterations of a nest of loops at once: a column for each variable, a row for each iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.lang import ir, simplify
from tilewright.lang.evaluate import apply
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import Node, integer

ONE = integer(1)


class UnknownValueError(Exception):
    """A value that only the kernel itself computes."""


class TooManyError(Exception):
    """More iterations than are looked at."""


@dataclass(frozen=True, eq=False)
class Situation:
    """One call: the values of sizes, scalars and strides, and what array a load reads (None: the kernel makes it).

    `most` rows are looked at; `orders` keeps the order in which expressions are evaluated.
    """

    known: Mapping[Node, Any]
    array: Callable[[Node], np.ndarray | None]
    most: int
    orders: dict[tuple[Node, ...], list[Node]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Iterations of the loops around a place: the values of their variables, a row each."""

    at: Situation
    n: int = 1
    columns: Mapping[Node, np.ndarray] = field(default_factory=dict)

    def values(self, roots: tuple[Node, ...]) -> list[np.ndarray]:
        """Every expression in every row. Raises UnknownValueError."""
        order = self.at.orders.get(roots)
        if order is None:
            order = self.at.orders[roots] = list(ir.postorder(roots))
        memo: dict[Node, Any] = {}
        with np.errstate(all="ignore"):
            for n in order:
                memo[n] = self._value(n, [memo[a] for a in n.args])
        return [v if np.ndim(v) else np.full(self.n, v) for v in (memo[r] for r in roots)]

    def _value(self, n: Node, args: list[Any]) -> Any:
        found = self.columns.get(n)
        if found is None:
            found = self.at.known.get(n)
        if found is not None:
            return found
        if n.op in ("load", "load_if"):
            array = self.at.array(n)
            if array is None:
                raise UnknownValueError
            return _element(array, args if n.op == "load" else args[1:])
        if n.op in ("size", "scalar", "stride", "var", "rvar", "call_extern"):
            raise UnknownValueError
        return args[0] if n.op == "assume" else apply(n, args)

    def take(self, which: np.ndarray) -> Rows:
        return Rows(self.at, len(which), {v: c[which] for v, c in self.columns.items()})

    def parted(self, condition: Node) -> tuple[Rows, Rows]:
        """The iterations in which a condition holds, and those in which it does not."""
        (c,) = self.values((condition,))
        return self.take(np.flatnonzero(c)), self.take(np.flatnonzero(~c))

    def where(self, condition: Node) -> Rows:
        return self if condition is ir.TRUE else self.parted(condition)[0]

    def over(self, var: Node, start: Node, stop: Node) -> Rows:
        """The iterations of a loop inside. Raises TooManyError."""
        first, last = self.values((start, stop))
        counts = np.maximum(last - first, 0)
        total = int(counts.sum())
        if total > self.at.most:
            raise TooManyError
        which = np.repeat(np.arange(self.n), counts)
        column = np.arange(total) + (first - (np.cumsum(counts) - counts))[which]
        return Rows(self.at, total, {**self.take(which).columns, var: column})

    def over_box(self, roots: Sequence[Node], box: Sequence[Interval]) -> Rows:
        """The points of a box in every iteration."""
        rows = self
        for v, r in zip(roots, box, strict=True):
            assert r.lo is not None and r.hi is not None
            rows = rows.over(v, r.lo, simplify.add(r.hi, ONE))
        return rows

    def table(self, roots: tuple[Node, ...]) -> np.ndarray:
        """Index expressions as the columns of one array of integers, a row an iteration."""
        if not roots:
            return np.zeros((self.n, 0), np.int64)
        return np.stack([np.asarray(c, np.int64) for c in self.values(roots)], axis=1)


def _element(array: np.ndarray, at: list[Any]) -> Any:
    """Elements by index or by flat offset; what a select does not let through may lie anywhere."""
    if not array.size:
        return array.dtype.type(0)
    if len(at) != array.ndim:
        array = array.reshape(-1)
    return array[tuple(np.clip(i, 0, n - 1) for i, n in zip(at, array.shape, strict=True))]
