"""The engine proper: it runs the flat program of a tree."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.copies import run_copy
from tilewright.codegen.skeleton.expressions import check, evaluate, fresh, grow, lanes_holding, product, value
from tilewright.codegen.skeleton.forward import (
    core_accounts,
    fork_cores,
    join_cores,
    merge_core,
    multiply,
    multiply_sums,
    skip,
)
from tilewright.codegen.skeleton.geometry import measure
from tilewright.codegen.skeleton.phases import begin_phases, end_phase, end_phases
from tilewright.codegen.skeleton.ranges import put, uniform
from tilewright.codegen.skeleton.sections import (
    begin_section,
    call_unit,
    end_section,
    finish_section,
    flush,
    fork_costs,
    join_costs,
    next_costs,
)
from tilewright.codegen.skeleton.state import copy_out, repeats, save, save_accounts
from tilewright.codegen.skeleton.timing import last_use, record_wait, settle_all, start_life


def is_uniform(m, loop, n):
    """Whether the next n iterations cost the same; notes how rings turn."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    for i in range(m[at + L.L_N_TURNS]):
        m[m[at + L.L_ROTATIONS] + i] = -1
    return uniform(m, loop, n)


def longest_range(m, loop, left):
    """How many of the iterations that are left cost what the next one costs: all, all but the last, or by bisection."""
    if is_uniform(m, loop, left) != 0:
        return left
    if left > 2 and is_uniform(m, loop, left - 1) != 0:
        return left - 1
    good, bad = 1, 2
    while bad < left and is_uniform(m, loop, bad) != 0:
        good, bad = bad, 2 * bad
    bad = min(bad, left)
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_uniform(m, loop, middle) != 0:
            good = middle
        else:
            bad = middle
    is_uniform(m, loop, good)
    return good


def new_context(m):
    m[L.CONTEXTS] += 1
    return m[L.CONTEXTS]


def find_range(m, loop):
    """Set the end of the range of uniform iterations that begins here, and its context."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    if m[L.FAST] == 0:
        m[at + L.L_RANGE_END] = m[at + L.L_V] + 1
        m[L.CONTEXT] = new_context(m)
        return
    offset, left = m[at + L.L_V] - m[at + L.L_FIRST], m[at + L.L_END] - m[at + L.L_V]
    n = m[at + L.L_N_BUFFERS]
    if m[at + L.L_KEY] != m[at + L.L_OUTER]:
        m[at + L.L_KEY], m[at + L.L_N_RANGES] = m[at + L.L_OUTER], 0
    for i in range(m[at + L.L_N_RANGES]):
        known = m[at + L.L_RANGES] + (3 + n) * i
        if m[known] == offset:
            m[at + L.L_RANGE_END], m[L.CONTEXT] = m[at + L.L_V] + m[known + 1], m[known + 2]
            copy_out(m, known + 3, m[at + L.L_ROTATIONS], n)
            return
    length = longest_range(m, loop, left)
    m[at + L.L_RANGE_END], m[L.CONTEXT] = m[at + L.L_V] + length, new_context(m)
    if m[at + L.L_N_RANGES] < L.MAX_RANGES:
        known = m[at + L.L_RANGES] + (3 + n) * m[at + L.L_N_RANGES]
        m[known], m[known + 1], m[known + 2] = offset, length, m[L.CONTEXT]
        copy_out(m, m[at + L.L_ROTATIONS], known + 3, n)
        m[at + L.L_N_RANGES] += 1


def begin_range(m, loop):
    """Iterations that cost the same begin."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    find_range(m, loop)
    m[at + L.L_BEGAN] = m[at + L.L_V]
    if m[at + L.L_RANGE_END] - m[at + L.L_V] > 1:
        if m[at + L.L_EVENTS] != 0:
            watch(m, loop)
        else:
            if m[at + L.L_COSTS] != 0:
                flush(m, m[L.SECTION])
            saved = copy_out(m, m[L.COUNTERS] + m[at + L.L_C0], m[at + L.L_SNAP], m[at + L.L_C1] - m[at + L.L_C0])
            copy_out(m, m[L.COST], saved, m[L.N_RESOURCES])


