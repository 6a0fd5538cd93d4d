"""Fast forward: what a loop's iterations did once is done many times at once; and cores that start from one state."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.boxes import forget_boxes
from tilewright.codegen.skeleton.expressions import grow, product
from tilewright.codegen.skeleton.state import (
    accounts,
    copy_out,
    frame_size,
    save,
    save_accounts,
    slots_saved,
    turned,
)
from tilewright.codegen.skeleton.timing import settle_all, slot_of, touch


def multiply(m, target, saved, count, times):
    """Numbers grow by what they have grown by since they were saved, so many times more."""
    most = L.LARGEST // max(1, times)
    for i in range(count):
        grown = m[target + i] - m[saved + i]
        if grown > most:
            m[L.BEYOND] = 1
        grow(m, target + i, grown * times)
    return saved + count


def multiply_accounts(m, at, saved, times):
    """Counters, sums, and what belongs to the path."""
    place = multiply_sums(m, at, saved, times)
    place = multiply(m, m[L.PATH] + m[at + L.L_P0], place, m[at + L.L_P1] - m[at + L.L_P0], times)
    multiply(m, m[L.USED], place, m[L.N_RESOURCES], times)


def multiply_sums(m, at, saved, times):
    place = multiply(m, m[L.COUNTERS] + m[at + L.L_C0], saved, m[at + L.L_C1] - m[at + L.L_C0], times)
    place = multiply(m, m[L.SUMS] + m[at + L.L_S0], place, m[at + L.L_S1] - m[at + L.L_S0], times)
    copy_out(m, m[L.COUNTERS] + m[at + L.L_C0], m[L.LAST] + m[at + L.L_C0], m[at + L.L_C1] - m[at + L.L_C0])
    return place


def later(m, place, then, shift, delta):
    """A time that moves with the clock goes on doing so."""
    if m[place] - then == delta:
        m[place] += shift


def skip(m, loop, saved, period, times):
    """Do what happened in the `period` iterations since the state was saved so many times more."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    delta, stamp = m[L.CLOCK] - m[saved], m[saved + 1]
    shift = product(m, delta, times)
    place = saved + 3
    for i in range(m[at + L.L_N_CHANNELS]):
        channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[m[at + L.L_CHANNELS] + i]
        if m[channel + L.H_TOUCHED] > stamp:
            later(m, channel + L.H_END, m[place + L.H_END], shift, delta)
            for k in range(m[channel + L.H_COUNT]):
                entry = channel + L.H_PENDING + L.ENTRY_SIZE * k
                m[entry + L.E_READY] += shift
                m[entry + L.E_SOURCE] = turned(m, loop, m[entry + L.E_SOURCE], period * times)
                m[entry + L.E_TARGET] = turned(m, loop, m[entry + L.E_TARGET], period * times)
        place += L.CHANNEL_SIZE
    for i in range(m[at + L.L_N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * m[m[at + L.L_ENGINES] + i]
        queue = m[engine + L.N_QUEUE]
        if m[engine + L.N_TOUCHED] > stamp:
            later(m, engine + L.N_BUS, m[place + L.N_BUS], shift, delta)
            for k in range(queue):
                then = m[place + L.ENGINE_SIZE + (m[place + L.N_POSITION] + k) % queue]
                later(m, m[engine + L.N_DONE] + (m[engine + L.N_POSITION] + k) % queue, then, shift, delta)
        place += L.ENGINE_SIZE + queue
    skip_slots(m, loop, saved, period, times)
    skip_frame(m, at, saved, delta, times)
    multiply_accounts(m, at, accounts(m, at, saved), times)
    grow(m, L.CLOCK, shift)


def skip_slots(m, loop, saved, period, times):
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    delta, stamp = m[L.CLOCK] - m[saved], m[saved + 1]
    place = slots_saved(m, at, saved)
    for i in range(m[at + L.L_N_BUFFERS]):
        number = m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i]
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * number
        turn, slots = max(0, m[m[at + L.L_ROTATIONS] + i]), m[buffer + L.B_SLOTS]
        for s in range(slots):
            slot = slot_of(m, number, s + turn * period)
            if turn > 0 or m[slot + L.TOUCHED] > stamp:
                for k in (L.READY, L.FREE, L.OUTER_READY, L.OUTER_FREE, L.BOX_FLOOR):
                    later(m, slot + k, m[place + k], delta * times, delta)
            place += L.SLOT_SIZE
        turn_slots(m, number, turn * period * times % slots)


def turn_slots(m, buffer, turn):
    """What is in slot s is in slot s + turn from now on."""
    at = m[L.BUFFERS] + L.BUFFER_SIZE * buffer
    slots = m[at + L.B_SLOTS]
    if turn == 0:
        return
    first = slot_of(m, buffer, 0)
    copy_out(m, first, m[L.TURNING], L.SLOT_SIZE * slots)
    for s in range(slots):
        slot = slot_of(m, buffer, s + turn)
        copy_out(m, m[L.TURNING] + L.SLOT_SIZE * s, slot, L.SLOT_SIZE)
        touch(m, slot + L.TOUCHED)


def skip_frame(m, at, saved, delta, times):
    """Phases around: copies of the iteration under way add up, its beginning moves if it is one of this loop."""
    if m[L.SYNC] == 0 or m[L.FRAME] < 0:
        return
    place = accounts(m, at, saved) - frame_size(m)
    later(m, m[L.FRAME] + L.F_BEGAN, m[place + L.F_BEGAN], delta * times, delta)
    multiply(m, m[L.FRAME] + L.F_COUNT, place + L.F_COUNT, 1, times)
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        now, then = m[L.FRAME] + L.F_LINES + L.F_LINE_SIZE * c, place + L.F_LINES + L.F_LINE_SIZE * c
        multiply(m, now + L.F_LOADS, then + L.F_LOADS, 3, times)  # loads, stores, and the total


def put_back(m, loop, saved):
    """Make the state, and what belongs to the path, what was saved."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[L.CLOCK] = m[saved]
    place = saved + 3
    for i in range(m[at + L.L_N_CHANNELS]):
        channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[m[at + L.L_CHANNELS] + i]
        m[channel + L.H_END], m[channel + L.H_COUNT] = m[place + L.H_END], 0
        touch(m, channel + L.H_TOUCHED)
        place += L.CHANNEL_SIZE
    for i in range(m[at + L.L_N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * m[m[at + L.L_ENGINES] + i]
        copy_out(m, place, engine, L.ENGINE_SIZE)
        touch(m, engine + L.N_TOUCHED)
        copy_out(m, place + L.ENGINE_SIZE, m[engine + L.N_DONE], m[engine + L.N_QUEUE])
        place += L.ENGINE_SIZE + m[engine + L.N_QUEUE]
    for i in range(m[at + L.L_N_BUFFERS]):
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i]
        for s in range(m[buffer + L.B_SLOTS]):
            slot = m[L.SLOTS] + L.SLOT_SIZE * (m[buffer + L.B_FIRST] + s)
            copy_out(m, place, slot, L.SLOT_SIZE)
            touch(m, slot + L.TOUCHED)
            place += L.SLOT_SIZE
        boxes = m[buffer + L.B_BOXES]
        if boxes >= 0:
            m[boxes + L.BOXES_COUNT] = 0
    put_back_path(m, at, saved)


def put_back_path(m, at, saved):
    place = saved + m[at + L.L_SNAP_SIZE] - m[L.N_RESOURCES]
    copy_out(m, place, m[L.USED], m[L.N_RESOURCES])
    copy_out(m, place - (m[at + L.L_P1] - m[at + L.L_P0]), m[L.PATH] + m[at + L.L_P0], m[at + L.L_P1] - m[at + L.L_P0])


def fork_cores(m, loop, trips):
    """A loop with copies whose iterations run at once begins: every core starts from this state."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[at + L.L_INERT] = 1 if m[at + L.L_MODE] == L.MODE_PARALLEL and m[L.PARALLEL] != 0 else 0
    if m[at + L.L_INERT] != 0:
        return
    settle_all(m)
    m[at + L.L_OUTER_ACTIVE] = m[L.ACTIVE]
    if m[at + L.L_MODE] == L.MODE_PARALLEL:
        m[L.PARALLEL] = 1
        m[L.ACTIVE] *= min(trips, m[L.CORES])
        m[at + L.L_CHUNK] = (trips + m[L.CORES] - 1) // m[L.CORES]
    else:
        m[L.ACTIVE] *= trips
        m[at + L.L_CHUNK] = 1
    m[at + L.L_POSITION] = 0
    m[at + L.L_FORKED] = 0
    m[at + L.L_RECORDS] = m[L.RECORDED]
    save(m, loop, m[at + L.L_FORK])
    for i in range(m[at + L.L_N_BUFFERS]):
        forget_boxes(m, m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i])


