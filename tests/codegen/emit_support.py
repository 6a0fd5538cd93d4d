"""Small loop IR programs and a way to run them, for the tests of emission."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from tilewright.codegen import abi, jit, target
from tilewright.codegen.emit import counter_count, emit
from tilewright.codegen.loops import SERIAL, Buffer, For, Program, Stmt, Store
from tilewright.lang import ir
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import ScalarParam
from tilewright.lang.types import DType, from_numpy

_symbols = ("pthread_create",)


def load(b: Buffer, i: Node) -> Node:
    return ir.node("load", b.dtype.compute, (i,), (b, 0))


def load_if(b: Buffer, mask: Node, i: Node) -> Node:
    return ir.node("load_if", b.dtype.compute, (mask, i), (b, 0))


def loop(var: Node, stop: int | Node, body: Stmt, mode: str = SERIAL, start: int | Node = 0) -> For:
    as_node = lambda x: integer(x) if isinstance(x, int) else x  # noqa: E731
    return For(var, as_node(start), as_node(stop), mode, body)


def put(b: Buffer, i: Node, value: Node) -> Store:
    return Store(((b, i),), (value,))


def program(
    arguments: Sequence[Buffer],
    body: Stmt,
    *,
    sizes: Sequence[str] = (),
    scalars: Sequence[ScalarParam] = (),
    requirements: Sequence[Node] = (),
    ranks: Sequence[int] | None = None,
) -> Program:
    ranks = tuple(ranks) if ranks is not None else (0,) * len(arguments)
    return Program("tw_test", tuple(arguments), ranks, tuple(sizes), tuple(scalars), tuple(requirements), body)


def argument(name: str, dtype: DType, position: int) -> Buffer:
    return Buffer(name, dtype, argument=position)


class Memory:
    """Callbacks of a context: aligned blocks that are counted, an executor that runs tasks in reverse order."""

    def __init__(self, threads: int = 1, fail_at: int | None = None):
        self.blocks: dict[int, ctypes.Array] = {}
        self.requests: list[int] = []
        self.tasks: list[int] = []
        self.fail_at = fail_at
        alloc_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        release_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self._keep = (abi.PARALLEL_FOR(self._parallel_for), alloc_type(self._alloc), release_type(self._release))
        addresses = [ctypes.cast(fn, ctypes.c_void_p).value for fn in self._keep]
        self.context = abi.Context(threads, *addresses, None)

    def _alloc(self, context: int, size: int) -> int | None:
        self.requests.append(size)
        if self.fail_at is not None and len(self.requests) > self.fail_at:
            return None
        raw = ctypes.create_string_buffer(b"\xa5" * (size + 64), size + 64)
        address = -(-ctypes.addressof(raw) // 64) * 64
        self.blocks[address] = raw
        return address

    def _release(self, context: int, block: int) -> None:
        del self.blocks[block]

    def _parallel_for(self, context: int, body: int, env: int, n: int, _work: int) -> int:
        run = abi.BODY(body)
        codes = {}
        for task in reversed(range(n)):
            self.tasks.append(task)
            codes[task] = run(env, task)
        return next((codes[k] for k in sorted(codes) if codes[k]), 0)


def compiled(text: str, symbol: str = "tw_test", level: target.Level = "fast"):
    """The kernel of a module's text; the library is kept by the function object."""
    image = target.optimize_and_emit(text, level)
    library = jit.load(image, (symbol,))
    fn = abi.KERNEL(library.address(symbol))
    fn.library = library  # type: ignore[attr-defined]
    return fn


def slot(value: np.generic) -> int:
    """A scalar argument's 8-byte slot."""
    if isinstance(value, np.float64):
        return int(value.view(np.int64))
    if value.dtype.kind not in "biu":  # f16 and bf16 come as f32
        return int(np.float32(value).view(np.uint32))
    return int(np.int64(np.uint64(value).view(np.int64))) if value.dtype.kind == "u" else int(value)


def call(
    fn,
    arrays: Sequence[np.ndarray],
    *,
    sizes: Sequence[int] = (),
    scalars: Sequence[np.generic] = (),
    memory: Memory | None = None,
    counters: np.ndarray | None = None,
) -> int:
    every = [*arrays, *([counters] if counters is not None else [])]
    data = (ctypes.c_void_p * max(1, len(every)))(*[a.ctypes.data for a in every])
    lengths = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
    steps = [s // a.itemsize for a in arrays for s in a.strides]
    strides = (ctypes.c_int64 * max(1, len(steps)))(*steps)
    slots = (ctypes.c_int64 * max(1, len(scalars)))(*[slot(s) for s in scalars])
    memory = memory or Memory()
    code = fn(data, lengths, strides, slots, ctypes.byref(memory.context))
    assert not memory.blocks, "blocks were not given back"
    return code


def run(p: Program, arrays: Sequence[np.ndarray], *, level: target.Level = "fast", **given) -> int:
    """Emit, compile and call; the arrays are changed in place."""
    aliases = given.pop("aliases", frozenset())
    return call(compiled(emit(p, aliases=aliases), p.symbol, level), arrays, **given)


def run_counted(p: Program, arrays: Sequence[np.ndarray], **given) -> np.ndarray:
    counters = np.zeros(max(1, counter_count(p)), np.int64)
    assert call(compiled(emit(p, instrument=True), p.symbol), arrays, counters=counters, **given) == 0
    return counters


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """The same bits, or both NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = f"u{a.itemsize}"
    equal = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    if a.dtype.kind == "f" or from_numpy(a.dtype) is None or a.dtype.kind == "V":
        equal |= np.isnan(a) & np.isnan(b)
    return bool(np.all(equal))
