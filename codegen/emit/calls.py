"""Calls of stages that the user computes: views and scalars as words on the stack, then the call (see `codegen.abi`)."""

from __future__ import annotations

from tilewright.codegen.emit.counters import EVALUATIONS, LOADS, STORES, count_box
from tilewright.codegen.emit.driven import drive_box
from tilewright.codegen.emit.index import access, address
from tilewright.codegen.emit.parallel import leave
from tilewright.codegen.emit.region import Region
from tilewright.codegen.emit.values import prepare, scalar
from tilewright.codegen.loops import Call, View
from tilewright.codegen.stages import symbol
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import Node
from tilewright.lang.types import f64


def emit_call(r: Region, s: Call) -> None:
    """Where the function does not return 0, the kernel ends with its code."""
    if r.lanes is not None:
        raise CompileError(
            f"the stage {s.name} stands inside the vectorized loop {r.lanes.var.attr!r}", code="vectorize.stage",
            hint="compute it outside of the vectorized loop",
        )  # fmt: skip
    f = r.f
    words: list[str] = []
    for k, v in enumerate(s.out):
        words += _view(r, v, STORES, s.stage)
        if k == 0:
            count_box(r, (EVALUATIONS, s.stage), [scalar(r, e) for e in v.extents])
    for a in s.arguments:
        words += [_slot(r, a)] if isinstance(a, Node) else [w for v in a for w in _view(r, v, LOADS, s.stage)]
    for a in s.arguments:
        for v in a if isinstance(a, tuple) else ():
            _drive(r, v, False)
    room = f.alloca(f"[{len(words)} x i64]", 8)
    for k, w in enumerate(words):
        f.do(f"store i64 {w}, ptr {f.op(f'getelementptr i64, ptr {room}, i64 {k}')}")
    name = symbol(s.number)
    f.declare(name, "i32", "ptr, ptr")
    code = f.op(f"call i32 @{name}(ptr {r.captured('context')}, ptr {room})")
    failed, good = f.label("failed"), f.label("called")
    f.branch(f.op(f"icmp eq i32 {code}, 0"), good, failed)
    f.begin(failed)
    leave(r, code)
    f.begin(good)
    for v in s.out:
        _drive(r, v, True)
        r.touch(r.shared.related[v.buffer])


def _view(r: Region, v: View, kind: str, stage: str) -> list[str]:
    a = access(r, v.first)
    prepare(r, a.needs)
    p = address(r, v.buffer, a.terms, a.const)
    extents = [scalar(r, e) for e in v.extents]
    if r.shared.ledger is not None:
        r.shared.ledger.box(r, kind, v.buffer, v.extents, extents)
    count_box(r, (kind, stage, v.buffer), extents)
    rest = [*(scalar(r, o) for o in v.origin), *extents, *(scalar(r, e) for e in v.steps)]
    return [r.f.op(f"ptrtoint ptr {p} to i64"), *rest]


def _drive(r: Region, v: View, write: bool) -> None:
    a = access(r, v.first)
    drive_box(
        r, v.buffer, (a.terms, a.const), [scalar(r, e) for e in v.extents], [scalar(r, e) for e in v.steps], write
    )


def _slot(r: Region, n: Node) -> str:
    """A scalar as 8 bytes: see abi.HEADER."""
    f, x, t = r.f, scalar(r, n), n.dtype
    if t is f64:
        return f.op(f"bitcast double {x} to i64")
    if t.is_float:
        return f.op(f"zext i32 {f.op(f'bitcast float {x} to i32')} to i64")
    if t.is_bool:
        return f.op(f"zext i1 {x} to i64")
    return x if t.bits == 64 else f.op(f"{'sext' if t.kind == 'i' else 'zext'} i{t.bits} {x} to i64")