def core_accounts(m, at):
    """Where the accounts are as they were when the core began."""
    return m[at + L.L_FORK] + 2 * m[at + L.L_SNAP_SIZE]


def keep_records(m, at, slowest):
    """Of all cores the intervals of the slowest are kept, as their times are."""
    if slowest and m[at + L.L_RECORDED] < m[L.RECORDED]:
        kept, count = m[at + L.L_RECORDS], m[L.RECORDED] - m[at + L.L_RECORDED]
        first = m[L.INTERVALS] + L.INTERVAL_SIZE * m[at + L.L_RECORDED]
        copy_out(m, first, m[L.INTERVALS] + L.INTERVAL_SIZE * kept, L.INTERVAL_SIZE * count)
        m[at + L.L_RECORDED] = kept + count
    m[L.RECORDED] = m[at + L.L_RECORDED]


def merge_core(m, loop):
    """A core has done its chunk: the state is the latest of all cores; the path is that of the first of the slowest."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    settle_all(m)
    joined = m[at + L.L_FORK] + m[at + L.L_SNAP_SIZE]
    if m[at + L.L_FORKED] == 0:
        m[at + L.L_FORKED] = 1
        m[at + L.L_RECORDED] = m[L.RECORDED]
        save(m, loop, joined)
    else:
        keep_records(m, at, m[L.CLOCK] > m[joined])
        merge_state(m, at, joined)
        if m[L.CLOCK] > m[joined]:
            m[joined] = m[L.CLOCK]
            save_accounts(m, at, accounts(m, at, joined))
    put_back(m, loop, m[at + L.L_FORK])


def merge_time(m, saved, now):
    m[saved] = max(m[saved], m[now])


def merge_state(m, at, joined):
    place = joined + 3
    for i in range(m[at + L.L_N_CHANNELS]):
        merge_time(m, place + L.H_END, m[L.CHANNELS] + L.CHANNEL_SIZE * m[m[at + L.L_CHANNELS] + i] + L.H_END)
        place += L.CHANNEL_SIZE
    for i in range(m[at + L.L_N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * m[m[at + L.L_ENGINES] + i]
        queue = m[engine + L.N_QUEUE]
        merge_time(m, place + L.N_BUS, engine + L.N_BUS)
        for k in range(queue):
            then = place + L.ENGINE_SIZE + (m[place + L.N_POSITION] + k) % queue
            merge_time(m, then, m[engine + L.N_DONE] + (m[engine + L.N_POSITION] + k) % queue)
        place += L.ENGINE_SIZE + queue
    for i in range(m[at + L.L_N_BUFFERS]):
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i]
        for s in range(m[buffer + L.B_SLOTS]):
            slot = m[L.SLOTS] + L.SLOT_SIZE * (m[buffer + L.B_FIRST] + s)
            for k in (L.READY, L.FREE, L.OUTER_READY, L.OUTER_FREE):
                if m[slot + k] > m[place + k]:
                    for j in range(k, k + (3 if k == L.READY or k == L.FREE else 2)):
                        m[place + j] = m[slot + j]
            place += L.SLOT_SIZE


def join_cores(m, loop):
    """All cores are done: the state is that of all together. The engines' time was divided among them."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    if m[at + L.L_INERT] != 0:
        return
    put_back(m, loop, m[at + L.L_FORK] + m[at + L.L_SNAP_SIZE])
    for i in range(m[at + L.L_N_BUFFERS]):
        forget_boxes(m, m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i])
    share = m[L.ACTIVE] // m[at + L.L_OUTER_ACTIVE]
    saved = accounts(m, at, m[at + L.L_FORK]) + m[at + L.L_C1] - m[at + L.L_C0]
    for i in range(m[at + L.L_N_COPIES]):
        sums = m[m[L.COPIES] + L.COPY_SIZE * m[m[at + L.L_COPIES] + i] + L.D_SUMS]
        for place in (sums + L.A_TRANSFER, sums + L.A_DATA):
            before = m[saved + place - m[at + L.L_S0]]
            m[m[L.SUMS] + place] = before + (m[m[L.SUMS] + place] - before) // share
    m[L.ACTIVE] = m[at + L.L_OUTER_ACTIVE]
    if m[at + L.L_MODE] == L.MODE_PARALLEL:
        m[L.PARALLEL] = 0
