"""The vector registers that register tiles are made for."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.schedule.processor import host_features


@dataclass(frozen=True, slots=True)
class Registers:
    """The vector registers of a processor: bytes of one, and how many there are."""

    width: int
    count: int


def host_registers() -> Registers:
    """Those of this processor: 32 of 64 bytes with AVX-512, else 16 of 32."""
    wide = host_features().get("avx512f", False)
    return Registers(64, 32) if wide else Registers(32, 16)
