"""A driver that writes down the accesses of a kernel, one after the other: what caches would be driven by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.codegen import instrumented
from tilewright.codegen import loops as L
from tilewright.codegen.accounts.prepared import registers_of
from tilewright.codegen.cpu_caches.driving import main_buffers
from tilewright.codegen.emit import Driver
from tilewright.codegen.emit.builder import Module
from tilewright.hw import Cache, Machine, load_machine
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

ROOM = 200_000


def machine(*caches: Cache) -> Machine:
    """The toy machine with caches."""
    return replace(load_machine("toy"), name="cached", caches=caches)


class Recorder:
    """Entries (address, bytes, whether it writes, number of the buffer) behind their count."""

    def __init__(self, program: L.Program, on: Machine):
        self.buffers = main_buffers(program, on)
        self.state = np.zeros(1 + 4 * ROOM, np.int64)
        self.driver = Driver({b: k for k, b in enumerate(self.buffers)}, _define)

    def finish(self) -> None:
        assert self.state[0] <= ROOM

    @property
    def entries(self) -> list[tuple[str, int, int, bool]]:
        """(buffer, address, bytes, whether it writes)"""
        rows = self.state[1 : 1 + 4 * int(self.state[0])].reshape(-1, 4).tolist()
        return [(self.buffers[n].name, at, size, bool(w)) for at, size, w, n in rows]


def _define(m: Module) -> None:
    for kind, write in (("read", 0), ("write", 1)):
        m.functions.append(f"""define internal void @driver.{kind}(ptr %s, i64 %a, i64 %b, i64 %n) nounwind {{
entry:
  %count = load i64, ptr %s
  %more = add i64 %count, 1
  store i64 %more, ptr %s
  %room = icmp slt i64 %count, {ROOM}
  br i1 %room, label %put, label %end
put:
  %words = mul i64 %count, 4
  %first = add i64 %words, 1
  %p0 = getelementptr i64, ptr %s, i64 %first
  store i64 %a, ptr %p0
  %p1 = getelementptr i64, ptr %p0, i64 1
  store i64 %b, ptr %p1
  %p2 = getelementptr i64, ptr %p0, i64 2
  store i64 {write}, ptr %p2
  %p3 = getelementptr i64, ptr %p0, i64 3
  store i64 %n, ptr %p3
  br label %end
end:
  ret void
}}""")


def driven(s: Schedule, sizes: dict[str, int], on: Machine, make: Callable[[L.Program, Machine], Any], inputs=None):
    """(what `make` made of the program, what ran) of a schedule, completed as `simulate` does."""
    state = complete(s, "contract", registers_of(on)).state
    made: list[Any] = []

    def drive(program: L.Program) -> Any:
        made.append(make(program, on))
        return made[0]

    run = instrumented.run(s.pipeline, state, sizes, "contract", inputs or {}, drive=drive)
    return made[0], run


def accesses(s: Schedule, sizes: dict[str, int], on: Machine, inputs: dict | None = None):
    """(the accesses in order, what ran)"""
    recorder, run = driven(s, sizes, on, Recorder, inputs)
    return recorder.entries, run
