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
from tilewright.schedule.state import State, find_stage, loaded

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

    def stage(self, address: str, forms: Iterable[str] = ()) -> bool:
        """Whether a stage ran at some point, or one of the forms that were made of it."""
        found = [self.evaluations[a] for a in (address, *forms) if a in self.evaluations]
        if found:
            return any(found)
        name = self._func(address)
        return self.func(name) and self._points(name, address)

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
    spoken = [_touched(k, s, state, ran) for k in range(len(s.directives))]
    tails = {(tail, n) for d, names in zip(s.directives, spoken, strict=True) for tail in _tail(d) for n in names}
    kinds: set[str] = set()
    found: set[Pair] = set()
    for k, (d, names) in enumerate(zip(s.directives, spoken, strict=True)):
        if names:
            kinds |= {d.kind, *(f"{d.kind} {v}" for v in _variants(k, s, state))}
            near = names | {n for f in names for n in _neighbours(state, f)}
            found |= {(tail, d.kind) for tail, n in tails if n in near}
            found |= {(tail, d.kind) for tail in _tail(d)}
    return kinds, found


def _variants(k: int, s: Schedule, state: State) -> list[str]:
    """In which of its special uses a directive stands, in words that follow its name."""
    d = s.directives[k]
    if d.kind == "layout":
        if d.option("given"):
            return ["given"]
        array = any(a.name == d.operands[0] for a in s.pipeline.arrays) and d.operands[0] not in state.funcs
        return ["of an input" if array else "of an output" if d.operands[0] in state.outputs else "of an intermediate"]
    if d.kind in ("vectorize", "parallel", "spatial"):
        reduction = find_stage(s.prefix(k).state, d.stage).loop(d.operands[0]).reduction
        return ["of a reduction"] if reduction else []
    if d.kind == "specialize":
        return ["of a form"] if "{" in d.stage else []
    if d.kind == "online":
        g = next((g for g in state.groups if g.members == d.operands), None)
        return ["with repairs"] if g is not None and g.before else []
    if d.kind in ("cache_read", "clone"):
        return ["for some"] if d.option("for") is not None else []
    return []


def _touched(k: int, s: Schedule, state: State, ran: Ran) -> set[str]:
    """The Funcs that directive number `k` speaks of, if what it is about ran; else nothing."""
    d = s.directives[k]
    if d.kind in ("knob", "constrain"):
        users = [j for j, x in enumerate(s.directives) if any(_uses(v, d) for _, v in x.options)]
        return {n for j in users for n in _touched(j, s, state, ran)}
    if d.stage:
        return {ran._func(d.stage)} if ran.stage(d.stage, _forms(s, k, d.stage)) else set()
    names = set(_names(d, state))
    places = {ran._func(a) for a in _places(d) if ran.stage(a, _forms(s, k, a))}
    if KINDS[d.kind].role == "tensor" and not names:  # an array: those that read it
        users = {x.key[0] for x in state.stages.values() if any(t.name == d.operands[0] for t in loaded(x.definition))}
        names = {n for n in users if n in state.funcs}
    return {n for n in names if ran.func(n)} | (places if any(ran.func(n) for n in names) else set())


def _forms(s: Schedule, k: int, address: str) -> list[str]:
    """The forms of a stage that were made by directive number `k` or after it, and so have what it did."""
    made = [f"{d.stage}{{{d.results[0]}}}" for d in s.directives[k:] if d.kind == "specialize"]
    return [a for a in made if a.startswith(f"{address}{{")]


def _tail(d: Directive) -> list[str]:
    """The tail of a split, that of a vectorize, unroll or parallel by a factor included."""
    splits = d.kind in ("split", "tile") or (d.kind in ("vectorize", "unroll", "parallel") and d.option("by"))
    return [str(d.option("tail", "guard"))] if splits else []


def _uses(value: Any, knob: Directive) -> bool:
    if isinstance(value, tuple):
        return any(_uses(v, knob) for v in value)
    if not isinstance(value, KnobRef):
        return False
    said = knob.operands[0]
    return value.name == said if knob.kind == "knob" else value.name in re.findall(r"[A-Za-z_]\w*", said)


def _neighbours(state: State, name: str) -> Sequence[str]:
    f = state.funcs[name].func
    reads = [t.name for x in state.variants_of(name) for t in loaded(x.definition) if isinstance(t, Func)]
    return [*reads, *(x.key[0] for x in state.consumers(f))]
