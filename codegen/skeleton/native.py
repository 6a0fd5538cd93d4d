"""The engine compiled: its Python source to LLVM's text and machine code once, and then from our cache of objects.

`translate` says which Python that is. It takes about a second, once.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
from pathlib import Path
from typing import Any

from tilewright.codegen import cache, target
from tilewright.codegen.jit import Library, load
from tilewright.codegen.skeleton.translate import translate
from tilewright.codegen.skeleton.values import Source

SYMBOL = "tilewright_simulate"  # void (i64 *memory, i64 *values, i64 step, i64 site, i64 count): see drive.py
_MODULES = (
    "expressions", "ranges", "geometry", "timing", "boxes", "phases", "copies", "sections", "state", "forward", "walk",
    "drive",
)  # fmt: skip
_FILES = ("layout", *_MODULES, "native", "translate", "values", "blocks")


@functools.cache
def library() -> Library:
    """The engine's machine code, with one function `SYMBOL`."""
    name = _key()
    entry = cache.get(name)
    if entry is None:
        entry = cache.Entry(target.optimize_and_emit(_text(), "fast"), {"symbol": SYMBOL, "kernel": "simulate"})
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
        digest.update(Path(_file(name)).read_bytes())
    host = target.host()
    for part in (target.versions(), host.triple, host.cpu, host.features):
        digest.update(part.encode())
    return digest.hexdigest()


def _text() -> str:
    """The engine as LLVM's text."""
    modules = [importlib.import_module(f"tilewright.codegen.skeleton.{name}") for name in _MODULES]
    sources = (
        Source(_file(n), Path(_file(n)).read_text("utf-8"), vars(m)) for n, m in zip(_MODULES, modules, strict=True)
    )
    return translate(sources, "drive", SYMBOL)


def _file(name: str) -> str:
    return str(Path(__file__).parent / f"{name}.py")
