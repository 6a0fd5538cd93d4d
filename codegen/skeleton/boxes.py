"""Boxes of a buffer that stores are writing: another copy waits where it overlaps with one."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.timing import settle_all, slot_of


def outer_buffer(m, copy):
    """The buffer of a copy that is further out."""
    return m[copy + L.D_SOURCE] if m[copy + L.D_INWARD] != 0 else m[copy + L.D_TARGET]


def boxes_of(m, copy):
    """The list of boxes of a copy's outer buffer, or -1 where nobody needs one."""
    return m[m[L.BUFFERS] + L.BUFFER_SIZE * outer_buffer(m, copy) + L.B_BOXES]


def floor_of(m, copy):
    """Where it says when the stores into a copy's outer buffer are done whose boxes are forgotten."""
    return slot_of(m, outer_buffer(m, copy), 0) + L.BOX_FLOOR


def write_box(m, number, box):
    """Note the outer side of a copy as its arguments have it."""
    copy = m[L.COPIES] + L.COPY_SIZE * number
    rank, arguments = m[copy + L.D_RANK], m[L.ARGUMENTS]
    side = arguments + 1 if m[copy + L.D_INWARD] != 0 else arguments + 3 + rank
    m[box + L.X_COPY], m[box + L.X_RANK], m[box + L.X_FIRST] = number, rank, m[side]
    for i in range(rank):
        m[box + L.X_DIMS + 2 * i] = m[arguments + 4 + 2 * rank + i]
        m[box + L.X_DIMS + 2 * i + 1] = m[side + 1 + i]


def of_one_array(m, one, other):
    """Whether the strides of two boxes are the same, and each is longer than all that is inside of it reaches."""
    if m[one + L.X_RANK] != m[other + L.X_RANK]:
        return False
    reach = 0
    for k in range(m[one + L.X_RANK]):
        i = L.X_DIMS + 2 * (m[one + L.X_RANK] - 1 - k)
        longest = max(m[one + i], m[other + i]) - 1
        if longest > 0:
            stride = m[one + i + 1]
            if stride != m[other + i + 1] or stride <= reach:
                return False
            reach += stride * longest
    return True


def reach_of(m, box, direction):
    """How far a box goes from its first element upwards (1) or downwards (-1, then not positive)."""
    reach = 0
    for i in range(m[box + L.X_RANK]):
        step = m[box + L.X_DIMS + 2 * i + 1] * (m[box + L.X_DIMS + 2 * i] - 1)
        if step * direction > 0:
            reach += step
    return reach


def overlap(m, one, other):
    """Whether two boxes have an element in common (exact for boxes of one array, else perhaps)."""
    distance = m[other + L.X_FIRST] - m[one + L.X_FIRST]
    if not of_one_array(m, one, other):
        return distance + reach_of(m, other, -1) <= reach_of(m, one, 1) and distance + reach_of(
            m, other, 1
        ) >= reach_of(m, one, -1)
    # The distance as a sum of steps along the axes: the inner axes reach less than a stride, so that each axis has two
    # candidates, the quotient and the next number.
    for choice in range(1 << m[one + L.X_RANK]):  # noqa: SIM110 (`translate` knows no any())
        if differs_by(m, one, other, distance, choice):
            return True
    return False


def differs_by(m, one, other, distance, choice):
    """Whether two elements of the boxes are at one place, `choice` saying (a bit an axis) how the distance is divided."""
    for i in range(m[one + L.X_RANK]):
        axis = L.X_DIMS + 2 * i
        steps = 0
        if m[one + axis] > 1 or m[other + axis] > 1:
            steps = distance // m[one + axis + 1] + (choice >> i & 1)
        if steps >= m[one + axis] or -steps >= m[other + axis]:
            return False
        distance -= steps * m[one + axis + 1]
    return distance == 0


def wait_for_boxes(m, number, ready):
    """When a copy can begin that was ready for everything else: after stores by others that write what it touches."""
    boxes = boxes_of(m, m[L.COPIES] + L.COPY_SIZE * number)
    if boxes < 0:
        return ready
    own = boxes + L.BOXES_FIRST + L.BOX_SIZE * L.MAX_BOXES
    write_box(m, number, own)
    ready = max(ready, m[floor_of(m, m[L.COPIES] + L.COPY_SIZE * number)])
    for i in range(m[boxes + L.BOXES_COUNT]):
        box = boxes + L.BOXES_FIRST + L.BOX_SIZE * i
        # Stores of one place are on one channel and in order.
        if (
            m[box + L.X_COPY] != number
            and (m[box + L.X_DONE] < 0 or m[box + L.X_DONE] > ready)
            and overlap(m, box, own)
        ):
            if m[box + L.X_DONE] < 0:
                settle_all(m)
            ready = max(ready, m[box + L.X_DONE])
    return ready


def forget_boxes(m, buffer):
    """From now on every copy waits for the stores so far, which all have their time."""
    at = m[L.BUFFERS] + L.BUFFER_SIZE * buffer
    boxes = m[at + L.B_BOXES]
    if boxes >= 0:
        m[boxes + L.BOXES_COUNT] = 0
        floor = slot_of(m, buffer, 0) + L.BOX_FLOOR
        for i in range(m[at + L.B_SLOTS]):
            m[floor] = max(m[floor], m[slot_of(m, buffer, i) + L.OUTER_READY])


def keep_box(m, number):
    """Note the box that a store writes, in the place of the earliest one if there are too many; its place, or -1."""
    boxes = boxes_of(m, m[L.COPIES] + L.COPY_SIZE * number)
    if boxes < 0:
        return -1
    at = boxes + L.BOXES_FIRST + L.BOX_SIZE * m[boxes + L.BOXES_COUNT]
    if m[boxes + L.BOXES_COUNT] == L.MAX_BOXES:
        settle_all(m)
        at = boxes + L.BOXES_FIRST
        for i in range(1, L.MAX_BOXES):
            box = boxes + L.BOXES_FIRST + L.BOX_SIZE * i
            if m[box + L.X_DONE] < m[at + L.X_DONE]:
                at = box
        floor = floor_of(m, m[L.COPIES] + L.COPY_SIZE * number)
        m[floor] = max(m[floor], m[at + L.X_DONE])
    else:
        m[boxes + L.BOXES_COUNT] += 1
    write_box(m, number, at)
    m[at + L.X_DONE] = -1
    return at
