"""What a core can do in a cycle, as the model of times sees it: from a machine's figures and the registers of this one."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.hw import Machine
from tilewright.schedule.registers import Registers

_WIDE = 2.0  # vector operations begun a cycle, of narrow vectors
_LOADS = 2.0  # loads begun a cycle, of narrow vectors and of numbers
_STORES = 1.0
_ISSUE = 5.0  # instructions of all kinds
_LONG_ISSUE = 2.5  # where the code of a loop is longer than what is kept decoded
_DECODED = 4000.0  # instructions

# Cycles from an operation's operands to its result, where results wait for each other.
LATENCY = {"fma": 4.0, "add": 3.0, "mul": 3.0, "compare": 2.0, "bit": 1.0, "div": 12.0, "sqrt": 16.0, "special": 20.0}
# Vector operations that one of a class is worth where it is not one.
WEIGHT = {"div": 8.0, "sqrt": 10.0, "special": 20.0}


@dataclass(frozen=True, slots=True)
class Core:
    """Rates a cycle: bytes of vector arithmetic, bytes loaded from the first cache. `registers` as they are named."""

    registers: Registers
    arithmetic: float
    loaded: float

    @staticmethod
    def of(machine: Machine, registers: Registers) -> Core:
        rates = machine.compute.ops
        each = [rates[t] / 2 * b for t, b in (("f32", 4), ("f64", 8)) if t in rates]
        bandwidth = machine.caches[0].bandwidth if machine.caches else machine.main.read_bandwidth
        return Core(registers, max(each, default=float(registers.width)), bandwidth)


@dataclass(slots=True)
class Work:
    """What straight code asks of the core: instructions by kind, and the bytes of vectors that they work on."""

    vectors: float = 0.0  # arithmetic, shuffles, conversions
    vector_bytes: float = 0.0
    loads: float = 0.0
    loaded: float = 0.0
    stores: float = 0.0
    stored: float = 0.0
    others: float = 0.0  # of addresses, of loops, hints

    def arithmetic(self, n: float, size: float) -> None:
        """`n` vector operations on `size` bytes each."""
        self.vectors += n
        self.vector_bytes += n * size

    def load(self, n: float, size: float) -> None:
        self.loads += n
        self.loaded += n * size

    def store(self, n: float, size: float) -> None:
        self.stores += n
        self.stored += n * size

    @property
    def instructions(self) -> float:
        return self.vectors + self.loads + self.stores + self.others

    def cycles(self, core: Core) -> float:
        """The least that it takes, however independent its parts are."""
        n = self.instructions
        return max(
            self.vectors / _WIDE, self.vector_bytes / core.arithmetic, self.loads / _LOADS, self.loaded / core.loaded,
            self.stores / _STORES, 2 * self.stored / core.loaded, n / (_ISSUE if n < _DECODED else _LONG_ISSUE),
        )  # fmt: skip


__all__ = ["LATENCY", "WEIGHT", "Core", "Work"]
