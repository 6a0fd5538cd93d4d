"""The state of the machine as far as a loop's body touches it: kept, put back, and compared.

The engine knows times only by their order and their distances. If after some iterations everything that they touched
is as it was, only later by as much as the clock, all iterations after them that cost the same do the same once more.
"""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.timing import slot_of


def copy_out(m, source, to, count):
    """Copy words; the place after them in the target."""
    m[to : to + count] = m[source : source + count]
    return to + count


def channel_words(m, channel):
    """How many words of a channel mean anything."""
    return L.H_PENDING + L.ENTRY_SIZE * m[channel + L.H_COUNT]


def save(m, loop, to):
    """Keep the state, and the accounts, of what a loop touches."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[to], m[to + 1], m[to + 2] = m[L.CLOCK], m[L.STAMP], m[L.FRAME]
    to += 3
    for i in range(m[at + L.L_N_CHANNELS]):
        channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[m[at + L.L_CHANNELS] + i]
        copy_out(m, channel, to, channel_words(m, channel))
        to += L.CHANNEL_SIZE
    for i in range(m[at + L.L_N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * m[m[at + L.L_ENGINES] + i]
        to = copy_out(m, engine, to, L.ENGINE_SIZE)
        to = copy_out(m, m[engine + L.N_DONE], to, m[engine + L.N_QUEUE])
    for i in range(m[at + L.L_N_BUFFERS]):
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i]
        to = copy_out(m, m[L.SLOTS] + L.SLOT_SIZE * m[buffer + L.B_FIRST], to, L.SLOT_SIZE * m[buffer + L.B_SLOTS])
    if m[L.SYNC] != 0:
        if m[L.FRAME] >= 0:
            copy_out(m, m[L.FRAME], to, frame_size(m))
        to += frame_size(m)
    save_accounts(m, at, to)


def frame_size(m):
    return L.F_LINES + L.F_LINE_SIZE * (m[L.N_CHANNELS] + m[L.N_ENGINES])


def save_accounts(m, at, to):
    to = copy_out(m, m[L.COUNTERS] + m[at + L.L_C0], to, m[at + L.L_C1] - m[at + L.L_C0])
    to = copy_out(m, m[L.SUMS] + m[at + L.L_S0], to, m[at + L.L_S1] - m[at + L.L_S0])
    to = copy_out(m, m[L.PATH] + m[at + L.L_P0], to, m[at + L.L_P1] - m[at + L.L_P0])
    copy_out(m, m[L.USED], to, m[L.N_RESOURCES])


def accounts(m, at, saved):
    """Where the accounts are in what was saved."""
    return saved + m[at + L.L_SNAP_SIZE] - m[L.N_RESOURCES] - (
        m[at + L.L_C1] - m[at + L.L_C0] + m[at + L.L_S1] - m[at + L.L_S0] + m[at + L.L_P1] - m[at + L.L_P0]
    )  # fmt: skip


def agrees(then, now, delta, low):
    """Whether a time has moved with the clock, or has stayed where it is too early to matter."""
    return now - then == delta or (now == then and then < low)


def earliest(m, loop, saved):
    """A time that no copy of the loop's body started before, since the state was saved."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    low, stamp = m[saved], m[saved + 1]
    place = slots_saved(m, at, saved)
    for i in range(m[at + L.L_N_BUFFERS]):
        touched = m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * m[touched]
        turns = m[m[at + L.L_ROTATIONS] + i] > 0
        for s in range(m[buffer + L.B_SLOTS]):
            if turns or m[m[L.SLOTS] + L.SLOT_SIZE * (m[buffer + L.B_FIRST] + s) + L.TOUCHED] > stamp:
                if m[touched + 1] & 1:
                    low = min(low, m[place + L.FREE])
                if m[touched + 1] & 2:
                    low = min(low, m[place + L.READY])
            place += L.SLOT_SIZE
    return low


