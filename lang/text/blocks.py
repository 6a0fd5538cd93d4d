"""`.tw` files: a version, then kernels and schedules in any order, each a block that starts at the left margin.

tilewright 1

kernel matmul(A: f32[M, K], B: f32[K, N]) -> C[:M, :N]
  ...

schedule matmul
  ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.lang.errors import Location, ParseError

VERSION = 1  # of the text format
KINDS = ("kernel", "schedule")
_HEAD = re.compile(rf"({'|'.join(KINDS)})[ \t]+[^\s:=]")
_VERSION = re.compile(r"tilewright[ \t]+(\S+)[ \t]*(#.*)?\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """A kernel or schedule of a file: `kind` says which; `text` starts at line `first_line` of `origin`."""

    kind: str
    text: str
    origin: str
    first_line: int


def read_tw(source: Path | str) -> list[Block]:
    """The blocks of a file (a Path) or of a text (a str). Blocks are only parted here, not parsed.

    Raises ParseError where something stands before the first block, or for an unknown version.
    """
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    origin = str(source) if isinstance(source, Path) else "<text>"
    starts: list[tuple[int, str]] = []
    lines = text.split("\n")
    for k, line in enumerate(lines):
        head = _HEAD.match(line)
        if head:
            starts.append((k, head[1]))
        elif not starts:
            _check_preamble(line.strip(), Location(origin, k + 1, 1))
    ends = [k for k, _ in starts[1:]] + [len(lines)] * bool(starts)
    return [
        Block(kind, "\n".join(lines[k:end]).rstrip() + "\n", origin, k + 1)
        for (k, kind), end in zip(starts, ends, strict=True)
    ]


def _check_preamble(line: str, place: Location) -> None:
    if not line or line.startswith("#"):
        return
    version = _VERSION.match(line)
    if version is None:
        raise ParseError(f"found {line.split()[0]!r}, expected kernel or schedule", where=place)
    if version[1] != str(VERSION):
        raise ParseError(
            f"format version {version[1]} is unknown", where=place, hint=f"this program reads version {VERSION}"
        )


def format_tw(blocks: Iterable[str]) -> str:
    """The text of a file that holds these printed kernels and schedules."""
    return "\n".join([f"tilewright {VERSION}\n", *(b.rstrip() + "\n" for b in blocks)])
