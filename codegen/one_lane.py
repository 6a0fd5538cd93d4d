"""Masked stores of which one lane is left, as stores of one element.

LLVM 22 for x86 turns a masked store of truncated integers whose constant mask has a single lane into a scalar store of
the *wide* element: bytes beside the element are overwritten. Constants that masks are made of come about in its own
passes, so they are replaced after these.
"""

from __future__ import annotations

import re

import llvmlite.binding as llvm

from tilewright.lang.errors import CompileError

_STORE = re.compile(
    r"  (?:tail |musttail |notail )?call void @llvm\.masked\.store\.v\d+i(?P<bits>\d+)\.p0\((?P<vector><\d+ x i\d+> .+), "
    r"ptr (?P<attributes>(?:[^ ,]+ )*)(?P<place>[^ ,]+), <\d+ x i1> <(?P<mask>[^>]*)>\)"
)


def stores_masked_integers(text: str) -> bool:
    """Whether a module has such stores at all, whatever their masks become. (The passes make no masked stores.)"""
    return re.search(r"@llvm\.masked\.store\.v\d+i", text) is not None


def one_lane_stores_replaced(module: llvm.ModuleRef, context: llvm.ContextRef | None = None) -> llvm.ModuleRef:
    """The module with those stores replaced (itself where there are none); a new one is made in `context`."""
    text = str(module)
    if "@llvm.masked.store.v" not in text:
        return module
    lines, found = [], 0
    for line in text.split("\n"):
        lane = _only_lane(line)
        if lane is None:
            lines.append(line)
            continue
        found += 1
        lines += _scalar_store(line, lane, found)
    if not found:
        return module
    made = llvm.parse_assembly("\n".join(lines), context)
    made.name = module.name
    made.verify()
    return made


def _only_lane(line: str) -> int | None:
    """The lane that a masked store of integers stores, where that is one and known."""
    if "call void @llvm.masked.store.v" not in line or line.count("i1 true") != 1:
        return None
    m = _STORE.match(line)
    if m is None:
        if re.search(r"masked\.store\.v\d+i", line):
            raise CompileError(f"a masked store of one lane is not understood: {line.strip()}", code="ir")
        return None  # floats are stored as they are
    return [x.strip() for x in m["mask"].split(",")].index("i1 true")


def _scalar_store(line: str, lane: int, number: int) -> list[str]:
    m = _STORE.match(line)
    assert m is not None
    t, x, p = f"i{m['bits']}", f"%tw.lane.{number}", f"%tw.place.{number}"
    return [
        f"  {x} = extractelement {m['vector']}, i64 {lane}",
        f"  {p} = getelementptr {t}, ptr {m['place']}, i64 {lane}",
        f"  store {t} {x}, ptr {p}, align {int(m['bits']) // 8}",
    ]