def watch(m, loop):
    """Look out for a state like this one."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[at + L.L_POWER], m[at + L.L_STEPS] = 1, 0
    save(m, loop, m[at + L.L_SNAP])


def enter(m, loop):
    """A loop begins: 1 if it has an iteration."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[at + L.L_FIRST], m[at + L.L_END] = fresh(m, m[at + L.L_START]), fresh(m, m[at + L.L_STOP])
    m[at + L.L_V], m[at + L.L_OUTER] = m[at + L.L_FIRST], m[L.CONTEXT]
    trips = max(0, m[at + L.L_END] - m[at + L.L_FIRST])
    if m[at + L.L_VISITS] >= 0:
        grow(m, m[L.COUNTERS] + m[at + L.L_VISITS], 1)
    if m[at + L.L_TRIPS] >= 0:
        grow(m, m[L.COUNTERS] + m[at + L.L_TRIPS], trips)
    if trips == 0:
        return 0
    if m[at + L.L_RING] != 0 and m[L.SYNC] != 0:
        begin_phases(m, loop)
    if m[at + L.L_MODE] != L.MODE_SERIAL:
        if m[at + L.L_EVENTS] == 0:
            fork_costs(m, m[L.SECTION], loop, trips)
        elif m[at + L.L_CORES] != 0:
            fork_cores(m, loop, trips)
            save_accounts(m, at, core_accounts(m, at))
    m[m[L.VALUES] + m[at + L.L_VAR]] = m[at + L.L_V]
    begin_range(m, loop)
    return 1


def leave(m, loop):
    """A loop that had iterations ends."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[L.CONTEXT] = m[at + L.L_OUTER]
    if m[at + L.L_RING] != 0 and m[L.SYNC] != 0:
        end_phases(m, loop)
    if m[at + L.L_MODE] != L.MODE_SERIAL:
        if m[at + L.L_EVENTS] == 0:
            join_costs(m, loop)
        elif m[at + L.L_CORES] != 0:
            join_cores(m, loop)


def advance(m, loop):
    """An iteration ends: 1 if there is another one to walk through."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    if m[at + L.L_EVENTS] == 0:
        advance_counts(m, at, loop)
    else:
        if m[at + L.L_RING] != 0 and m[L.SYNC] != 0:
            end_phase(m, loop)
        m[at + L.L_V] += 1
        if m[at + L.L_CORES] != 0 and m[at + L.L_INERT] == 0:
            advance_core(m, loop)
        elif m[at + L.L_V] < m[at + L.L_RANGE_END]:
            look_for_repeats(m, loop, m[at + L.L_RANGE_END])
    if m[at + L.L_V] >= m[at + L.L_END]:
        return 0
    m[m[L.VALUES] + m[at + L.L_VAR]] = m[at + L.L_V]
    if m[at + L.L_V] == m[at + L.L_RANGE_END]:
        m[L.CONTEXT] = m[at + L.L_OUTER]
        begin_range(m, loop)
    return 1


def advance_counts(m, at, loop):
    """Inside of a section only counts matter: one iteration stands for its whole range."""
    count = m[at + L.L_RANGE_END] - m[at + L.L_V]
    concurrent = m[at + L.L_MODE] != L.MODE_SERIAL and m[at + L.L_INERT] == 0
    if concurrent:
        next_costs(m, m[L.SECTION], loop, count)
    elif count > 1 and m[at + L.L_COSTS] != 0:
        flush(m, m[L.SECTION])
    if count > 1:
        saved = multiply(
            m, m[L.COUNTERS] + m[at + L.L_C0], m[at + L.L_SNAP], m[at + L.L_C1] - m[at + L.L_C0], count - 1
        )
        if concurrent or m[at + L.L_COSTS] != 0:
            copy_out(m, m[L.COUNTERS] + m[at + L.L_C0], m[L.LAST] + m[at + L.L_C0], m[at + L.L_C1] - m[at + L.L_C0])
        if not concurrent and m[at + L.L_COSTS] != 0:
            multiply(m, m[L.COST], saved, m[L.N_RESOURCES], count - 1)
    m[at + L.L_V] = m[at + L.L_RANGE_END]


