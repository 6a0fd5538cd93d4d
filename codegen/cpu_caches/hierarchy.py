"""A machine's caches as one thing that accesses go into and counts come out of."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache as remembered

import numpy as np

from tilewright.codegen.cpu_caches import emit as e
from tilewright.codegen.jit import Library, load
from tilewright.codegen.target import optimize_and_emit
from tilewright.hw import Cache
from tilewright.hw.cache_counts import CacheCounts, Level
from tilewright.lang.errors import CompileError

_SEED = 88172645463325252


@remembered
def _library(caches: tuple[Cache, ...], tensors: int) -> Library:
    """The compiled functions of a hierarchy."""
    m = e.module(e.plan(caches, tensors))
    m.functions += [_ACCESS, _REPLAY]
    return load(optimize_and_emit(m.text()), ("cache.access", "cache.flush", "cache.replay"))


_ACCESS = """define void @cache.access(ptr %s, i64 %address, i64 %bytes, i1 %write, i64 %tensor) nounwind {
entry:
  br i1 %write, label %w, label %r
w:
  call void @cache.write(ptr %s, i64 %address, i64 %bytes, i64 %tensor)
  ret void
r:
  call void @cache.read(ptr %s, i64 %address, i64 %bytes, i64 %tensor)
  ret void
}"""

_REPLAY = """define void @cache.replay(ptr %s, ptr %at, ptr %bytes, ptr %writes, ptr %tensors, i64 %n) nounwind {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [ 0, %entry ], [ %more, %loop ]
  %p1 = getelementptr i64, ptr %at, i64 %i
  %a = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %bytes, i64 %i
  %b = load i64, ptr %p2
  %p3 = getelementptr i8, ptr %writes, i64 %i
  %c = load i8, ptr %p3
  %w = trunc i8 %c to i1
  %p4 = getelementptr i64, ptr %tensors, i64 %i
  %t = load i64, ptr %p4
  call void @cache.access(ptr %s, i64 %a, i64 %b, i1 %w, i64 %t)
  %more = add i64 %i, 1
  %again = icmp slt i64 %more, %n
  br i1 %again, label %loop, label %end
end:
  ret void
}"""


class Hierarchy:
    """Caches from the core outwards, cold at first, and the counts of the accesses that went through them.

    The results are counts of a model: one core, sets by the line number modulo the number of sets, no prefetcher.
    `tensors` names what accesses are counted for (at most 256, CompileError `caches.tensors`).
    """

    def __init__(self, caches: Sequence[Cache], tensors: Sequence[str] = ("",)):
        if len(tensors) > e.TENSORS:
            raise CompileError(
                f"{len(tensors)} tensors are too many to be counted apart", code="caches.tensors",
                hint=f"at most {e.TENSORS}",
            )  # fmt: skip
        self.caches, self.tensors = tuple(caches), tuple(tensors)
        self.plan = e.plan(self.caches, len(tensors))
        self.state = np.zeros(self.plan.size, np.int64)
        self.state[self.plan.seed] = _SEED
        self._code = _library(self.caches, len(tensors))
        i64, ptr = ctypes.c_int64, ctypes.c_void_p
        self._access = ctypes.CFUNCTYPE(None, ptr, i64, i64, ctypes.c_bool, i64)(self._code.address("cache.access"))
        self._flush = ctypes.CFUNCTYPE(None, ptr)(self._code.address("cache.flush"))
        self._replay = ctypes.CFUNCTYPE(None, ptr, ptr, ptr, ptr, ptr, i64)(self._code.address("cache.replay"))

    def read(self, address: int, size: int, tensor: int = 0) -> None:
        """`size` bytes (at least one) at a byte address (at least 0)."""
        self._access(self.state.ctypes.data, address, size, False, tensor)

    def write(self, address: int, size: int, tensor: int = 0) -> None:
        self._access(self.state.ctypes.data, address, size, True, tensor)

    def replay(self, addresses: np.ndarray, sizes: np.ndarray, writes: np.ndarray, tensors: np.ndarray) -> None:
        """A recorded stream: i64 byte addresses and sizes, whether each access writes, and the tensor's number."""
        wide = [np.ascontiguousarray(a, np.int64) for a in (addresses, sizes, tensors)]
        flags = np.ascontiguousarray(writes, np.bool_)
        places = [a.ctypes.data for a in (wide[0], wide[1], flags, wide[2])]
        self._replay(self.state.ctypes.data, *places, len(flags))

    def flush(self) -> None:
        """Write back what has changed, from the core outwards."""
        self._flush(self.state.ctypes.data)

    def forget(self) -> None:
        """Set the counts to zero; the contents stay."""
        self.state[self.plan.counts[0] :] = 0

    @property
    def levels(self) -> tuple[Level, ...]:
        """The counts of every cache, and of main memory (`memory`)."""
        p, n = self.plan, len(self.tensors)
        counts = self.state[p.counts[0] : p.again].reshape(len(p.caches) + 1, n, e.FIELDS).copy()
        again = self.state[p.again :].reshape(n, 2)
        for field, which in ((e.READS, 0), (e.READ_HITS, 0), (e.WRITES, 1), (e.WRITE_HITS, 1)):
            counts[0, :, field] += again[:, which]
        names = [*(c.name for c in p.caches), "memory"]
        return tuple(
            Level(name, {t: CacheCounts(*row) for t, row in zip(self.tensors, rows, strict=True)})
            for name, rows in zip(names, counts.tolist(), strict=True)
        )