def slots_saved(m, at, saved):
    """Where the slots are in what was saved."""
    place = saved + 3 + L.CHANNEL_SIZE * m[at + L.L_N_CHANNELS]
    for i in range(m[at + L.L_N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * m[m[at + L.L_ENGINES] + i]
        place += L.ENGINE_SIZE + m[engine + L.N_QUEUE]
    return place


def turned(m, loop, slot, count):
    """The place of a slot's record after `count` iterations' turns of its ring."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    number = (slot - m[L.SLOTS]) // L.SLOT_SIZE
    for i in range(m[at + L.L_N_BUFFERS]):
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * m[m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i]
        first, slots = m[buffer + L.B_FIRST], m[buffer + L.B_SLOTS]
        if first <= number < first + slots:
            turn = max(0, m[m[at + L.L_ROTATIONS] + i]) * count
            return m[L.SLOTS] + L.SLOT_SIZE * (first + (number - first + turn) % slots)
    return slot


def same_channel(m, loop, channel, saved, period, delta, low):
    if m[channel + L.H_COUNT] != m[saved + L.H_COUNT] or not agrees(
        m[saved + L.H_END], m[channel + L.H_END], delta, low
    ):
        return False
    for i in range(m[channel + L.H_COUNT]):
        then, now = saved + L.H_PENDING + L.ENTRY_SIZE * i, channel + L.H_PENDING + L.ENTRY_SIZE * i
        if (
            m[now + L.E_READY] - m[then + L.E_READY] != delta
            or m[now + L.E_COPY] != m[then + L.E_COPY]
            or m[now + L.E_ISSUE] != m[then + L.E_ISSUE]
            or m[now + L.E_DATA] != m[then + L.E_DATA]
            or m[now + L.E_BOX] >= 0
            or m[now + L.E_SOURCE] != turned(m, loop, m[then + L.E_SOURCE], period)
            or m[now + L.E_TARGET] != turned(m, loop, m[then + L.E_TARGET], period)
        ):
            return False
    return True


def same_engine(m, engine, saved, delta, low):
    if not agrees(m[saved + L.N_BUS], m[engine + L.N_BUS], delta, low):
        return False
    queue = m[engine + L.N_QUEUE]
    for i in range(queue):
        then = m[saved + L.ENGINE_SIZE + (m[saved + L.N_POSITION] + i) % queue]
        now = m[m[engine + L.N_DONE] + (m[engine + L.N_POSITION] + i) % queue]
        if not agrees(then, now, delta, low):
            return False
    return True


def same_slot(m, slot, saved, delta, low):
    for k in range(L.TOUCHED):
        then, now = m[saved + k], m[slot + k]
        if k == L.READY or k == L.FREE or k == L.OUTER_READY or k == L.OUTER_FREE or k == L.BOX_FLOOR:
            if not agrees(then, now, delta, low):
                return False
        elif then != now:
            return False
    return True


def same_slots(m, loop, saved, period, delta, low):
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    stamp = m[saved + 1]
    place = slots_saved(m, at, saved)
    for i in range(m[at + L.L_N_BUFFERS]):
        touched = m[at + L.L_BUFFERS] + L.TOUCH_SIZE * i
        buffer = m[L.BUFFERS] + L.BUFFER_SIZE * m[touched]
        if m[buffer + L.B_BOXES] >= 0 and m[m[buffer + L.B_BOXES] + L.BOXES_COUNT] > 0:
            return False
        turn = max(0, m[m[at + L.L_ROTATIONS] + i])
        for s in range(m[buffer + L.B_SLOTS]):
            slot = slot_of(m, m[touched], s + turn * period)
            if (turn > 0 or m[slot + L.TOUCHED] > stamp) and not same_slot(m, slot, place, delta, low):
                return False
            place += L.SLOT_SIZE
    return True


def same_frame(m, at, saved, delta):
    """Whether the phases around are as they were, but for what adds up in them."""
    if m[L.FRAME] != m[saved + 2]:
        return False
    if m[L.SYNC] == 0 or m[L.FRAME] < 0:
        return True
    place = accounts(m, at, saved) - frame_size(m)
    began = m[m[L.FRAME] + L.F_BEGAN] - m[place + L.F_BEGAN]
    if m[m[L.FRAME] + L.F_WORK] != m[place + L.F_WORK] or (began != 0 and began != delta):
        return False
    for c in range(m[L.N_CHANNELS] + m[L.N_ENGINES]):
        now, then = m[L.FRAME] + L.F_LINES + L.F_LINE_SIZE * c, place + L.F_LINES + L.F_LINE_SIZE * c
        if (
            m[now + L.F_TAKEN] != m[then + L.F_TAKEN]
            or m[now + L.F_STORES_1] != m[then + L.F_STORES_1]
            or m[now + L.F_STORES_2] != m[then + L.F_STORES_2]
            or m[now + L.F_LATENCY] != m[then + L.F_LATENCY]
        ):
            return False
    return True


def repeats(m, loop, saved, period):
    """Whether the state is the one that was saved `period` iterations ago, all later by the same time."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    delta, stamp = m[L.CLOCK] - m[saved], m[saved + 1]
    low = earliest(m, loop, saved)
    place = saved + 3
    for i in range(m[at + L.L_N_CHANNELS]):
        channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[m[at + L.L_CHANNELS] + i]
        if m[channel + L.H_TOUCHED] > stamp and not same_channel(m, loop, channel, place, period, delta, low):
            return False
        place += L.CHANNEL_SIZE
    for i in range(m[at + L.L_N_ENGINES]):
        engine = m[L.ENGINES] + L.ENGINE_SIZE * m[m[at + L.L_ENGINES] + i]
        if m[engine + L.N_TOUCHED] > stamp and not same_engine(m, engine, place, delta, low):
            return False
        place += L.ENGINE_SIZE + m[engine + L.N_QUEUE]
    return same_frame(m, at, saved, delta) and same_slots(m, loop, saved, period, delta, low)
