"""This computer as a machine, without measuring it: what its system and processor say, and known rates of their kind."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.codegen.data_caches import data_caches, processor_name
from tilewright.codegen.runtime.processors import default_threads
from tilewright.schedule.registers import host_registers

if TYPE_CHECKING:
    from tilewright.hw import Machine
    from tilewright.hw.parts import Cache

HOST = "host"
_KINDS = {64: "skylake-sp", 32: "generic-avx2"}  # bytes of a vector register -> the machine whose rates are taken


def host_identity() -> str:
    """What `host_machine` goes by, without making it."""
    memory = f"{default_threads()} threads, {_main_memory()} B"
    return f"{HOST}: {processor_name()}, {host_registers()}, {data_caches(0)}, {memory}"


def _main_memory() -> int | None:
    """Bytes of this computer's memory, where the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


@functools.cache
def host_machine() -> Machine:
    """One core of this computer. Sizes of its caches and of its memory are what the system says; rates, bandwidths and the
    clock are those of a machine with vectors of the same width, so that a plan is the same in every run. For measured ones
    give the file that `tilewright machine probe` writes."""
    from tilewright.hw import load_machine
    from tilewright.hw.parts import Provenance

    like = load_machine(_KINDS[host_registers().width])
    levels = {c.level: c for c in data_caches(0)}
    provenance = dict(like.provenance)
    caches: list[Cache] = []
    for level, c in enumerate(like.caches, 1):
        if level in levels:
            here = levels[level]
            c = replace(c, size=here.size, line=here.line, ways=here.ways)
            provenance[f"cache.{c.name}.size"] = Provenance("/sys/devices/system/cpu", "published")
        caches.append(c)
    memories = tuple(replace(m, capacity=_main_memory()) if m.kind == "main" else m for m in like.memories)
    provenance[f"memory.{like.main.name}.capacity"] = Provenance("sysconf", "published")
    return replace(
        like, name=HOST, about=f"One core of {processor_name()}, with the rates of {like.name}", caches=tuple(caches),
        memories=memories, provenance=provenance,
    )  # fmt: skip


__all__ = ["HOST", "host_identity", "host_machine"]
