"""What the processor's inner loops do, read from the assembly text of LLVM: x86-64.

LLVM writes beside each block which loop it belongs to, and beside each access to a spilled register that it is one;
emission names the blocks of loops after the loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.codegen.instructions import kept_in_memory, parsed, waiting

_FUNCTION = re.compile(r"^([A-Za-z_.$][\w.$]*):\s*#\s*@")
_BLOCK = re.compile(r"^(?:\.L(?P<label>BB[\w]+):|# %bb\.\d+:)\s*(?:#\s*%(?P<name>\S+))?")
_HEADER = re.compile(r"#\s*=>\s*This (?P<inner>Inner )?Loop Header: Depth=(?P<depth>\d+)")
_MEMBER = re.compile(r"#\s+in Loop: Header=(?P<header>BB\w+) Depth=(?P<depth>\d+)")
_SPILL = re.compile(r"#\s*(?P<size>\d+)-byte (?:Folded )?(?P<what>Spill|Reload)")
_BITS = {"x": 128, "y": 256, "z": 512}
_REGISTER = re.compile(r"%([xyz])mm\d+")
_VECTOR_BYTES = 16  # a spill of less is one of an index or an address

_FUSED = re.compile(r"^vf(n?m)(add|sub|addsub)\d*[ps][sdh]$|^vpdp|^vdpbf16")
_SCALAR = re.compile(
    r"^v?(add|sub|mul|div|sqrt|min|max|fn?madd\d+|fn?msub\d+|cvt\w*2|ucomi|comi|rndscale|round)\w*s[sd]$"
)
_GATHER = re.compile(r"^vp?gather")
_SCATTER = re.compile(r"^vp?scatter")
_INSERT = re.compile(r"^v?(pinsr|insertps)")
_EXTRACT = re.compile(r"^v?(pextr|extractps)")
_DIVIDE = re.compile(r"^v?(div|sqrt)[ps][sdh]$")
_WHOLE_DIVIDE = re.compile(r"^i?div[lqwb]?$")
_PACKED = re.compile(r"^v?(p[a-z]|\w+p[sdh]$|\w+p[sd]\w*$|fn?m)")
_MOVE = re.compile(r"^v?(mov|lddqu|broadcast|pbroadcast|prefetch)")


@dataclass(frozen=True)
class InnerLoop:
    """A loop of the machine code that has none inside. `loop` is the loop of the schedule that it was made of (None: it
    is not known); `bits` the widest vector register that it computes in (0: none)."""

    function: str
    loop: str | None
    depth: int
    instructions: int
    bits: int
    counts: Mapping[str, int] = field(default_factory=dict)
    calls: tuple[str, ...] = ()

    turn: int = 0
    """Cycles from one turn to the next that results of the one before are waited for, at least (see `waiting`)."""

    @property
    def least(self) -> float:
        """Cycles that its instructions take at least, however independent: two of arithmetic, two loads, one store and
        five of all kinds at a time, of 512 bits half as many, which many processors do in two halves."""
        c, wide = self.counts, 2 if self.bits == 512 else 1
        return max(
            (c["vector"] + c["scalar"]) * wide / 2, c["loads"] * wide / 2, c["stores"] * wide, self.instructions / 5
        )

    @property
    def scalar(self) -> bool:
        """Whether it computes with numbers, and none of it in vectors."""
        return self.counts["scalar"] > 0 and self.bits == 0


def inner_loops(assembly: str, names: Mapping[str, str]) -> tuple[InnerLoop, ...]:
    """The inner loops in the order of the text. `names` gives the loop of the schedule by the name of its block."""
    found = []
    for function, blocks in _functions(assembly):
        headers = {b.label: b for b in blocks if b.inner}
        for header in headers.values():
            body = [b for b in blocks if b is header or (b.header == header.label and not b.is_header)]
            found.append(_loop(function, header, [line for b in body for line in b.lines], names))
    return tuple(found)


@dataclass
class _Block:
    label: str
    name: str
    is_header: bool = False
    inner: bool = False
    depth: int = 0
    header: str = ""
    lines: list[str] = field(default_factory=list)


def _functions(assembly: str) -> Iterator[tuple[str, list[_Block]]]:
    name, blocks = "", list[_Block]()
    for line in assembly.splitlines():
        if found := _FUNCTION.match(line):
            if blocks:
                yield name, blocks
            name, blocks = found[1], []
        elif found := _BLOCK.match(line):
            blocks.append(_Block(found["label"] or "", found["name"] or ""))
            _take(blocks[-1], line)  # the remark of a block without a name is on the same line
        elif blocks:
            _take(blocks[-1], line)
    if blocks:
        yield name, blocks


def _take(block: _Block, line: str) -> None:
    if found := _HEADER.search(line):
        block.is_header, block.inner, block.depth = True, bool(found["inner"]), int(found["depth"])
    elif found := _MEMBER.search(line):
        block.header, block.depth = found["header"], int(found["depth"])
    elif line.startswith("\t") and not line.startswith("\t."):
        block.lines.append(line.strip())


def _loop(function: str, header: _Block, lines: list[str], names: Mapping[str, str]) -> InnerLoop:
    counts: dict[str, int] = dict.fromkeys(
        ("fused", "vector", "scalar", "spills", "reloads", "gathers", "scatters", "inserts", "extracts", "divisions",
         "whole_divisions", "loads", "stores", "in_memory"), 0
    )  # fmt: skip
    bits, calls = 0, []
    read = [parsed(line) for line in lines]
    for line, instruction in zip(lines, read, strict=True):
        mnemonic, _, rest = line.partition("\t")
        operands = rest.split("#")[0]
        if mnemonic.startswith("call"):
            calls.append(operands.strip().removesuffix("@PLT"))
        if (spill := _SPILL.search(line)) and int(spill["size"]) >= _VECTOR_BYTES:
            counts["spills" if spill["what"] == "Spill" else "reloads"] += 1
        counts["fused"] += bool(_FUSED.match(mnemonic))
        counts["gathers"] += bool(_GATHER.match(mnemonic))
        counts["scatters"] += bool(_SCATTER.match(mnemonic))
        counts["inserts"] += bool(_INSERT.match(mnemonic))
        counts["extracts"] += bool(_EXTRACT.match(mnemonic) and instruction.stores)
        counts["divisions"] += bool(_DIVIDE.match(mnemonic))
        counts["whole_divisions"] += bool(_WHOLE_DIVIDE.match(mnemonic))
        if spill is None and instruction.vectors:
            counts["loads"] += instruction.loads
            counts["stores"] += instruction.stores
        if _SCALAR.match(mnemonic):
            counts["scalar"] += 1
        elif _PACKED.match(mnemonic) and not _MOVE.match(mnemonic) and (used := _REGISTER.findall(operands)):
            counts["vector"] += 1
            bits = max(bits, *(_BITS[r] for r in used))
    counts["in_memory"] = kept_in_memory(read)
    label = max((k for k in names if header.name.startswith(k)), key=len, default=None)
    loop = None if label is None else names[label]
    return InnerLoop(function, loop, header.depth, len(lines), bits, counts, tuple(dict.fromkeys(calls)), waiting(read))
