"""What a trial has tried: the directives whose stages ran, and which tails stood beside them.

A directive counts for a call if a Func that it names was computed there: some element of it, or of what it became
(a tile, a copy, the consumers of an inlined Func), by an update with points where it names an update. A tail counts
with a directive if a loop of such a Func, or of one that it reads or that reads it, was split with that tail and ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.lang.func import Func
from tilewright.lang.values import index_value
from tilewright.schedule.directive import Directive, KnobRef
from tilewright.schedule.directives.kinds import KINDS, TAILS
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State, loaded

Pair = tuple[str, str]  # tail, directive
# Where the language has no such combination, and why.
IMPOSSIBLE: dict[Pair, str] = {}


def pairs() -> list[Pair]:
    """What is to be tried."""
    return [(t, k) for t in TAILS for k in KINDS if (t, k) not in IMPOSSIBLE]


class Ran:
    """Which Funcs and stages were computed in a run that stored so many elements of each buffer."""

    def __init__(self, state: State, evaluations: Mapping[str, int], env: Mapping[str, Any]):
        self.state, self.env = state, env
        self.funcs = {self._func(a) for a, n in evaluations.items() if n}
        self.evaluations = evaluations

    def _func(self, address: str) -> str:
        return address.partition(".")[0].partition("{")[0]

    def func(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether some element of a Func was computed, wherever its expression stands."""
        if name in seen or name not in self.state.funcs:
            return False
        if name in self.funcs:
            return True
        group = next((g for g in self.state.groups if g.name == name), None)
        if group is not None:
            return any(n in self.funcs for n in group.members)
        if self.state.funcs[name].compute.kind != "inline":
            return False
        users = {x.key[0] for x in self.state.consumers(self.state.funcs[name].func)}
        return any(self.func(n, seen | {name}) for n in users)

    def stage(self, address: str) -> bool:
        """Whether a stage ran at some point; forms of a stage count as it."""
        name = self._func(address)
        plain = address.partition("{")[0]
        found = [n for a, n in self.evaluations.items() if a.partition("{")[0] == plain]
        if found:
            return any(found)
        return self.func(name) and self._points(name, plain)

    def _points(self, name: str, address: str) -> bool:
        """Whether the reduction domain of a stage has points, as far as that is plain."""
        for s in self.state.stages_of(name):
            if self.state.address(s.key) == address and s.definition.rdom is not None:
                try:
                    return all(
                        index_value(a, self.env) < index_value(b, self.env)
                        for a, b in s.definition.rdom.ranges.values()
                    )
                except Exception:  # a range that another loop's variable is in
                    return True
        return True


def _places(d: Directive) -> list[str]:
    """Addresses of stages that a directive's options name."""
    out = []
    for key, value in d.options:
        if key == "at":
            out.append(str(value).rpartition(".")[0])
        elif key == "for":
            out += [str(v) for v in (value if isinstance(value, tuple) else (value,))]
    return out


def _names(d: Directive, state: State) -> list[str]:
    """Funcs that a directive names or makes."""
    own = [*d.operands] if KINDS[d.kind].role in ("func", "tensor") else []
    if d.kind in ("rfactor", "cache_read", "clone", "online"):
        own += [*d.results, *(str(v) for k, v in d.options if k == "name")]
    return [n for n in dict.fromkeys(own) if n in state.funcs]


def covered(s: Schedule, state: State, ran: Ran) -> tuple[set[str], set[Pair]]:
    """The kinds of directives and the pairs that a run of a schedule counts for."""
    tails = _tails(s.directives, ran)
    kinds: set[str] = set()
    found: set[Pair] = set()
    for d in s.directives:
        spoken = _touched(d, s, state, ran)
        if not spoken:
            continue
        kinds.add(d.kind)
        near = spoken | {n for f in spoken for n in _neighbours(state, f)}
        found |= {(tail, d.kind) for tail, name in tails if name in near}
        if d.kind in ("split", "tile"):
            found.add((str(d.option("tail", "guard")), d.kind))
    return kinds, found


def _touched(d: Directive, s: Schedule, state: State, ran: Ran) -> set[str]:
    """The Funcs that a directive speaks of, if what it is about ran; else nothing."""
    if d.kind in ("knob", "constrain"):
        users = [x for x in s.directives if any(_uses(v, d) for _, v in x.options)]
        return {n for x in users for n in _touched(x, s, state, ran)}
    stage = d.stage.partition("{")[0]
    if stage:
        return {ran._func(stage)} if ran.stage(d.stage) else set()
    names = set(_names(d, state))
    places = {ran._func(a) for a in _places(d) if ran.stage(a)}
    if KINDS[d.kind].role == "tensor" and not names:  # an array: those that read it
        users = {x.key[0] for x in state.stages.values() if any(t.name == d.operands[0] for t in loaded(x.definition))}
        names = {n for n in users if n in state.funcs}
    return {n for n in names if ran.func(n)} | (places if any(ran.func(n) for n in names) else set())


def _uses(value: Any, knob: Directive) -> bool:
    if isinstance(value, tuple):
        return any(_uses(v, knob) for v in value)
    if not isinstance(value, KnobRef):
        return False
    said = knob.operands[0]
    return value.name == said if knob.kind == "knob" else value.name in re.findall(r"[A-Za-z_]\w*", said)


def _tails(directives: Iterable[Directive], ran: Ran) -> set[tuple[str, str]]:
    """(tail, Func) of the splits that ran, those of a vectorize, unroll or parallel by a factor included."""
    out = set()
    for d in directives:
        splits = d.kind in ("split", "tile") or (d.kind in ("vectorize", "unroll", "parallel") and d.option("by"))
        if splits and ran.stage(d.stage):
            out.add((str(d.option("tail", "guard")), ran._func(d.stage)))
    return out


def _neighbours(state: State, name: str) -> Sequence[str]:
    f = state.funcs[name].func
    reads = [t.name for x in state.variants_of(name) for t in loaded(x.definition) if isinstance(t, Func)]
    return [*reads, *(x.key[0] for x in state.consumers(f))]
