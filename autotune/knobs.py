"""Spaces that are written by hand: a schedule with knobs, and a function that writes schedules by choosing.

A knob is a number that a schedule leaves open (`s.knob`), under conditions that its values must keep (`s.constrain`). What
is no number (whether an operand is packed, the order of loops, a layout) is chosen by a function:

    def packed_or_not(s, choose):
        rows = choose("rows", (8, 4, 12))
        C = s["C.update"].split("i", "io", "ii", rows)
        if choose("pack B", (True, False)):
            s.cache_read("B", at="C.update.io")

    space = FunctionSpace(matmul.pipeline(), packed_or_not)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.space import Choose, Dead, Value
from tilewright.lang.errors import BoundsError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.constraints import holds, knobs_of
from tilewright.schedule.schedule import Schedule

AROUND = 8  # choices of a knob that has none: powers of two between an eighth of its value and eight times that
LOOKED = 20_000  # values of knobs to come that are tried together to see whether a condition can be kept


@dataclass(frozen=True)
class KnobSpace:
    """The schedules that a hand-written one stands for: it has knobs, and each is given one of its choices.

    A knob without choices has powers of two around its value. Conditions are looked at as soon as all of their knobs but
    some to come are chosen: a value that no choice to come can mend is not offered. The first choice is the schedule's own
    value wherever that is still possible. Raises TuneError `tune.space` for a schedule without knobs.
    """

    schedule: Schedule

    def __post_init__(self) -> None:
        if not self.schedule.knobs:
            raise TuneError(
                f"the schedule of {self.schedule.pipeline.name} has no knobs", code="tune.space", where=user_location(),
                hint="leave a factor open: t = s.knob('t', 8, choices=(4, 8, 16)), then .split('i', 'io', 'ii', t)",
            )  # fmt: skip

    @property
    def name(self) -> str:
        return f"knobs of {self.schedule.pipeline.name}: {', '.join(self.schedule.knobs)}"

    @property
    def pipeline(self) -> Pipeline:
        return self.schedule.pipeline

    @cached_property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """What each knob may be, its value first."""
        found: dict[str, tuple[int, ...]] = {}
        for d in self.schedule.directives:
            if d.kind == "knob":
                value, among = d.option("="), d.option("of")
                assert isinstance(value, int)
                given = among if isinstance(among, tuple) else around(value)
                found[d.operands[0]] = tuple(dict.fromkeys((value, *(c for c in given if isinstance(c, int)))))
        return found

    @cached_property
    def constraints(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Conditions with the knobs in each."""
        texts = (d.operands[0] for d in self.schedule.directives if d.kind == "constrain")
        return tuple((t, knobs_of(t)) for t in texts)

    def build(self, choose: Choose) -> Schedule:
        values: dict[str, int] = {}
        for name, among in self.choices.items():
            chosen = choose(name, [c for c in among if self._possible({**values, name: c}, name)])
            assert isinstance(chosen, int)
            values[name] = chosen
        return self.schedule.with_knobs(**values)

    def _possible(self, values: Mapping[str, int], last: str) -> bool:
        """Whether each condition with the knob `last` can be kept, whatever the others ask for."""
        return all(self._can_hold(text, names, values) for text, names in self.constraints if last in names)

    def _can_hold(self, text: str, names: Sequence[str], values: Mapping[str, int]) -> bool:
        key = text, tuple(values.get(n) for n in names)
        if key not in self._known:
            open_ = [n for n in names if n not in values]
            many = math.prod(len(self.choices[n]) for n in open_) > LOOKED
            rest = itertools.product(*(self.choices[n] for n in open_))
            self._known[key] = many or any(holds(text, {**values, **dict(zip(open_, r, strict=True))}) for r in rest)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple, bool]:
        return {}


def around(value: int, factor: int = AROUND) -> tuple[int, ...]:
    """Powers of two within a factor of a value, and the value itself, in order."""
    powers = (2**k for k in range((value * factor).bit_length()))
    return tuple(sorted({value, *(p for p in powers if value <= p * factor and p <= value * factor)}))


@dataclass(frozen=True)
class FunctionSpace:
    """The schedules that a function writes: `fn(s, choose)` gets a new schedule and writes directives on it.

    `choose(name, choices)` returns one of the choices: numbers, texts, True and False, or tuples of numbers and texts. The
    first one is the usual one, and each name is asked for once. What there is to choose may depend on what was chosen
    before; `raise Dead` says that this leads nowhere, as does a directive that is refused. Knobs that the function leaves
    open on the schedule are chosen after it. It must do the same whenever the same is chosen. Mistakes are told as TuneError
    (`tune.choice`); other exceptions of the function are passed on.
    """

    pipeline: Pipeline
    fn: Callable[[Schedule, Choose], Any]
    machine: Any = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{getattr(self.fn, '__name__', 'function')} of {self.pipeline.name}"

    def build(self, choose: Choose) -> Schedule:
        asked: dict[str, Value] = {}

        def checked(name: str, choices: Iterable[Value]) -> Value:
            among = tuple(_choices(name, choices))
            if name in asked:
                raise _mistake(f"{name!r} is chosen twice", "give each choice a name of its own")
            asked[name] = chosen = choose(name, among)
            return chosen

        s = Schedule(self.pipeline, self.machine)
        try:
            self.fn(s, checked)
        except BoundsError as e:
            raise Dead from e
        return KnobSpace(s).build(checked) if s.knobs else s


def _choices(name: object, choices: Iterable[Value]) -> Iterator[Value]:
    if not isinstance(name, str) or not name:
        raise _mistake(f"a choice is called {name!r}", "give it a name: choose('tile', (8, 16, 32))")
    if isinstance(choices, str) or not isinstance(choices, Iterable):
        raise _mistake(f"the choices of {name} are {choices!r}", "give several values: choose('tile', (8, 16, 32))")
    for c in choices:
        parts = c if isinstance(c, tuple) else (c,)
        if not all(isinstance(p, (bool, int, str)) for p in parts):
            raise _mistake(
                f"{c!r} is among the choices of {name}", "values are numbers, texts, True and False, or tuples of these"
            )
        yield c


def _mistake(problem: str, legal: str) -> TuneError:
    return TuneError(problem, code="tune.choice", where=user_location(), hint=legal)


__all__ = ["FunctionSpace", "KnobSpace", "around"]
