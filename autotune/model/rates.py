"""What this computer can do, measured once and kept: the machine that times are foreseen on.

It is measured by the kernels of `tilewright machine probe` in about a second, and kept beside compiled kernels for as long
as the processor, its caches and what the system says of them stay the same.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tilewright.codegen import cache
from tilewright.codegen.data_caches import data_caches, processor_name
from tilewright.hw import Machine, MachineError
from tilewright.schedule.registers import host_registers

_SECONDS = 0.6  # of measuring; compiling the kernels and filling memory take as long again
_VERSION = "2"
_OFF = 2.0  # times that bandwidths may differ from those of a processor of the same kind
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
    made = plausible(made)
    cache.put(name, cache.Entry(machine_text(made).encode(), {"kind": "rates"}))
    return made


def plausible(measured: Machine) -> Machine:
    """A measured machine without what can't be: what else ran may have taken most of a memory's or a cache's time."""
    from tilewright.planner.host import host_machine

    usual = {c.name: c.bandwidth for c in host_machine().caches}

    def near(found: float, like: float) -> float:
        return min(max(found, like / _OFF), like * _OFF)

    caches = tuple(replace(c, bandwidth=near(c.bandwidth, usual.get(c.name, c.bandwidth))) for c in measured.caches)
    main, like = measured.main, host_machine().main
    read, write = (near(getattr(main, k), getattr(like, k)) for k in ("read_bandwidth", "write_bandwidth"))
    memories = tuple(
        replace(m, read_bandwidth=read, write_bandwidth=write) if m is main else m for m in measured.memories
    )
    return replace(measured, caches=caches, memories=memories)


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
