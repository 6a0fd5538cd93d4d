"""Statements as basic blocks: loops, branches and masks, stores, temporaries, prefetches, parallel loops.

Unrolled loops repeat their text with the variable's values put into all index arithmetic. A vectorize loop is its
body once, with the lanes as context. A condition that differs by lane becomes a mask, and its body is skipped where
no lane is active, so that what is the same in all lanes may be loaded there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from tilewright.codegen.emit import memory
from tilewright.codegen.emit.builder import loop_label, memory_type
from tilewright.codegen.emit.calls import emit_call
from tilewright.codegen.emit.clock import timed
from tilewright.codegen.emit.conditions import both, here, meaning, means, negated, opposite, some_lane
from tilewright.codegen.emit.counters import count_live, count_point
from tilewright.codegen.emit.dots import emit_dot, find_dot
from tilewright.codegen.emit.driven import placed
from tilewright.codegen.emit.index import access, address, resolve
from tilewright.codegen.emit.ledger import ARENAS
from tilewright.codegen.emit.parallel import emit_parallel, hold, leave, release
from tilewright.codegen.emit.recorder import record
from tilewright.codegen.emit.region import Lanes, Region, bind, substituted, trip_count, unbind
from tilewright.codegen.emit.transpose import Tile, find_tile, made, store_block
from tilewright.codegen.emit.values import prepare, scalar, value
from tilewright.codegen.loops import (
    PARALLEL,
    SERIAL,
    TIMED,
    VECTORIZE,
    Allocate,
    Block,
    Buffer,
    Call,
    Fence,
    For,
    If,
    Prefetch,
    Section,
    Stmt,
    Store,
    Turn,
)
from tilewright.codegen.target import host
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import COMPARISONS, TRUE, Node, is_const
from tilewright.lang.simplify import sub
from tilewright.lang.types import index

if TYPE_CHECKING:
    from tilewright.codegen.skeleton.tree import Step

STACK_BYTES = 64 * 1024  # constant-size temporaries of one function that stand on its stack
LARGE = 4096  # larger ones take half of that at most: what is small enough for registers must find room


def emit_statement(r: Region, s: Stmt) -> None:
    """Append the text of a statement.

    Temporaries nest as deep as a graph is long, so allocations at the end of blocks are opened here without recursion.
    """
    with ExitStack() as opened:
        while True:
            if isinstance(s, Block) and s.statements:
                for t in s.statements[:-1]:
                    emit_statement(r, t)
                s = s.statements[-1]
            elif isinstance(s, (Section, Turn)):
                if isinstance(s, Section) and s.kind == TIMED:
                    opened.enter_context(timed(r, s.name))
                elif isinstance(s, Section) and r.shared.ledger is not None:
                    opened.enter_context(r.shared.ledger.in_section(r, s))
                s = s.body
            elif isinstance(s, Allocate):
                opened.enter_context(_allocated(r, s))
                s = s.body
            else:
                break
        rule = _RULES.get(type(s))
        if rule is None:
            raise CompileError(f"the back end has no statement {type(s).__name__}", code="emit.statement")
        rule(r, s)


def _nothing(r: Region, s: Block) -> None:
    """An empty block."""


# loops ----------------------------------------------------------------------------------------------------------


def _for(r: Region, s: For) -> None:
    trips = trip_count(s)
    if trips == 0:
        return
    if substituted(s):
        _unrolled(r, s, trips)
    elif s.mode == VECTORIZE:
        _vectorized(r, s, trips)
    elif s.mode == PARALLEL and not r.shared.instrument:
        emit_parallel(r, s, emit_statement)
    elif s.mode in (SERIAL, PARALLEL):
        _serial(r, s, trips)
    else:
        raise CompileError(f"the loop {s.var.attr!r} has an unknown mode {s.mode!r}", code="emit.mode")


def _unrolled(r: Region, s: For, trips: int | None) -> None:
    if trips is None:
        raise CompileError(
            f"the loop {s.var.attr!r} can't be unrolled: its number of iterations is not constant",
            code="unroll.extent",
            hint="split it by a constant factor first and unroll the inner loop",
        )
    if r.shared.ledger is not None:
        r.shared.ledger.flat_loop(r, s, trips)
    tile, dot = find_tile(r, s, trips), find_dot(r, s, trips)
    if tile is not None:
        _transposed(r, s, tile)
    elif dot is not None:
        emit_dot(r, s, dot)
    else:
        start = resolve(r, s.start)
        for k in range(trips):
            bind(r, s.var, start, k)
            emit_statement(r, s.body)
    unbind(r, s.var)


def _transposed(r: Region, s: For, tile: Tile) -> None:
    for first, count in tile.pieces():
        with made(r, tile, first, count):
            if tile.store is not None and count > 1:
                store_block(r, tile, first, count)
                continue
            for k in range(first, first + count):
                bind(r, s.var, tile.start, k)
                emit_statement(r, s.body)


def _vectorized(r: Region, s: For, trips: int | None) -> None:
    if trips is None or not is_const(s.start, 0):
        raise CompileError(
            f"the loop {s.var.attr!r} can't be vectorized: it does not run over 0..n with a constant n",
            code="vectorize.extent",
            hint="split it by a constant factor first and vectorize the inner loop",
        )
    if r.shared.ledger is not None:
        r.shared.ledger.flat_loop(r, s, trips)
    with r.lane_scope(Lanes(s.var, trips)):
        emit_statement(r, s.body)


def _serial(r: Region, s: For, trips: int | None) -> None:
    """Tested at the end; entered only where there is an iteration."""
    start, stop = scalar(r, s.start), scalar(r, s.stop)
    if r.shared.ledger is None:
        _serial_loop(r, s, trips, start, stop, lambda: emit_statement(r, s.body))
        return
    with r.shared.ledger.loop(r, s, start, stop, trips) as loop:

        def body() -> None:
            with loop.body():
                emit_statement(r, s.body)

        _serial_loop(r, s, trips, start, stop, body)


def _serial_loop(r: Region, s: For, trips: int | None, start: str, stop: str, emit_body: Callable[[], None]) -> None:
    f = r.f
    body, done = f.label(loop_label(s.var.attr)), f.label("done")
    before_it, lines = f.hole(), list[str]()
    if trips is None:
        f.branch(f.op(f"icmp slt i64 {start}, {stop}"), body, done)
    else:
        f.br(body)
    before = f.block
    f.begin(body)
    hole = f.hole()
    i = f.name()
    written = r.shared.writes(s.body)
    r.touch(written)
    outer_depth = r.depth.get(s.var)
    r.depth[s.var] = len(r.depth) + 1
    with r.loop(i, lines):
        r.put(r.key(s.var), i)
        emit_body()
    f.lines[before_it] = "\n".join(lines)
    r.touch(written)
    if outer_depth is None:
        del r.depth[s.var]
    following = f.op(f"add nuw nsw i64 {i}, 1" if is_const(s.start) and s.start.attr >= 0 else f"add nsw i64 {i}, 1")
    f.fill(hole, f"{i} = phi i64 [ {start}, %{before} ], [ {following}, %{f.block} ]")
    f.branch(f.op(f"icmp slt i64 {following}, {stop}"), body, done)
    f.begin(done)


# conditions -----------------------------------------------------------------------------------------------------


def known(r: Region, c: Node) -> bool | None:
    """The value of a condition that unrolling made constant."""
    if c.op == "const":
        return bool(c.attr)
    if c.op == "likely":
        return known(r, c.args[0])
    if c.op in ("and", "or"):
        a, b = known(r, c.args[0]), known(r, c.args[1])
        absorbing = c.op == "or"
        if a is absorbing or b is absorbing:
            return absorbing
        return None if a is None or b is None else not absorbing
    if c.op in COMPARISONS and c.args[0].dtype is index:
        coefs, d = resolve(r, sub(*c.args))
        if not coefs:
            return {"eq": d == 0, "ne": d != 0, "lt": d < 0, "le": d <= 0, "gt": d > 0, "ge": d >= 0}[c.op]
    return None


def _if(r: Region, s: If) -> None:
    fixed = known(r, s.condition)
    if fixed is not None:
        if fixed:
            emit_statement(r, s.then)
        elif s.otherwise is not None:
            emit_statement(r, s.otherwise)
        return
    x, varying = value(r, s.condition)
    if varying:
        means(r, (x, varying), s.condition)
        _masked(r, x, s.then)
        if s.otherwise is not None:
            assert r.lanes is not None
            n = r.lanes.n
            _masked(r, opposite(r, r.f.op(f"xor <{n} x i1> {x}, splat (i1 true)"), x), s.otherwise)
        return
    f = r.f
    yes, end = f.label("then"), f.label("end")
    no = f.label("else") if s.otherwise is not None else end
    f.branch(x, yes, no)
    then = _guarded(r, yes, s.then, end, s.condition)
    otherwise = None if s.otherwise is None else _guarded(r, no, s.otherwise, end, negated(s.condition))
    f.begin(end)
    if then is not None:
        r.shared.ledger.branch(r, s.condition, then, otherwise)


def _guarded(r: Region, label: str, s: Stmt, end: str, condition: Node) -> Step | None:
    """A statement in a block of its own, which runs under a condition; what it wrote is unknown afterwards. Its step, where
    there is a ledger."""
    r.f.begin(label)
    steps: list[Step] = []
    with r.scope():
        if r.shared.ledger is None:
            emit_statement(r, s)
        else:
            with r.shared.ledger.block(r) as steps, r.shared.ledger.guard(here(r, condition)):
                emit_statement(r, s)
    r.f.br(end)
    r.touch(r.shared.writes(s))
    return steps[0] if steps else None


def _masked(r: Region, mask: str, s: Stmt) -> None:
    assert r.lanes is not None
    f, n, outer = r.f, r.lanes.n, r.mask
    if outer is not None:
        mask = both(r, f.op(f"and <{n} x i1> {mask}, {outer}"), mask, outer)
    some, end = f.label("some"), f.label("end")
    active = some_lane(r, f.any(mask, n), mask)
    f.branch(active, some, end)
    r.mask = mask
    ledger = r.shared.ledger
    step = _guarded(r, some, s, end, TRUE if ledger is None else meaning(r, active))
    r.mask = outer
    f.begin(end)
    if step is not None and ledger is not None:
        ledger.branch(r, meaning(r, active), step, None)


# memory ---------------------------------------------------------------------------------------------------------


def _store(r: Region, s: Store) -> None:
    r.stage = "" if s.origin is None else s.origin.stage
    values = [value(r, v) for v in s.values]
    places = [access(r, i) for _, i in s.targets]
    prepare(r, [n for a in places for n in a.needs])  # an index may depend on what is about to be written
    for (b, _), a, x in zip(s.targets, places, values, strict=True):
        memory.store(r, b, a, x, s.stream)
    if r.shared.ledger is not None:
        r.shared.ledger.point(r, () if s.origin is None else s.origin.operations)
    elif r.shared.instrument and s.origin is not None:
        never = known(r, s.origin.spare) is False
        count_point(r, None if never else value(r, s.origin.spare))
        record(r, s.origin, [v.dtype for v in s.values], values)
    r.stage = ""
    for b, _ in s.targets:
        r.touch(r.shared.related[b])


def _fence(r: Region, s: Fence) -> None:
    """Only stores past the caches need it: x86 has one for them that loads don't wait for."""
    if host().triple.startswith("x86_64"):
        r.f.declare("llvm.x86.sse.sfence", "void", "")
        r.f.do("call void @llvm.x86.sse.sfence()")
    else:
        r.f.do("fence seq_cst")


