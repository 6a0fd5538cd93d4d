"""What to change in a schedule so that its buffers fit their memories: a factor of a split, or a number of slots.

Every proposal has been carried out and measured before it is made. A change is smaller when it takes a smaller part of
its number away; where no single number is enough, several shrink together, each as little as it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tilewright.hw import CapacityError, Footprint, Proposal
from tilewright.lang.errors import TilewrightError
from tilewright.schedule.directive import Directive, KnobRef, Value
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.text import format_directive

# What is taken of each memory under a schedule; raises TilewrightError where the schedule is not legal.
Measure = Callable[[Schedule], Iterable[Footprint]]

_FACTORS = ("split", "tile", "parallel", "vectorize", "unroll", "online")  # their `by` says how large a part is
_LANES = ("vectorize", "unroll")
_MOST = 3  # proposals


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a schedule: in directive `index`, as item `item` where there are several. `choices` are smaller
    values for it, the largest first; 0 means that the directive goes. `late`: other numbers are changed rather."""

    index: int
    item: int | None
    value: int
    choices: tuple[int, ...]
    late: bool = False


def proposals(schedule: Schedule, memory: str, measure: Measure, verify: Measure | None = None) -> tuple[Proposal, ...]:
    """Changes of a schedule that does not fit `memory`, after which everything fits, the smallest first.

    `measure` is asked often, `verify` (by default the same) once for each proposal; where it does not agree with any of
    them, the search is done with it alone. Empty where nothing helps.
    """
    if verify is None:
        return _Search(schedule, memory, measure, measure).found()
    return _Search(schedule, memory, measure, verify).found() or _Search(schedule, memory, verify, verify).found()


class _Search:
    def __init__(self, schedule: Schedule, memory: str, measure: Measure, verify: Measure):
        self.schedule, self.memory, self.measure, self.verify = schedule, memory, measure, verify
        self.numbers = [n for n in _numbers(schedule) if n.choices]

    def found(self) -> tuple[Proposal, ...]:
        single = [c for n in self.numbers if (c := self.smallest({}, n)) is not None]
        single.sort(key=self.loss)
        made = [p for c in single if (p := self.proposal(c)) is not None]
        if not made and (several := self.together()) is not None and (p := self.proposal(several)) is not None:
            made = [p]
        return tuple(made[:_MOST])

    # Candidates -------------------------------------------------------------------------------------------------

    def smallest(self, given: dict[Number, int], n: Number) -> dict[Number, int] | None:
        """The smallest change of one number, besides those that are `given`, that fits; less is taken to need less."""
        choices = list(n.choices)
        while choices and self.peak(given | {n: choices[-1]}) is None:
            choices.pop()  # the least are not always legal, such as a vector of one lane
        if not choices or not self.fits(given | {n: choices[-1]}):
            return None
        low, high = 0, len(choices) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.fits(given | {n: choices[middle]}) else (middle + 1, high)
        return given | {n: choices[high]}

    def together(self) -> dict[Number, int] | None:
        """Several numbers: each a half, a quarter, ... of what it was, then each again as large as it may be. Slots of
        rings and lanes of vectors stay as long as the others are enough."""
        before = self.peak({})
        mattering = [n for n in self.numbers if (p := self.peak({n: _half(n, 1)})) and (before is None or p < before)]
        for numbers in (
            [n for n in mattering if not n.late and n.choices[-1]],
            [n for n in mattering if not n.late],
            mattering,
        ):
            for power in range(1, 16):
                change = {n: _half(n, power) for n in numbers}
                if change and self.fits(change):
                    return self.restored(change)
        return None

    def restored(self, change: dict[Number, int]) -> dict[Number, int]:
        for n in sorted(change, key=lambda n: (n.choices[-1], -n.value)):  # rings first
            others = {m: v for m, v in change.items() if m is not n}
            change = others if others and self.fits(others) else self.smallest(others, n) or change
        return change

    def loss(self, change: dict[Number, int]) -> tuple[bool, float]:
        kept = 1.0
        for n, v in change.items():
            kept *= max(v, 1) / n.value
        return any(n.late for n in change), 1 - kept

    # Trials -----------------------------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> dict[frozenset[tuple[Number, int]], tuple[bool, int | None]]:
        return {}

    def trial(self, change: dict[Number, int]) -> tuple[bool, int | None]:
        """Whether everything fits after a change, and what it takes of the memory (None: it is not legal)."""
        key = frozenset(change.items())
        if key not in self._known:
            self._known[key] = self._tried(change, self.measure)
        return self._known[key]

    def _tried(self, change: dict[Number, int], measure: Measure) -> tuple[bool, int | None]:
        try:
            found = list(measure(self.made(change)))
        except CapacityError as e:
            return False, e.footprint.peak if e.footprint.memory == self.memory else None
        except TilewrightError:
            return False, None
        peak = next((f.peak for f in found if f.memory == self.memory), 0)
        return all(f.capacity is None or f.peak <= f.capacity for f in found), peak

    def fits(self, change: dict[Number, int]) -> bool:
        return self.trial(change)[0]

    def peak(self, change: dict[Number, int]) -> int | None:
        return self.trial(change)[1]

    def made(self, change: dict[Number, int]) -> Schedule:
        """The schedule with other numbers, carried out anew."""
        made = Schedule(self.schedule.pipeline, self.schedule.machine)
        for d in self.directives(change):
            if d is not None:
                made.apply(d)
        if change and any(d.kind == "constrain" for d in made.directives) and not made.allows():
            raise TilewrightError("a constraint on knobs does not hold")
        return made

    def directives(self, change: dict[Number, int]) -> list[Directive | None]:
        """The directives with other numbers, None where one goes."""
        out: list[Directive | None] = list(self.schedule.directives)
        for n, v in change.items():
            d = out[n.index]
            out[n.index] = None if d is None or not v else _with(d, n.item, v)
        return out

    def proposal(self, change: dict[Number, int]) -> Proposal | None:
        fits, peak = self._tried(change, self.verify)
        if not fits or peak is None:
            return None
        after = self.directives(change)
        lines: list[str] = []
        stage = ""
        for k in sorted({n.index for n in change}):
            old, new = self.schedule.directives[k], after[k]
            if old.stage and old.stage != stage:
                lines.append(f"{old.stage}:")
            stage = old.stage
            place = "" if old.location is None else f", {Path(old.location.file).name}:{old.location.line}"
            indent = "  " if stage else ""
            if new is None:
                lines.append(f"{indent}# without {format_directive(old)}{place}")
            else:
                lines.append(f"{indent}{format_directive(new)}  # was {_numbers_of(old)}{place}")
        return Proposal(tuple(lines), peak, self.made(change))


