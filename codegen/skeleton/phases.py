"""Rings between barriers: in a phase the loads of an iteration, the work of the one before and the stores of the one before
that happen at once, then everybody waits for everybody. A loop of n iterations has n + 2 phases.
"""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import product
from tilewright.codegen.skeleton.timing import record_copy, record_wait


def line_of(m, frame, line):
    """What a phase keeps of a channel, or (after the channels) of an engine whose data go one after the other."""
    return frame + L.F_LINES + L.F_LINE_SIZE * line


def begin_phases(m, loop):
    """A loop with rings begins."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame = m[at + L.L_FRAME]
    m[at + L.L_OUTER_FRAME] = m[L.FRAME]
    m[L.FRAME] = frame
    m[frame + L.F_BEGAN], m[frame + L.F_COUNT], m[frame + L.F_WORK], m[frame + L.F_MARK] = (
        m[L.CLOCK],
        0,
        0,
        m[L.RECORDED],
    )
    for i in range(L.F_LINE_SIZE * (m[L.N_CHANNELS] + m[L.N_ENGINES])):
        m[frame + L.F_LINES + i] = 0


def add_to_phase(m, number):
    """An asynchronous copy of this iteration."""
    copy = m[L.COPIES] + L.COPY_SIZE * number
    engine = m[L.ENGINES] + L.ENGINE_SIZE * m[copy + L.D_ENGINE]
    data = product(m, m[copy + L.G_DATA], m[L.ACTIVE])
    if m[engine + L.N_CONTENTION] == L.PARTITIONED:
        data = product(m, data, m[engine + L.N_COUNT])
    add_to_line(m, line_of(m, m[L.FRAME], m[copy + L.D_CHANNEL]), copy, engine, m[copy + L.G_ISSUE] + data)
    if m[engine + L.N_CONTENTION] == L.FIFO:
        add_to_line(m, line_of(m, m[L.FRAME], m[L.N_CHANNELS] + m[copy + L.D_ENGINE]), copy, engine, data)


def add_to_line(m, line, copy, engine, time):
    m[line + L.F_LATENCY] = m[engine + L.N_LATENCY]
    if m[copy + L.D_INWARD] != 0:
        m[line + L.F_LOADS] += time
        m[line + L.F_LOAD_NAME] = m[copy + L.D_SECTION]
    else:
        m[line + L.F_STORES] += time
        m[line + L.F_STORE_NAME] = m[copy + L.D_SECTION]


def run_phase(m, frame, path, loads):
    """Let a phase pass (with this iteration's loads if `loads` is 1); its ticks. The work is that of the one before."""
    work = m[frame + L.F_WORK]
    longest, cause = 0, L.PHASE_LOAD
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        line = line_of(m, frame, c)
        load, store = m[line + L.F_LOADS] * loads, m[line + L.F_STORES_2]
        time = load + store
        if time > 0:
            if c < m[L.N_CHANNELS]:
                show_copies(m, frame, line, c, load, store)
            time += m[line + L.F_LATENCY]
        if time > longest:
            longest = time
            cause = L.PHASE_LOAD if load >= store else L.PHASE_STORE
    began = m[frame + L.F_BEGAN]
    if longest > work:
        m[path + cause] += longest - work
        why = L.WHY_LOAD if cause == L.PHASE_LOAD else L.WHY_STORE
        record_wait(m, -1, why, -1, began + work, began + longest)
        work = longest
    m[path + L.PHASE_BARRIER] += m[L.BARRIER]
    record_wait(m, -1, L.WHY_BARRIER, -1, began + work, began + work + m[L.BARRIER])
    return work + m[L.BARRIER]


def show_copies(m, frame, line, channel, load, store):
    """The intervals of a phase's copies, loads first."""
    start = m[frame + L.F_BEGAN]
    if load > 0:
        record_copy(m, channel, m[line + L.F_LOAD_NAME], start, start + load, -1)
    if store > 0:
        record_copy(m, channel, m[line + L.F_STORE_NAME], start + load, start + load + store, -1)


def end_phase(m, loop):
    """An iteration of a loop with rings ends: what the core did in it belongs to the next phase."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame = m[at + L.L_FRAME]
    work = m[L.CLOCK] - m[frame + L.F_BEGAN]
    mark, now = m[frame + L.F_MARK], m[L.RECORDED]
    time = run_phase(m, frame, m[L.PATH] + m[at + L.L_WAITS], 1)
    for i in range(mark, now):
        interval = m[L.INTERVALS] + L.INTERVAL_SIZE * i
        m[interval + L.I_START] += time
        m[interval + L.I_END] += time
    next_phase(m, frame, work, time)


def next_phase(m, frame, work, time):
    m[frame + L.F_WORK] = work
    m[frame + L.F_COUNT] += 1
    m[frame + L.F_BEGAN] += time
    m[L.CLOCK] = m[frame + L.F_BEGAN]
    hold_back(m)
    m[frame + L.F_MARK] = m[L.RECORDED]
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        line = line_of(m, frame, c)
        m[line + L.F_STORES_2], m[line + L.F_STORES_1] = m[line + L.F_STORES_1], m[line + L.F_STORES]
        m[line + L.F_LOADS], m[line + L.F_STORES] = 0, 0


def hold_back(m):
    """What the core did in an iteration is done for the next one, although its time is the next phase's."""
    for s in range(m[L.N_SLOTS]):
        slot = m[L.SLOTS] + L.SLOT_SIZE * s
        m[slot + L.READY] = min(m[slot + L.READY], m[L.CLOCK])
        m[slot + L.FREE] = min(m[slot + L.FREE], m[L.CLOCK])
        m[slot + L.OUTER_READY] = min(m[slot + L.OUTER_READY], m[L.CLOCK])
        m[slot + L.OUTER_FREE] = min(m[slot + L.OUTER_FREE], m[L.CLOCK])


def end_phases(m, loop):
    """A loop with rings ends: the last iteration's work, and then its stores."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame = m[at + L.L_FRAME]
    if m[frame + L.F_COUNT] > 0:
        for _ in range(2):
            next_phase(m, frame, 0, run_phase(m, frame, m[L.PATH] + m[at + L.L_WAITS], 0))
    m[L.FRAME] = m[at + L.L_OUTER_FRAME]
