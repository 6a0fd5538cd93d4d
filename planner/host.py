"""This computer as a machine, without measuring it: what its system and processor say, and known rates of their kind."""

from __future__ import annotations

import functools
from dataclasses import replace

from tilewright.codegen.probe.caches import data_caches, processor_name
from tilewright.hw import Machine, load_machine
from tilewright.hw.parts import Cache, Provenance
from tilewright.schedule.registers import host_registers

HOST = "host"
_KINDS = {64: "skylake-sp", 32: "generic-avx2"}  # bytes of a vector register -> the machine whose rates are taken


@functools.cache
def host_machine() -> Machine:
    """One core of this computer. Sizes of its caches are what the system says; rates, bandwidths and the clock are those
    of a machine with vectors of the same width, so that a plan is the same in every run. For measured ones give the file
    that `tilewright machine probe` writes."""
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
    return replace(
        like, name=HOST, about=f"One core of {processor_name()}, with the rates of {like.name}", caches=tuple(caches),
        provenance=provenance,
    )  # fmt: skip


__all__ = ["HOST", "host_machine"]
