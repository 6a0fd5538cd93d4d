"""The schedule of a pipeline as its user writes it: a list of directives, each checked and carried out when written.

s = Schedule(pipeline)
s["C.update"].split("i", "io", "ii", 6).reorder("io", "k", "ii")
print(s)           # the text form
print(s.loops())   # the nest as it now stands
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright.lang.errors import ScheduleError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.constraints import check_constraint, holds
from tilewright.schedule.directive import Directive, KnobRef, Value
from tilewright.schedule.state import State, find_stage, initial_state, refuse

if TYPE_CHECKING:
    from tilewright.hw import Footprint, Machine, Proposal
    from tilewright.schedule.handle import Handle
    from tilewright.schedule.report import Report
    from tilewright.schedule.text import ScheduleText
    from tilewright.schedule.view import LoopView


class Schedule:
    """A trace of directives over a pipeline, and the state that they lead to.

    `machine` (a name, a file or a Machine) binds the schedule to a machine: memory names, units and the axes of its
    array are checked with every directive, and `check` sees whether buffers of constant size fit its memories. A
    directive that is refused (ScheduleError) leaves the schedule as it was. Two schedules are equal when they belong
    to one algorithm and say the same.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, pipeline: Pipeline, machine: Machine | str | None = None):
        self.pipeline = pipeline
        self.machine = _machine(machine)
        self.directives: tuple[Directive, ...] = ()
        self._state: State | None = None
        self._hashed: tuple[tuple[Directive, ...], str] | None = None
        self._together = False  # whether directives are checked together later
        self.added = 0  # the default schedule's directives among them, which are the last ones

    @classmethod
    def recorded(
        cls, pipeline: Pipeline, directives: Sequence[Directive], hash: str, added: int = 0,
        machine: Machine | None = None,
    ) -> Schedule:  # fmt: skip
        """A schedule that was carried out before, by its directives in their canonical form and its `hash`: they are
        carried out again when somebody asks what they lead to."""
        made = cls(pipeline, machine)
        made.directives, made.added = tuple(directives), added
        made._hashed = made.directives, hash
        return made

    @property
    def state(self) -> State:
        """What the directives lead to."""
        if self._state is None:
            self._state = self._replayed(self.directives)._state if self.directives else initial_state(self.pipeline)
        assert self._state is not None
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    # Directives -----------------------------------------------------------------------------------------------

    def apply(self, d: Directive) -> Schedule:
        """Check one directive, carry it out and append it in its canonical form. Returns the schedule itself."""
        # a compiled kernel that comes from the cache needs neither
        from tilewright.schedule.directives import step
        from tilewright.schedule.machines import check_memory

        if d.location is None:
            d = replace(d, location=user_location())
        for name in (d.stage, *d.operands, *d.results):
            _check_word(name)
        try:
            if d.kind == "knob":
                self._check_new_knob(d)
            elif d.kind == "constrain" and d.operands:
                check_constraint(d.operands[0], self.knobs)
            check_memory(d, self.machine)
            d, state = step(self.state, d, self.knobs)
            if not self._together:
                self._check_whole(state)
        except ScheduleError as e:
            raise _placed(e, d) from None
        self.directives, self._state = (*self.directives, d), state
        return self

    def _check_whole(self, state: State) -> None:
        from tilewright.schedule.directives import check_whole

        check_whole(state)
        if self.machine is not None:
            from tilewright.schedule.machines import check_state

            check_state(state, self.machine)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Directives that are written inside are checked by themselves when written, and together at the end only: for
        many that are thought to be right, which takes a fraction of the time.

        If they are refused, the schedule is as it was, and the error is about the first of them that is refused when
        they are written one after the other.
        """
        before, state = self.directives, self.state
        self._together = True
        try:
            yield
            self._check_whole(self.state)
        except Exception as e:
            written = self.directives[len(before) :]
            self.directives, self.state, self._together = before, state, False
            trial = self.copy()
            for d in written:
                trial.apply(d)
            raise e
        finally:
            self._together = False

    def __getitem__(self, address: str) -> Handle:
        """A stage (`s["C.update"]`), or a Func (`s["C"]`: placement and storage; its loops too if it has one stage)."""
        from tilewright.schedule.handle import Handle

        _check_word(address)
        if address in self.state.funcs:
            stages = self.state.stages_of(address)
            return Handle(self, address, self.state.address(stages[0].key) if len(stages) == 1 else None)
        s = find_stage(self.state, address)
        return Handle(self, s.key[0], self.state.address(s.key))

    def cache_read(
        self,
        tensor: str,
        at: str | None = None,
        memory: str = "main",
        layout: str | None = None,
        name: str | None = None,
        consumers: str | Sequence[str] | None = None,
    ) -> Handle:
        """A copy of what one iteration of the loop `at` reads of a tensor; returns the copy's handle.

        It is for the loop's stage, or for the stages `consumers` inside that loop. Without `at` it is made once.
        """
        options = _options(("at", at), ("in", memory), ("for", _several(consumers)), ("name", name), ("layout", layout))
        return self._new_func(Directive("cache_read", operands=(_named(tensor),), options=options))

    def clone(self, func: str, consumers: str | Sequence[str], name: str | None = None) -> Handle:
        """Compute a Func once more for the stages `consumers`; returns the clone's handle."""
        options = _options(("for", _several(consumers)), ("name", name))
        return self._new_func(Directive("clone", operands=(_named(func),), options=options))

    def _new_func(self, d: Directive) -> Handle:
        before = set(self.state.funcs)
        self.apply(d)
        return self[next(n for n in self.state.funcs if n not in before)]

    def cache_write(
        self, func: str, at: str | None = None, memory: str = "reg", layout: str | None = None, name: str | None = None
    ) -> Schedule:
        """A tile that holds what one iteration of the loop `at` writes of a Func; without `at`, all of it."""
        options = _options(("at", at), ("in", memory), ("name", name), ("layout", layout))
        return self.apply(Directive("cache_write", operands=(_named(func),), options=options))

    def specialize(self, stage: str, condition: object, name: str) -> Handle:
        """Another form of a stage for where a condition holds, such as "N % 16 == 0"; returns its handle."""
        return self[stage].specialize(condition, name)

    def prefetch(self, tensor: str, at: str, distance: Value = 1) -> Schedule:
        """Touch what a tensor is needed for `distance` iterations of the loop `at` later."""
        options = _options(("at", at), ("offset", distance))
        return self.apply(Directive("prefetch", operands=(_named(tensor),), options=options))

    def online(self, funcs: Sequence[str], over: str, block: Value, name: str | None = None) -> Handle:
        """Dependent reductions in one pass over blocks of a reduction variable; returns the Func of the block loop."""
        options = _options(("over", over), ("by", block), ("name", name))
        before = set(self.state.funcs)
        self.apply(Directive("online", operands=tuple(map(_named, funcs)), options=options))
        return self[next(g.name for g in self.state.groups if g.name not in before)]

    def store_in(self, func: str, memory: str) -> Schedule:
        """The memory that a Func's buffer lives in."""
        return self.apply(Directive("store_in", operands=(_named(func),), options=_options(("in", memory))))

    def layout(self, tensor: str, index_map: str, given: bool = False) -> Schedule:
        """How a Func's elements lie in its buffer, such as `i j -> j//8 i j%8`.

        An input is converted at the root; with `given`, the caller's input or output is in that layout already.
        """
        options = _options(("given", 1 if given else None), ("layout", index_map))
        return self.apply(Directive("layout", operands=(_named(tensor),), options=options))

    def stream_stores(self, func: str) -> Schedule:
        """A Func's vectors are stored past the caches, for results that nobody reads soon."""
        return self.apply(Directive("stream_stores", operands=(_named(func),)))

    def knob(self, name: str, value: int, choices: Sequence[int] | None = None) -> KnobRef:
        """A value left open for the tuner; what it returns stands for it as a factor."""
        options = _options(("=", value), ("of", tuple(choices) if isinstance(choices, Sequence) else choices))
        self.apply(Directive("knob", operands=(name,), options=options))
        return KnobRef(name)

    def constrain(self, condition: str) -> Schedule:
        """A condition that the values of knobs must keep, such as `t1 * t2 <= 64`."""
        return self.apply(Directive("constrain", operands=(condition,)))

    def allows(self, **values: int) -> bool:
        """Whether these values of knobs (the others as they are) are among their choices and keep all constraints.

        Raises ScheduleError (`unknown-knob`) for a name that no knob has.
        """
        self._check_knobs(values)
        choices = {d.operands[0]: d.option("of") for d in self.directives if d.kind == "knob"}
        for name, v in values.items():
            among = choices[name]
            if not isinstance(v, int) or v < 1 or (isinstance(among, tuple) and v not in among):
                return False
        knobs = {k: v for k, v in {**self.knobs, **values}.items() if isinstance(v, int)}
        return all(holds(d.operands[0], knobs) for d in self.directives if d.kind == "constrain")

    def _check_knobs(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.knobs:
                known = f"known: {', '.join(self.knobs)}" if self.knobs else "this schedule has no knobs"
                raise refuse(f"there is no knob {name!r}", "unknown-knob", known)

    @property
    def knobs(self) -> dict[str, Value]:
        """The current values of the knobs by name."""
        found = ((d.operands[0], d.option("=")) for d in self.directives if d.kind == "knob")
        return {name: v for name, v in found if v is not None}

    def with_knobs(self, **values: int) -> Schedule:
        """The same directives with other values of knobs, carried out anew."""
        self._check_knobs(values)

        def changed(d: Directive) -> Directive:
            if d.kind != "knob" or d.operands[0] not in values:
                return d
            return replace(d, options=tuple((k, values[d.operands[0]] if k == "=" else v) for k, v in d.options))

        return self._replayed(map(changed, self.directives))

    # As data --------------------------------------------------------------------------------------------------

    def _replayed(self, directives: Iterable[Directive]) -> Schedule:
        made = Schedule(self.pipeline, self.machine)
        with made.together():
            for d in directives:
                made.apply(d)
        return made

    def copy(self) -> Schedule:
        """An independent schedule with the same directives."""
        made = Schedule(self.pipeline, self.machine)
        made.directives, made._state = self.directives, self._state
        return made

    def prefix(self, n: int) -> Schedule:
        """The schedule of the first `n` directives, of all where there are fewer."""
        return self._replayed(self.directives[:n])

    def __len__(self) -> int:
        return len(self.directives)

    def __bool__(self) -> bool:
        return True  # an empty schedule is a schedule

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self.pipeline.digest == other.pipeline.digest and self.directives == other.directives

    @property
    def hash(self) -> str:
        """A hash of algorithm and directives, the same in every process."""
        if self._hashed is None or self._hashed[0] is not self.directives:
            h = hashlib.blake2b(self.pipeline.digest.encode(), digest_size=16)
            for d in self.directives:
                h.update(repr((d.kind, d.stage, d.operands, d.results, d.options)).encode())
            self._hashed = self.directives, h.hexdigest()
        return self._hashed[1]

    def __str__(self) -> str:
        from tilewright.schedule.text import print_directives

        machine = None if self.machine is None else self.machine.name
        return print_directives(self.pipeline.name, self.directives, machine=machine).rstrip("\n")

    def _repr_html_(self) -> str:
        from tilewright.hw.render.html import code_html
        from tilewright.schedule.directives import KINDS

        return code_html(str(self), ("schedule", *KINDS))

    def __repr__(self) -> str:
        return f"<schedule of {self.pipeline.name}: {len(self.directives)} directives>"

    # What it leads to -----------------------------------------------------------------------------------------

    def loops(self) -> LoopView:
        """The nest as it now stands: print it, or look at its loops, regions, uses and buffers."""
        from tilewright.schedule.view import view

        return self._told(lambda: view(self.state))

    def report(self) -> Report:
        """What was done and what not: sliding, folding, stages computed into tiles, tails, vectors, threads."""
        from tilewright.schedule.report import report

        return self._told(lambda: report(self.state))

    def check(self, capacity: bool = True) -> None:
        """Check the promises that need the whole schedule. Raises ScheduleError, BoundsError or CapacityError.

        Vectorized and unrolled loops have constant extents, buffers in registers constant sizes, nothing that is
        inlined has scheduled loops, and (where a machine is bound, and unless `capacity` is False) buffers of known size
        fit their memories.
        """
        from tilewright.schedule.check import check

        self._told(lambda: check(self.state, self.directives, self.machine if capacity else None, self._what_would_fit))

    def _what_would_fit(self, memory: str) -> tuple[Proposal, ...]:
        """Changes of the user's directives after which the buffers of known size fit."""
        from tilewright.hw import footprints
        from tilewright.schedule.build import build_nest
        from tilewright.schedule.fitting import proposals
        from tilewright.schedule.live import live_points

        machine = self.machine
        assert machine is not None

        def measure(s: Schedule) -> Iterable[Footprint]:
            return footprints(machine, live_points(build_nest(s.state)))

        def verify(s: Schedule) -> Iterable[Footprint]:
            s.check(capacity=False)
            return measure(s)

        return proposals(self.prefix(len(self) - self.added), memory, measure, verify)

    def _told(self, what: Callable[[], Any]) -> Any:
        """The result of something that builds the nest. What is refused then names the directive that promised it."""
        try:
            return what()
        except ScheduleError as e:
            raise self.located(e) from None

    def located(self, e: ScheduleError) -> ScheduleError:
        """An error that turned up later, with the place of the directive that it is about first."""
        if e.about is None:
            return e
        kind, name = e.about
        for d in reversed(self.directives):
            if d.kind == kind and (name in d.operands or name in [f"{d.stage}.{x}" for x in d.operands]):
                return _placed(e, d)
        return e

    # Checks ---------------------------------------------------------------------------------------------------

    def _check_new_knob(self, d: Directive) -> None:
        if d.operands and d.operands[0] in self.knobs:
            raise refuse(f"there is a knob {d.operands[0]} already", "name-twice", "give another name")


def parse_schedule(text: str, algorithm: Any, machine: Machine | str | None = None, origin: str = "<text>") -> Schedule:
    """The one schedule that a text says. `algorithm`: a pipeline or a kernel.

    Raises ParseError (line, column, what was expected), ScheduleError for a line that is not legal, or where the text
    is for another algorithm (schedule.algorithm) or says several schedules.
    """
    from tilewright.schedule.text import parse_schedules

    found = parse_schedules(text, origin)
    pipeline = algorithm if isinstance(algorithm, Pipeline) else algorithm.pipeline()
    if len(found) != 1:
        raise refuse(f"the text says {len(found)} schedules and not one", "several", "parse_schedules reads them all")
    return replay(found[0], pipeline, machine)


def replay(read: ScheduleText, pipeline: Pipeline, machine: Machine | str | None = None) -> Schedule:
    """The schedule of a pipeline that a text says."""
    if read.kernel != pipeline.name or read.hash not in (None, pipeline.digest):
        why = f"for {read.kernel}" if read.kernel != pipeline.name else "for another version of it"
        raise refuse(f"this schedule of {pipeline.name} is {why}", "algorithm", "a schedule belongs to one algorithm",
                     (read.location, user_location()))  # fmt: skip
    made = Schedule(pipeline, machine if machine is not None else read.machine)
    with made.together():
        for d in read.directives:
            made.apply(d)
    return made


def _check_word(name: Any) -> None:
    if not isinstance(name, str):
        raise refuse(
            f"{name!r} stands where a name is wanted", "name", "stages, loops and Funcs are named by texts: 'i'"
        )


def _machine(given: Machine | str | None) -> Machine | None:
    if given is None:
        return None
    from tilewright.hw import Machine, load_machine

    return given if isinstance(given, Machine) else load_machine(given)


def _placed(e: ScheduleError, d: Directive) -> ScheduleError:
    """The error with the directive's place first."""
    if d.location is None or d.location in e.where[:1]:
        return e
    rest = tuple(w for w in e.where if w != d.location and w != user_location())
    return type(e)(e.message, code=e.code, hint=e.hint, where=(d.location, *rest))


def _options(*pairs: tuple[str, Value | None]) -> tuple[tuple[str, Value], ...]:
    """Those that are given."""
    return tuple((k, v) for k, v in pairs if v is not None)


def _several(stages: str | Sequence[str] | None) -> Value | None:
    return stages if stages is None or isinstance(stages, str) else tuple(stages)


def _named(tensor: Any) -> str:
    """A tensor or Func by its name; the objects themselves are accepted too."""
    return tensor if isinstance(tensor, str) else str(getattr(tensor, "name", tensor))


__all__ = ["Schedule", "parse_schedule", "replay"]
