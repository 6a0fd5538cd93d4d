"""Native runs in which every byte outside of what a kernel was given is watched.

Arrays end (or begin) at a page that nobody may touch; temporaries too, with a pattern in front and undefined content of
any kind; strided arrays have a pattern between their elements. A read or write outside kills the process, so runs that
may fail that way belong in a process of their own (see worker.py). Parallel loops run their tasks in any order.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.codegen import emit_support
from tilewright.codegen import abi, stages
from tilewright.codegen.interface import ANY, UNIT
from tilewright.codegen.physical import pack, physical_shape, unpack
from tilewright.lang.binding import bind
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import structured
from tilewright.lang.values import index_value
from tilewright.schedule.state import State

PAGE = mmap.PAGESIZE
PATTERN = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)
Choose = Callable[[int], int]


class Block:
    """`size` bytes at the end of writable pages (or at their start), between pages that may not be touched."""

    def __init__(self, size: int, at_end: bool = True, align: int = 1, fill: int = PATTERN):
        inner = max(1, -(-size // PAGE)) * PAGE
        self.map = mmap.mmap(-1, inner + 2 * PAGE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.first, self.size, self.fill = self.base + PAGE, size, fill
        ctypes.memset(self.first, fill, inner)
        self.address = self.first + (inner - -(-size // align) * align if at_end else 0)
        self.inner = inner
        for p in (self.base, self.first + inner):
            assert _libc.mprotect(ctypes.c_void_p(p), ctypes.c_size_t(PAGE), 0) == 0

    def intact(self) -> bool:
        """Whether the bytes before and after the block have kept their pattern."""
        all_bytes = ctypes.string_at(self.first, self.inner)
        start = self.address - self.first
        rest = all_bytes[:start] + all_bytes[start + self.size :]
        return rest == bytes([self.fill]) * len(rest)

    def give_back(self) -> None:
        for p in (self.base, self.first + self.inner):
            _libc.mprotect(ctypes.c_void_p(p), ctypes.c_size_t(PAGE), 3)

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        raw = np.frombuffer((ctypes.c_char * max(self.size, 1)).from_address(self.address), np.uint8)[: self.size]
        return raw.view(dtype).reshape(shape) if self.size else np.empty(shape, dtype)


class Memory(emit_support.Memory):
    """The callbacks of a context: guarded temporaries, tasks in an order of `choose`."""

    def __init__(self, threads: int, choose: Choose, fill: int):
        super().__init__(threads)
        self.choose, self.fill = choose, fill
        self.damaged: list[int] = []
        self.live: dict[int, Block] = {}

    def _alloc(self, context: int, size: int) -> int | None:
        block = Block(size, align=64, fill=self.fill)
        self.live[block.address] = self.blocks[block.address] = block  # type: ignore[assignment]
        return block.address

    def _release(self, context: int, block: int) -> None:
        found = self.live.pop(block)
        del self.blocks[block]
        if not found.intact():
            self.damaged.append(found.size)
        found.give_back()

    def _parallel_for(self, context: int, body: int, env: int, n: int, _work: int) -> int:
        run = abi.BODY(body)
        tasks = list(range(n))
        while tasks:
            k = self.choose(3)
            code = run(env, tasks.pop(0 if k == 0 else -1 if k == 1 else len(tasks) // 2))
            if code:
                return code
        return 0


class Arrays:
    """Copies of arrays in guarded memory, contiguous or strided."""

    def __init__(self, choose: Choose):
        self.choose, self.blocks = choose, []
        self.gaps: list[tuple[np.ndarray, np.ndarray]] = []

    def _block(self, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        b = Block(int(np.prod(shape, dtype=int)) * dtype.itemsize, self.choose(2) == 0)
        self.blocks.append(b)
        return b.array(dtype, tuple(shape))

    def like(self, a: np.ndarray, stride_class: str) -> np.ndarray:
        """An array with the elements of `a`, with strides of a class."""
        kind = self.choose(4) if stride_class == ANY and a.ndim else 0
        if stride_class == UNIT and a.ndim:
            out = self._spaced(a, a.shape[-1] + 1 + self.choose(3), 1)
        elif kind == 1:  # every second element of the last axis
            out = self._spaced(a, max(0, 2 * a.shape[-1] - 1), 2)
        elif kind == 2:  # backwards
            out = self._block(a.dtype, a.shape)[::-1]
        elif kind == 3:  # the axes in the other order
            out = self._block(a.dtype, a.shape[::-1]).T
        else:
            out = self._block(a.dtype, a.shape)
        out[...] = a
        return out

    def _spaced(self, a: np.ndarray, length: int, step: int) -> np.ndarray:
        """Rows in the memory of longer ones; what lies between is watched."""
        whole = self._block(a.dtype, (*a.shape[:-1], length))
        stop = a.shape[-1] if step == 1 else length
        gap = whole[..., stop:] if step == 1 else whole[..., 1::2]
        self.gaps.append((gap, gap.copy()))
        return whole[..., :stop:step]

    def check(self) -> None:
        for b in self.blocks:
            assert b.intact(), "bytes beside an array were written"
        for now, before in self.gaps:
            assert now.tobytes() == before.tobytes(), "bytes between the elements of an array were written"


def pattern(dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """An array of what nobody computes."""
    return np.full(int(np.prod(shape, dtype=int)) * dtype.itemsize, PATTERN, np.uint8).view(dtype).reshape(shape)


def run_guarded(
    p: Pipeline, state: State, kernel: Any, classes: Sequence[str], arrays: dict[str, Any], choose: Choose
) -> Any:  # fmt: skip
    """The result and the inouts of a guarded run; None where the schedule asks more of the sizes than they give.

    `kernel` was compiled for `classes`, the stride class of every argument.
    """
    bound = bind(p, (), arrays)
    made = Arrays(choose)
    shapes = [tuple(index_value(e, bound.env) for e in o.extents) for o in p.outputs]
    given = [state.given.get(o.func.name) for o in p.outputs]
    inputs = [
        pack(bound.arrays[a.name], state.given[a.name]) if a.name in state.given else bound.arrays[a.name]
        for a in p.arrays
    ]
    empty = [
        pattern(o.dtype.np, n if m is None else physical_shape(m, n))
        for o, n, m in zip(p.outputs, shapes, given, strict=True)
    ]
    inputs = [made.like(a, c) for a, c in zip(inputs, classes, strict=False)]
    outputs = [made.like(e, c) for e, c in zip(empty, classes[len(classes) - len(empty) :], strict=True)]
    every = [*inputs, *(t.values for t in p.tables), *outputs]
    memory = Memory(1 + choose(3), choose, [PATTERN, 0xFF, 0x00][choose(3)])
    before = [a.copy() for a in inputs]
    with stages.running(memory.context) as memory.context:
        code = emit_support.call(
            kernel, every, sizes=[bound.sizes[n] for n in p.sizes],
            scalars=[bound.scalars[s.name] for s in p.scalars], memory=memory,
        )  # fmt: skip
    if code >= abi.FIRST_REQUIREMENT:
        return None
    assert code == 0, code
    made.check()
    assert not memory.damaged, f"bytes beside temporaries of {memory.damaged} bytes were written"
    names = [a.name for a in p.arrays]
    written = {f.name for f in p.inouts}
    for name, now, old in zip(names, inputs, before, strict=True):
        assert name in written or now.tobytes() == old.tobytes(), f"the input {name} was written"
    logical = [np.array(v) if m is None else unpack(v, m, n) for v, n, m in zip(outputs, shapes, given, strict=True)]
    for v, e, n, m in zip(outputs, empty, shapes, given, strict=True):
        if m is not None:
            fill = pack(np.ones(n, np.bool_), m) == 0
            assert v[fill].tobytes() == e[fill].tobytes(), "what only fills up blocks of an output was written"
    return [structured(p.structure, logical), [np.array(inputs[names.index(f.name)]) for f in p.inouts]]
