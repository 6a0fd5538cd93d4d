"""When copies run: channels, queues, slots of rings, and stores that are placed in time only when it matters."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import check, product


def record(m, track, section, start, end, cause, buffer, size):
    """Keep an interval, if so many are wanted and it takes any time."""
    if end > start and m[L.RECORDED] < m[L.LIMIT]:
        at = m[L.INTERVALS] + L.INTERVAL_SIZE * m[L.RECORDED]
        m[at + L.I_TRACK], m[at + L.I_SECTION], m[at + L.I_START], m[at + L.I_END] = track, section, start, end
        m[at + L.I_CAUSE], m[at + L.I_BUFFER], m[at + L.I_BYTES] = cause, buffer, size
        m[L.RECORDED] += 1


def record_wait(m, section, cause, buffer, start, end):
    """Keep an interval in which the core waits."""
    record(m, L.TRACK_WAIT, section, start, end, cause, buffer, -1)


def record_copy(m, channel, section, start, end, size):
    """Keep an interval in which a channel is taken."""
    record(m, L.TRACK_CHANNEL + channel, section, start, end, -1, -1, size)


def touch(m, place):
    """Note that something is looked at or changed (for who compares states)."""
    m[L.STAMP] += 1
    m[place] = m[L.STAMP]


def place(m, number, ready, issue, data, size):
    """Put a copy on its channel as soon as it is ready and the channel and the queue are; when it is done.

    `data` is the ticks on the bus at the full rate of a channel, `size` the bytes (for who shows them).
    """
    copy = m[L.COPIES] + L.COPY_SIZE * number
    channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[copy + L.D_CHANNEL]
    engine = m[L.ENGINES] + L.ENGINE_SIZE * m[copy + L.D_ENGINE]
    touch(m, channel + L.H_TOUCHED)
    touch(m, engine + L.N_TOUCHED)
    data = product(m, data, m[L.ACTIVE])
    if m[engine + L.N_CONTENTION] == L.PARTITIONED:
        data = product(m, data, m[engine + L.N_COUNT])
    oldest = m[engine + L.N_DONE] + m[engine + L.N_POSITION]
    start = max(ready, m[channel + L.H_END], m[oldest])
    end = start + issue + data
    if m[engine + L.N_CONTENTION] == L.FIFO:
        end = max(start + issue, m[engine + L.N_BUS]) + data
        m[engine + L.N_BUS] = end
    m[channel + L.H_END] = end
    done = end + m[engine + L.N_LATENCY]
    check(m, done)
    m[oldest] = done
    m[engine + L.N_POSITION] = (m[engine + L.N_POSITION] + 1) % m[engine + L.N_QUEUE]
    record_copy(m, m[copy + L.D_CHANNEL], m[copy + L.D_SECTION], start, end, size)
    return done


def commit_first(m, channel):
    """Place the store of a channel that is ready first."""
    entry = channel + L.H_PENDING
    number, issue = m[entry + L.E_COPY], m[entry + L.E_ISSUE]
    done = place(m, number, m[entry + L.E_READY], issue, m[entry + L.E_DATA], m[entry + L.E_BYTES])
    source, target = m[entry + L.E_SOURCE], m[entry + L.E_TARGET]
    finish_store(m, source, target, done, issue)
    m[source + L.PENDING_OUT] -= 1
    m[target + L.PENDING_IN] -= 1
    if m[entry + L.E_BOX] >= 0:
        m[m[entry + L.E_BOX] + L.X_DONE] = done
    m[channel + L.H_COUNT] -= 1
    for i in range(L.ENTRY_SIZE * m[channel + L.H_COUNT]):
        m[entry + i] = m[entry + L.ENTRY_SIZE + i]


def finish_store(m, source, target, done, issue):
    """A copy out of a tile is done at a known time."""
    touch(m, source + L.TOUCHED)
    touch(m, target + L.TOUCHED)
    if done >= m[source + L.FREE]:
        m[source + L.FREE], m[source + L.FREE_CAUSE], m[source + L.FREE_ISSUE] = done, L.STORE, issue
    if done >= m[target + L.OUTER_READY]:
        m[target + L.OUTER_READY], m[target + L.OUTER_READY_ISSUE] = done, issue


def finish_load(m, source, target, done, issue, cause):
    """A copy into a tile is done at a known time."""
    touch(m, source + L.TOUCHED)
    touch(m, target + L.TOUCHED)
    if done >= m[source + L.OUTER_FREE]:
        m[source + L.OUTER_FREE], m[source + L.OUTER_FREE_ISSUE] = done, issue
    m[target + L.READY], m[target + L.READY_CAUSE], m[target + L.READY_ISSUE] = done, cause, issue
    m[target + L.FREE], m[target + L.FREE_CAUSE], m[target + L.FREE_ISSUE] = done, cause, issue


def commit_before(m, channel, ready, ties):
    """Place the stores of a channel that are ready before a time (or then, with `ties`)."""
    while m[channel + L.H_COUNT] > 0 and m[channel + L.H_PENDING + L.E_READY] < ready + ties:
        commit_first(m, channel)


def settle(m, slot, out, into):
    """Place stores until none that waits comes out of (`out`) or goes into (`into`) a slot."""
    while (out != 0 and m[slot + L.PENDING_OUT] > 0) or (into != 0 and m[slot + L.PENDING_IN] > 0):
        for c in range(m[L.N_CHANNELS]):
            channel = m[L.CHANNELS] + L.CHANNEL_SIZE * c
            if concerns(m, channel, slot, out, into):
                commit_first(m, channel)


def concerns(m, channel, slot, out, into):
    """Whether a store that waits on a channel touches a slot."""
    for i in range(m[channel + L.H_COUNT]):
        entry = channel + L.H_PENDING + L.ENTRY_SIZE * i
        if (out != 0 and m[entry + L.E_SOURCE] == slot) or (into != 0 and m[entry + L.E_TARGET] == slot):
            return True
    return False


def settle_all(m):
    """Place all stores."""
    for c in range(m[L.N_CHANNELS]):
        channel = m[L.CHANNELS] + L.CHANNEL_SIZE * c
        while m[channel + L.H_COUNT] > 0:
            commit_first(m, channel)


def postpone(m, number, ready, issue, data, source, target, box):
    """Keep a store until it is known that nothing goes before it."""
    channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[m[L.COPIES] + L.COPY_SIZE * number + L.D_CHANNEL]
    touch(m, channel + L.H_TOUCHED)
    if m[channel + L.H_COUNT] == L.MAX_PENDING:
        commit_first(m, channel)
    at = m[channel + L.H_COUNT]
    while at > 0 and m[channel + L.H_PENDING + L.ENTRY_SIZE * (at - 1) + L.E_READY] > ready:
        for i in range(L.ENTRY_SIZE):
            m[channel + L.H_PENDING + L.ENTRY_SIZE * at + i] = m[channel + L.H_PENDING + L.ENTRY_SIZE * (at - 1) + i]
        at -= 1
    entry = channel + L.H_PENDING + L.ENTRY_SIZE * at
    m[entry + L.E_READY], m[entry + L.E_COPY], m[entry + L.E_SOURCE], m[entry + L.E_TARGET] = (
        ready,
        number,
        source,
        target,
    )
    m[entry + L.E_ISSUE], m[entry + L.E_DATA], m[entry + L.E_BOX] = issue, data, box
    m[entry + L.E_BYTES] = m[m[L.COPIES] + L.COPY_SIZE * number + L.G_BYTES]
    m[channel + L.H_COUNT] += 1
    touch(m, source + L.TOUCHED)
    touch(m, target + L.TOUCHED)
    m[source + L.PENDING_OUT] += 1
    m[target + L.PENDING_IN] += 1


def slot_of(m, buffer, slot):
    """The record of a slot of a buffer."""
    at = m[L.BUFFERS] + L.BUFFER_SIZE * buffer
    return m[L.SLOTS] + L.SLOT_SIZE * (m[at + L.B_FIRST] + slot % m[at + L.B_SLOTS])


def start_life(m, buffer):
    """All slots of a buffer are there from now on, with nothing in them."""
    at = m[L.BUFFERS] + L.BUFFER_SIZE * buffer
    for i in range(m[at + L.B_SLOTS]):
        slot = slot_of(m, buffer, i)
        for k in range(L.TOUCHED):
            m[slot + k] = 0
        for k in (L.READY, L.FREE, L.OUTER_READY, L.OUTER_FREE):
            m[slot + k] = m[L.CLOCK]
        touch(m, slot + L.TOUCHED)
    if m[at + L.B_BOXES] >= 0:
        m[m[at + L.B_BOXES] + L.BOXES_COUNT] = 0


def last_use(m, buffer):
    """When all that happens to a buffer is done."""
    at = m[L.BUFFERS] + L.BUFFER_SIZE * buffer
    latest = 0
    for i in range(m[at + L.B_SLOTS]):
        slot = slot_of(m, buffer, i)
        settle(m, slot, 1, 1)
        latest = max(latest, m[slot + L.READY], m[slot + L.FREE], m[slot + L.OUTER_READY], m[slot + L.OUTER_FREE])
    return latest
