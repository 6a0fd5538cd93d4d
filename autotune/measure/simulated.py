"""Figures that need no clock: what a schedule does on a simulated machine."""

from __future__ import annotations

from tilewright.autotune.measure.bench import Bench, Refused, refused


def figure(bench: Bench, text: str) -> float:
    """Cycles, bytes read from and written to the main memory, or picojoules, by the task's objective.

    Where data say what runs (what a single pass repairs), it is what the most takes. Raises Refused.
    """
    from tilewright.codegen.accounts.prepared import prepare
    from tilewright.planner.worst import at_most

    task = bench.task
    schedule = bench.schedule(text)
    with refused():
        prepared = prepare(bench.p, schedule, schedule.machine, task.mode)
        found = at_most(prepared, task.sizes, time=task.objective == "cycles")
    if task.objective == "bytes":
        main = prepared.machine.memories[0].name
        rows = [row for row in found.traffic if row.memory == main]
        return float(sum(row.bytes_read + row.bytes_written for row in rows))
    if task.objective == "energy":
        if not found.energy:
            raise Refused("compile", f"{found.machine} says nothing of energy")
        return float(sum(found.energy.values()))
    if found.time is None:
        raise Refused("compile", found.untimed or f"there is no time on {found.machine}")
    return float(found.time.cycles)


__all__ = ["figure"]
