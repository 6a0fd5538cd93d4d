"""The engine compiled: its Python source through Numba to LLVM's text once, and then from our cache of objects.

The functions use integers and pointers only, raise nothing and allocate nothing, so what Numba makes of them needs nothing
of Python or Numba when it runs. It takes some 15 seconds, once: a process that finds the object in the cache does not
even import Numba.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.codegen import cache, target
from tilewright.codegen.jit import Library, load
from tilewright.lang.errors import CompileError

SYMBOL = "tilewright_simulate"  # void (i64 *memory, i64 *values, i64 step, i64 site, i64 count): see drive.py
_MODULES = (
    "expressions", "ranges", "geometry", "timing", "boxes", "phases", "copies", "sections", "state", "forward", "walk",
    "drive",
)  # fmt: skip
_POINTERS = ("m", "values")
_FILES = ("layout", *_MODULES, "native")


@functools.cache
def library() -> Library:
    """The engine's machine code, with one function `SYMBOL`."""
    name = _key()
    entry = cache.get(name)
    if entry is None:
        entry = cache.Entry(target.optimize_and_emit(_text(), "full"), {"symbol": SYMBOL, "kernel": "simulate"})
        cache.put(name, entry)
    return load(entry.image, (SYMBOL,)).pin()


@functools.cache
def function() -> Any:
    """The compiled `drive`, to be called with addresses and integers."""
    i64, ptr = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(None, ptr, ptr, i64, i64, i64)(library().address(SYMBOL))


def _key() -> str:
    """What the object depends on: these sources (and no others), the versions, and the processor."""
    digest = hashlib.sha256()
    for name in _FILES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    host = target.host()
    for part in (target.versions(), host.triple, host.cpu, host.features):
        digest.update(part.encode())
    return digest.hexdigest()


def _text() -> str:
    """The engine as LLVM's text: what Numba makes of `drive`, and a plain C function around it."""
    config: Any = importlib.import_module("numba.core.config")  # only a process that finds no object pays for it
    level = config.OPT
    config.OPT = type(level)(0)  # LLVM optimises all of it together, later
    try:
        return _compiled()
    finally:
        config.OPT = level


def _compiled() -> str:
    numba: Any = importlib.import_module("numba")
    pointer = numba.types.CPointer(numba.int64)
    names: dict[str, Any] = {}  # the functions call each other through this one namespace, in which all are compiled
    for name, function in _in_order(names):
        arguments = [pointer if a in _POINTERS else numba.int64 for a in inspect.signature(function).parameters]
        made = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
        made.compile(tuple(arguments))
        made.disable_compile()  # constants as arguments make no versions of their own
        names[name] = made
    (compiled,) = names["drive"].overloads.values()
    return _wrapped(compiled.library.get_llvm_str(), compiled.fndesc.llvm_func_name)


def _in_order(names: dict[str, Any]) -> Iterator[tuple[str, types.FunctionType]]:
    """The engine's functions as functions of one namespace, those that are called before their callers."""
    found: dict[str, types.FunctionType] = {}
    for name in _MODULES:
        module = importlib.import_module(f"tilewright.codegen.skeleton.{name}")
        for key, value in vars(module).items():
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                found[key] = types.FunctionType(value.__code__, names, key)
            elif isinstance(value, types.ModuleType):
                names[key] = value
    done: set[str] = set()

    def visit(name: str) -> Iterator[tuple[str, types.FunctionType]]:
        if name in found and name not in done:
            done.add(name)
            for called in found[name].__code__.co_names:
                yield from visit(called)
            yield name, found[name]

    for name in list(found):
        yield from visit(name)


def _wrapped(text: str, inner: str) -> str:
    """The module with everything private but a function of C's calling convention."""
    text = re.sub(
        r"^define (linkonce_odr |weak_odr )?(?!internal|private)", "define internal ", text, flags=re.MULTILINE
    )
    if f'"{inner}"' not in text and inner not in text:
        raise CompileError(f"Numba has not made the function {inner}", code="skeleton")
    return f"""{text}
define void @{SYMBOL}(ptr %memory, ptr %values, i64 %step, i64 %site, i64 %count) nounwind {{
  %result = alloca ptr
  %raised = alloca ptr
  %status = call i32 @"{inner}"(ptr %result, ptr %raised, ptr %memory, ptr %values, i64 %step, i64 %site, i64 %count)
  ret void
}}
"""
