"""What a copy is for an engine: descriptors, contiguous runs, and the bytes that cross the bus."""

from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import product
from tilewright.codegen.skeleton.ranges import gcd


def sort_dimensions(m, dims, rank):
    """Triples (extent, outer stride, inner stride) with the innermost first: by the outer side's stride, then the other."""
    for i in range(1, rank):
        j = i
        while j > 0 and precedes(m, dims + 3 * j, dims + 3 * (j - 1)):
            for k in range(3):
                a, b = dims + 3 * j + k, dims + 3 * (j - 1) + k
                m[a], m[b] = m[b], m[a]
            j -= 1


def precedes(m, a, b):
    if abs(m[a + 1]) != abs(m[b + 1]):
        return abs(m[a + 1]) < abs(m[b + 1])
    return abs(m[a + 2]) < abs(m[b + 2])


def merge_dimensions(m, dims, rank):
    """Join neighbours that are contiguous on both sides; the new rank. Extents of one are gone already."""
    kept = 0
    for i in range(rank):
        at, last = dims + 3 * i, dims + 3 * (kept - 1)
        if kept > 0 and m[at + 1] == m[last] * m[last + 1] and m[at + 2] == m[last] * m[last + 2]:
            m[last] *= m[at]
        else:
            for k in range(3):
                m[dims + 3 * kept + k] = m[at + k]
            kept += 1
    return kept


def take_dimensions(m, copy, dims):
    """The box of the arguments as sorted and joined dimensions; their number, or -1 where the box is empty."""
    rank = m[copy + L.D_RANK]
    arguments = m[L.ARGUMENTS]
    source, target, extents = arguments + 2, arguments + 4 + rank, arguments + 4 + 2 * rank
    outer, inner = (source, target) if m[copy + L.D_INWARD] != 0 else (target, source)
    kept = 0
    for i in range(rank):
        extent = m[extents + i]
        if extent <= 0:
            return -1
        if extent > 1:
            m[dims + 3 * kept] = extent
            m[dims + 3 * kept + 1] = m[outer + i]
            m[dims + 3 * kept + 2] = m[inner + i]
            kept += 1
    sort_dimensions(m, dims, kept)
    return merge_dimensions(m, dims, kept)


def descriptors(m, dims, rank, walked):
    """How many descriptors that walk so many dimensions the outermost ones make necessary."""
    count = 1
    for i in range(max(walked, 0), rank):
        count *= m[dims + 3 * i]
    return count


def spread_bin(m, old, new, bins, step, extent):
    """new[r] = the sum of old[r - i step] over 0 <= i < extent, places modulo the number of bins."""
    cycle = bins // gcd(step, bins) if step % bins != 0 else 1
    rounds, rest = extent // cycle, extent % cycle
    for first in range(bins // cycle):
        total, window = 0, 0
        for i in range(cycle):
            total += m[old + (first + i * step) % bins]
        for i in range(rest):  # the window that ends just before `first`
            window += m[old + (first - (i + 1) * step) % bins]
        for i in range(cycle):
            r = (first + i * step) % bins
            if rest > 0:
                window += m[old + r] - m[old + (r - rest * step) % bins]
            m[new + r] = rounds * total + window


def measure_runs(m, copy, dims, rank, start, run):
    """Sum up what runs of so many bytes cross the bus with, given where each starts."""
    unit, alignment, size = m[copy + L.D_UNIT], m[copy + L.D_ALIGNMENT], m[copy + L.D_BYTES]
    grain = unit
    for i in range(rank):
        grain = gcd(grain, m[dims + 3 * i + 1] * size)
    bins = unit // grain
    old, new = m[L.BINS], m[L.BINS] + bins
    for r in range(bins):
        m[old + r] = 1 if r == 0 else 0
    if bins > 1:
        for i in range(rank):
            spread_bin(m, old, new, bins, m[dims + 3 * i + 1] * size // grain % bins, m[dims + 3 * i])
            old, new = new, old
    else:
        for i in range(rank):
            m[old] *= m[dims + 3 * i]
    crossing, split, runs = 0, 0, 0
    for r in range(bins):
        count = m[old + r]
        at = (start + r * grain) % unit
        runs += count
        crossing += count * ((at + run + unit - 1) // unit * unit)
        if at % alignment != 0 or run % alignment != 0:
            split += count
    m[copy + L.G_RUNS], m[copy + L.G_BURST], m[copy + L.G_SPLIT] = runs, crossing, split


def measure(m, number):
    """Set the geometry of a copy from its arguments (those of `tree.Copy`, in order); no descriptors: an empty box.

    The innermost dimension that both sides have without gaps is a run, else every element is one; an engine that transposes
    takes the outer side's runs. A run moves all of the units of alignment and bursts that it touches.
    """
    copy = m[L.COPIES] + L.COPY_SIZE * number
    engine = m[L.ENGINES] + L.ENGINE_SIZE * m[copy + L.D_ENGINE]
    dims = m[L.BINS] - 3 * L.MAX_RANK
    rank = take_dimensions(m, copy, dims)
    if rank < 0:
        m[copy + L.G_DESCRIPTORS] = 0
        return
    size = m[copy + L.D_BYTES]
    elements = 1
    for i in range(rank):
        elements = product(m, elements, m[dims + 3 * i])
    run, inside = 1, 0  # dimensions inside of a run
    if rank > 0 and m[dims + 1] == 1 and (m[dims + 2] == 1 or m[engine + L.N_TRANSPOSE] != 0):
        run, inside = m[dims], 1
    walked = m[engine + L.N_DIMS] if inside == 1 else m[engine + L.N_DIMS] - 1
    outer = m[L.ARGUMENTS] + (1 if m[copy + L.D_INWARD] != 0 else 3 + m[copy + L.D_RANK])
    measure_runs(m, copy, dims + 3 * inside, rank - inside, m[outer] * size, run * size)
    m[copy + L.G_DESCRIPTORS] = descriptors(m, dims, rank, walked)
    m[copy + L.G_BYTES] = elements * size
    m[copy + L.G_ISSUE] = product(m, m[copy + L.G_DESCRIPTORS], m[engine + L.N_ISSUE])
    m[copy + L.G_DATA] = product(m, m[copy + L.G_BURST], m[copy + L.D_RATE])
