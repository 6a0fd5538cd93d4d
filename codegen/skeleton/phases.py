"""Rings between barriers: in a phase the loads of an iteration, the work of the one before and the stores of the one before
that happen at once, then everybody waits for everybody. A loop of n iterations has n + 2 phases. Work may copy too
(synchronously, or in phases of its own): a channel is taken by that, by the loads and by the stores in turn.
"""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import check, product
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
    m[frame + L.F_BEGAN], m[frame + L.F_COUNT], m[frame + L.F_WORK] = m[L.CLOCK], 0, 0
    m[frame + L.F_MARK], m[frame + L.F_MARK_1] = m[L.RECORDED], m[L.RECORDED]
    for i in range(L.F_LINE_SIZE * (m[L.N_CHANNELS] + m[L.N_ENGINES])):
        m[frame + L.F_LINES + i] = 0
    for i in range(m[at + L.L_N_COPIES]):
        copy = m[L.COPIES] + L.COPY_SIZE * m[m[at + L.L_COPIES] + i]
        for k in (L.P_TICKS, L.P_BYTES, L.P_TICKS_1, L.P_BYTES_1, L.P_TICKS_2, L.P_BYTES_2):
            m[copy + k] = 0
    add_totals(m, loop)


def add_totals(m, loop):
    """Add what the copies of a loop have taken of each line since the program began."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    for i in range(m[at + L.L_N_COPIES]):
        copy = m[L.COPIES] + L.COPY_SIZE * m[m[at + L.L_COPIES] + i]
        sums = m[L.SUMS] + m[copy + L.D_SUMS]
        engine = m[copy + L.D_ENGINE]
        m[line_of(m, m[at + L.L_FRAME], m[copy + L.D_CHANNEL]) + L.F_TOTAL] += m[sums + L.A_TRANSFER]
        if m[m[L.ENGINES] + L.ENGINE_SIZE * engine + L.N_CONTENTION] == L.FIFO:
            m[line_of(m, m[at + L.L_FRAME], m[L.N_CHANNELS] + engine) + L.F_TOTAL] += m[sums + L.A_DATA]


def add_to_phase(m, number):
    """An asynchronous copy of this iteration."""
    copy = m[L.COPIES] + L.COPY_SIZE * number
    engine = m[L.ENGINES] + L.ENGINE_SIZE * m[copy + L.D_ENGINE]
    data = product(m, m[copy + L.G_DATA], m[L.ACTIVE])
    if m[engine + L.N_CONTENTION] == L.PARTITIONED:
        data = product(m, data, m[engine + L.N_COUNT])
    time = m[copy + L.G_ISSUE] + data
    add_to_line(m, line_of(m, m[L.FRAME], m[copy + L.D_CHANNEL]), copy, engine, time)
    m[copy + L.P_TICKS] += time
    m[copy + L.P_BYTES] += m[copy + L.G_BYTES]
    if m[engine + L.N_CONTENTION] == L.FIFO:
        add_to_line(m, line_of(m, m[L.FRAME], m[L.N_CHANNELS] + m[copy + L.D_ENGINE]), copy, engine, data)


def add_to_line(m, line, copy, engine, time):
    m[line + L.F_LATENCY] = m[engine + L.N_LATENCY]
    if m[copy + L.D_INWARD] != 0:
        m[line + L.F_LOADS] += time
    else:
        m[line + L.F_STORES] += time


def run_phase(m, loop, loads):
    """Let a phase pass (with this iteration's loads if `loads` is 1); its ticks. The work is that of the one before."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame, path = m[at + L.L_FRAME], m[L.PATH] + m[at + L.L_WAITS]
    work = m[frame + L.F_WORK]
    longest, cause = 0, L.PHASE_LOAD
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        line = line_of(m, frame, c)
        load, store = m[line + L.F_LOADS] * loads, m[line + L.F_STORES_2]
        time = load + store + m[line + L.F_TAKEN]
        if load + store > 0:
            if c < m[L.N_CHANNELS] and m[L.RECORDED] < m[L.LIMIT]:
                show_copies(m, loop, c, loads)
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


def show_copies(m, loop, channel, loads):
    """The intervals of a phase's copies on a channel: one for all that a copy of the program does there, loads first."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    start = m[m[at + L.L_FRAME] + L.F_BEGAN]
    for inward in (1, 0):
        for i in range(m[at + L.L_N_COPIES]):
            copy = m[L.COPIES] + L.COPY_SIZE * m[m[at + L.L_COPIES] + i]
            if m[copy + L.D_CHANNEL] == channel and m[copy + L.D_INWARD] == inward:
                if inward == 0:
                    start = show_copy(m, m[at + L.L_FRAME], copy, start, m[copy + L.P_TICKS_2], m[copy + L.P_BYTES_2])
                elif loads != 0:
                    start = show_copy(m, m[at + L.L_FRAME], copy, start, m[copy + L.P_TICKS], m[copy + L.P_BYTES])


def show_copy(m, frame, copy, start, ticks, size):
    """The intervals of a copy from `start` on, where the work leaves its channel free; when they end."""
    channel = m[copy + L.D_CHANNEL]
    while ticks > 0:
        end = start + ticks
        taken = -1  # until when by the work
        for i in range(m[frame + L.F_MARK_1], m[frame + L.F_MARK]):
            interval = m[L.INTERVALS] + L.INTERVAL_SIZE * i
            if m[interval + L.I_TRACK] == L.TRACK_CHANNEL + channel:
                if m[interval + L.I_START] <= start < m[interval + L.I_END]:
                    taken = m[interval + L.I_END]
                elif start < m[interval + L.I_START]:
                    end = min(end, m[interval + L.I_START])
        if taken < 0:
            part = product(m, size, end - start) // ticks
            record_copy(m, channel, m[copy + L.D_SECTION], start, end, part)
            ticks -= end - start
            size -= part
        start = end if taken < 0 else taken
    return start


def end_phase(m, loop):
    """An iteration of a loop with rings ends: what the core did in it belongs to the next phase."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame = m[at + L.L_FRAME]
    work = m[L.CLOCK] - m[frame + L.F_BEGAN]
    mark, now = m[frame + L.F_MARK], m[L.RECORDED]
    time = run_phase(m, loop, 1)
    for i in range(mark, now):
        interval = m[L.INTERVALS] + L.INTERVAL_SIZE * i
        m[interval + L.I_START] += time
        m[interval + L.I_END] += time
    next_phase(m, loop, work, time)


def next_phase(m, loop, work, time):
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame = m[at + L.L_FRAME]
    m[frame + L.F_WORK] = work
    m[frame + L.F_COUNT] += 1
    m[frame + L.F_BEGAN] += time
    m[L.CLOCK] = m[frame + L.F_BEGAN]
    check(m, m[L.CLOCK])
    hold_back(m)
    m[frame + L.F_MARK_1], m[frame + L.F_MARK] = m[frame + L.F_MARK], m[L.RECORDED]
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        line = line_of(m, frame, c)
        m[line + L.F_STORES_2], m[line + L.F_STORES_1] = m[line + L.F_STORES_1], m[line + L.F_STORES]
        m[line + L.F_TAKEN] = -(m[line + L.F_TOTAL] + m[line + L.F_LOADS] + m[line + L.F_STORES])
        m[line + L.F_LOADS], m[line + L.F_STORES], m[line + L.F_TOTAL] = 0, 0, 0
    for i in range(m[at + L.L_N_COPIES]):
        copy = m[L.COPIES] + L.COPY_SIZE * m[m[at + L.L_COPIES] + i]
        m[copy + L.P_TICKS_2], m[copy + L.P_TICKS_1], m[copy + L.P_TICKS] = (
            m[copy + L.P_TICKS_1],
            m[copy + L.P_TICKS],
            0,
        )
        m[copy + L.P_BYTES_2], m[copy + L.P_BYTES_1], m[copy + L.P_BYTES] = (
            m[copy + L.P_BYTES_1],
            m[copy + L.P_BYTES],
            0,
        )
    add_totals(m, loop)
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        line = line_of(m, frame, c)
        m[line + L.F_TAKEN] += m[line + L.F_TOTAL]


def hold_back(m):
    """What the core did in an iteration is done for the next one, although its time is the next phase's."""
    for c in range(m[L.N_CHANNELS]):
        no_later(m, m[L.CHANNELS] + L.CHANNEL_SIZE * c + L.H_END)
    for e in range(m[L.N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * e
        no_later(m, engine + L.N_BUS)
        for k in range(m[engine + L.N_QUEUE]):
            no_later(m, m[engine + L.N_DONE] + k)
    for s in range(m[L.N_SLOTS]):
        for k in (L.READY, L.FREE, L.OUTER_READY, L.OUTER_FREE, L.BOX_FLOOR):
            no_later(m, m[L.SLOTS] + L.SLOT_SIZE * s + k)
    for b in range(m[L.N_BUFFERS]):
        boxes = m[m[L.BUFFERS] + L.BUFFER_SIZE * b + L.B_BOXES]
        if boxes >= 0:
            for i in range(m[boxes + L.BOXES_COUNT]):
                no_later(m, boxes + L.BOXES_FIRST + L.BOX_SIZE * i + L.X_DONE)


def no_later(m, place):
    m[place] = min(m[place], m[L.CLOCK])


def end_phases(m, loop):
    """A loop with rings ends: the last iteration's work, and then its stores."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    frame = m[at + L.L_FRAME]
    if m[frame + L.F_COUNT] > 0:
        for _ in range(2):
            next_phase(m, loop, 0, run_phase(m, loop, 0))
    m[L.FRAME] = m[at + L.L_OUTER_FRAME]
