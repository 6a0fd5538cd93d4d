"""Instrumented kernels: what every stage evaluates, loads and stores, and how often and how large buffers are made.

The counters are an array of i64 whose pointer follows the data pointers of the arguments; `counter_layout` says what
each of them counts.

What counts is what the emitted code does. A load counts when it is executed, not when a statement mentions an element
that is in a register already: within straight-line code (the body of a serial loop with all that is unrolled in it,
and what stands before that loop) an element is loaded once, until something may have written it. One element counts
where it is the same in all lanes, else one a lane; under a mask only active lanes. Stores likewise, one per target.
Of a stage that runs in lanes every active lane is an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.codegen.emit.index import Access
from tilewright.codegen.emit.region import Region, Value
from tilewright.codegen.loops import Allocate, Buffer, Call, For, If, Prefetch, Program, Stmt, Store, walk
from tilewright.lang.ir import Node, postorder

COUNTERS = "counters"
LOADS, STORES, EVALUATIONS, SPARE, MADE, LARGEST, LIVE, PEAK = (
    "loads", "stores", "evaluations", "spare", "made", "largest", "live", "peak",
)  # fmt: skip
CONTROL = ""  # the stage of what loop bounds and conditions load

Key = tuple[
    Any, ...
]  # (LOADS | STORES, stage, buffer), (EVALUATIONS | SPARE, stage), (MADE, buffer), (PEAK, memory)...


def counter_layout(program: Program) -> dict[Key, int]:
    """The position of every counter."""
    keys: dict[Key, None] = {}
    for s in walk(program.body):
        if isinstance(s, Store):
            stage = CONTROL if s.origin is None else s.origin.stage
            if s.origin is not None:
                keys |= {(EVALUATIONS, stage): None, (SPARE, stage): None}
            keys |= {(STORES, stage, b): None for b, _ in s.targets}
            keys |= {(LOADS, stage, b): None for b in _loaded((*s.values, *(i for _, i in s.targets)))}
        elif isinstance(s, Call):
            keys |= {(EVALUATIONS, s.stage): None} | {(STORES, s.stage, v.buffer): None for v in s.out}
            keys |= {(LOADS, s.stage, v.buffer): None for v in s.views[len(s.out) :]}
        elif isinstance(s, Allocate):
            b = s.buffer
            keys |= {(MADE, b): None, (LARGEST, b): None, (LIVE, b.memory): None, (PEAK, b.memory): None}
        keys |= {(LOADS, CONTROL, b): None for b in _loaded(_controls(s))}
    return {k: i for i, k in enumerate(keys)}


def _controls(s: Stmt) -> tuple[Node, ...]:
    match s:
        case For(start=start, stop=stop):
            return start, stop
        case If(condition=condition):
            return (condition,)
        case Allocate(buffer):
            return () if buffer.size is None else (buffer.size,)
        case Prefetch(index=index):
            return (index,)
    return ()


def _loaded(roots: Sequence[Node]) -> list[Buffer]:
    return [n.attr[0] for n in postorder(roots) if n.op in ("load", "load_if")]


def counter_count(program: Program) -> int:
    """How many i64 counters an instrumented kernel needs (zeroed by the caller)."""
    return len(counter_layout(program))


@dataclass(frozen=True, slots=True)
class Tally:
    """What an instrumented run did: elements by (stage, buffer name), points by stage, buffers by name (how often they
    were made, the bytes of the largest), peak bytes by memory. The stage "" stands for loop bounds and conditions."""

    loads: Mapping[tuple[str, str], int] = field(default_factory=dict)
    stores: Mapping[tuple[str, str], int] = field(default_factory=dict)
    evaluations: Mapping[str, int] = field(default_factory=dict)
    spare: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    peak: Mapping[str, int] = field(default_factory=dict)


def decode_counters(program: Program, counters: Sequence[int]) -> Tally:
    """The counters of a run by name; buffers of the same name are added up."""
    found: dict[str, dict[Any, int]] = {k: {} for k in (LOADS, STORES, EVALUATIONS, SPARE, MADE, LARGEST, LIVE, PEAK)}
    for (kind, *rest), i in counter_layout(program).items():
        named = [x.name if isinstance(x, Buffer) else x for x in rest]
        key, n = named[0] if len(named) == 1 else tuple(named), int(counters[i])
        old = found[kind].get(key, 0)
        found[kind][key] = max(old, n) if kind == LARGEST else old + n
    del found[LIVE]
    return Tally(**found)


# emission -------------------------------------------------------------------------------------------------------


def _slot(r: Region, key: Key) -> str:
    return r.f.op(f"getelementptr i64, ptr {r.captured(COUNTERS)}, i64 {_positions(r)[key]}")


def _positions(r: Region) -> dict[Key, int]:
    if not r.shared.counters:
        r.shared.counters = counter_layout(r.shared.program)
    return r.shared.counters


def _add(r: Region, key: Key, amount: str) -> str:
    """Adds to a counter; its new value."""
    p = _slot(r, key)
    new = r.f.op(f"add i64 {r.f.op(f'load i64, ptr {p}')}, {amount}")
    r.f.do(f"store i64 {new}, ptr {p}")
    return new


def _most(r: Region, key: Key, amount: str) -> None:
    """Keeps the largest amount in a counter."""
    p = _slot(r, key)
    most = r.f.intrinsic("llvm.smax", "i64", 0, [r.f.op(f"load i64, ptr {p}"), amount])
    r.f.do(f"store i64 {most}, ptr {p}")


def count(r: Region, b: Buffer, kind: str, n: int, mask: Value | None = None, a: Access | None = None) -> None:
    """Count an access of `n` elements: all or none under a uniform mask, as many as hold under a mask of lanes.

    `a` is where they are. What runs on a machine counts in its ledger.
    """
    if r.shared.ledger is not None:
        r.shared.ledger.access(r, b, kind, n, mask, a)
    elif r.shared.instrument:
        _add(r, (kind, r.stage, b), amount(r, n, mask))


def count_point(r: Region, spare: Value | None) -> None:
    """Count the evaluation of one point, or of one a lane, and (if asked) that where `spare` holds nobody needs it."""
    n = 1 if r.lanes is None else r.lanes.n
    mask = None if r.mask is None else (r.mask, True)
    _add(r, (EVALUATIONS, r.stage), amount(r, n, mask))
    if spare is None:
        return
    x, varying = spare
    if mask is not None:
        wide = x if varying else r.f.broadcast("i1", x, n)
        spare = r.f.op(f"and <{n} x i1> {wide}, {mask[0]}"), True
    _add(r, (SPARE, r.stage), amount(r, n, spare))


def amount(r: Region, n: int, mask: Value | None) -> str:
    """`n` as an operand, as far as a mask lets it."""
    if mask is None:
        return str(n)
    return _active(r, mask[0]) if mask[1] else r.f.op(f"select i1 {mask[0]}, i64 {n}, i64 0")


def count_box(r: Region, key: Key, extents: Sequence[str]) -> None:
    """Count what a function of the user's is given or computes: every element of a box."""
    if not r.shared.instrument or r.shared.ledger is not None:
        return
    total = "1"
    for e in extents:
        total = r.f.op(f"mul i64 {total}, {e}")
    _add(r, key, total)


def _active(r: Region, mask: str) -> str:
    """The number of active lanes."""
    assert r.lanes is not None
    n = r.lanes.n
    bits = r.f.op(f"bitcast <{n} x i1> {mask} to i{n}")
    ones = r.f.intrinsic("llvm.ctpop", f"i{n}", 0, [bits])
    return ones if n == 64 else r.f.op(f"{'zext' if n < 64 else 'trunc'} i{n} {ones} to i64")


def count_live(r: Region, b: Buffer, size: str, sign: int) -> None:
    """Bytes of a temporary that begins (sign 1) or ends (-1) to live."""
    if not r.shared.instrument or r.shared.ledger is not None:
        return
    change = size if sign > 0 else r.f.op(f"sub i64 0, {size}")
    live = _add(r, (LIVE, b.memory), change)
    if sign > 0:
        _add(r, (MADE, b), "1")
        _most(r, (LARGEST, b), size)
        _most(r, (PEAK, b.memory), live)
