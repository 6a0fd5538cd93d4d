"""Makes object code callable: one LLJIT per process, one library per object.

LLJIT and not MCJIT, because it raises on undefined symbols and most damaged objects where MCJIT crashes.
It does not notice a changed byte of code: objects from disk must come with a checksum (see cache.py).
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Mapping

import llvmlite.binding as llvm

from tilewright.codegen.target import machine
from tilewright.lang.errors import CompileError

_numbers = itertools.count()
_create = threading.Lock()


@functools.cache
def _new_jit() -> llvm.LLJIT:
    # Never torn down, and llvmlite disposes of nothing at interpreter exit: other threads may still run its
    # code.
    return llvm.create_lljit_compiler(machine())


def _jit() -> llvm.LLJIT:
    with _create:
        return _new_jit()


class Library:
    """A loaded object. Its code stays in memory as long as this handle lives (`pin` keeps it for ever)."""

    __slots__ = ("_addresses", "_tracker")

    def __init__(self, tracker: llvm.ResourceTracker, addresses: dict[str, int]):
        self._tracker = tracker
        self._addresses = addresses

    def address(self, symbol: str) -> int:
        """Address of an exported symbol that was named when loading."""
        return self._addresses[symbol]

    def pin(self) -> Library:
        """Keep the code in memory until the process ends, whatever happens to this handle."""
        self._tracker.detach()
        return self


def load(image: bytes, symbols: tuple[str, ...], imports: Mapping[str, int] | None = None) -> Library:
    """Link an object into this process and look up `symbols`.

    `imports` binds external names to addresses; names beyond them resolve in the process (libc, libm,
    libpython). Raises CompileError (code `object`) for anything that can't be linked.
    """
    builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    try:
        tracker = builder.link(_jit(), f"tilewright.{next(_numbers)}")
        addresses = {symbol: tracker[symbol] for symbol in symbols}
    except RuntimeError as problem:
        raise CompileError(f"object code can't be loaded: {problem}", code="object") from problem
    return Library(tracker, addresses)
