"""A machine with three levels of scratchpads, and a product that is staged through all of them in rings."""

from __future__ import annotations

from typing import Any

MACHINE = """
name = "levels"
about = "Main memory and three scratchpads, each with an engine to the next"
clock_ghz = 1.0
source = "made up for a measurement"
confidence = "assumed"

[compute]
ops = { f32 = 64 }
vector_bytes = 32

[[memory]]
name = "dram"
kind = "main"
capacity = "unbounded"
read_bandwidth = 8
write_bandwidth = 8
alignment = 64
burst = 64
"""

_LEVEL = """
[[memory]]
name = "{name}"
kind = "scratchpad"
capacity = "{capacity}"
read_bandwidth = {bandwidth}
write_bandwidth = {bandwidth}
alignment = 64

[[dma]]
name = "to-{name}"
joins = [["{outer}", "{name}"]]
bandwidth = {bandwidth}
issue = 10
latency = 50
queue = 4
burst = 64
dims = 2
"""

SCHEDULE = """schedule matmul
  C.update:
    tile i, j -> i2, j2, i1, j1 by 256 256
    split k -> k2, k1 by 256
    tile i1, j1 -> i1, j1, i0, j0 by 64 64
    split k1 -> k1, k0 by 64
    tile i0, j0 -> i0, j0, ii, jj by 16 16
    split k0 -> k0, kk by 16
    reorder i2 j2 k2 i1 j1 k1 i0 j0 k0 ii kk jj
  cache_read A at C.update.k2 in l3 name A3
  cache_read B at C.update.k2 in l3 name B3
  cache_read A3 at C.update.k1 in l2 name A2
  cache_read B3 at C.update.k1 in l2 name B2
  cache_read A2 at C.update.k0 in l1 name A1
  cache_read B2 at C.update.k0 in l1 name B1
  cache_write C at C.update.j2 in l3 name C3
  cache_write C at C.update.j1 in l2 name C2
  cache_write C at C.update.j0 in l1 name C1
  double_buffer A3 by 2
  double_buffer B3 by 2
  double_buffer A2 by 2
  double_buffer B2 by 2
  double_buffer A1 by 2
  double_buffer B1 by 2
"""


def levels() -> tuple[Any, Any, Any]:
    """Kernel, schedule and machine: tiles of 256, 64 and 16, one copy of A and of B for each of 262,144 blocks."""
    from benchmarks.small import matmul
    from tilewright.hw import parse_machine
    from tilewright.schedule.schedule import parse_schedule

    sizes = (("l3", "2 MiB", 32, "dram"), ("l2", "256 KiB", 64, "l3"), ("l1", "32 KiB", 128, "l2"))
    rows = (_LEVEL.format(name=n, capacity=c, bandwidth=b, outer=o) for n, c, b, o in sizes)
    machine = parse_machine(MACHINE + "".join(rows))
    return matmul, parse_schedule(SCHEDULE, matmul.pipeline(), machine=machine), machine
