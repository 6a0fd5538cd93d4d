"""Stages that the user computes, as compiled kernels call them: C functions that make NumPy views and call Python.

A kernel's object asks for `tw_stage_0`, `tw_stage_1`, ... in the order of `extern_stage.signatures`, and these are bound
when it is loaded: the object holds neither the function nor its address. ctypes takes the interpreter's lock around a
call, on whatever thread it comes. An exception is kept with the call of the kernel, which ends and raises it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from tilewright.codegen import abi
from tilewright.lang.extern_stage import Signature, View, call, signatures
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.types import DType, index


def symbol(number: int) -> str:
    """The C symbol of a kernel's stage."""
    return f"tw_stage_{number}"


def symbols(p: Pipeline) -> tuple[str, ...]:
    """The symbols that a pipeline's object asks for."""
    return tuple(map(symbol, range(len(signatures(p)))))


class Callbacks:
    """The C functions of a pipeline's stages. Keep it as long as code that was loaded with `addresses` may run."""

    def __init__(self, p: Pipeline):
        self._kept = [abi.STAGE(_trampoline(s)) for s in signatures(p)]

    @property
    def addresses(self) -> dict[str, int]:
        found = (ctypes.cast(c, ctypes.c_void_p).value for c in self._kept)
        return {symbol(k): a for k, a in enumerate(found) if a is not None}


# One call of a kernel -----------------------------------------------------------------------------------------------


class _Call:
    """The first exception of one call of a kernel. Later calls of stages give up at once."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None


_numbers = count(1)
_running: dict[int, _Call] = {}
_lock = threading.Lock()


@contextmanager
def running(context: abi.Context) -> Iterator[abi.Context]:
    """A context for one call of a kernel. What a stage raised in it is raised when the call is over."""
    mine, number = _Call(), next(_numbers)
    own = abi.Context(context.threads, context.parallel_for, context.alloc, context.release, number)
    own.callback = context  # whatever that one keeps alive
    with _lock:
        _running[number] = mine
    try:
        yield own
        if mine.error is not None:
            raise mine.error
    finally:
        del _running[number]
        mine.error = None


def _trampoline(s: Signature) -> Any:
    def run(context: int, words: Any) -> int:
        mine = _running[abi.Context.from_address(context).user]
        if mine.error is not None:
            return abi.STAGE_FAILED
        try:
            _called(s, words)
        except BaseException as e:  # one that is not caught here would be lost in the C code
            if mine.error is None:
                mine.error = e.with_traceback(None)  # its frames hold views
            return abi.STAGE_FAILED
        return abi.OK

    return run


def _called(s: Signature, words: Any) -> None:
    at = iter(range(1 << 30))

    def word() -> int:
        return words[next(at)]

    def views(what: tuple[tuple[DType, ...], int], write: bool) -> tuple[View, ...]:
        return tuple(_view(t, what[1], word, write) for t in what[0])

    out = views(s.out, True)
    given = [views(a, False) if isinstance(a, tuple) else _scalar(a, word()) for a in s.arguments]
    call(s.stage, s.location, out, given)


def _view(t: DType, rank: int, word: Any, write: bool) -> View:
    """An array on memory that is not ours to keep."""
    address = word()
    origin = tuple(word() for _ in range(rank))
    shape = tuple(word() for _ in range(rank))
    n = t.np.itemsize
    strides = tuple(n * word() for _ in range(rank))
    if 0 in shape:
        v = View(shape, t.np)
    else:
        reach = [(e - 1) * step for e, step in zip(shape, strides, strict=True)]
        low = sum(x for x in reach if x < 0)
        high = sum(x for x in reach if x > 0)
        memory: Any = (ctypes.c_char * (high - low + n)).from_address(address + low)
        v = View(shape, t.np, memory, -low, strides)
    v.origin = origin
    v.flags.writeable = write
    return v


def _scalar(t: DType, slot: int) -> Any:
    """What a slot holds (see abi.HEADER)."""
    if t is index:
        return slot
    return np.bool_(slot) if t.is_bool else np.array([slot], np.int64).view(t.np)[0]


__all__ = ["Callbacks", "running", "symbol", "symbols"]
