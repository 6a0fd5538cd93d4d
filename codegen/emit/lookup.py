"""Loads from a few neighbours, which one in each lane being known only at run time: a table in a register.

An element of a temporary, at an index that varies by lane but stays in a short constant range (something clamped to 0..8,
say), is one of the elements of that range. They are loaded at once and each lane takes its own by a permutation, instead
of an address and a load a lane. Of the range only what lies inside the buffer is touched.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from tilewright.codegen.emit.builder import lane_constant, memory_type, shaped, suffix
from tilewright.codegen.emit.index import Access, address, lane_offsets, uniform_value
from tilewright.codegen.emit.region import Region
from tilewright.codegen.loops import Buffer
from tilewright.lang.intervals import bounds
from tilewright.lang.ir import Node, is_const
from tilewright.schedule.processor import host_features, is_x86


@dataclass(frozen=True, slots=True)
class Table:
    """What a load may read: `entries` from `first` on beside the uniform terms, and how a register of them is permuted."""

    first: int
    entries: int
    permutation: str
    size: Node  # elements of the buffer


@functools.cache
def _permutations() -> dict[str, tuple[int, str]]:
    """By LLVM's type of the elements: how many a register holds, and the instruction. Indices are as wide as elements."""
    if not is_x86():
        return {}
    has = host_features()
    if has.get("avx512f"):
        names = {"float": (16, "sf"), "i32": (16, "si"), "double": (8, "df"), "i64": (8, "di")}
        return {t: (n, f"llvm.x86.avx512.permvar.{kind}.512") for t, (n, kind) in names.items()}
    if has.get("avx2"):
        return {"float": (8, "llvm.x86.avx2.permps"), "i32": (8, "llvm.x86.avx2.permd")}
    return {}


def find_table(r: Region, b: Buffer, a: Access) -> Table | None:
    """The table that an access reads, if it reads one."""
    if r.lanes is None or not a.dynamic or a.strides or b.argument is not None or b.size is None or b in r.arenas:
        return None
    assert a.offsets is not None
    entries, permutation = _permutations().get(memory_type(b.dtype), (0, ""))
    if r.lanes.n > entries or len(set(a.offsets)) > 1:
        return None
    low = high = 0
    for atom, c in a.dynamic:
        x = bounds(atom, {})
        if x.lo is None or x.hi is None or not (is_const(x.lo) and is_const(x.hi)):
            return None
        low += min(c * x.lo.attr, c * x.hi.attr)
        high += max(c * x.lo.attr, c * x.hi.attr)
    if high - low >= entries:
        return None
    return Table(a.offsets[0] + low, entries, permutation, b.size)


def look_up(r: Region, b: Buffer, a: Access, t: Table) -> str:
    """Each lane's element; anything in lanes whose index is none, which a mask switches off."""
    assert r.lanes is not None and a.offsets is not None
    f, n, k = r.f, r.lanes.n, t.entries
    element, number = memory_type(b.dtype), f"i{8 * b.dtype.bytes}"
    places = lane_offsets(r, replace(a, offsets=tuple(o - t.first for o in a.offsets)))
    if number != "i64":
        places = f.op(f"trunc {shaped('i64', n)} {places} to {shaped(number, n)}")
    if n < k:
        places = f.shuffle(number, n, places, "poison", [min(i, n - 1) for i in range(k)])
    ty, of = shaped(element, k), shaped(number, k)
    f.declare(t.permutation, ty, f"{ty}, {of}")
    found = f.op(f"call {ty} @{t.permutation}({ty} {_loaded(r, b, a, t)}, {of} {places})")
    return f.shuffle(element, k, found, "poison", list(range(n))) if n < k else found


def _loaded(r: Region, b: Buffer, a: Access, t: Table) -> str:
    """The entries that lie inside the buffer; shared by loads of the same table."""
    key = ("table", b, a.terms, t.first)
    found = r.find(key)
    if found is not None:
        return found[0]
    f, k, element = r.f, t.entries, memory_type(b.dtype)
    ty, places, m = shaped(element, k), shaped("i64", k), shaped("i1", k)
    start = f.broadcast("i64", uniform_value(r, a.terms, t.first), k)
    each = f.op(f"add {places} {start}, {lane_constant('i64', list(range(k)))}")
    size = f.broadcast("i64", r.value(t.size)[0], k)
    inside = f.op(f"icmp ult {places} {each}, {size}")
    p = address(r, b, a.terms, t.first)
    name = f"llvm.masked.load.{suffix(element, k)}.p0"
    f.declare(name, ty, f"ptr, {m}, {ty}")
    x = f.op(f"call {ty} @{name}(ptr align {b.dtype.bytes} {p}, {m} {inside}, {ty} zeroinitializer)")
    return r.put(key, x, True, {b, *r.buffers(atom for atom, _ in a.terms)})[0]


def needs(r: Region, b: Buffer, a: Access) -> tuple[Node, ...]:
    """The nodes whose values a load is made of."""
    table = find_table(r, b, a)
    return a.needs if table is None else (*a.needs, table.size)
