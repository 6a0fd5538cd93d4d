"""What this computer can do, measured once and kept: the machine that times are foreseen on.

It is measured by the kernels of `tilewright machine probe` in about a second, and kept beside compiled kernels for as long
as the processor, its caches and what the system says of them stay the same.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

from tilewright.codegen import cache
from tilewright.codegen.data_caches import data_caches, processor_name
from tilewright.hw import Machine, MachineError
from tilewright.schedule.registers import host_registers

_SECONDS = 0.6  # of measuring; compiling the kernels and filling memory take as long again
_VERSION = "1"
_RATED = ("f32", "f64")  # types whose peak is that of multiply-adds, which no operation is faster than


@functools.cache
def here() -> Machine:
    """One core of this computer, as measured: now, or by an earlier process. Where it can't be measured, the machine that
    plans take for it."""
    name = hashlib.sha256(
        f"rates {_VERSION} {processor_name()} {host_registers()} {data_caches(0)}".encode()
    ).hexdigest()
    if (entry := cache.get(name)) is not None and (found := _read(entry.image)) is not None:
        return found
    from tilewright.codegen.probe import probe
    from tilewright.hw.machine import machine_text

    try:
        made = probe(_SECONDS).machine
    except MachineError:
        from tilewright.planner.host import host_machine

        return host_machine()
    cache.put(name, cache.Entry(machine_text(made).encode(), {"kind": "rates"}))
    return made


def _read(text: bytes) -> Machine | None:
    from tilewright.hw.machine import parse_machine

    try:
        return parse_machine(text.decode(), "the measured machine")
    except (MachineError, UnicodeDecodeError):
        return None


def peaks(threads: int = 1, machine: Machine | None = None) -> dict[str, float]:
    """Operations a second at best, by type, of so many threads on cores of their own; a multiply-add counts as two.

    Types are left out of which some instructions do more than those that the peak is measured with."""
    found = machine or here()
    rates: Mapping[str, float] = found.compute.ops
    return {t: rates[t] * found.clock_ghz * 1e9 * threads for t in _RATED if t in rates}


__all__ = ["here", "peaks"]
