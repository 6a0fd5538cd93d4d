"""What moves the engine from outside: its own walk through the table, or the steps of a program that runs on data.

A step is `drive(m, values, step, site, count)`. `values` are the arguments of a step, or the program's counters; `site` is a
number of `Encoded.sites` (or of a buffer or unit).
"""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.copies import run_copy
from tilewright.codegen.skeleton.forward import fork_cores, join_cores, merge_core
from tilewright.codegen.skeleton.geometry import measure
from tilewright.codegen.skeleton.phases import begin_phases, end_phase, end_phases
from tilewright.codegen.skeleton.sections import (
    begin_section,
    call_unit,
    end_section,
    fork_costs,
    join_costs,
    next_costs,
)
from tilewright.codegen.skeleton.timing import start_life
from tilewright.codegen.skeleton.walk import end_life, finish, start, walk


def take(m, values, count):
    """Make the values the arguments."""
    for i in range(count):
        m[m[L.ARGUMENTS] + i] = values[i]


def take_counters(m, values):
    for k in range(m[L.N_COUNTERS]):
        m[m[L.COUNTERS] + k] = values[k]


def look(m, values):
    """Take over the counters of the section under way."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * m[L.SECTION]
    for k in range(m[at + L.C_C0], m[at + L.C_C1]):
        m[m[L.COUNTERS] + k] = values[k]


def drive_copy(m, values, site):
    """A copy: the values are those of `tree.Copy` in order (see `layout.D_SINKS`)."""
    copy = m[L.COPIES] + L.COPY_SIZE * site
    take(m, values, 4 + 3 * m[copy + L.D_RANK])
    measure(m, site)
    run_copy(m, site)


def drive_fork(m, values, site, trips):
    """A parallel or spatial loop begins."""
    at = m[L.LOOPS] + L.LOOP_SIZE * site
    if m[at + L.L_EVENTS] != 0:
        m[at + L.L_V], m[at + L.L_END] = 0, trips
        fork_cores(m, site, trips)
    else:
        look(m, values)
        fork_costs(m, m[L.SECTION], site, trips)


def drive_next(m, values, site):
    """An iteration of such a loop ends."""
    at = m[L.LOOPS] + L.LOOP_SIZE * site
    if m[at + L.L_EVENTS] == 0:
        look(m, values)
        next_costs(m, m[L.SECTION], site, 1)
        return
    m[at + L.L_V] += 1
    if m[at + L.L_INERT] == 0 and (m[at + L.L_V] % m[at + L.L_CHUNK] == 0 or m[at + L.L_V] == m[at + L.L_END]):
        merge_core(m, site)


def drive_join(m, site):
    """Such a loop ends, if it had iterations."""
    if m[m[L.LOOPS] + L.LOOP_SIZE * site + L.L_EVENTS] != 0:
        join_cores(m, site)
    else:
        join_costs(m, site)


def drive_section(m, values, step, site):
    if step == L.STEP_BEGIN:
        take(m, values, m[m[L.SECTIONS] + L.SECTION_SIZE * site + L.C_N_USES])
        begin_section(m, site)
    elif step == L.STEP_END:
        look(m, values)
        end_section(m, site)
    else:
        take(m, values, m[m[L.UNITS] + L.UNIT_SIZE * site + L.U_N_ROLES])
        call_unit(m, site)


def drive_loop(m, values, step, site, count):
    if step == L.STEP_FORK:
        drive_fork(m, values, site, count)
    elif step == L.STEP_NEXT:
        drive_next(m, values, site)
    elif step == L.STEP_JOIN:
        drive_join(m, site)
    elif m[L.SYNC] != 0:
        if step == L.STEP_RING:
            begin_phases(m, site)
        elif step == L.STEP_TURN:
            end_phase(m, site)
        else:
            end_phases(m, site)


def drive(m, values, step, site, count):
    """One step of a program, or a whole walk."""
    if step == L.STEP_WALK:
        walk(m)
    elif step == L.STEP_START:
        start(m)
    elif step == L.STEP_FINISH:
        take_counters(m, values)
        finish(m)
    elif step <= L.STEP_UNIT:
        drive_section(m, values, step, site)
    elif step == L.STEP_COPY:
        drive_copy(m, values, site)
    elif step == L.STEP_LIFE:
        start_life(m, site)
    elif step == L.STEP_DEATH:
        end_life(m, site)
    else:
        drive_loop(m, values, step, site, count)
