"""What compiled kernels need at run time, made of LLVM IR as they are: threads, memory, the call from Python.

Compiled once, kept in the object cache, loaded when first used and never unloaded.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Collection, Sequence

from tilewright.codegen import abi, cache, jit, target
from tilewright.codegen.runtime import bound_ir, entry_ir, memory_ir, pool_ir, portable_ir, steps_ir, table
from tilewright.codegen.runtime.processors import available, default_threads

_POSIX_TEXT = """
pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_create pthread_detach pthread_sigmask
pthread_cond_init pthread_cond_wait pthread_cond_signal clock_gettime sigfillset
posix_memalign malloc free sched_yield sched_getcpu pthread_setaffinity_np
"""
_POSIX = frozenset(_POSIX_TEXT.split())
_FUNCTIONS = (
    "parallel_for",
    "serial_for",
    "alloc",
    "release",
    "keep",
    "kept",
    "configure",
    "workers",
    "after_fork",
)
# Looks of an idle thread before it sleeps. The first (pool_ir.PAUSES) take 20-40 ns on x86-64, the others, which yield,
# half a microsecond where nobody else wants the processor: some 150 us in all.
SPIN = pool_ir.PAUSES + 288
# Operations of a loop (see `work`), 30-100 us, that are not worth waking a thread: it takes the caller 6 us, and the other
# begins 20-80 us later (Zen 4, virtual machine; the longer it slept the later).
SHORT = 700_000

_lock = threading.Lock()


def _build(name: str, text: str, symbols: Collection[str]) -> bytes:
    """The object of a runtime part, from the cache if it is there."""
    key = cache.key({"kind": "runtime", "name": name, "text": text})
    entry = cache.get(key)
    if entry is None:
        image = target.optimize_and_emit(text, "fast", extra_symbols=symbols)
        entry = cache.Entry(image, {"kind": "runtime", "name": name})
        cache.put(key, entry)
    return entry.image


def _load(
    name: str, text: str, symbols: Collection[str], exports: tuple[str, ...], imports: dict[str, int]
) -> jit.Library:
    return jit.load(_build(name, text, symbols), exports, imports).pin()


def runtime_text(triple: str) -> str:
    """IR of thread pool and allocator for a target; on Windows loops are serial."""
    if "windows" in triple:
        return pool_ir.SERIAL + portable_ir.TEXT
    return pool_ir.text(triple) + memory_ir.TEXT


@functools.cache
def _addresses() -> dict[str, int]:
    exports = tuple(f"tw_rt_{name}" for name in _FUNCTIONS)
    library = _load("pool", runtime_text(target.host().triple), _POSIX, exports, {})
    found = {name: library.address(f"tw_rt_{name}") for name in _FUNCTIONS}
    _configure(found["configure"], sorted(available()) if _pinning() else [], SPIN, SHORT)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(found["after_fork"]))
    return found


@functools.cache
def _builtin(name: str) -> int:
    """The address of a function that CPython calls; loaded at the first call."""
    api = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in table.FUNCTIONS}
    text = {"tw_entry": entry_ir.text, "tw_bound": bound_ir.text}[name]()
    return _load(name.removeprefix("tw_"), text, table.FUNCTIONS, (name,), api).address(name)


def entry_address() -> int:
    """Address of the function behind every kernel's builtin."""
    with _lock:
        return _builtin("tw_entry")


def bound_address() -> int:
    """Address of the function behind every bound call."""
    with _lock:
        return _builtin("tw_bound")


@functools.cache
def _steps() -> int:
    return _load("steps", steps_ir.text(), (), ("tw_steps",), {}).address("tw_steps")


def steps_address() -> int:
    """Address of the function that runs several kernels as one (see steps_ir.py)."""
    with _lock:
        return _steps()


def address(name: str) -> int:
    """Address of a runtime function: parallel_for, serial_for, alloc, release, ... (loaded on demand)."""
    with _lock:
        return _addresses()[name]


def _configure(function: int, processors: Sequence[int], spin: int, short: int) -> None:
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(function)
    call((ctypes.c_int32 * max(len(processors), 1))(*processors), len(processors), spin, short)


def configure(*, processors: Sequence[int] | None = None, spin: int = SPIN, short: int = SHORT) -> None:
    """Processors that workers are bound to that start from now on (default: those of this thread; none: they float), one
    of which is left to the caller: there are no more threads than these. How often idle threads look before they sleep;
    what work wakes none of them."""
    _configure(address("configure"), sorted(available()) if processors is None else processors, spin, short)


def _pinning() -> bool:
    return os.environ.get("TILEWRIGHT_PIN", "1") != "0"


def workers() -> int:
    """How many worker threads have been started."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address("workers"))()


def kept_bytes() -> int:
    """Bytes of released temporaries that are kept for reuse."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address("kept"))()


def keep_bytes(limit: int) -> None:
    """Keep at most `limit` bytes of released temporaries (at first 256 MiB); what is over is freed."""
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(address("keep"))(limit)


@functools.cache
def _context(threads: int) -> abi.Context:
    return abi.Context(threads, address("parallel_for"), address("alloc"), address("release"), None)


def context(threads: int | None = None) -> abi.Context:
    """The context of this process's own pool and allocator for `threads` (default: `default_threads()`).

    Contexts are shared and live until the process ends; take the address with `ctypes.addressof`.
    """
    return _context(default_threads() if threads is None else max(1, threads))