def look_for_repeats(m, loop, end):
    """If the state is like one before, skip what repeats, up to `end`. Keeps a state and lets the next ones pass, as Brent
    finds cycles: one iteration, then two, four, ... until it is replaced."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    m[at + L.L_STEPS] += 1
    saved = m[at + L.L_SNAP]
    if repeats(m, loop, saved, m[at + L.L_STEPS]):
        times = (end - m[at + L.L_V]) // m[at + L.L_STEPS]
        if times > 0 and m[L.RECORDED] >= m[L.LIMIT]:
            skip(m, loop, saved, m[at + L.L_STEPS], times)
            m[at + L.L_V] += times * m[at + L.L_STEPS]
    elif m[at + L.L_STEPS] == m[at + L.L_POWER]:
        save(m, loop, saved)
        m[at + L.L_POWER] *= 2
        m[at + L.L_STEPS] = 0


def advance_core(m, loop):
    """An iteration on a core ends: perhaps its chunk; other cores with the same chunk add to the sums only."""
    at = m[L.LOOPS] + L.LOOP_SIZE * loop
    chunk = m[at + L.L_CHUNK]
    done = m[at + L.L_V] - m[at + L.L_FIRST]
    end = m[at + L.L_FIRST] + (done + chunk - 1) // chunk * chunk
    if m[at + L.L_V] < end and m[at + L.L_V] < m[at + L.L_RANGE_END]:
        look_for_repeats(m, loop, min(end, m[at + L.L_RANGE_END]))
    if m[at + L.L_V] == end or m[at + L.L_V] >= m[at + L.L_END]:
        whole = m[at + L.L_V] == end and end - chunk >= m[at + L.L_BEGAN] and turns_nothing(m, at)
        merge_core(m, loop)
        more = (m[at + L.L_RANGE_END] - m[at + L.L_V]) // chunk
        if whole and more > 0 and m[L.RECORDED] >= m[L.LIMIT]:
            multiply_sums(m, at, core_accounts(m, at), more)
            m[at + L.L_V] += more * chunk
        save_accounts(m, at, core_accounts(m, at))
        if m[at + L.L_V] < m[at + L.L_RANGE_END]:
            watch(m, loop)


def turns_nothing(m, at):
    """Whether every core uses the same slots of the rings around."""
    for i in range(m[at + L.L_N_BUFFERS]):  # noqa: SIM110 (`translate` knows no all())
        if m[m[at + L.L_ROTATIONS] + i] > 0:
            return False
    return True


def copy_step(m, number):
    """A copy with the present values of the variables."""
    copy = m[L.COPIES] + L.COPY_SIZE * number
    rank, sinks, arguments = m[copy + L.D_RANK], m[copy + L.D_SINKS], m[L.ARGUMENTS]
    if m[copy + L.G_CONTEXT] == m[L.CONTEXT] and m[copy + L.D_BOXES] == 0:
        m[arguments] = fresh(m, m[sinks])
        m[arguments + 2 + rank] = fresh(m, m[sinks + 2 + rank])
    else:
        for i in range(4 + 3 * rank):
            m[arguments + i] = fresh(m, m[sinks + i])
        measure(m, number)
        m[copy + L.G_CONTEXT] = m[L.CONTEXT]
    run_copy(m, number)


def begin_step(m, section):
    """A section begins; 1 if it costs what it did the last time, and is over."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * section
    for i in range(m[at + L.C_N_USES]):
        sink = m[m[at + L.C_USES] + L.USE_SIZE * i + 1]
        m[m[L.ARGUMENTS] + i] = fresh(m, sink) if sink >= 0 else -1
    begin_section(m, section)
    n = m[at + L.C_C1] - m[at + L.C_C0]
    counters = m[L.COUNTERS] + m[at + L.C_C0]
    if m[at + L.M_CONTEXT] != m[L.CONTEXT]:
        copy_out(m, counters, m[at + L.M_COUNTS], n)
        return 0
    for k in range(n):
        grow(m, counters + k, m[m[at + L.M_COUNTS] + k])
    copy_out(m, counters, m[L.LAST] + m[at + L.C_C0], n)
    for r in range(m[L.N_RESOURCES]):
        grow(m, m[L.USED] + r, m[m[at + L.M_COSTS] + r])
    finish_section(m, section)
    return 1


def end_step(m, section):
    """A section ends; what it cost is kept for the next time in the same context."""
    at = m[L.SECTIONS] + L.SECTION_SIZE * section
    end_section(m, section)
    n = m[at + L.C_C1] - m[at + L.C_C0]
    for k in range(n):
        m[m[at + L.M_COUNTS] + k] = m[m[L.COUNTERS] + m[at + L.C_C0] + k] - m[m[at + L.M_COUNTS] + k]
    copy_out(m, m[L.COST], m[at + L.M_COSTS], m[L.N_RESOURCES])
    m[at + L.M_CONTEXT] = m[L.CONTEXT]


