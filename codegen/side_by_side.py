"""LLVM's long calls without the lock that llvmlite holds during all of its own, so that threads compile side by side.

LLVM asks for a context of its own for each module, and a target machine for each thread; no call needs a lock then.
Where llvmlite is not laid out as we know it its own calls are made, and threads wait for each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi


def _call(name: str) -> Callable[..., Any]:
    locked = getattr(ffi.lib, name)
    return getattr(locked, "_cfn", locked)


def run_passes(manager: Any, function: llvm.ValueRef, builder: Any) -> None:
    """Run a manager of passes over a function."""
    _call("LLVMPY_RunNewFunctionPassManager")(manager, function, builder)


def emitted(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The object code of a module. Raises RuntimeError with what LLVM says."""
    with ffi.OutputString() as problem:
        buffer = _call("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


__all__ = ["emitted", "run_passes"]