def _prefetch(r: Region, s: Prefetch) -> None:
    a = access(r, s.index)
    prepare(r, a.needs)
    first = a.const if a.offsets is None else a.offsets[0]
    p = address(r, s.buffer, a.terms, first)
    r.f.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    r.f.do(f"call void @llvm.prefetch.p0(ptr {p}, i32 {int(s.write)}, i32 3, i32 1)")


@contextmanager
def _allocated(r: Region, s: Allocate) -> Iterator[None]:
    """A temporary that lives while the body of the `with` statement is emitted."""
    b = s.buffer
    assert b.size is not None
    if r.lanes is not None:
        raise CompileError(
            f"{b.name} is allocated inside the vectorized loop {r.lanes.var.attr!r}",
            code="vectorize.allocate",
            hint="compute it outside of the vectorized loop",
        )
    constant = b.size.attr if is_const(b.size) else None
    if b.memory == "reg" and constant is None:
        raise CompileError(
            f"{b.name} is placed in registers, but its size is not constant",
            code="reg.size",
            hint="split the loops around it by constant factors",
        )
    r.touch((b,))
    outer = r.pointers.get(b)
    if r.shared.ledger is not None and b.name in r.shared.ledger.places:
        kind = _in_arena(r, b, r.shared.ledger.places[b.name])
    elif constant is not None:
        # masked stores may blend a whole vector at the end
        padded = (max(constant, 0) + r.shared.lanes - 1) * b.dtype.bytes
        room = STACK_BYTES if padded <= LARGE else STACK_BYTES // 2
        if b.memory == "reg" or r.stack_bytes + padded <= room:
            kind = _on_stack(r, b, constant, padded)
        else:
            kind = _on_heap(r, b)
    else:
        kind = _on_heap(r, b)
    arena = r.arena
    with kind as size:
        count_live(r, b, size, 1)
        placed(r, b, size)
        with r.scope(), nullcontext() if r.shared.ledger is None else r.shared.ledger.life(r, b):
            yield  # pointers into it end with it
        count_live(r, b, size, -1)
    r.arena = arena
    if outer is None:
        del r.pointers[b]


