"""Loads and stores, one element or one a lane, plain or under a mask; nothing but the elements asked for is touched.

Known lane patterns become vector accesses: contiguous, reversed, and any pattern in a small window, which is read by
full vectors inside the window and shuffled. What is certain to be in a short range is looked up in a register
(`lookup`). The rest goes lane by lane. Lanes that a mask switches off read a zero
constant or write to a scratch slot, chosen by address, so that no branch is needed.
"""

from __future__ import annotations

from tilewright.codegen.emit import convert
from tilewright.codegen.emit.builder import float_text, memory_type, shaped, splat, suffix, value_type
from tilewright.codegen.emit.conditions import some_lane
from tilewright.codegen.emit.counters import LOADS, STORES, count
from tilewright.codegen.emit.driven import drive
from tilewright.codegen.emit.index import Access, address, alignment, constant_step, lane_addresses, window
from tilewright.codegen.emit.lookup import find_table, look_up
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.loops import Buffer
from tilewright.lang.types import DType


def zero(t: DType, n: int) -> str:
    """The zero of a value type."""
    s = value_type(t)
    return splat(s, float_text(0.0) if t.is_float else "false" if t.is_bool else "0", n)


def _memory_zero(t: DType, n: int) -> str:
    return "zeroinitializer" if n else {"half": "0xH0000"}.get(memory_type(t), "0.0" if t.is_float else "0")


def same_place(a: Access) -> bool:
    """Whether all lanes access the same element."""
    return a.uniform or constant_step(a) == 0


# loads ----------------------------------------------------------------------------------------------------------


def load(r: Region, b: Buffer, a: Access, mask: Value | None) -> Value:
    """The elements that an access reads, as values of the compute type; zero where `mask` does not hold."""
    if same_place(a):
        const = a.const if a.offsets is None else a.offsets[0]
        return _load_uniform(r, b, Access(a.terms, const), mask)
    assert r.lanes is not None
    n = r.lanes.n
    count(r, b, LOADS, n, mask, a)
    drive(r, b, a, False, mask)
    if mask is not None and not mask[1]:
        raw = _load_if(r, b, a, mask[0])
    else:
        raw = _load_lanes(r, b, a, None if mask is None else mask[0])
    return convert.widen(r.f, b.dtype, n, raw), True


def _load_uniform(r: Region, b: Buffer, a: Access, mask: Value | None) -> Value:
    f, t = r.f, b.dtype
    m, element = None, memory_type(t)
    if mask is not None:
        assert not mask[1] or r.lanes is not None
        m = some_lane(r, f.any(mask[0], r.lanes.n), mask[0]) if mask[1] and r.lanes else mask[0]
    count(r, b, LOADS, 1, None if m is None else (m, False), a)
    drive(r, b, a, False, None if m is None else (m, False))
    p = address(r, b, a.terms, a.const)
    align = alignment(r, b, a.terms, a.const)
    if m is not None:
        p, align = f.op(f"select i1 {m}, ptr {p}, ptr {_zeros(r)}"), t.bytes
    x = convert.widen(f, t, 0, f.op(f"load {element}, ptr {p}, align {align}"))
    if mask is None or not mask[1]:
        return x, False
    assert r.lanes is not None
    n, s = r.lanes.n, value_type(t.compute)
    wide = f.broadcast(s, x, n)
    return f.select(n, mask[0], shaped(s, n), wide, zero(t.compute, n)), True


def _zeros(r: Region) -> str:
    """A constant in memory that reads as zero for every type."""
    r.shared.module.globals["zeros"] = "@tw.zeros = internal unnamed_addr constant [8 x i8] zeroinitializer, align 8"
    return "@tw.zeros"


def _load_if(r: Region, b: Buffer, a: Access, condition: str) -> str:
    """All lanes or none."""
    assert r.lanes is not None
    f, n = r.f, r.lanes.n
    ty = shaped(memory_type(b.dtype), n)
    before, inside, after = f.block, f.label("load"), f.label("loaded")
    f.branch(condition, inside, after)
    f.begin(inside)
    with r.scope():
        x = _load_lanes(r, b, a, None)
    last = f.block
    f.br(after)
    f.begin(after)
    return f.op(f"phi {ty} [ {x}, %{last} ], [ zeroinitializer, %{before} ]")


