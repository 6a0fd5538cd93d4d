"""What a copy waits for, and who waits for it."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.boxes import keep_box, wait_for_boxes
from tilewright.codegen.skeleton.expressions import grow, product
from tilewright.codegen.skeleton.phases import add_to_phase
from tilewright.codegen.skeleton.timing import (
    commit_before,
    finish_load,
    finish_store,
    place,
    postpone,
    record_wait,
    settle,
    slot_of,
    touch,
)


def add_up(m, copy):
    """Count a copy."""
    sums = m[L.SUMS] + m[copy + L.D_SUMS]
    engine = m[L.ENGINES] + L.ENGINE_SIZE * m[copy + L.D_ENGINE]
    width = m[engine + L.N_COUNT] if m[engine + L.N_CONTENTION] == L.PARTITIONED else 1
    m[sums + L.A_COPIES] += 1
    m[sums + L.A_DESCRIPTORS] += m[copy + L.G_DESCRIPTORS]
    m[sums + L.A_BYTES] += m[copy + L.G_BYTES]
    m[sums + L.A_RUNS] += m[copy + L.G_RUNS]
    m[sums + L.A_BURST] += m[copy + L.G_BURST]
    m[sums + L.A_SPLIT] += m[copy + L.G_SPLIT]
    data = product(m, m[copy + L.G_DATA], m[L.ACTIVE] * width)
    grow(m, sums + L.A_TRANSFER, m[copy + L.G_ISSUE] + data)
    m[sums + L.A_DATA] += data


def ready_to_load(m, source, target):
    """When a tile can be written, and what it is made from is there."""
    settle(m, target, 1, 1)
    return max(
        m[source + L.READY],
        m[target + L.READY],
        m[target + L.FREE],
        m[target + L.OUTER_READY],
        m[target + L.OUTER_FREE],
    )


def ready_to_store(m, source, target):
    """When a tile has what is to be stored, and nobody reads the place where it goes."""
    settle(m, source, 0, 1)
    settle(m, target, 1, 0)
    return max(
        m[source + L.READY],
        m[source + L.OUTER_READY],
        m[target + L.READY],
        m[target + L.FREE],
        m[target + L.OUTER_FREE],
    )


def wait_for_copy(m, copy, done, issue):
    """The core waits until a copy that it asked for is done."""
    path = m[L.PATH] + m[copy + L.D_PATH]
    wait = done - m[L.CLOCK]
    if wait > 0:
        part = min(wait, issue)
        m[path] += wait - part
        m[path + 1] += part
        inward = m[copy + L.D_INWARD] != 0
        cause, staged = (L.WHY_LOAD if inward else L.WHY_STORE), m[copy + (L.D_TARGET if inward else L.D_SOURCE)]
        record_wait(m, m[copy + L.D_SECTION], L.WHY_ISSUE, staged, m[L.CLOCK], m[L.CLOCK] + part)
        record_wait(m, m[copy + L.D_SECTION], cause, staged, m[L.CLOCK] + part, done)
        m[L.CLOCK] = done


def run_copy(m, number):
    """A copy whose arguments and geometry are set."""
    copy = m[L.COPIES] + L.COPY_SIZE * number
    if m[copy + L.G_DESCRIPTORS] == 0:
        return
    add_up(m, copy)
    asynchronous = m[copy + L.D_ASYNC] != 0
    if m[L.SYNC] != 0 and asynchronous:
        if m[L.FRAME] >= 0:
            add_to_phase(m, number)
            return
        asynchronous = False
    rank, arguments = m[copy + L.D_RANK], m[L.ARGUMENTS]
    source = slot_of(m, m[copy + L.D_SOURCE], m[arguments])
    target = slot_of(m, m[copy + L.D_TARGET], m[arguments + 2 + rank])
    channel = m[L.CHANNELS] + L.CHANNEL_SIZE * m[copy + L.D_CHANNEL]
    issue, data = m[copy + L.G_ISSUE], m[copy + L.G_DATA]
    touch(m, source + L.TOUCHED)
    touch(m, target + L.TOUCHED)
    inward = m[copy + L.D_INWARD] != 0
    ready = ready_to_load(m, source, target) if inward else ready_to_store(m, source, target)
    ready = wait_for_boxes(m, number, ready)
    box = -1 if inward else keep_box(m, number)
    if not asynchronous:
        ready = max(ready, m[L.CLOCK])
    elif not inward:
        postpone(m, number, ready, issue, data, source, target, box)
        return
    commit_before(m, channel, ready, 0 if inward else 1)
    done = place(m, number, ready, issue, data, m[copy + L.G_BYTES])
    if inward:
        finish_load(m, source, target, done, issue, L.LOAD)
    else:
        finish_store(m, source, target, done, issue)
        if box >= 0:
            m[box] = done
    if not asynchronous:
        wait_for_copy(m, copy, done, issue)