def _half(n: Number, power: int) -> int:
    """The largest choice below the value divided by two `power` times."""
    return next((v for v in n.choices if v <= n.value >> power), n.choices[-1])


# Numbers ------------------------------------------------------------------------------------------------------------


def _numbers(schedule: Schedule) -> Iterator[Number]:
    """The numbers that a proposal may change: factors of loops, knobs, and slots of rings."""
    for k, d in enumerate(schedule.directives):
        by = d.option("by")
        if d.kind in _FACTORS:
            late = d.kind in _LANES
            for item, value in enumerate(by) if isinstance(by, tuple) else [(None, by)]:
                if isinstance(value, int) and value > 1:
                    later = list(_later(schedule, k, item))
                    grain, lanes = _grain(later, value), late or _in_lanes(later)
                    yield Number(k, item, value, _smaller(value, grain, lanes), lanes)
        elif d.kind == "knob" and isinstance(value := d.option("="), int):
            among = d.option("of")
            choices = (
                [v for v in among if isinstance(v, int)] if isinstance(among, tuple) else _smaller(value, 1, False)
            )
            yield Number(k, None, value, tuple(sorted((v for v in choices if v < value), reverse=True)))
        elif d.kind == "double_buffer":
            slots = 2 if by is None else by
            if isinstance(slots, int):
                yield Number(k, None, slots, (*range(slots - 1, 1, -1), 0))


def _smaller(value: int, grain: int, lanes: bool) -> tuple[int, ...]:
    """Smaller factors that somebody might write, the largest first: those with few binary digits, and divisors."""
    powers = [1 << k for k in range(value.bit_length())]
    found = set(powers) if lanes else {m * p for m in range(1, 8) for p in powers}
    found |= {v for v in range(1, value) if value % v == 0} if value < 1 << 16 and not lanes else set()
    return tuple(sorted((v for v in found if v < value and v % grain == 0), reverse=True))


def _inner(d: Directive, item: int | None) -> str:
    """The loop that a factor is the length of."""
    if d.kind == "split":
        return d.results[1]
    if d.kind == "tile":
        return d.results[len(d.operands) + (item or 0)]
    return ""


def _later(schedule: Schedule, index: int, item: int | None) -> Iterator[tuple[Directive, Value | None]]:
    """Later directives on the loop that a factor is the length of, each with its own factor for that loop."""
    d = schedule.directives[index]
    name = _inner(d, item)
    for other in schedule.directives[index + 1 :]:
        if name and other.stage == d.stage and name in other.operands:
            by = other.option("by")
            yield other, by[other.operands.index(name)] if isinstance(by, tuple) and other.kind == "tile" else by


def _grain(later: list[tuple[Directive, Value | None]], value: int) -> int:
    """What a factor must stay a multiple of, so that what is split from its loop has no tail where it had none."""
    factors = [f for d, f in later if d.kind in _FACTORS and isinstance(f, int) and f > 0 and value % f == 0]
    return max(factors, default=1)


def _in_lanes(later: list[tuple[Directive, Value | None]]) -> bool:
    return any(d.kind in _LANES and factor is None for d, factor in later)


def _with(d: Directive, item: int | None, value: int) -> Directive:
    """A directive with another number."""
    key = "=" if d.kind == "knob" else "by"
    if item is not None:
        by = d.option("by")
        assert isinstance(by, tuple)
        return replace(d, options=_set(d, key, (*by[:item], value, *by[item + 1 :])))
    return replace(d, options=_set(d, key, value))


def _set(d: Directive, key: str, value: Value) -> tuple[tuple[str, Value], ...]:
    if d.option(key) is None:
        return (*d.options, (key, value))
    return tuple((k, value if k == key else v) for k, v in d.options)


def _numbers_of(d: Directive) -> str:
    value = d.option("=" if d.kind == "knob" else "by", 2)
    items = value if isinstance(value, tuple) else (value,)
    return " ".join(f"${v.name}" if isinstance(v, KnobRef) else str(v) for v in items)


__all__ = ["Measure", "proposals"]
