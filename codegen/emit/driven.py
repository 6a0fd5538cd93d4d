"""Instrumented kernels whose accesses drive something as they happen: the caches of a machine.

Two more data pointers follow the record: the driver's state, and an array of i64 with the virtual address of every
argument and that of the first temporary. Virtual addresses depend on nothing but the program and its sizes. Temporaries
are laid one behind the other as they nest.

An access is what one instruction of the emitted code does: an element, or the bytes of a vector (of a mask's
consecutive active lanes). Lanes that go to places of their own are accesses of their own, in lane order. A function of
the user's reads its boxes before it runs and writes them after, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.codegen.emit.builder import Module
from tilewright.codegen.emit.index import Access, Terms, constant_step, lane_offsets, stride_sum, uniform_sum, window
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.loops import Buffer, Program

DRIVER = "driver"
ARENA = ("virtual", None)  # the address of the first temporary
ALIGNMENT = 64  # bytes, of temporaries


@dataclass(frozen=True)
class Driver:
    """What accesses to some buffers go into.

    `numbers` are the buffers in question, with the number under which each is counted. `define` puts the functions
    `@driver.read` and `@driver.write` (ptr state, i64 address, i64 bytes, i64 number) into a module.
    """

    numbers: Mapping[Buffer, int]
    define: Callable[[Module], None]


def define_driver(m: Module, driver: Driver) -> None:
    """The functions that this module's accesses call."""
    driver.define(m)
    m.declared["llvm.cttz.i64"] = "declare i64 @llvm.cttz.i64(i64, i1)"
    for kind in ("read", "write"):
        m.functions += [_MASKED.replace("KIND", kind), _BOX.replace("KIND", kind)]


def base_position(program: Program, key: tuple[str, Buffer | None]) -> int:
    """Where the virtual address of an argument, or of the first temporary, stands in the array."""
    return len(program.arguments) if key[1] is None else program.arguments.index(key[1])


def placed(r: Region, b: Buffer, size: str) -> None:
    """Give a temporary of `size` bytes its virtual address; those made while it lives come behind it."""
    if r.shared.driver is None or b not in r.shared.driver.numbers:
        return
    f, base = r.f, arena(r)
    r.virtual[b] = base
    size = f.intrinsic("llvm.smax", "i64", 0, [size, "0"])
    taken = f.op(f"and i64 {f.op(f'add i64 {size}, {ALIGNMENT - 1}')}, {-ALIGNMENT}")
    r.arena = f.op(f"add i64 {base}, {taken}")


def arena(r: Region) -> str:
    """The virtual address of what is made next."""
    return r.arena or r.captured(ARENA)


def drive(r: Region, b: Buffer, a: Access, write: bool, mask: Value | None = None) -> None:
    """An access of the emitted code; none where a uniform mask does not hold, the active lanes under one of lanes."""
    driver = r.shared.driver
    if driver is None or b not in driver.numbers:
        return
    pieces = _pieces(r, b, a, write, mask is not None and mask[1])
    kind, number, f = "write" if write else "read", driver.numbers[b], r.f
    state = r.captured(DRIVER)
    if mask is None:
        _all(r, pieces, kind, number)
    elif not mask[1]:
        inside, after = f.label("accessed"), f.label("passed")
        f.branch(mask[0], inside, after)
        f.begin(inside)
        _all(r, pieces, kind, number)
        f.br(after)
        f.begin(after)
    else:
        for place, lanes in pieces:
            for bits, first in _words(r, mask[0], lanes):
                at = f.op(f"add i64 {place}, {first * b.dtype.bytes}") if first else place
                given = f"ptr {state}, i64 {at}, i64 {bits}, i64 {b.dtype.bytes}, i64 {number}"
                f.do(f"call void @driver.masked.{kind}({given})")


def _all(r: Region, pieces: list[tuple[str, tuple[int, ...]]], kind: str, number: int) -> None:
    for place, (size,) in pieces:
        r.f.do(f"call void @driver.{kind}(ptr {r.captured(DRIVER)}, i64 {place}, i64 {size}, i64 {number})")


def _pieces(r: Region, b: Buffer, a: Access, write: bool, masked: bool) -> list[tuple[str, tuple[int, ...]]]:
    """The virtual address of each access with its bytes; under a mask of lanes with the lanes from there on."""
    size = b.dtype.bytes
    if a.offsets is None:
        return [(_address(r, b, a.terms, a.const), (size,))]
    assert r.lanes is not None
    n, step = r.lanes.n, constant_step(a)
    if step in (1, -1):
        lanes = tuple(range(n)) if step == 1 else tuple(range(n - 1, -1, -1))
        return [(_address(r, b, a.terms, min(a.offsets)), lanes if masked else (n * size,))]
    if not masked and not write and (vectors := window(a, n)) is not None:
        return [(_address(r, b, a.terms, first), (length * size,)) for first, length in vectors]
    return [(p, (i,) if masked else (size,)) for i, p in enumerate(_lane_addresses(r, b, a))]


def _address(r: Region, b: Buffer, terms: Terms, const: int) -> str:
    """The virtual address of an element, shared among accesses that differ in the constant only."""
    f, size = r.f, b.dtype.bytes
    key = ("virtual", b, terms)
    found = r.find(key)
    if found is None:
        base, offset = r.virtual.get(b) or r.captured(("virtual", b)), uniform_sum(r, terms)
        if offset is not None:
            base = f.op(f"add i64 {base}, {f.op(f'mul i64 {offset}, {size}')}")
        found = r.put(key, base, False, r.buffers(t for t, _ in terms))
    return f.op(f"add i64 {found[0]}, {const * size}") if const else found[0]


