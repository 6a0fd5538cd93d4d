"""How tensors lie: one assignment for the whole graph, with the least of what steps take for tensors as they lie, and of
conversions.

What passes between steps lies in the layout in which its producer writes it, and each step reads it in one of its own: where
the two differ, the step converts it once, at its root. A weight lies as the step that reads it wants it: it is packed
before anything runs. What a layout costs a step is read off the loops of the schedule that the step then has (handling.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import InoutFunc
from tilewright.lang.tensors import Array
from tilewright.lang.values import index_values
from tilewright.planner.budget import Budget
from tilewright.planner.choices import Choices, cheapest, greedy
from tilewright.planner.cut import Buffer
from tilewright.planner.given import ROWS, Assignment, Conversion, Given, Layouts
from tilewright.planner.graph import Graph
from tilewright.planner.handling import Handling, conversion, handling
from tilewright.planner.model import Model
from tilewright.planner.nest import Passes, schedule_region
from tilewright.planner.places import ALIGNMENT
from tilewright.schedule.layout import parse_index_map
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.planner.plan import Step

_WORTH = 0.003  # of a step's time: what is less is not looked at
_BETTER = 0.1  # of what a tensor takes as it lies: a layout that saves less is not looked at
_NEVER = 100.0  # times a step's time: a layout that its schedule can't have
_ANOTHER = 0.01  # cycles a byte for keeping a weight in one more layout


def assign_layouts(
    g: Graph, steps: dict[str, Step], model: Model, weights: Iterable[str] = (), budget: Budget | None = None
) -> Layouts:
    """Choose the layouts of a graph. `steps` (by name) get new schedules where their arguments lie in others."""
    names = list(steps)
    found = _Assignment(g, list(steps.values()), model, frozenset(weights), budget or Budget(model.goal))
    layouts, given = found.run()
    made: dict[tuple, tuple[Schedule, Passes, Given]] = {}
    for name in names:
        if name in given:
            s = steps[name]
            key = s.part.pipeline.digest, s.region.tile, given[name]
            if key not in made:
                made[key] = _scheduled(g, s, given[name])
            schedule, passes, lies = made[key]
            steps[name] = replace(s, schedule=schedule, passes=passes, given=lies)
            if lies != given[name]:
                kept = tuple(c for c in layouts.chosen.conversions if c.at != name or c.packed)
                layouts = replace(layouts, chosen=replace(layouts.chosen, conversions=kept))
    return layouts


def _scheduled(g: Graph, s: Step, given: Given) -> tuple[Schedule, Passes, Given]:
    """A step with arguments in layouts. What it can't convert (what some stage reads in conditions alone) it reads as it
    lies."""
    try:
        return *schedule_region(g, s.region, s.part, given), given
    except ScheduleError:
        as_it_lies = Given(given.given)
        return *schedule_region(g, s.region, s.part, as_it_lies), as_it_lies


@dataclass(frozen=True)
class _Choice:
    """What is chosen: the home of a buffer (`step` None), or how a step reads a tensor."""

    tensor: str
    step: int | None
    options: tuple[str, ...]


class _Assignment:
    def __init__(
        self, g: Graph, steps: Sequence[Step], model: Model, weights: frozenset[str], budget: Budget
    ):  # fmt: skip
        self.g, self.model, self.steps, self.weights, self.budget = g, model, tuple(steps), weights, budget
        self.handled: dict[tuple, Handling] = {}
        self.read: dict[int, dict[str, str]] = {}
        self.makers = {b.name: k for k, r in enumerate(self.steps) for b in r.part.outputs}
        self.fixed = {o.func.name for o in g.pipeline.outputs}
        self.sizes: dict[str, tuple[int, int]] = {}  # elements, and bytes of each

    # What is known of the steps ---------------------------------------------------------------------------------

    def tensors(self, k: int) -> dict[str, str]:
        """What a step reads from outside and may have in any layout: own name -> name in the whole."""
        if k not in self.read:
            self.read[k] = self._tensors(k)
        return self.read[k]

    def _tensors(self, k: int) -> dict[str, str]:
        part = self.steps[k].part
        found = {}
        for q, source in zip(part.pipeline.params, part.inputs, strict=True):
            if isinstance(q, Array) and isinstance(source, (Array, Buffer)) and q.ndim > 0:
                found[q.name] = source.name
                shape = index_values(q.extents, part.env(self.g.sizes))
                self.sizes[source.name] = math.prod(shape), q.dtype.bytes
        return found

    def result(self, k: int) -> str | None:
        """The own name of the only buffer that a step makes for others, if it may lie in any layout."""
        part = self.steps[k].part
        if len(part.outputs) != 1 or isinstance(part.outputs[0].func, InoutFunc):
            return None
        (b,) = part.outputs
        if b.func.name in self.fixed or len(b.func.dtypes) > 1 or b.func is not self.steps[k].region.root:
            return None
        return part.pipeline.outputs[0].func.name

    def handling(self, k: int, own: Mapping[str, str]) -> Handling:
        """What a step takes with some of its tensors in other layouts."""
        r = self.steps[k]
        own = {n: m for n, m in own.items() if m != ROWS}
        key = r.part.pipeline.digest, r.region.tile, tuple(sorted(own.items()))
        if key not in self.handled:
            self.handled[key] = self._handling(r, own)
        return self.handled[key]

    def _handling(self, r: Step, own: Mapping[str, str]) -> Handling:
        s = r.schedule
        try:
            if own:
                s, _ = schedule_region(self.g, r.region, r.part, Given(tuple(sorted(own.items()))))
        except ScheduleError:
            return Handling(own=_NEVER * r.region.cycles)
        maps = {n: parse_index_map(t) for n, t in own.items()}
        return handling(self.g, self.model, r.region, r.part, s, maps)

    def proposals(self, k: int, own: str) -> list[str]:
        """Layouts that a step could like of a tensor: what its vectors run along lies innermost, in whole or in blocks as
        wide as its tiles; rows that are not a multiple of a page apart."""
        plain = self.handling(k, {})
        if plain.cycles.get(own, 0.0) <= _WORTH * self.steps[k].region.cycles:
            return []
        shape = self.shape(k, own)
        names = [f"a{n}" for n in range(len(shape))]
        found = [_padded(names, shape[-1] + self.line(own, k))] if own in plain.apart and self.is_fixed(k, own) else []
        for axis, tile in sorted(plain.axes.get(own, ())):
            rest = [n for a, n in enumerate(names) if a != axis]
            a = names[axis]
            if shape[axis] > tile > 1 and rest:
                found.append(f"{' '.join(names)} -> {a}//{tile} {' '.join(rest)} {a}%{tile}")
            if axis != len(names) - 1:
                found.append(f"{' '.join(names)} -> {' '.join(rest)} {a}")
        return list(dict.fromkeys(found))

    def is_fixed(self, k: int, own: str) -> bool:
        """Whether rows of a tensor have the same length at all sizes."""
        a = next(a for a in self.steps[k].part.pipeline.arrays if a.name == own)
        return a.extents[-1].op == "const"

    def line(self, own: str, k: int) -> int:
        """Elements in a line of a cache."""
        a = next(a for a in self.steps[k].part.pipeline.arrays if a.name == own)
        return max(1, ALIGNMENT // a.dtype.bytes)

    def shape(self, k: int, own: str) -> tuple[int, ...]:
        part = self.steps[k].part
        q = next((a for a in part.pipeline.arrays if a.name == own), None)
        if q is not None:
            return tuple(index_values(q.extents, part.env(self.g.sizes)))
        return self.g.works[self.steps[k].region.root].extents

    # The problem ------------------------------------------------------------------------------------------------

    def run(self) -> tuple[Layouts, Mapping[str, Given]]:
        self.candidates()
        choices = self.choices()
        problem = self.problem(choices)
        taken = cheapest(problem, self.budget)
        liked = greedy(problem, self.groups(choices))
        plain = (0,) * len(choices)
        given = self.given(choices, taken)
        homes, packed = {}, {}
        for c, option in zip(choices, taken, strict=True):
            if c.step is None and option:
                homes[c.tensor] = c.options[option]
            elif c.step is not None and c.tensor in self.weights and option:
                packed[self.steps[c.step].name, c.tensor] = c.options[option]
        made = Layouts(homes, packed, *(self.outcome(problem, choices, x) for x in (taken, liked, plain)))
        return made, given

    def candidates(self) -> None:
        """The layouts that are worth looking at, of each tensor: those that some step could like and that are better for
        it, and in front row-major."""
        found: dict[str, dict[str, None]] = {}
        for k in range(len(self.steps)):
            for own, name in self.tensors(k).items():
                layouts = found.setdefault(name, {ROWS: None})
                for text in self.proposals(k, own):
                    if not self.budget.spend("layout"):
                        break
                    plain = self.handling(k, {})
                    if self.handling(k, {own: text}).total < plain.total - _BETTER * plain.cycles[own]:
                        layouts[text] = None
        self.options = {name: tuple(layouts) for name, layouts in found.items()}

    def choices(self) -> list[_Choice]:
        """Homes first, then what each step reads; where there is one option nothing is chosen."""
        found = []
        for name, options in self.options.items():
            k = self.makers.get(name)
            if k is not None and len(options) > 1 and self.result(k) is not None:
                found.append(_Choice(name, None, options))
        for k in range(len(self.steps)):
            found += [_Choice(n, k, self.options[n]) for n in self.tensors(k).values() if len(self.options[n]) > 1]
        return found

    def problem(self, choices: Sequence[_Choice]) -> Choices:
        number = {(c.tensor, c.step): n for n, c in enumerate(choices)}
        costs: list[tuple[float, ...]] = []
        last: dict[str, int] = {}  # the choice before of how a weight is read
        pairs: list[tuple[int, int, tuple[tuple[float, ...], ...]]] = []
        for n, c in enumerate(choices):
            if c.step is None:
                k = self.makers[c.tensor]
                own = self.result(k)
                assert own is not None
                costs.append(tuple(self.extra(k, {own: t}) for t in c.options))
                continue
            k, home = c.step, number.get((c.tensor, None))
            own = next(o for o, name in self.tensors(k).items() if name == c.tensor)
            reading = tuple(self.extra(k, {own: t}) for t in c.options)
            if c.tensor in self.weights:
                costs.append(reading)
                if c.tensor in last:
                    pairs.append((last[c.tensor], n, self.table(c.options, c.options, self.another(c.tensor))))
                last[c.tensor] = n
            elif home is None:
                costs.append(
                    tuple(r + self.converting(c.tensor, ROWS, t) for r, t in zip(reading, c.options, strict=True))
                )
            else:
                costs.append(reading)
                pairs.append((home, n, self.table(c.options, c.options, self.converter(c.tensor))))
            made = self.result(k)
            result = None if made is None else number.get((self.steps[k].part.outputs[0].name, None))
            if made is not None and result is not None:
                pairs.append(self.together(k, (result, made), (n, own), choices))
        return Choices(tuple(costs), tuple(pairs))

    def extra(self, k: int, own: Mapping[str, str]) -> float:
        """What a step takes for all of its tensors with one in another layout, less what it takes for the others."""
        (name,) = own
        rest = self.handling(k, {})
        return max(0.0, self.handling(k, own).total - rest.total + rest.cycles.get(name, 0.0) + rest.own)

    def together(
        self, k: int, result: tuple[int, str], source: tuple[int, str], choices: Sequence[_Choice]
    ) -> tuple[int, int, tuple[tuple[float, ...], ...]]:
        """What two layouts of a step cost together beyond what each does alone."""
        (a, made), (b, own) = result, source
        plain = self.handling(k, {}).total

        def cost(x: str, y: str) -> float:
            both = self.handling(k, {made: x, own: y}).total
            return both - self.handling(k, {made: x}).total - self.handling(k, {own: y}).total + plain

        found = [[cost(x, y) for y in choices[b].options] for x in choices[a].options]
        return a, b, tuple(map(tuple, found))

    @staticmethod
    def table(
        before: Sequence[str], after: Sequence[str], cost: Callable[[str, str], float]
    ) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(cost(x, y) for y in after) for x in before)

    def another(self, tensor: str) -> Callable[[str, str], float]:
        """What it costs that two steps want a weight differently: it is kept twice."""
        elements, size = self.sizes[tensor]
        price = 1.0 if self.model.goal.objective == "memory" else _ANOTHER
        return lambda x, y: 0.0 if x == y else price * elements * size

    def converter(self, tensor: str) -> Callable[[str, str], float]:
        return lambda x, y: self.converting(tensor, x, y)

    def converting(self, tensor: str, before: str, after: str) -> float:
        if before == after:
            return 0.0
        elements, size = self.sizes[tensor]
        maps = [parse_index_map(t) if t else None for t in (before, after)]
        cycles = conversion(self.model, maps[0], maps[1], elements, size)
        return cycles + (elements * size if self.model.goal.objective != "latency" else 0.0)

    def groups(self, choices: Sequence[_Choice]) -> list[list[int]]:
        """The choices that each step makes: its result's home, and how it reads."""
        found: dict[int, list[int]] = {}
        for n, c in enumerate(choices):
            found.setdefault(self.makers[c.tensor] if c.step is None else c.step, []).append(n)
        return list(found.values())

    # The answer -------------------------------------------------------------------------------------------------

    def given(self, choices: Sequence[_Choice], taken: Sequence[int]) -> dict[str, Given]:
        """How each step finds its arguments."""
        chosen = {(c.tensor, c.step): c.options[o] for c, o in zip(choices, taken, strict=True)}
        out = {}
        for k, r in enumerate(self.steps):
            given, converted = [], []
            for own, name in self.tensors(k).items():
                reads = chosen.get((name, k), ROWS)
                home = reads if name in self.weights else chosen.get((name, None), ROWS)
                if home != ROWS:
                    given.append((own, home))
                if reads != home:
                    converted.append((own, reads or _rows(len(self.shape(k, own)))))
            made = self.result(k)
            home = chosen.get((r.part.outputs[0].name, None), ROWS) if made is not None else ROWS
            if made is not None and home != ROWS:
                given.append((made, home))
            if given or converted:
                out[r.name] = Given(tuple(given), tuple(converted))
        return out

    def outcome(self, problem: Choices, choices: Sequence[_Choice], taken: Sequence[int]) -> Assignment:
        return Assignment(problem.total(taken), self.conversions(choices, taken))

    def conversions(self, choices: Sequence[_Choice], taken: Sequence[int]) -> tuple[Conversion, ...]:
        """What is converted while the program runs, packing inside steps included."""
        given = self.given(choices, taken)
        out = []
        for k, r in enumerate(self.steps):
            found = given.get(r.name, Given())
            lies = dict(found.given)
            seen = {**lies, **dict(found.converted)}
            packed = self.handling(
                k, {n: t if t != _rows(len(self.shape(k, n))) else ROWS for n, t in seen.items()}
            ).packed
            for own, name in self.tensors(k).items():
                elements, size = self.sizes[name]
                if own in dict(found.converted):
                    out.append(Conversion(name, r.name, lies.get(own, ROWS), seen[own], elements * size))
                if packed.get(own):
                    out.append(Conversion(name, r.name, seen.get(own, ROWS), "", packed[own], True))
        return tuple(out)


def _padded(names: Sequence[str], width: int) -> str:
    """Row-major, with rows of so many elements."""
    return f"{' '.join(names)} -> {' '.join(names[:-1])} {names[-1]}//{width} {names[-1]}%{width}"


def _rows(rank: int) -> str:
    names = " ".join(f"a{k}" for k in range(rank))
    return f"{names} -> {names}"


__all__ = ["assign_layouts"]
