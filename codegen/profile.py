"""What `fast.profile()` measures: the time of every stage of a kernel, by the processor's clock."""

from __future__ import annotations

import ctypes
import functools
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from tilewright.codegen import abi, runtime, stages, target
from tilewright.codegen import loops as L
from tilewright.codegen.compile import stride_class
from tilewright.codegen.emit import clock_layout, emit
from tilewright.codegen.emit.clock import CYCLES, ENTRIES, READING
from tilewright.codegen.entry import invoke
from tilewright.codegen.jit import load
from tilewright.codegen.timed import ELSE, timed
from tilewright.lang import ir
from tilewright.lang.errors import ArgumentError, CompileError, user_location
from tilewright.schedule import nest

if TYPE_CHECKING:
    from tilewright.codegen.bound_call import Ready
    from tilewright.codegen.compile import Compiled

_RUNS = 3  # at least
_ENDLESS = 1 << 62
_VISIBLE = 0.05  # of the time: a clock that takes more is spoken of


@dataclass(frozen=True)
class StageTime:
    """Seconds that a stage takes in a call, without those of the stages inside of it, and how often it is entered."""

    stage: str
    seconds: float
    entries: int


@dataclass(frozen=True)
class Profile:
    """Where the time of a call goes. `stages` are in the order of the code, the last one is all that is no stage's.

    Times are those of the fastest of some `runs`, less what it took to read the clock (`clock`, seconds). `plain` is the
    fastest run that reads no clock inside; by how much that is faster is taken from the stages by how often they are
    entered, but never more than readings take at most. `inside` names the stages that have no time of their own: they have
    no loop outside of vectors, or take no longer than to read the clock, and count as what is around them.
    """

    kernel: str
    stages: tuple[StageTime, ...]
    plain: float
    clock: float
    runs: int
    inside: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of a call: the sum of all stages."""
        return sum(s.seconds for s in self.stages)

    def __getitem__(self, stage: str) -> StageTime:
        """The line of a stage."""
        return next(s for s in self.stages if s.stage == stage)

    def __str__(self) -> str:
        total = self.seconds
        unit, name = next(((f, n) for f, n in ((1, "s"), (1e3, "ms")) if total * f >= 1), (1e6, "us"))
        *some, rest = self.stages
        entered = sorted((s for s in some if s.entries), key=lambda s: -s.seconds)
        rows = [("stage", "share", name, "entered")]
        for s in (*entered, rest):
            share = s.seconds / total if total else 0
            rows.append((s.stage, f"{share:.1%}", f"{s.seconds * unit:.3f}", f"{s.entries:,}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{self.kernel}: {total * unit:.4g} {name} a call"]
        for first, *others in rows:
            lines.append("  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]))
        if self.clock > _VISIBLE * (total + self.clock):
            lines.append(
                f"to read the clock took another {self.clock * unit:.3g} {name}: what is entered often is uncertain"
            )
        if abs(total - self.plain) > _VISIBLE * self.plain:
            lines.append(
                f"the kernel itself takes {self.plain * unit:.4g} {name}: with a clock in it the code is another"
            )
        if self.inside:
            text = f"too short to be timed, and part of what is around: {', '.join(_listed(self.inside))}"
            lines += textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join(lines)


def _listed(stages: Iterable[str]) -> list[str]:
    """Stages as words, `f.update[1]`, `f.update[2]`, `f.update[3]` as `f.update[1..3]`."""
    out: list[str] = []
    for (func, _), found in groupby(stages, lambda s: s.partition(".update[")[:2]):
        names = list(found)
        first, last = (names[k].removeprefix(f"{func}.update[").removesuffix("]") for k in (0, -1))
        numbered = len(names) > 1 and first.isdigit() and last.isdigit() and int(last) - int(first) == len(names) - 1
        out += [f"{func}.update[{first}..{last}]"] if numbered else names
    return out


def profile(fast: Compiled, ready: Ready, seconds: float) -> Profile:
    """Measure for some `seconds`; see `Compiled.profile`."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise ArgumentError(
            f"seconds= is {seconds!r}", code="argument.seconds", where=user_location(),
            hint="it is how long to measure: a number above 0",
        )  # fmt: skip
    if not target.host().triple.startswith("x86_64"):
        raise CompileError(
            f"the clock of {target.host().triple} can't be read here: x86-64 only", code="compile.profile"
        )
    form = _form(fast, ready)
    context = runtime.context(1)
    fast.run(ready, context)  # raises what there is to raise
    return _profile(fast.pipeline.name, form, _measured(form, ready, context, seconds))


@dataclass(frozen=True, eq=False)
class Clocked:
    """A variant of a kernel with a clock in it: its address, what the clock counts, and the stages without a time of their
    own."""

    address: int
    keep: object
    layout: Mapping[tuple[str, ...], int]
    inside: tuple[str, ...]

    def cycles(self, clock: np.ndarray) -> int:
        """All that passed."""
        return sum(int(clock[i]) for k, i in self.layout.items() if k[0] == CYCLES)


def clocked(fast: Compiled, classes: tuple[str, ...], aliases: frozenset[frozenset[str]]) -> Clocked:
    """The variant for these stride classes and aliases."""
    lowered = fast._lowered(classes)
    program = timed(lowered.program)
    layout = clock_layout(program)
    library, keep = fast._linked(fast._machine_code(emit(program, aliases=aliases)), program.symbol)
    timed_stages = {k[1] for k in layout if k[0] == CYCLES}
    loops = (n for n in nest.walk(lowered.results["nest"].body) if isinstance(n, nest.LoopNode))
    inside = dict.fromkeys(n.address.rpartition(".")[0] for n in loops)
    return Clocked(library.address(program.symbol), keep, layout, tuple(s for s in inside if s not in timed_stages))