def _lane_addresses(r: Region, b: Buffer, a: Access) -> list[str]:
    assert r.lanes is not None and a.offsets is not None
    f, size, n = r.f, b.dtype.bytes, r.lanes.n
    if a.dynamic:
        base, v = _address(r, b, a.terms, 0), lane_offsets(r, a)
        lanes = [f.op(f"mul i64 {f.extract('i64', n, v, i)}, {size}") for i in range(n)]
        return [f.op(f"add i64 {base}, {x}") for x in lanes]
    if not a.strides:
        return [_address(r, b, a.terms, o) for o in a.offsets]
    base, s = _address(r, b, a.terms, 0), f.op(f"mul i64 {stride_sum(r, a.strides)}, {size}")
    steps = [f.op(f"add i64 {f.op(f'mul i64 {s}, {i}')}, {o * size}") for i, o in enumerate(a.offsets)]
    return [f.op(f"add i64 {base}, {x}") for x in steps]


def _words(r: Region, mask: str, lanes: tuple[int, ...]) -> list[tuple[str, int]]:
    """The mask of these lanes (an element further each) as numbers of 64 bits, with the first lane of each."""
    assert r.lanes is not None
    f, n = r.f, r.lanes.n
    if len(lanes) == 1:
        return [(f.op(f"zext i1 {f.extract('i1', n, mask, lanes[0])} to i64"), 0)]
    if lanes != tuple(range(n)):
        mask = f.shuffle("i1", n, mask, "poison", list(lanes))
    whole = f.op(f"bitcast <{n} x i1> {mask} to i{n}")
    if n <= 64:
        return [(whole if n == 64 else f.op(f"zext i{n} {whole} to i64"), 0)]
    shifted = [(f.op(f"lshr i{n} {whole}, {first}"), first) for first in range(0, n, 64)]
    return [(f.op(f"trunc i{n} {x} to i64"), first) for x, first in shifted]


def drive_box(
    r: Region, b: Buffer, place: tuple[Terms, int], extents: list[str], steps: list[str], write: bool
) -> None:
    """All elements of a box (steps in elements), rows that lie together as one access each."""
    driver = r.shared.driver
    if driver is None or b not in driver.numbers:
        return
    f, size, kind = r.f, b.dtype.bytes, "write" if write else "read"
    room = f.alloca(f"[{2 * len(extents) + 1} x i64]", 8)
    for k, (extent, step) in enumerate(zip(extents, steps, strict=True)):
        for i, x in enumerate((extent, f.op(f"mul i64 {step}, {size}"))):
            f.do(f"store i64 {x}, ptr {f.op(f'getelementptr i64, ptr {room}, i64 {2 * k + i}')}")
    first = _address(r, b, *place)
    f.do(
        f"call void @driver.box.{kind}(ptr {r.captured(DRIVER)}, i64 {first}, i64 {size}, i64 {driver.numbers[b]}, "
        f"ptr {room}, i64 {len(extents)})"
    )


# Runs of active lanes, one access each.
_MASKED = """define internal void @driver.masked.KIND(ptr %s, i64 %first, i64 %mask, i64 %bytes, i64 %number) nounwind {
entry:
  br label %more
more:
  %rest = phi i64 [ %mask, %entry ], [ %left, %run ]
  %some = icmp ne i64 %rest, 0
  br i1 %some, label %run, label %end
run:
  %start = call i64 @llvm.cttz.i64(i64 %rest, i1 true)
  %low = lshr i64 %rest, %start
  %off = xor i64 %low, -1
  %length = call i64 @llvm.cttz.i64(i64 %off, i1 false)
  %skip = mul i64 %start, %bytes
  %address = add i64 %first, %skip
  %size = mul i64 %length, %bytes
  call void @driver.KIND(ptr %s, i64 %address, i64 %size, i64 %number)
  %full = icmp eq i64 %length, 64
  %shift = select i1 %full, i64 0, i64 %length
  %ones = shl i64 -1, %shift
  %above = select i1 %full, i64 0, i64 %ones
  %kept = shl i64 %above, %start
  %left = and i64 %rest, %kept
  br label %more
end:
  ret void
}
"""

# Axis by axis; the last one at once where its elements lie together.
_BOX = """define internal void @driver.box.KIND(ptr %s, i64 %at, i64 %bytes, i64 %number, ptr %axes, i64 %rank) nounwind {
entry:
  %point = icmp eq i64 %rank, 0
  br i1 %point, label %one, label %axis
one:
  call void @driver.KIND(ptr %s, i64 %at, i64 %bytes, i64 %number)
  ret void
axis:
  %extent = load i64, ptr %axes
  %p = getelementptr i64, ptr %axes, i64 1
  %step = load i64, ptr %p
  %some = icmp sgt i64 %extent, 0
  br i1 %some, label %row, label %end
row:
  %last = icmp eq i64 %rank, 1
  %dense = icmp eq i64 %step, %bytes
  %together = and i1 %last, %dense
  br i1 %together, label %run, label %each
run:
  %size = mul i64 %extent, %bytes
  call void @driver.KIND(ptr %s, i64 %at, i64 %size, i64 %number)
  ret void
each:
  %inner = getelementptr i64, ptr %axes, i64 2
  %fewer = sub i64 %rank, 1
  br label %loop
loop:
  %i = phi i64 [ 0, %each ], [ %next, %loop ]
  %skip = mul i64 %i, %step
  %address = add i64 %at, %skip
  call void @driver.box.KIND(ptr %s, i64 %address, i64 %bytes, i64 %number, ptr %inner, i64 %fewer)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %extent
  br i1 %again, label %loop, label %end
end:
  ret void
}
"""
