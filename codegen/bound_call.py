"""A kernel with its arguments: checked once, then run on the same buffers at the cost of the kernel and little more."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from tilewright.codegen import abi, runtime
from tilewright.codegen.entry import MethodDef, arguments, kernel, new_builtin
from tilewright.codegen.runtime import layout

_NO_ARGUMENTS = 0x0004  # METH_NOARGS


@dataclass(frozen=True, eq=False)
class Ready:
    """What a kernel is called with once everything has been checked. `arrays` are in the order of the interface, all
    strides whole numbers of elements; `scalars` are slots (see abi.HEADER). `result` is what the call gives back, `fail`
    raises what a return code stands for; `env` has sizes and scalars by name."""

    kernel: int
    arrays: Sequence[np.ndarray]
    sizes: Sequence[int]
    scalars: Sequence[int]
    result: Any
    fail: Callable[[int], Any]
    env: Mapping[str, Any]
    keep: Any = None
    words: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", arguments(self.arrays, self.sizes, self.scalars))

    def run(self, context: abi.Context) -> int:
        """Run the kernel; its return code. The lock of the interpreter is released meanwhile."""
        return kernel(self.kernel)(*self.words, ctypes.addressof(context))


class BoundCall:
    """What `fast.bind(...)` gives: call it without arguments. `result` is what every call gives back, and writes."""

    result: Any

    def __init__(self, name: str, result: Any, run: Callable[[], Any]):
        self._name, self.result = name, result
        # a builtin as a class attribute does not bind: calling the object goes straight to it
        self.__class__ = type("BoundCall", (BoundCall,), {"__call__": staticmethod(run)})  # type: ignore[assignment]

    def __call__(self) -> Any:  # replaced per object, see __init__
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self._name} with its arguments>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{self!r} can't be copied or pickled: it writes to arrays of this process; bind again")


def native(ready: Ready, context: abi.Context) -> Callable[[], Any] | None:
    """The builtin that runs it; None where Python's objects are laid out in a way that we do not know."""
    if not layout.usable():
        return None
    words = struct.pack("<6q", ready.kernel, *map(ctypes.addressof, ready.words), ctypes.addressof(context))
    definition = _definition()
    alive = (words, ready.result, ready.fail, ready, context, definition)
    return new_builtin()(ctypes.addressof(definition), alive, None)


@functools.cache
def _definition() -> MethodDef:
    """Kept alive by the builtins, see entry.py."""
    return MethodDef(b"bound", runtime.bound_address(), _NO_ARGUMENTS, b"A kernel with its arguments.")
