"""The data caches of a processor as Linux describes them (/sys/devices/system/cpu/cpuN/cache)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class CacheSize:
    """A cache: its level, and bytes in all, bytes of a line, lines of a set."""

    level: int
    size: int
    line: int
    ways: int


def data_caches(cpu: int, system: Path = SYSTEM) -> list[CacheSize]:
    """Those that data go through, from the core outwards. Nothing where the system does not say, or says nonsense."""
    found = []
    for folder in sorted((system / f"cpu{cpu}" / "cache").glob("index*")):
        try:
            if _read(folder, "type") == "Instruction":
                continue
            found.append(
                CacheSize(
                    int(_read(folder, "level")), _bytes(_read(folder, "size")), int(_read(folder, "coherency_line_size")),
                    int(_read(folder, "ways_of_associativity")),
                )
            )  # fmt: skip
        except (OSError, ValueError):
            continue
    found.sort(key=lambda cache: cache.level)
    kept: list[CacheSize] = []
    for cache in map(_sensible, found):
        inner = kept[-1] if kept else None
        if cache is not None and (inner is None or (cache.size >= inner.size and cache.line >= inner.line)):
            kept.append(cache)
    return kept


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="ascii").strip()


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _UNITS[match[2]]


def _sensible(cache: CacheSize) -> CacheSize | None:
    """A cache of whole sets: virtual machines give a number of ways (0 even) that does not divide the lines."""
    if cache.line < 1 or cache.line & (cache.line - 1) or cache.size < cache.line or cache.size % cache.line:
        return None
    lines = cache.size // cache.line
    ways = cache.ways if 0 < cache.ways <= lines else min(16, lines)
    while lines % ways:
        ways -= 1
    return CacheSize(cache.level, cache.size, cache.line, ways)


def processor_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system gives it."""
    import platform

    try:
        match = re.search(r"^model name\s*:\s*(.+?)\s*$", info.read_text(encoding="utf-8", errors="replace"), re.M)
    except OSError:
        match = None
    return match[1] if match else platform.processor() or platform.machine() or "an unknown processor"
