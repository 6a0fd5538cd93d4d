"""Instrumented kernels: counts of elements loaded and stored per buffer, live and peak bytes per memory.

The counters are an array of i64 whose pointer follows the data pointers of the arguments:

    2*i, 2*i + 1     elements loaded from and stored to buffer i of `counter_layout`
    then, for every memory in `memory_layout`, the bytes that are live and their peak

What counts: in one execution of a statement every different load node once (after unrolling): one element where it
is the same in all lanes, else one a lane; under a mask only active lanes. Stores likewise, one per target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.loops import Allocate, Buffer, Program, walk

COUNTERS = "counters"


def program_buffers(program: Program) -> tuple[Buffer, ...]:
    """Arguments in order, then temporaries in text order."""
    temporaries = (s.buffer for s in walk(program.body) if isinstance(s, Allocate))
    return tuple(dict.fromkeys((*program.arguments, *temporaries)))


def counter_layout(program: Program) -> list[str]:
    """The names of the buffers in the order of their counters."""
    return [b.name for b in program_buffers(program)]


def memory_layout(program: Program) -> list[str]:
    """The memories that temporaries live in, in the order of their counters."""
    return list(dict.fromkeys(b.memory for b in program_buffers(program) if b.argument is None))


def counter_count(program: Program) -> int:
    """How many i64 counters an instrumented kernel needs (zeroed by the caller)."""
    return 2 * (len(counter_layout(program)) + len(memory_layout(program)))


@dataclass(frozen=True, slots=True)
class Counts:
    """What an instrumented run did: elements by buffer name, peak bytes by memory name."""

    loads: Mapping[str, int]
    stores: Mapping[str, int]
    peak: Mapping[str, int]


def decode_counters(program: Program, counters: Sequence[int]) -> Counts:
    """The counters of a run by name; buffers of the same name are added up."""
    loads: dict[str, int] = {}
    stores: dict[str, int] = {}
    names, memories = counter_layout(program), memory_layout(program)
    for i, name in enumerate(names):
        loads[name] = loads.get(name, 0) + int(counters[2 * i])
        stores[name] = stores.get(name, 0) + int(counters[2 * i + 1])
    base = 2 * len(names)
    peak = {m: int(counters[base + 2 * i + 1]) for i, m in enumerate(memories)}
    return Counts(loads, stores, peak)


# emission -------------------------------------------------------------------------------------------------------


def _slot(r: Region, position: int) -> str:
    return r.f.op(f"getelementptr i64, ptr {r.captured(COUNTERS)}, i64 {position}")


def _add(r: Region, position: int, amount: str) -> str:
    """Adds to a counter; its new value."""
    p = _slot(r, position)
    new = r.f.op(f"add i64 {r.f.op(f'load i64, ptr {p}')}, {amount}")
    r.f.do(f"store i64 {new}, ptr {p}")
    return new


def count(r: Region, b: Buffer, kind: str, n: int, mask: Value | None = None) -> None:
    """Count an access of `n` elements: all or none under a uniform mask, as many as hold under a mask of lanes."""
    if not r.shared.instrument:
        return
    amount = str(n)
    if mask is not None:
        amount = _active(r, mask[0]) if mask[1] else r.f.op(f"select i1 {mask[0]}, i64 {n}, i64 0")
    _add(r, 2 * r.shared.buffers.index(b) + (kind == "store"), amount)


def _active(r: Region, mask: str) -> str:
    """The number of active lanes."""
    assert r.lanes is not None
    n = r.lanes.n
    bits = r.f.op(f"bitcast <{n} x i1> {mask} to i{n}")
    ones = r.f.intrinsic("llvm.ctpop", f"i{n}", 0, [bits])
    return ones if n == 64 else r.f.op(f"{'zext' if n < 64 else 'trunc'} i{n} {ones} to i64")


def count_live(r: Region, b: Buffer, size: str, sign: int) -> None:
    """Bytes of a temporary that begins (sign 1) or ends (-1) to live."""
    if not r.shared.instrument:
        return
    memories = memory_layout(r.shared.program)
    at = 2 * (len(r.shared.buffers) + memories.index(b.memory))
    amount = size if sign > 0 else r.f.op(f"sub i64 0, {size}")
    live = _add(r, at, amount)
    if sign > 0:
        p = _slot(r, at + 1)
        peak = r.f.intrinsic("llvm.smax", "i64", 0, [r.f.op(f"load i64, ptr {p}"), live])
        r.f.do(f"store i64 {peak}, ptr {p}")
