"""The default schedule: directives for the stages that no directive names. It is everyone's first impression.

General rules, none keyed to an operator's name:

* a Func that is cheap, or used once for each of its elements, is inlined; else it is computed in the outermost loop
  of its consumer where that loop's iterations need separate parts of it, else as a whole;
* where a part would be too narrow, without its vector axis or without the axis along which operands are reused, the
  consumer's loop is cut into strips, and it is computed in these;
* the vector axis is the last axis of what is stored, or the reduction variable where the loads run along that;
* some points of a pure definition are computed together where several of its vectors are the same for all of them;
* a cheap pure definition that reads along one axis and writes along another has tiles, transposed in registers;
* a reduction whose operands are reused gets a register tile; operands that lie across its vectors are packed;
* a reduction along the vector axis runs in lanes, and in blocks whose partial sums combine pairwise;
* a reduction of data that are read once, across the vector axis, takes its data as they lie in memory;
* the first two loops of a stage at the root are parallel, and the first one of what is computed in its outermost loop: a
  call shares out the outermost of them that has iterations enough.

What reassociates depends on the algorithm alone (never on the processor), and nothing does in mode `strict`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from tilewright.lang.errors import ScheduleError
from tilewright.schedule.build import Builder
from tilewright.schedule.default_loops import loops
from tilewright.schedule.default_places import place
from tilewright.schedule.registers import Registers, host_registers
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Key


def complete(
    schedule: Schedule, mode: str = "contract", registers: Registers | None = None, also: Collection[Key] = (),
    single: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Schedule:  # fmt: skip
    """A copy of `schedule` in which every stage that no directive names, and those of `also`, has the default schedule.

    `single` says, by Func, which variables have a single index at the sizes that it is for.
    """
    registers = registers or host_registers()
    full = schedule.copy()
    untouched = [s.key for s in full.state.stages.values() if not s.scheduled or s.key in also]
    place(full, registers)
    left = [k for k in untouched if k in full.state.stages and full.state.funcs[k[0]].compute.kind != "inline"]
    b = Builder(full.state, "strict")
    if left:
        b.infer()
    for key in left:
        if key in full.state.stages and full.state.funcs[key[0]].compute.kind != "inline":
            before = full.directives, full.state
            try:
                loops(full, full.state.stages[key], mode, registers, b, single.get(key[0], ()))
            except ScheduleError:  # against what the user said: then the stage stays plain
                full.directives, full.state = before
    full.added = len(full) - len(schedule)
    return full