@contextmanager
def _on_stack(r: Region, b: Buffer, size: int, padded: int) -> Iterator[str]:
    """In the frame of the function, where LLVM can turn it into registers."""
    f = r.f
    p = r.pointers[b] = f.alloca(f"[{padded // b.dtype.bytes} x {memory_type(b.dtype)}]", 64)
    r.level_of[p] = 0
    r.stack_bytes += padded
    for mark in ("start", "end"):
        f.declare(f"llvm.lifetime.{mark}.p0", "void", "ptr")
    r.stacked.add(b)
    f.do(f"call void @llvm.lifetime.start.p0(ptr {p})")
    yield str(size * b.dtype.bytes)
    f.do(f"call void @llvm.lifetime.end.p0(ptr {p})")
    r.stacked.discard(b)


@contextmanager
def _in_arena(r: Region, b: Buffer, offset: int) -> Iterator[str]:
    """Where the buffer has its place in a simulated memory."""
    assert b.size is not None
    r.pointers[b] = r.f.op(f"getelementptr i8, ptr {r.captured(ARENAS)}, i64 {offset}")
    r.arenas.add(b)
    yield r.f.op(f"mul nsw i64 {scalar(r, b.size)}, {b.dtype.bytes}")


@contextmanager
def _on_heap(r: Region, b: Buffer) -> Iterator[str]:
    """From the caller's allocator; without memory everything held is given back and the kernel returns 1."""
    f = r.f
    assert b.size is not None
    size = f.op(f"mul nsw i64 {scalar(r, b.size)}, {b.dtype.bytes}")
    asked = f.intrinsic("llvm.smax", "i64", 0, [size, "1"])
    context = r.captured("context")
    allocator = f.op(f"load ptr, ptr {f.op(f'getelementptr i8, ptr {context}, i64 16')}")
    p = f.op(f"call noalias ptr {allocator}(ptr {context}, i64 {asked})")
    failed, good = f.label("nomemory"), f.label("allocated")
    f.branch(f.op(f"icmp eq ptr {p}, null"), failed, good)
    f.begin(failed)
    leave(r, "1")
    f.begin(good)
    r.pointers[b] = p
    r.level_of[p] = len(r.levels)
    hold(r, p)
    yield size
    r.held.pop()
    f.lines += release(r, p)


_RULES: dict[type, Callable[[Region, Any], None]] = {
    Block: _nothing,
    For: _for,
    If: _if,
    Store: _store,
    Prefetch: _prefetch,
    Fence: _fence,
    Call: emit_call,
}
