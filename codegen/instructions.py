"""Instructions of x86-64 as LLVM writes them, and what those of a loop say together: what waits for what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_VECTOR = re.compile(r"%[xyz]mm(\d+)")
_GENERAL = re.compile(r"%(r\w+|e\w\w|[abcd][lhx]|[sd]il?|[sb]pl?)\b")
_SPLIT = re.compile(r",\s*(?![^()]*\))")
_MOVE = re.compile(r"^v?mov|^vp?broadcast|^v?lddqu|^vextract|^v?pextr|^vp?scatter|^vcvtps2ph|^vpmov")
_ONLY_READS = re.compile(r"^v?u?comis|^v?p?test|^cmp|^test|^j|^call|^push|^prefetch|^bt")
_FLOAT = re.compile(r"^v?(add|sub|mul|fn?m(add|sub)\w*)[ps][sdh]$|^vdp|^vpdp")
_LATENCY = 4  # cycles of an addition, a multiplication or a multiply-add of floats: 3 to 4 on x86-64 since 2016
_OTHERS = 1  # and of anything else that has a vector register
_WHOLE = {"a": "rax", "b": "rbx", "c": "rcx", "d": "rdx", "si": "rsi", "di": "rdi", "sp": "rsp", "bp": "rbp"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """What one instruction reads and writes: vector registers by number, general ones by name, memory by its text."""

    mnemonic: str
    sources: tuple[str, ...]
    target: str

    @property
    def vectors(self) -> bool:
        """Whether it has a vector register."""
        return any("mm" in o for o in (*self.sources, self.target))

    @property
    def loads(self) -> bool:
        """Whether it reads memory."""
        return any("(" in s for s in self.sources) and not self.mnemonic.startswith(("lea", "prefetch"))

    @property
    def stores(self) -> bool:
        """Whether it writes memory."""
        return "(" in self.target and not _ONLY_READS.match(self.mnemonic)

    @property
    def accumulates(self) -> bool:
        """Whether its target is also a source that has no operand of its own."""
        m = self.mnemonic
        merges = "{%k" in self.target and "{z}" not in self.target
        return m.startswith(("vfm", "vfnm", "vpdp", "vdpbf", "vpternlog", "vpermt2", "vpermi2")) or merges

    def reads(self) -> set[str]:
        """Vector registers that it reads."""
        found = {n for s in self.sources for n in _VECTOR.findall(s)}
        if "(" in self.target or self.accumulates or not self.mnemonic.startswith("v"):
            found |= set(_VECTOR.findall(self.target))
        zero = "xor" in self.mnemonic and len(set(self.sources)) == 1 and not self.loads
        return set() if zero and len(self.sources) == 2 else found

    def writes(self) -> str | None:
        """The vector register that it writes."""
        if "(" in self.target or _ONLY_READS.match(self.mnemonic):
            return None
        found = _VECTOR.match(self.target)
        return found[1] if found else None


def parsed(line: str) -> Instruction:
    """An instruction of LLVM's text: mnemonic, sources, and the target last."""
    mnemonic, _, rest = line.partition("\t")
    operands = [o.strip() for o in _SPLIT.split(rest.partition("#")[0].strip()) if o.strip()]
    return Instruction(mnemonic, tuple(operands[:-1]), operands[-1] if operands else "")


def whole(register: str) -> str:
    """The 64 bits that a general register is a part of."""
    name = register.removesuffix("d").removesuffix("w").removesuffix("b") if re.match(r"r\d", register) else register
    if name.startswith("r"):
        return name
    name = name.removeprefix("e")
    return _WHOLE.get(name) or _WHOLE.get(name[:-1]) or _WHOLE.get(name[:1], name)


def kept_in_memory(instructions: Sequence[Instruction]) -> int:
    """How many places in memory are read and written again in every turn: their address does not move."""
    moving = set()
    for i in instructions:
        only = bool(_ONLY_READS.match(i.mnemonic))
        if not only and "(" not in i.target:
            moving |= {whole(r) for r in _GENERAL.findall(i.target)}
    read = {s for i in instructions if i.vectors and i.loads for s in i.sources if "(" in s}
    found = set()
    for i in instructions:
        if i.vectors and i.stores and i.target in read:
            used = {whole(r) for r in _GENERAL.findall(i.target)}
            if not used & moving and used.isdisjoint(("rsp", "rip")):
                found.add(i.target)
    return len(found)


def waiting(instructions: Sequence[Instruction]) -> int:
    """Cycles from one turn of a loop to the next at least: the longest chain of operations from a vector register as
    a turn finds it to the same register as it leaves it."""
    written: set[str] = set()
    carried: set[str] = set()
    for i in instructions:
        carried |= i.reads() - written
        if (w := i.writes()) is not None:
            written.add(w)
    carried &= written
    return max((_chain(instructions, r) for r in carried), default=0)


def _chain(instructions: Sequence[Instruction], start: str) -> int:
    """Cycles after which a register has its value for the next turn, where it is the only one that is waited for."""
    ready = {start: 0}
    for i in instructions:
        w = i.writes()
        if w is None:
            continue
        after = [ready[r] for r in i.reads() if r in ready]
        if after:
            ready[w] = max(after) + (
                _LATENCY if _FLOAT.match(i.mnemonic) else 0 if _MOVE.match(i.mnemonic) else _OTHERS
            )
        else:
            ready.pop(w, None)
    return ready.get(start, 0)


__all__ = ["Instruction", "kept_in_memory", "parsed", "waiting"]
