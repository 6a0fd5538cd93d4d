"""The timeline of an account as Chrome trace events, which Perfetto and chrome://tracing open.

The JSON object form: `X` events for work, waits and copies, `C` events for the bytes that each memory holds, `M` events that
name the tracks. Times are microseconds of the machine's clock. The format: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .lives import occupancy, timeline

if TYPE_CHECKING:
    from tilewright.hw.account import Account
    from tilewright.hw.machine import Machine
    from tilewright.hw.timing import Interval

CORES, ENGINES, MEMORIES = 1, 2, 3  # processes: groups of tracks
_GROUPS = {CORES: "cores", ENGINES: "DMA", MEMORIES: "memories"}


def trace_events(account: Account, machine: Machine) -> dict[str, Any]:
    """The trace as JSON values. Raises AccountError `account.timeline` where there are no intervals."""
    found = timeline(account)
    scale = 1 / (machine.clock_ghz * 1000)  # cycles to microseconds
    channels = sorted({i.track for i in found if not _is_core(i) and not i.memory})
    tracks = {"compute": (CORES, 1), "wait": (CORES, 1)} | {c: (ENGINES, n) for n, c in enumerate(channels, 1)}
    events = [*_spans((i for i in found if not i.memory), tracks, scale), *_counters(found, scale)]
    events.sort(key=lambda e: e["ts"])
    sizes = ", ".join(f"{name}={value}" for name, value in account.sizes.items())
    about = {"kernel": account.kernel, "machine": account.machine, "sizes": sizes, "clock_ghz": machine.clock_ghz}
    return {"traceEvents": [*_names(channels, found), *events], "displayTimeUnit": "ns", "otherData": about}


def _is_core(i: Interval) -> bool:
    return i.track in ("compute", "wait")


def _names(channels: Sequence[str], found: Iterable[Interval]) -> Iterator[dict[str, Any]]:
    used = [CORES, *([ENGINES] if channels else []), *([MEMORIES] if any(i.memory for i in found) else [])]
    threads = [(CORES, 1, "compute and waits"), *((ENGINES, n, c) for n, c in enumerate(channels, 1))]

    def named(kind: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}

    for pid in used:
        yield named("process_name", pid, 0, name=_GROUPS[pid])
        yield named("process_sort_index", pid, 0, sort_index=pid)
    for pid, tid, name in threads:
        yield named("thread_name", pid, tid, name=name)
        yield named("thread_sort_index", pid, tid, sort_index=tid)


def _spans(found: Iterable[Interval], tracks: dict[str, tuple[int, int]], scale: float) -> Iterator[dict[str, Any]]:
    for i in found:
        pid, tid = tracks[i.track]
        kind = i.track if _is_core(i) else "copy"
        args: dict[str, Any] = {"cycles": i.end - i.start}
        if i.bytes:
            args["bytes"] = i.bytes
        if i.cause:
            args["cause"] = i.cause
        yield {
            "ph": "X", "name": ": ".join(filter(None, (i.cause, i.name))), "cat": kind, "pid": pid, "tid": tid,
            "ts": i.start * scale, "dur": (i.end - i.start) * scale, "args": args,
        }  # fmt: skip


def _counters(found: Iterable[Interval], scale: float) -> Iterator[dict[str, Any]]:
    for memory, steps in occupancy(found).items():
        for at, buffers in steps:
            yield {
                "ph": "C", "name": f"{memory} bytes", "pid": MEMORIES, "tid": 0, "ts": at * scale,
                "args": {"taken": sum(buffers.values())},
            }  # fmt: skip


def save_trace(account: Account, machine: Machine, path: str | Path) -> None:
    """Write the trace; compressed where the name ends in `.gz`."""
    data = json.dumps(trace_events(account, machine), separators=(",", ":")).encode()
    # Without a time of its own: the same trace is the same file.
    Path(path).write_bytes(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)
