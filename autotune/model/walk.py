"""Cycles of a program on one core whose data are all near: straight code by its instructions, loops by their trips.

Parallel loops count as their longest share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.autotune.model.core import Core
from tilewright.autotune.model.samples import Samples
from tilewright.autotune.model.straight import Straight, straight
from tilewright.codegen import loops as L
from tilewright.codegen.work import ENOUGH

_BEGIN = 6.0  # cycles of a loop that begins: addresses, the first results
_END = 14.0  # that ends after many turns: nobody has foreseen it
_FORESEEN = 8.0  # turns of which the end is
_TURN = 1.0  # instructions of a turn besides its work, each
_TASKS = 8_000.0  # cycles until all threads work on a parallel loop, and until all have ended
_CALL = 20_000.0  # of a function of the user's: nothing is known of it
_MAKE = 60.0  # of a buffer that is made


@dataclass(frozen=True, slots=True)
class Computing:
    """Cycles that computing takes: as long as the longest thread works, and what all of them work together."""

    cycles: float
    work: float

    @property
    def speedup(self) -> float:
        return self.work / self.cycles if self.cycles else 1.0


class Walk:
    """The cycles of statements, each as often as it runs."""

    def __init__(self, core: Core, samples: Samples, threads: int) -> None:
        self.core, self.samples, self.threads = core, samples, threads
        self.sharing = 1.0  # threads that work side by side here, as far as their loop goes around evenly
        self.cycles = self.work = 0.0

    def run(self, program: L.Program) -> Computing:
        self.statement(program.body)
        return Computing(self.cycles, self.work)

    def add(self, cycles: float) -> None:
        self.work += cycles
        self.cycles += cycles / self.sharing

    def statement(self, s: L.Stmt) -> None:
        if straight(s):
            self.block((s,))
            return
        match s:
            case L.Block(statements):
                together: list[L.Stmt] = []
                for t in statements:
                    if straight(t):
                        together.append(t)
                        continue
                    self.block(together)
                    together = []
                    self.statement(t)
                self.block(together)
            case L.If(condition, then, otherwise, versions):
                held = self.samples.holds(condition)
                if versions:
                    held = (held > 0).astype(float)
                outer = self.samples.weight
                for share, branch in ((held, then), (1 - held, otherwise)):
                    if branch is not None and share.any():
                        self.samples.weight = outer * share
                        self.statement(branch)
                self.samples.weight = outer
            case L.For():
                self.loop(s)
            case L.Allocate(buffer, body):
                if buffer.memory != "reg":
                    self.add(self.samples.runs * _MAKE)
                self.statement(body)
            case L.Call():
                self.add(self.samples.runs * _CALL)
            case _:
                for t in L.children(s):
                    self.statement(t)

    def block(self, statements: Sequence[L.Stmt]) -> None:
        runs = self.samples.runs
        if statements and runs:
            found = Straight(self.core, self.samples).run(statements)
            self.add(runs * (found.turn.cycles(self.core) + found.stalls))

    def loop(self, s: L.For) -> None:
        begun = self.samples.runs
        outer, trips = self.samples.enter(s.var, s.start, s.stop)
        if trips and begun:
            sharing = self.sharing
            if s.mode == L.PARALLEL and sharing == 1 and self.threads > 1 and trips > 1:
                self._share(s, trips, begun)
            end = _BEGIN + (_END if trips > _FORESEEN else 0.0)
            if straight(s.body):
                self._inner(s, trips, begun)
            else:
                self.statement(s.body)
                self.add(self.samples.runs * _TURN)
            self.add(begun * end)
            self.sharing = sharing
        self.samples.leave(s.var, outer)

    def _share(self, s: L.For, trips: float, begun: float) -> None:
        work = None if s.work is None else self.samples.values((s.work,))
        if work is not None and float(work[0].mean()) * trips < ENOUGH:
            return
        n = min(self.threads, math.ceil(trips))
        self.sharing = trips / math.ceil(trips / n)
        self.add(begun * _TASKS)

    def _inner(self, s: L.For, trips: float, begun: float) -> None:
        found = Straight(self.core, self.samples, s.var).run((s.body,))
        found.turn.others += 2 * _TURN
        each = max(found.turn.cycles(self.core) + found.stalls, found.chain)
        self.add(self.samples.runs * each + begun * found.before.cycles(self.core))


__all__ = ["Computing", "Walk"]