def _load_lanes(r: Region, b: Buffer, a: Access, mask: str | None) -> str:
    assert r.lanes is not None and a.offsets is not None
    n, d = r.lanes.n, constant_step(a)
    if d == 1:
        return _load_contiguous(r, b, a, a.offsets[0], mask)
    if d == -1:
        back = list(range(n - 1, -1, -1))
        if mask is not None:
            mask = r.f.shuffle("i1", n, mask, "poison", back)
        x = _load_contiguous(r, b, a, a.offsets[-1], mask)
        return r.f.shuffle(memory_type(b.dtype), n, x, "poison", back)
    if mask is None and (vectors := window(a, n)) is not None:
        return _load_window(r, b, a, vectors)
    if (table := find_table(r, b, a)) is not None and r.find(r.key(table.size)) is not None:
        x = look_up(r, b, a, table)
        return x if mask is None else r.f.select(n, mask, shaped(memory_type(b.dtype), n), x, "zeroinitializer")
    return _load_scattered(r, b, a, mask)


def _load_contiguous(r: Region, b: Buffer, a: Access, first: int, mask: str | None) -> str:
    assert r.lanes is not None
    f, n, element = r.f, r.lanes.n, memory_type(b.dtype)
    ty = shaped(element, n)
    p, align = address(r, b, a.terms, first), alignment(r, b, a.terms, first)
    if mask is None:
        return f.op(f"load {ty}, ptr {p}, align {align}")
    if _private_vector(r, b, a, first):
        return f.select(n, mask, ty, f.op(f"load {ty}, ptr {p}, align {align}"), "zeroinitializer")
    name, m = f"llvm.masked.load.{suffix(element, n)}.p0", f"<{n} x i1>"
    f.declare(name, ty, f"ptr, {m}, {ty}")
    return f.op(f"call {ty} @{name}(ptr align {align} {p}, {m} {mask}, {ty} zeroinitializer)")


def _private_vector(r: Region, b: Buffer, a: Access, first: int) -> bool:
    """Whether a whole vector at a known place of this function's frame may be touched whatever the mask.

    Such accesses, blended, keep the buffer in registers, where masked ones would not (stacked buffers are padded by
    a vector).
    """
    return b in r.stacked and not a.terms and 0 <= first < b.size.attr  # type: ignore[union-attr]


def _load_window(r: Region, b: Buffer, a: Access, vectors: list[tuple[int, int]]) -> str:
    """Whole vectors, and shuffles that pick each lane's element of the first one that has it."""
    assert r.lanes is not None and a.offsets is not None
    f, n, element = r.f, r.lanes.n, memory_type(b.dtype)
    out: str | None = None
    done: set[int] = set()
    for s, m in vectors:
        p, align = address(r, b, a.terms, s), alignment(r, b, a.terms, s)
        piece = f.op(f"load {shaped(element, m)}, ptr {p}, align {align}")
        if m < n:
            return f.shuffle(element, m, piece, "poison", [o - s for o in a.offsets])
        lanes = [i for i, o in enumerate(a.offsets) if i not in done and s <= o < s + n]
        if out is None:
            out = f.shuffle(element, n, piece, "poison", [max(0, min(n - 1, o - s)) for o in a.offsets])
        else:
            out = f.shuffle(element, n, out, piece, [n + a.offsets[i] - s if i in lanes else i for i in range(n)])
        done.update(lanes)
    assert out is not None
    return out


def _load_scattered(r: Region, b: Buffer, a: Access, mask: str | None) -> str:
    assert r.lanes is not None
    f, n, element = r.f, r.lanes.n, memory_type(b.dtype)
    out = "poison"
    for i, p in enumerate(lane_addresses(r, b, a)):
        if mask is not None:
            p = f.op(f"select i1 {f.extract('i1', n, mask, i)}, ptr {p}, ptr {_zeros(r)}")
        x = f.op(f"load {element}, ptr {p}, align {b.dtype.bytes}")
        out = f.insert(element, n, out, x, i)
    return out


# stores ---------------------------------------------------------------------------------------------------------