def charge(m, pc):
    if m[pc + 3] < 0 or value(m, m[pc + 3]) != 0:
        grow(m, m[L.COUNTERS] + m[pc + 1], value(m, m[pc + 2]))


def multiply_factors(m, pc):
    """The product of factors, if its condition holds."""
    if m[pc + 2] >= 0 and value(m, m[pc + 2]) == 0:
        return
    amount = 1
    for i in range(m[pc + 3]):
        amount = product(m, amount, max(0, value(m, m[m[pc + 4] + i])))
    grow(m, m[L.COUNTERS] + m[pc + 1], amount)


def unit_step(m, pc):
    unit = m[pc + 1]
    for i in range(m[m[L.UNITS] + L.UNIT_SIZE * unit + L.U_N_ROLES]):
        m[m[L.ARGUMENTS] + i] = value(m, m[m[pc + 2] + i])
    call_unit(m, unit)


def end_life(m, buffer):
    """A buffer goes: the core waits for what still comes into it or out of it."""
    at = m[L.BUFFERS] + L.BUFFER_SIZE * buffer
    latest = last_use(m, buffer)
    if latest > m[L.CLOCK]:
        m[m[L.PATH] + m[at + L.B_PATH]] += latest - m[L.CLOCK]
        record_wait(m, -1, L.WHY_DRAIN, buffer, m[L.CLOCK], latest)
        m[L.CLOCK] = latest


def finish(m):
    """The program ends when all that is under way is done."""
    settle_all(m)
    latest, last = m[L.CLOCK], 0
    for b in range(m[L.N_BUFFERS]):
        end = last_use(m, b)
        if end > latest:
            latest, last = end, b
    m[L.TOTAL_DRAIN], m[L.LAST_BUFFER] = latest - m[L.CLOCK], last
    if latest > m[L.CLOCK]:
        record_wait(m, -1, L.WHY_DRAIN, last, m[L.CLOCK], latest)
    m[L.CLOCK] = latest
    for k in range(m[L.N_COUNTERS]):
        check(m, m[m[L.COUNTERS] + k])
    check(m, m[L.CLOCK])


def start(m):
    """Values that only sizes decide."""
    for i in range(m[L.N_FIRST]):
        k = m[m[L.FIRST_NODES] + i]
        evaluate(m, k)
        put(m, m[L.RANGES] + L.RANGE_SIZE * k, 0, m[m[L.VALUES] + k], m[m[L.VALUES] + k], 0, 0)


def walk(m):
    """Run the program from the beginning to the end."""
    start(m)
    pc = m[L.CODE]
    while m[pc] != L.HALT:
        op, a = m[pc], m[pc + 1]
        following = pc + L.CODE_SIZE
        if op == L.LOOP:
            if enter(m, a) == 0:
                following = m[m[L.LOOPS] + L.LOOP_SIZE * a + L.L_EXIT]
        elif op == L.NEXT:
            if advance(m, a) != 0:
                following = m[m[L.LOOPS] + L.LOOP_SIZE * a + L.L_BODY]
            else:
                leave(m, a)
        elif op == L.BRANCH:
            if value(m, a) == 0:
                following = m[pc + 2]
        elif op == L.JUMP:
            following = a
        elif op == L.CHARGE:
            charge(m, pc)
        elif op == L.LANES:
            count = lanes_holding(m, m[pc + 3], m[pc + 4], m[pc + 5])
            grow(m, m[L.COUNTERS] + a, product(m, value(m, m[pc + 2]), count))
        elif op == L.PRODUCT:
            multiply_factors(m, pc)
        elif op == L.BEGIN:
            if begin_step(m, a) != 0:
                following = m[m[L.SECTIONS] + L.SECTION_SIZE * a + L.C_END]
        elif op == L.END:
            end_step(m, a)
        elif op == L.UNIT:
            unit_step(m, pc)
        elif op == L.COPY:
            copy_step(m, a)
        elif op == L.LIFE_BEGIN:
            start_life(m, a)
        elif op == L.LIFE_END:
            end_life(m, a)
        pc = following
    finish(m)
