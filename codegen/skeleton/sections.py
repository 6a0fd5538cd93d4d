"""Sections that compute: what they wait for, and what their counts cost."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import check, fresh, grow, product
from tilewright.codegen.skeleton.timing import record, record_wait, settle, slot_of, touch


def look_at_slot(m, slot, reads, writes, clock):
    """When a section may use a slot, why not earlier, and what of that a copy's descriptors cost."""
    touch(m, slot + L.TOUCHED)
    settle(m, slot, writes, 1)
    when, cause, issue = clock, L.NO_COPY, 0
    if m[slot + L.READY] > when:
        when, cause, issue = m[slot + L.READY], m[slot + L.READY_CAUSE], m[slot + L.READY_ISSUE]
    if m[slot + L.OUTER_READY] > when:
        when, cause, issue = m[slot + L.OUTER_READY], L.STORE, m[slot + L.OUTER_READY_ISSUE]
    if writes != 0:
        if m[slot + L.FREE] > when:
            when, cause, issue = m[slot + L.FREE], m[slot + L.FREE_CAUSE], m[slot + L.FREE_ISSUE]
        if m[slot + L.OUTER_FREE] > when:
            when, cause, issue = m[slot + L.OUTER_FREE], L.LOAD, m[slot + L.OUTER_FREE_ISSUE]
    return when, cause, issue


def slots_used(m, use, slot):
    """First slot and number of slots of a use; slot -1 is all of them."""
    if slot >= 0:
        return slot, 1
    return 0, m[m[L.BUFFERS] + L.BUFFER_SIZE * m[use] + L.B_SLOTS]


def begin_section(m, section):
    """The core waits for what the section uses; the arguments are a slot for each use. The last to arrive is the cause."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * section
    m[L.SECTION] = section
    latest, cause, issue, last = m[L.CLOCK], L.NO_COPY, 0, 0
    for i in range(m[at + L.C_N_USES]):
        use = m[at + L.C_USES] + L.USE_SIZE * i
        first, count = slots_used(m, use, m[m[L.ARGUMENTS] + i])
        for s in range(first, first + count):
            when, why, part = look_at_slot(m, slot_of(m, m[use], s), m[use + 2], m[use + 3], latest)
            if when > latest:
                latest, cause, issue, last = when, why, part, i
    if latest > m[L.CLOCK]:
        path = m[L.PATH] + m[at + L.C_PATH] + L.P_USES + 3 * last
        part = min(issue, latest - m[L.CLOCK])
        m[path + L.W_ISSUE] += part
        m[path + (L.W_LOAD if cause == L.LOAD else L.W_STORE)] += latest - m[L.CLOCK] - part
        why, buffer = (L.WHY_LOAD if cause == L.LOAD else L.WHY_STORE), m[m[at + L.C_USES] + L.USE_SIZE * last]
        record_wait(m, m[at + L.C_NAME], L.WHY_ISSUE, buffer, m[L.CLOCK], m[L.CLOCK] + part)
        record_wait(m, m[at + L.C_NAME], why, buffer, m[L.CLOCK] + part, latest)
        m[L.CLOCK] = latest
    for r in range(m[L.N_RESOURCES]):
        m[m[L.COST] + r] = 0
    m[L.UNIT_LATENCY] = 0
    for i in range(m[at + L.C_N_USES]):  # kept, because what is inside has arguments of its own
        m[m[at + L.C_SLOTS] + i] = m[m[L.ARGUMENTS] + i]


def flush(m, section):
    """Add what was counted since the last time to the costs."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * section
    counters, last, cost = m[L.COUNTERS], m[L.LAST], m[L.COST]
    for i in range(m[at + L.C_N_WEIGHTS]):
        weight = m[at + L.C_WEIGHTS] + L.WEIGHT_SIZE * i
        grow(m, cost + m[weight + 1], product(m, m[counters + m[weight]] - m[last + m[weight]], m[weight + 2]))
    for k in range(m[at + L.C_C0], m[at + L.C_C1]):
        m[last + k] = m[counters + k]


def end_section(m, section):
    """Let the time of the section pass, from its costs."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * section
    flush(m, section)
    busy, bank = 0, 0
    for r in range(m[L.N_RESOURCES]):
        resource = m[L.RESOURCES] + L.RESOURCE_SIZE * r
        ticks = m[m[L.COST] + r]
        grow(m, m[L.USED] + r, ticks)
        if m[resource + L.R_SCOPE] == L.OF_MACHINE:
            ticks = product(m, ticks, m[L.ACTIVE])
        if m[resource + L.R_KIND] != 0:
            bank += ticks
            check(m, bank)
        else:
            busy = max(busy, ticks)
    latency = m[L.UNIT_LATENCY] + m[L.LATENCY] if busy > 0 else 0
    m[at + L.M_BUSY], m[at + L.M_BANK], m[at + L.M_LATENCY] = busy, bank, latency
    finish_section(m, section)


def finish_section(m, section):
    """The section takes as long as noted, and its slots have been used until then."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * section
    path = m[L.PATH] + m[at + L.C_PATH]
    m[m[L.SUMS] + m[at + L.C_SUMS]] += 1
    m[path + L.P_BUSY] += m[at + L.M_BUSY]
    m[path + L.P_BANK] += m[at + L.M_BANK]
    m[path + L.P_LATENCY] += m[at + L.M_LATENCY]
    start = m[L.CLOCK]
    worked = start + m[at + L.M_BUSY]
    served = worked + m[at + L.M_BANK]
    end = served + m[at + L.M_LATENCY]
    record(m, L.TRACK_COMPUTE, m[at + L.C_NAME], start, worked, -1, -1, -1)
    record_wait(m, m[at + L.C_NAME], L.WHY_BANK, -1, worked, served)
    record_wait(m, m[at + L.C_NAME], L.WHY_LATENCY, -1, served, end)
    m[L.CLOCK] = end
    check(m, end)
    for i in range(m[at + L.C_N_USES]):
        use = m[at + L.C_USES] + L.USE_SIZE * i
        first, count = slots_used(m, use, m[m[at + L.C_SLOTS] + i])
        for s in range(first, first + count):
            leave_slot(m, slot_of(m, m[use], s), m[use + 3], end)


