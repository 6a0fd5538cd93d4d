"""One trial: a random pipeline under a random schedule, run in several ways that must agree.

A trial is drawn from its seed and its focus alone (`Focus`: a kind of directive and a tail that are to be in it), so
that a failure is repeated by naming the two. What is compared:

    data       values                      must be
    integers   small integers              the reference's bits, whatever the schedule
    strict     floats, also inf, -0.0      the reference's bits (mode strict; nothing is reassociated)
    exact      floats that round nowhere   the reference's bits but for signs of zeros (mode contract, any schedule)
    contract   normally distributed        the bits of the plain schedule where nothing is reassociated; and within the
                                           derived error bound of the exact result, where that bound tells anything

and in all of them the instrumented run has the bits of the native one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tests.fuzz import illegal, moves, recipes, running, special_stages  # noqa: F401  (registers stages)
from tests.fuzz.covering import Pair, Ran, covered
from tests.fuzz.places import pick
from tests.fuzz.random_pipelines import Case, arguments, random_extents, random_pipeline
from tests.fuzz.running import Arrays, Instrumented, Plan, by_reference, copied
from tilewright import testing
from tilewright.hw import CapacityError
from tilewright.lang.binding import bind
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError, TilewrightError
from tilewright.lang.samples import random_inputs
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule, parse_schedule

Choose = Callable[[int], int]
LEGAL_REFUSALS = ("schedule.", "compile.", "vectorize.", "unroll.", "reg.", "bounds.")
MOST_CALLS = 6  # sizes that are tried
SMALL = 250  # points of an interpreted run


@dataclass(frozen=True)
class Focus:
    """What a trial is to have in it, "" for anything: a kind of directive, and a tail."""

    kind: str = ""
    tail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}*{self.tail}"

    @staticmethod
    def read(text: str) -> Focus:
        kind, _, tail = text.partition("*")
        return Focus(kind, tail)


@dataclass(frozen=True)
class Trial:
    """A pipeline, its schedule (completed by the default one if `filled`), the data and the mode that it runs with."""

    seed: int
    case: Case
    schedule: Schedule
    data: str
    filled: bool
    refused: tuple[str, ...] = ()  # what became of illegal directives on the way

    @property
    def mode(self) -> str:
        return "strict" if self.data == "strict" else "contract"

    def __repr__(self) -> str:
        return f"{self.case}\n{self.schedule}\n{self.data} data{', the rest by default' if self.filled else ''}"

    @cached_property
    def full(self) -> Schedule:
        """The schedule that is compiled."""
        return complete(self.schedule, self.mode) if self.filled else self.schedule

    @cached_property
    def refusal(self) -> TilewrightError | None:
        """Why the schedule as a whole is illegal."""
        try:
            self.full.check()
        except (ScheduleError, BoundsError, CapacityError) as e:
            assert e.code.startswith(("schedule.", "bounds.", "capacity")), e
            return e
        return None


@dataclass
class Outcome:
    """What became of a trial. `name`: good, empty (nothing was computed), vague (the bound tells nothing), refused,
    not compiled, asks more (of the sizes), no call, no pipeline."""

    name: str
    trial: Trial | None = None
    plan: Plan | None = None
    extents: list[dict[str, int]] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    pairs: set[Pair] = field(default_factory=set)
    ways: set[str] = field(default_factory=set)


# Drawing ------------------------------------------------------------------------------------------------------------


SCALES = ((1, 3), (2, 4), (4, 8), (6, 12))  # most stages, most random directives before and after those of the focus
_SCALES = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3)


def draw(choose: Choose, seed: int, focus: Focus = Focus()) -> Trial | None:
    """A trial, legal as a whole if that is to be had; None where what was drawn is no legal pipeline."""
    t = drawn(choose, seed, focus)
    return None if t is None else legal(t)


def drawn(choose: Choose, seed: int, focus: Focus) -> Trial | None:
    """A trial whose directives were legal one by one."""
    exact = choose(20) < (4 if focus.kind == "online" else 12)  # integers are not repaired
    kinds = recipes.STAGE_KINDS.get(focus.kind, ())
    first = pick(choose, kinds) if kinds and choose(6) else ()
    stages, steps = SCALES[_SCALES[choose(len(_SCALES))]]
    try:
        case = random_pipeline(choose, exact, stages, seed, first)
    except TilewrightError as e:
        assert e.code.startswith(("definition.", "type.", "bounds.")), e
        return None
    s = Schedule(case.pipeline)
    before = choose(2) == 0
    moves.grow(s, choose, min(choose(steps), choose(steps)))
    if focus.tail and before:
        recipes.with_tail(s, choose, 20, focus.tail)
    if focus.kind:
        recipes.cook(s, choose, 30, focus.kind)
    if focus.tail and not before:
        recipes.with_tail(s, choose, 40, focus.tail, focus.kind)
    refused = illegal.try_some(s, choose, 50) if choose(3) == 0 else []
    moves.grow(s, choose, min(choose(steps), choose(steps)), first=60)
    data = "integers" if exact else ("strict", "strict", "exact", "contract")[choose(4)]
    return Trial(seed, case, s, data, choose(4) == 0, tuple(refused))


def legal(t: Trial) -> Trial:
    """The trial without its last directives where what needs the whole schedule (extents of vectors, say) refuses it."""
    n = len(t.schedule)
    for cut in (0, 1, 2, 4, n // 2):
        if cut >= max(n, 1):
            break
        found = replace(t, schedule=t.schedule.prefix(n - cut)) if cut else t
        if found.data == "strict" and found.schedule.state.reassociations:
            found = replace(found, data="exact")
        if found.refusal is None:
            return found
    return t


def extents_for(t: Trial, choose: Choose) -> dict[str, int]:
    """Sizes; where directives speak of certain ones, now and then these."""
    drawn = random_extents(choose)
    said = [int(v) for d in t.schedule.directives if d.kind == "bound" for k, v in d.options if k in ("by", "offset")]
    said = [v for v in (*said, *([said[0] + said[1]] if len(said) == 2 else [])) if 0 <= v <= 70]
    if any(d.kind == "specialize" for d in t.schedule.directives):
        said += [4, 5, 8]
    return {n: pick(choose, said) if said and choose(2) else v for n, v in drawn.items()}


def data_for(t: Trial, extents: dict[str, int]) -> tuple[Arrays, str]:
    """Arguments and the kind that they are in the end: where exact floats are not to be had they are random ones."""
    p = t.case.pipeline
    if t.data in ("integers", "strict"):
        return arguments(p, extents, t.data == "integers", t.seed), t.data
    if t.data == "exact":
        try:
            return testing.exact_inputs(p, extents, t.seed), "exact"
        except (testing.NotExactError, BoundsError):
            pass
    return random_inputs(p, extents, t.seed), "contract"


# Running ------------------------------------------------------------------------------------------------------------


def run(t: Trial | None, choose: Choose, interpret: bool = True, extents: dict[str, int] | None = None) -> Outcome:
    """Run a trial in all ways at two sizes, or at the `extents` given. Raises AssertionError where they do not agree."""
    if t is None:
        return Outcome("no pipeline")
    out = Outcome("no call", t, running.random_plan(t.case.pipeline, choose))
    if t.refusal is not None:
        out.name = "refused"
        return out
    full, p = t.full, t.case.pipeline
    try:
        instrumented = Instrumented(p, full.state, t.mode)
        kernel = running.kernel(full.state, t.mode, out.plan)
    except (ScheduleError, CompileError, BoundsError) as e:
        assert e.code.startswith(LEGAL_REFUSALS), e
        out.name = "not compiled"
        return out
    for _ in range(MOST_CALLS if extents is None else 1):
        call = Call(t, full, out, kernel, instrumented)
        name = call.run(extents or extents_for(t, choose), choose, interpret)
        if name in ("good", "vague") or out.name in ("no call", "asks more"):
            out.name = name if out.name != "good" else "good"
        if len(out.extents) == 2:
            break
    if out.name == "good":
        other_forms(t, choose)
        if choose(25) == 0:
            running.check_coverage(full.state, t.mode, out.plan)
            out.ways.add("coverage")
    return out


@dataclass
class Call:
    """One call of a trial's kernel, in all ways."""

    trial: Trial
    full: Schedule
    out: Outcome
    kernel: Any
    instrumented: Instrumented

    def run(self, extents: dict[str, int], choose: Choose, interpret: bool) -> str:
        t, p, state = self.trial, self.trial.case.pipeline, self.full.state
        try:
            arrays, data = data_for(t, extents)
            bound = bind(p, (), copied(arrays))
        except (BoundsError, ArgumentError) as e:
            assert e.code.startswith(("bounds.", "argument.range")), e  # a scalar may be too large for index arithmetic
            return "no call"
        counted, evaluations = self.instrumented.run(arrays)
        if counted is None:
            assert asks_more(self.full), "a requirement does not hold"
            return "asks more"
        expected = by_reference(p, arrays)
        if expected is None:
            return "no call"
        native = running.run_guarded(p, state, self.kernel, self.out.plan.classes, copied(arrays), choose)
        self.out.extents.append(extents)
        if not (state.reassociations and depends_on_strides(self.full)):
            compare("instrumented and native run", counted, native)
        name = self.judge(data, arrays, bound, native, expected, choose)
        self.more_ways(arrays, extents, native, choose, interpret)
        if name != "good" or not any(n for n in evaluations.values()):
            return "empty" if name == "good" else name
        kinds, pairs = covered(t.schedule, state, Ran(state, evaluations, bound.env))
        self.out.kinds |= kinds
        self.out.pairs |= pairs
        return "good"

    def judge(self, data: str, arrays: Arrays, bound: Any, native: Any, expected: Any, choose: Choose) -> str:
        p, state = self.trial.case.pipeline, self.full.state
        if data == "exact" and any(f.origin == "online" and re.search(r"_d[0-9]+$", n) for n, f in state.funcs.items()):
            data = "contract"  # sums of polynomials are moved by shares of what was seen, which round
        if data != "contract":
            compare("native run and reference", native, expected, zeros=data == "exact")
            return "good"
        kept = not state.reassociations
        if kept:
            plain = Schedule(p).state
            plan = replace(self.out.plan, level="quick")
            other = running.natively(p, plain, self.trial.mode, arrays, choose, plan)
            compare("native run and that of the plain schedule", native, other)
        try:
            testing.assert_within_bound(p, native[0], **copied(arrays))
        except testing.ProvesNothingError:
            return "good" if kept else "vague"
        return "good"

    def more_ways(self, arrays: Arrays, extents: dict[str, int], native: Any, choose: Choose, interpret: bool) -> None:
        """In a part of the trials: the loop IR interpreted, the public calls."""
        t, p = self.trial, self.trial.case.pipeline
        if interpret and choose(12) == 0 and np.prod([max(1, v) for v in extents.values()]) <= SMALL:
            shifted = any(d.option("tail") == "shift" for d in self.full.directives)
            found = running.by_loops(p, self.full.state, t.mode, arrays, shifted)
            if found is not None:
                self.out.ways.add("loops")
                compare("interpreted and native run", found, native)
        packed = any(d.kind == "layout" for d in t.schedule.directives)
        if choose(10 if packed else 60) == 0:
            try:
                found = running.by_calls(p, t.schedule, t.mode, arrays, choose, self.out.ways)
            except BoundsError:
                return
            self.out.ways.add("calls")
            if complete(t.schedule, t.mode).state.reassociations == self.full.state.reassociations:
                compare("public call and native run", found, native)


