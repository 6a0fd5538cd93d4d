"""The account of a program on a machine: from a run, or from its skeleton alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.codegen import assemble
from tilewright.codegen.assemble import Counted
from tilewright.codegen.prepared import Prepared
from tilewright.hw import Account, Footprint
from tilewright.hw.cache_counts import Level


def assembled(
    prepared: Prepared, counted: Counted, env: Mapping[str, Any], found: tuple[Footprint, ...],
    caches: tuple[Level, ...] = (),
) -> Account:  # fmt: skip
    """The account that counters say; `env` has sizes and scalars by name."""
    p, machine = prepared.pipeline, prepared.machine
    of = assemble.staged(prepared.program, machine)
    rows = assemble.traffic(counted, of)
    hands = tuple(assemble.by_hand(counted, of))
    regions = assemble.regions(counted)
    done = assemble.operations(regions)
    return Account(
        p.name, machine.name, {n: env[n] for n in p.sizes}, rows, found, hands, done, regions,
        assemble.tensors(p, env), caches, None, assemble.energy(rows, done, machine),
        notes=assemble.notes(counted, hands, done),
    )  # fmt: skip


__all__ = ["assembled"]
