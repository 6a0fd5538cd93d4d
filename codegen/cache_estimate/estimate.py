"""From a schedule to levels as the exact simulation gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.codegen import loops as L
from tilewright.codegen.accounts.prepared import Prepared, prepare
from tilewright.codegen.cache_estimate.model import Footprints, Misses, Model
from tilewright.codegen.cache_estimate.tree import Access, Branch, Loop, accesses, tree
from tilewright.codegen.cpu_caches.driving import check_caches
from tilewright.codegen.physical import physical_shape
from tilewright.hw import Cache, Machine
from tilewright.hw.cache_counts import CacheCounts, Level, Levels
from tilewright.lang import ir
from tilewright.lang.binding import bind_scalars, check_all_sizes, index_value
from tilewright.lang.pipeline import Pipeline


def cache_estimate(
    p: Pipeline, schedule: Any, machine: Machine | str | None, sizes: Mapping[str, int], mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
) -> Levels:  # fmt: skip
    """Estimated counts of every cache of a machine (None: the schedule's), and of main memory, by tensor.

    The scalars among `inputs` are known, where loops end or indices go by them. SimulationError `caches.none` for a
    machine without caches, `estimate.data` where what runs depends on data.
    """
    check_all_sizes(p, sizes)
    prepared = prepare(p, schedule, machine, mode)
    check_caches(prepared.machine)
    env = {**sizes, **bind_scalars(p, inputs or {})}
    return levels(tree(prepared.program, prepared.machine, env, _extents(prepared, env)), prepared.machine.caches)


def _extents(prepared: Prepared, env: Mapping[str, Any]) -> list[int]:
    """The elements of every argument, in the order of the program."""
    p, given = prepared.pipeline, prepared.state.given
    out = []
    for name, extents in [*((a.name, a.extents) for a in p.arrays), *((o.func.name, o.extents) for o in p.outputs)]:
        shape = tuple(max(0, index_value(e, env)) for e in extents)
        out.append(math.prod(shape if name not in given else physical_shape(given[name], shape)))
    tables = [t.values.size for t in p.tables]
    return [*out[: len(p.arrays)], *tables, *out[len(p.arrays) :]]


def levels(root: Branch, caches: Sequence[Cache]) -> Levels:
    """The estimate of a tree. What a level asks of the next is what it misses, and what it writes back."""
    reads, writes = _made(root, False), _made(root, True)
    tensors = sorted({*reads, *writes})
    out, footprints = [], {}
    for k, c in enumerate(caches):
        if c.line not in footprints:
            footprints[c.line] = Footprints(root, c.line)
        found = Model(footprints[c.line], c.sets, _ways(caches, k)).misses(root)
        rows, total = {}, sum(m.total for m in found.values())
        leaving = max(0.0, 1 - c.sets * c.ways / total) if total else 0.0  # the rest is there at the end
        for t in tensors:
            rows[t] = _counts(c, found.get(t, Misses()), reads.get(t, 0.0), writes.get(t, 0.0), k == 0, leaving)
        out.append(Level(c.name, {t: counts for t, (counts, _, _) in rows.items()}))
        reads = {t: down for t, (_, down, _) in rows.items()}
        writes = {t: down for t, (_, _, down) in rows.items()}
    memory = {t: CacheCounts(round(reads[t]), round(writes[t])) for t in tensors}
    return Levels([*out, Level("memory", memory)])


def _ways(caches: Sequence[Cache], k: int) -> int:
    """A level of victims has room for what the levels above hold as well."""
    c, ways = caches[k], caches[k].ways
    while k and caches[k].inclusion == "exclusive":
        k -= 1
        ways += caches[k].size // (c.line * c.sets)
    return ways


def _counts(
    c: Cache, m: Misses, reads: float, writes: float, first: bool, leaving: float
) -> tuple[CacheCounts, float, float]:
    """The counts of a tensor at a level, and what goes on to the next: reads and writes."""
    if not first:  # what misses here has missed above
        total = min(m.total, reads)
        m = Misses(total, 0.0)
    read, write = min(m.read, reads), min(m.write, writes)
    if not c.write_allocate and not reads:
        write = writes
    down_reads = read + (write if c.write_allocate else 0.0)
    if c.write == "through" or (not c.write_allocate and not reads):
        down_writes = writes
    else:
        down_writes = min(writes, read + write) if first else writes and min(writes, read)
    counts = CacheCounts(
        round(reads), round(writes), round(reads - read), round(read), round(writes - write), round(write),
        round(read + write), round(leaving * (read + write)), round(down_writes),
    )  # fmt: skip
    return counts, down_reads, down_writes


def _made(root: Branch, write: bool) -> dict[str, float]:
    """Accesses by tensor: an element is loaded once in what is unrolled or runs in lanes, contiguous lanes at once."""
    out: dict[str, float] = {}
    for a, around in accesses(root):
        if a.write == write:
            n = a.share * math.prod(_times(a, loop) for loop in around)
            out[a.tensor] = out.get(a.tensor, 0.0) + n
    return out


def _times(a: Access, loop: Loop) -> int:
    step = a.steps.get(loop.var, 0)
    moves = step != 0 or a.data or any(loop.var in ir.variables(n) for _, n in a.terms)
    if not loop.straight:
        return loop.trips
    if loop.mode == L.VECTORIZE:
        return 1 if not moves or abs(step) == a.size else loop.trips
    return loop.trips if moves or a.write else 1
