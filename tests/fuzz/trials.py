"""One trial: a random pipeline under a random schedule, run in several ways that must give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.codegen.loops_oracle import run_program
from tests.fuzz.guarded import run_guarded
from tests.fuzz.moves import grow
from tests.fuzz.random_pipelines import Case, random_pipeline
from tilewright.codegen.lower import Request, lower
from tilewright.lang import reference
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError, TilewrightError
from tilewright.lang.reference import structured
from tilewright.lang.values import index_value
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State
from tilewright.testing import assert_bitwise

Choose = Callable[[int], int]


@dataclass(frozen=True)
class Trial:
    """A case, its schedule, whether the default schedule completes it, and the mode that it runs in."""

    case: Case
    schedule: Schedule
    mode: str
    filled: bool

    def __repr__(self) -> str:
        return f"{self.case}\n{self.schedule}\nmode {self.mode}{', the rest by default' if self.filled else ''}"

    def state(self) -> State:
        """The state that is compiled. Raises ScheduleError where the schedule is illegal as a whole."""
        full = complete(self.schedule, self.mode) if self.filled else self.schedule
        full.check()
        return full.state


def draw(choose: Choose, seed: int, steps: int) -> Trial | None:
    """A trial; None where what was drawn is no legal pipeline or call."""
    try:
        case = random_pipeline(choose, seed=seed)
    except TilewrightError as e:
        assert e.code.startswith(("definition.", "type.")), e
        return None
    filled = choose(3) == 0
    mode = "contract" if case.exact else "strict"
    return Trial(case, grow(case.pipeline, choose, choose(steps + 1)), mode, filled)


def by_reference(case: Case) -> Any:
    """The reference's result and inouts; None where the call itself is an error."""
    copies = {k: v.copy() for k, v in case.arrays.items()}
    try:
        result = reference.run(case.pipeline, bind(case.pipeline, (), copies))
    except BoundsError:
        return None
    return [result, [copies[f.name] for f in case.pipeline.inouts]]


def legal_state(t: Trial) -> State | None:
    """The state that is compiled; None where that is refused by a clear error, or its mode refuses the order."""
    try:
        state = t.state()
        return None if t.mode == "strict" and state.reassociations else state
    except (ScheduleError, BoundsError) as e:
        assert e.code.startswith(("schedule.", "bounds.")), e
        return None


def by_loops(t: Trial, state: State) -> Any:
    """The result of interpreting the loop IR; None where compilation is refused, or more is asked of the sizes."""
    p = t.case.pipeline
    arrays = {k: v.copy() for k, v in t.case.arrays.items()}
    bound = bind(p, (), arrays)
    outputs = [np.empty([index_value(e, bound.env) for e in o.extents], o.dtype.np) for o in p.outputs]
    every = [*(bound.arrays[a.name] for a in p.arrays), *(x.values for x in p.tables), *outputs]
    try:
        program = lower(Request(state, t.mode, "tw_fuzzed", ("any",) * len(every))).program
        scalars = {s.node: bound.scalars[s.name] for s in p.scalars}
        shifted = "tail shift" in str(t.schedule)
        failed, _ = run_program(program, every, [bound.sizes[n] for n in p.sizes], scalars, shifted)
    except (ScheduleError, CompileError) as e:
        assert e.code.startswith(("schedule.", "compile.", "vectorize.")), e
        return None
    if failed is not None:
        assert asks_more(t), f"requirement {failed} does not hold"
        return None
    return [structured(p.structure, outputs), [arrays[f.name] for f in p.inouts]]


def asks_more(t: Trial) -> bool:
    """Whether the schedule may need larger inputs than the algorithm."""
    return "round_up" in str(t.schedule) or any(d.kind in ("bound", "align", "pad") for d in t.schedule.directives)


def by_machine(t: Trial, state: State, choose: Choose, compiled: dict[Any, Any] | None = None) -> Any:
    """The result of a guarded native run; None as above."""
    arrays = {k: v.copy() for k, v in t.case.arrays.items()}
    try:
        return run_guarded(t.case.pipeline, state, t.mode, arrays, choose, compiled)
    except (ScheduleError, CompileError) as e:
        assert e.code.startswith(("schedule.", "compile.", "vectorize.", "unroll.", "reg.")), e
        return None


def assert_same(ours: Any, theirs: Any) -> None:
    """Bit for bit the same arrays."""
    assert_bitwise(ours, theirs)