@dataclass(frozen=True, eq=False)
class _Form:
    """The kernel with a clock in it, ready to run: its clock, and the arrays that a run changes with what they held."""

    code: Clocked
    ready: Ready
    clock: np.ndarray
    changed: tuple[tuple[np.ndarray, np.ndarray], ...]

    def restore(self) -> None:
        for array, held in self.changed:
            array[...] = held


def _form(fast: Compiled, ready: Ready) -> _Form:
    roles = fast._roles
    arrays = ready.arrays[: len(roles)]
    aliases = fast._aliases(arrays)
    key = tuple(map(stride_class, arrays)), aliases
    code = fast._clocked.get(key) or fast._clocked.setdefault(key, clocked(fast, *key))
    clock = np.zeros(len(code.layout), np.int64)
    shared = {name for pair in aliases for name in pair}
    changed = [a for a, r in zip(arrays, roles, strict=True) if r[1] == "inout" or (r[1] == "out" and r[0] in shared)]
    there = replace(ready, kernel=code.address, arrays=[*ready.arrays, clock], keep=(ready, code))
    return _Form(code, there, clock, tuple((a, a.copy()) for a in changed))


@dataclass(frozen=True, eq=False)
class _Measured:
    """What the clock says after the fastest run, the cycles of the fastest run without it, cycles a second."""

    clock: np.ndarray
    plain: int
    rate: float
    runs: int


def _measured(form: _Form, ready: Ready, context: abi.Context, seconds: float) -> _Measured:
    clocked = (np.zeros(len(form.clock), np.int64), _ENDLESS)
    plain, runs, begun = _ENDLESS, -1, (0, 0.0)
    while True:
        form.restore()
        form.clock[:] = 0
        _run(form.ready, context)
        now, at = time.perf_counter(), int(form.clock[form.code.layout[(READING,)]])
        form.restore()
        passed = _run(ready, context)
        runs += 1
        if runs == 0:  # the first one warms up
            begun = at, now
            continue
        plain = min(plain, passed)
        if (spent := form.code.cycles(form.clock)) < clocked[1]:
            clocked = form.clock.copy(), spent
        if runs >= _RUNS and now - begun[1] >= seconds:
            return _Measured(clocked[0], plain, (at - begun[0]) / (now - begun[1]), runs)


def _run(ready: Ready, context: abi.Context) -> int:
    """Run a kernel; the cycles that it took."""
    passed = ctypes.c_int64()
    with stages.running(context) as own:
        code = _timer()(ready.kernel, *ready.words, ctypes.addressof(own), ctypes.addressof(passed))
    if code:
        ready.fail(code)
    return passed.value


@functools.cache
def _timer() -> Callable[..., int]:
    library = load(target.optimize_and_emit(_TIMER), ("tw_timer",)).pin()
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 7)(library.address("tw_timer"))


_TIMER = """
declare i64 @llvm.readcyclecounter()

define i32 @tw_timer(ptr %kernel, ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context, ptr %passed) {
  %begun = call i64 @llvm.readcyclecounter()
  %code = call i32 %kernel(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context)
  %ended = call i64 @llvm.readcyclecounter()
  %cycles = sub i64 %ended, %begun
  store i64 %cycles, ptr %passed
  ret i32 %code
}
"""


def _profile(kernel: str, form: _Form, m: _Measured) -> Profile:
    inside, outside = _cost()
    entries: dict[str, int] = {}
    cost: dict[str, float] = {}  # of the clock, at most
    for key, i in form.code.layout.items():
        if key[0] == ENTRIES:
            _, name, around = key
            n = int(m.clock[i])
            entries[name] = entries.get(name, 0) + n
            cost[name] = cost.get(name, 0) + n * inside
            cost[around] = cost.get(around, 0) + n * outside
    raw = {name: int(m.clock[form.code.layout[(CYCLES, name)]]) for name in entries}
    less = {name: min(cost[name], raw[name]) for name in entries}
    most = sum(less.values())
    part = min(1.0, max(0.0, (sum(raw.values()) - m.plain) / most)) if most else 0.0
    rest, *some = (StageTime(s, (raw[s] - part * less[s]) / m.rate, n) for s, n in entries.items())
    return Profile(kernel, (*some, rest), m.plain / m.rate, part * most / m.rate, m.runs, form.code.inside)


@functools.cache
def _cost() -> tuple[float, float]:
    """Cycles that it takes to enter and leave a section: how many of them count as its own, and as what is around it."""
    times = 1000
    i = ir.var("i")
    loop = L.For(i, ir.integer(0), ir.integer(times), L.SERIAL, L.Section(L.TIMED, "nothing", L.Block(())))
    program = L.Program("tw_clock", (), (), (), (), (), L.Section(L.TIMED, ELSE, loop))
    layout = clock_layout(program)
    library = load(target.optimize_and_emit(emit(program)), (program.symbol,))
    context = runtime.context(1)
    found: list[tuple[float, float]] = []
    for _ in range(20):
        clock = np.zeros(len(layout), np.int64)
        invoke(library.address(program.symbol), ctypes.addressof(context), [clock], [], [])
        found.append(tuple(int(clock[layout[(CYCLES, s)]]) / times for s in ("nothing", ELSE)))  # type: ignore[arg-type]
    return min(found, key=sum)


__all__ = ["Clocked", "Profile", "StageTime", "profile"]
