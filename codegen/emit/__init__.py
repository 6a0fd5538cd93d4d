"""Native emission: from the loop IR to LLVM IR text with explicit vectors."""

from __future__ import annotations

from tilewright.codegen.emit.clock import clock_layout
from tilewright.codegen.emit.counters import Tally, counter_count, counter_layout, decode_counters
from tilewright.codegen.emit.driven import Driver
from tilewright.codegen.emit.function import emit_program
from tilewright.codegen.emit.ledger import Ledger, placed
from tilewright.codegen.emit.recorder import RECORD_HEAD, record_layout
from tilewright.codegen.emit.region import Shared
from tilewright.codegen.loops import Program

__all__ = [
    "RECORD_HEAD",
    "Driver",
    "Tally",
    "clock_layout",
    "counter_count",
    "counter_layout",
    "decode_counters",
    "emit",
    "record_layout",
]


def emit(
    program: Program,
    *,
    instrument: bool = False,
    aliases: frozenset[frozenset[str]] = frozenset(),
    recorded: tuple[str, ...] = (),
    driver: Driver | None = None,
    ledger: Ledger | None = None,
) -> str:
    """LLVM IR text of a module with the kernel `program.symbol` (see `codegen.abi` for its C interface).

    `aliases` are pairs of buffer names that may share memory; all others are promised not to overlap where one of
    them is written. With `instrument` the kernel takes one more data pointer, to its counters (`counter_layout`),
    and runs parallel loops serially; its accesses go into a `driver` (see `driven`). Raises CompileError for what the
    back end can't do. A program with timed sections takes a pointer to its clock (`clock_layout`) after those of data.

    With a `ledger`, what the kernel does is written down there as well, and its counters are those of the ledger.
    """
    shared = Shared(program, aliases, instrument, driver=driver, ledger=ledger)
    if recorded:
        shared.recorded = record_layout(program, recorded)
    return emit_program(shared) if ledger is None else placed(emit_program(shared), ledger)