def store(r: Region, b: Buffer, a: Access, value: Value, stream: bool = False) -> None:
    """Write a value (uniform ones to every lane's element) under the statement's mask. `stream`: whole vectors at
    aligned places go past the caches."""
    f, t = r.f, b.dtype
    if r.lanes is None:
        count(r, b, STORES, 1, None, a)
        drive(r, b, a, True)
        x = convert.narrow(f, t, 0, value[0])
        p, align = address(r, b, a.terms, a.const), alignment(r, b, a.terms, a.const)
        f.do(f"store {memory_type(t)} {x}, ptr {p}, align {align}")
        return
    n, s = r.lanes.n, value_type(t.compute)
    if a.uniform and not value[1]:  # the same element and value in all lanes, of which one at least is active
        count(r, b, STORES, 1, None, a)
        drive(r, b, a, True)
        x = convert.narrow(f, t, 0, value[0])
        f.do(f"store {memory_type(t)} {x}, ptr {address(r, b, a.terms, a.const)}, align {t.bytes}")
        return
    count(r, b, STORES, n, (r.mask, True) if r.mask else None, a)
    drive(r, b, a, True, (r.mask, True) if r.mask else None)
    x = convert.narrow(f, t, n, value[0] if value[1] else f.broadcast(s, value[0], n))
    d = constant_step(a)
    if d == 1:
        assert a.offsets is not None
        if stream and r.mask is None and _streams(b.dtype, n):
            _store_stream(r, b, a, a.offsets[0], x)
        else:
            _store_contiguous(r, b, a, a.offsets[0], x, r.mask)
    elif d == -1:
        assert a.offsets is not None
        back = list(range(n - 1, -1, -1))
        mask = f.shuffle("i1", n, r.mask, "poison", back) if r.mask else None
        _store_contiguous(r, b, a, a.offsets[-1], f.shuffle(memory_type(t), n, x, "poison", back), mask)
    else:
        _store_scattered(r, b, a, x)


_LINE = 16  # bytes of a store past the caches: NumPy aligns large arrays to no more; full lines are combined anyway


def _streams(t: DType, n: int) -> bool:
    """Whether vectors of this type have stores past the caches."""
    size = n * t.bytes
    return size >= 16 and size & (size - 1) == 0


def _store_stream(r: Region, b: Buffer, a: Access, first: int, x: str) -> None:
    """A vector past the caches where its place is aligned, which is known when it runs; else as usual."""
    assert r.lanes is not None
    f, n, t = r.f, r.lanes.n, b.dtype
    ty, align = shaped(memory_type(t), n), min(n * t.bytes, _LINE)
    p = address(r, b, a.terms, first)
    low = f.op(f"and i64 {f.op(f'ptrtoint ptr {p} to i64')}, {align - 1}")
    past, usual, after = f.label("stream"), f.label("store"), f.label("stored")
    f.branch(f.op(f"icmp eq i64 {low}, 0"), past, usual)
    f.begin(past)
    f.do(f"store {ty} {x}, ptr {p}, align {align}, !nontemporal !{{i32 1}}")
    f.br(after)
    f.begin(usual)
    f.do(f"store {ty} {x}, ptr {p}, align {alignment(r, b, a.terms, first)}")
    f.br(after)
    f.begin(after)


def _store_contiguous(r: Region, b: Buffer, a: Access, first: int, x: str, mask: str | None) -> None:
    assert r.lanes is not None
    f, n, element = r.f, r.lanes.n, memory_type(b.dtype)
    ty = shaped(element, n)
    p, align = address(r, b, a.terms, first), alignment(r, b, a.terms, first)
    if mask is None:
        f.do(f"store {ty} {x}, ptr {p}, align {align}")
    elif _private_vector(r, b, a, first):
        old = f.op(f"load {ty}, ptr {p}, align {align}")
        f.do(f"store {ty} {f.select(n, mask, ty, x, old)}, ptr {p}, align {align}")
    else:
        name, m = f"llvm.masked.store.{suffix(element, n)}.p0", f"<{n} x i1>"
        f.declare(name, "void", f"{ty}, ptr, {m}")
        f.do(f"call void @{name}({ty} {x}, ptr align {align} {p}, {m} {mask})")


def _store_scattered(r: Region, b: Buffer, a: Access, x: str) -> None:
    """Lane by lane in lane order, so that the last active one wins where lanes meet."""
    assert r.lanes is not None
    f, n, element = r.f, r.lanes.n, memory_type(b.dtype)
    if a.uniform:
        places = [address(r, b, a.terms, a.const)] * n
    else:
        places = lane_addresses(r, b, a)
    scratch = f.alloca("[8 x i8]", 8) if r.mask else ""
    for i, p in enumerate(places):
        if r.mask:
            p = f.op(f"select i1 {f.extract('i1', n, r.mask, i)}, ptr {p}, ptr {scratch}")
        f.do(f"store {element} {f.extract(element, n, x, i)}, ptr {p}, align {b.dtype.bytes}")
