"""How many threads are worth having: the affinity mask and the control group's quota."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path


def available() -> set[int]:
    """Numbers of the processors that this thread may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def quota(top: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """Processors' worth of time that the control groups grant, or None where there is no limit.

    Control groups v2 (`cpu.max` of our group and of all above it), else v1 (`cpu.cfs_quota_us`).
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    group = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    inner = top / group
    folders = [folder for folder in (inner, *inner.parents) if folder == top or top in folder.parents]
    quotas = [found for found in map(_quota_v2, folders) if found is not None]
    return min(quotas) if quotas else _quota_v1(top / "cpu")


def _quota_v2(folder: Path) -> float | None:
    try:
        granted, period = (folder / "cpu.max").read_text().split()
        return None if granted == "max" else int(granted) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        granted = int((folder / "cpu.cfs_quota_us").read_text())
        return granted / int((folder / "cpu.cfs_period_us").read_text()) if granted > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


@functools.cache
def own_quota() -> float | None:
    """The quota of this process, read once: opening the files takes far longer than a small kernel."""
    return quota()


def default_threads() -> int:
    """Threads of a parallel loop unless the call says otherwise: TILEWRIGHT_THREADS, else the processors of
    the affinity mask, at most the control group's quota rounded up."""
    given = os.environ.get("TILEWRIGHT_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    count = len(available())
    granted = own_quota()
    return max(1, count if granted is None else min(count, math.ceil(granted)))
