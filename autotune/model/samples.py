"""Points of the loops of a program, drawn once: how often every statement runs, as a mean over them.

Trip counts depend on the loops around (the last tile is smaller). Each loop gets one index for each of a fixed number of
samples, spread evenly over its range, and every sample carries the product of the trip counts around it as its weight: the
mean of the weights is how often what is inside runs. It is exact where loops are rectangular.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.errors import ArgumentError
from tilewright.lang.evaluate import evaluate
from tilewright.lang.ir import Node
from tilewright.lang.types import index

COUNT = 32  # samples
_TRIPS = 8  # of a loop that ends where data say
_USUAL = 0.5  # of the points, where data say whether a condition holds
_GOLDEN = 0.6180339887498949


class Samples:
    """Values of sizes, scalars and loop variables. `weight` is an array over the samples."""

    def __init__(self, env: Mapping[str, Any]) -> None:
        self.env = env
        self.known: dict[Node, Any] = {}
        self.weight = np.ones(COUNT)
        self._entered = 0

    @property
    def runs(self) -> float:
        """How often what is at this place runs."""
        return float(self.weight.mean())

    def values(self, nodes: Sequence[Node], more: Mapping[Node, Any] | None = None) -> list[np.ndarray] | None:
        """Of index expressions and conditions, at all samples (in front of the axes of `more`); None where data decide."""
        given: dict[Node, Any] = {}
        for n in ir.postorder(nodes):
            if n.op in ("load", "load_if", "call_extern"):
                return None
            if n.op in ("size", "scalar"):
                if n.attr not in self.env:
                    return None
                given[n] = self.env[n.attr]
            elif n.op == "var":
                if more and n in more:
                    given[n] = more[n]
                else:
                    found = self.known[n]
                    given[n] = found[:, None] if more else found
        try:
            return evaluate(nodes, given)
        except ArgumentError:
            return None

    def enter(self, var: Node, start: Node, stop: Node) -> tuple[np.ndarray, float]:
        """Go into a loop: gives what to `leave` with, and the mean of its trips as often as it is begun."""
        outer = self.weight
        ends = self.values((start, stop))
        if ends is None:
            low, trips = np.zeros(COUNT, np.int64), np.full(COUNT, _TRIPS)
        else:
            low = np.broadcast_to(ends[0], COUNT)
            trips = np.maximum(0, np.broadcast_to(ends[1], COUNT) - low)
        # a permutation of evenly spread points, another one for each depth
        self._entered += 1
        step = (np.arange(COUNT) * (2 * self._entered + 1) + self._entered * _GOLDEN * COUNT).astype(np.int64) % COUNT
        self.known[var] = low + ((step + 0.5) / COUNT * trips).astype(np.int64)
        self.weight = outer * trips
        total = outer.sum()
        return outer, float(self.weight.sum() / total) if total else 0.0

    def leave(self, var: Node, outer: np.ndarray) -> None:
        del self.known[var]
        self.weight = outer
        self._entered -= 1

    def holds(self, condition: Node) -> np.ndarray:
        """The part of each sample in which a condition holds."""
        found = self.values((condition,))
        return np.full(COUNT, _USUAL) if found is None else np.broadcast_to(found[0], COUNT).astype(float)

    def at(self, nodes: Sequence[Node], axes: Sequence[tuple[Node, int]]) -> list[np.ndarray] | None:
        """Index expressions at one sample, the likeliest, over all points of `axes` (variable, extent): arrays of their
        shape."""
        here = int(np.argmax(self.weight))
        given: dict[Node, Any] = {}
        shape = tuple(n for _, n in axes)
        for k, (v, n) in enumerate(axes):
            given[v] = np.arange(n, dtype=np.int64).reshape([-1 if i == k else 1 for i in range(len(axes))])
        for n in ir.postorder(nodes):
            if n.op in ("load", "load_if", "call_extern"):
                return None
            if n.op in ("size", "scalar"):
                if n.attr not in self.env:
                    return None
                given[n] = self.env[n.attr]
            elif n.op == "var" and n not in given:
                given[n] = self.known[n][here] if n in self.known else 0
        try:
            return [np.broadcast_to(x, shape) for x in evaluate(nodes, given)]
        except ArgumentError:
            return None


def is_index(n: Node) -> bool:
    return n.dtype is index


__all__ = ["COUNT", "Samples", "is_index"]