def leave_slot(m, slot, writes, end):
    touch(m, slot + L.TOUCHED)
    if end >= m[slot + L.FREE]:
        m[slot + L.FREE], m[slot + L.FREE_CAUSE], m[slot + L.FREE_ISSUE] = end, L.NO_COPY, 0
    if writes != 0:
        m[slot + L.READY], m[slot + L.READY_CAUSE], m[slot + L.READY_ISSUE] = end, L.NO_COPY, 0


def call_unit(m, unit):
    """A unit is called; the arguments are the extents of its roles."""
    at = m[L.UNITS] + L.UNIT_SIZE * unit
    for i in range(m[at + L.U_N_ROLES]):
        extent = m[m[L.ARGUMENTS] + i]
        if extent <= 0:
            return
        m[m[L.VALUES] + m[at + L.U_ROLES] + i] = extent
    grow(m, m[L.COST] + m[at + L.U_RESOURCE], fresh(m, m[at + L.U_SINK]))
    m[L.UNIT_LATENCY] = max(m[L.UNIT_LATENCY], m[at + L.U_LATENCY])


def fork_costs(m, section, loop, trips):
    """A loop whose iterations run at once begins inside of a section."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[at + L.L_INERT] = 1 if m[at + L.L_MODE] == L.MODE_PARALLEL and m[L.PARALLEL] != 0 else 0
    if m[at + L.L_INERT] != 0:
        return
    if m[at + L.L_MODE] == L.MODE_PARALLEL:
        m[L.PARALLEL] = 1
    m[at + L.L_CHUNK] = (trips + m[L.CORES] - 1) // m[L.CORES] if m[at + L.L_MODE] == L.MODE_PARALLEL else 1
    m[at + L.L_POSITION] = 0
    flush(m, section)
    n = m[L.N_RESOURCES]
    for r in range(n):  # costs before, the most expensive chunk so far, this chunk
        m[m[at + L.L_FORK] + r] = m[m[L.COST] + r]
        m[m[at + L.L_FORK] + n + r] = 0
        m[m[at + L.L_FORK] + 2 * n + r] = 0
        m[m[L.COST] + r] = 0


def is_sum(m, resource, mode):
    """Whether the costs of iterations that run at once add up."""
    at = m[L.RESOURCES] + L.RESOURCE_SIZE * resource
    if mode < L.MODE_SPATIAL:
        return m[at + L.R_SCOPE] == L.OF_MACHINE
    return (m[at + L.R_AXES] >> (mode - L.MODE_SPATIAL)) & 1 == 0


def next_costs(m, section, loop, count):
    """`count` iterations that cost what one has cost since the last time are over."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    if m[at + L.L_INERT] != 0:
        return
    flush(m, section)
    n, chunk, position = m[L.N_RESOURCES], m[at + L.L_CHUNK], m[at + L.L_POSITION]
    for r in range(n):
        cost = m[m[L.COST] + r]
        m[m[L.COST] + r] = 0
        product(m, cost, max(count, chunk))  # no less than those below
        most, current = m[at + L.L_FORK] + n + r, m[at + L.L_FORK] + 2 * n + r
        if is_sum(m, r, m[at + L.L_MODE]):
            grow(m, most, cost * count)
        elif position + count < chunk:
            grow(m, current, cost * count)
        else:
            taken = chunk - position
            m[most] = max(m[most], m[current] + cost * taken)
            check(m, m[most])
            if count - taken >= chunk:
                m[most] = max(m[most], cost * chunk)
            m[current] = cost * ((count - taken) % chunk)
    m[at + L.L_POSITION] = (position + count) % chunk


def join_costs(m, loop):
    """All iterations are over: the most expensive chunk counts."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    if m[at + L.L_INERT] != 0:
        return
    if m[at + L.L_MODE] == L.MODE_PARALLEL:
        m[L.PARALLEL] = 0
    n = m[L.N_RESOURCES]
    for r in range(n):
        most = max(m[m[at + L.L_FORK] + n + r], m[m[at + L.L_FORK] + 2 * n + r])
        grow(m, m[L.COST] + r, m[m[at + L.L_FORK] + r] + most)