def compare(what: str, ours: Any, theirs: Any, zeros: bool = False) -> None:
    try:
        testing.assert_bitwise(ours, theirs, zeros)
    except testing.MismatchError as e:
        raise AssertionError(f"{what} differ: {e.message}") from None


def asks_more(s: Schedule) -> bool:
    """Whether a schedule may need larger inputs than the algorithm, or other sizes."""
    return any(d.option("tail") == "round_up" or d.kind in ("bound", "align") for d in s.directives)


def depends_on_strides(s: Schedule) -> bool:
    """Whether a stage has forms for certain strides: native and instrumented run may then take different ones."""
    conditions = [d.operands[0] for d in s.directives if d.kind == "specialize"]
    return any("stride(" in c or "contiguous(" in c for c in conditions)


def other_forms(t: Trial, choose: Choose) -> None:
    """In a part of the trials: the text form, other values of knobs, what is printed of a schedule."""
    s = t.schedule
    if choose(12) == 0:
        again = parse_schedule(str(t.full), s.pipeline)
        assert again == t.full and str(again) == str(t.full), "the text form says something else"
        assert str(t.full.loops()) == str(again.loops())
        assert str(t.full.report()) == str(again.report()) and s.copy() == s
    if s.knobs and choose(2):
        name = pick(choose, s.knobs)
        try:
            s.with_knobs(**{name: 1 + choose(8)}).check()
        except (ScheduleError, BoundsError) as e:
            assert e.code.startswith(("schedule.", "bounds.")), e


def trial(seed: int, focus: Focus = Focus(), interpret: bool = True) -> Outcome:
    """Draw and run one trial."""
    rnd = random.Random(f"{seed} {focus}")
    t = draw(rnd.randrange, seed, focus)
    try:
        return run(t, rnd.randrange, interpret)
    except Exception as e:
        e.add_note(f"seed {seed}, focus {focus}\n{t}")
        raise
