"""Whether whole schedules are legal, asked once for a code generator: the cache of kernels remembers the answer yes."""

from __future__ import annotations

from tilewright.codegen import cache
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule


def check_whole(s: Schedule, mode: str | None = None) -> None:
    """`Schedule.check`; with a numeric mode of the schedule with the default for what it leaves alone, as calls have it.

    It takes tens of milliseconds, and next to nothing where it was asked before. Raises what `Schedule.check` does.
    """
    machine = repr(s.machine) if s.machine is not None else ""
    name = cache.key({"what": "checked", "schedule": s.hash, "machine": machine, "mode": mode or ""})
    if cache.get(name) is None:
        (s if mode is None else complete(s, mode)).check()
        cache.put(name, cache.Entry(b"", {"kind": "checked", "kernel": s.pipeline.name}))


__all__ = ["check_whole"]
