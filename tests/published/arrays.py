"""Machines to map layers onto, and accounts read as tools that count tiles do: words read, filled and updated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.hw import Account, Machine, Traffic, parse_machine

_HEAD = """
name = "{name}"
about = "Memories with words of four bytes and nothing else that costs"
clock_ghz = 1
source = "made up for counting"
confidence = "assumed"

[compute]
ops = {{ i32 = {elements} }}
axes = {{ {axes} }}
"""
_MEMORY = """
[[memory]]
name = "{name}"
kind = "{kind}"
capacity = "unbounded"
read_bandwidth = 4
write_bandwidth = 4
per = "{per}"
"""
_REGISTERS = """
[[memory]]
name = "reg"
kind = "registers"
capacity = "1 KiB"
read_bandwidth = 4
write_bandwidth = 4
"""


def machine(*memories: str, axes: Mapping[str, int] | None = None, elements: tuple[str, ...] = (),
    clusters: Mapping[str, Sequence[str]] | None = None,
) -> Machine:  # fmt: skip
    """A machine with these memories, outermost first; those in `elements` belong to each element of the array, those in
    `clusters` to each place along some axes."""
    extents = dict(axes or {"x": 1})
    many = 1
    for n in extents.values():
        many *= n
    text = _HEAD.format(name="array", elements=many, axes=", ".join(f"{k} = {n}" for k, n in extents.items()))
    for k, name in enumerate(memories):
        kind, per = ("scratchpad", "element" if name in elements else "machine") if k else ("main", "machine")
        per = ", ".join((clusters or {}).get(name, ())) or per
        text += _MEMORY.format(name=name, kind=kind, per=per)
    return parse_machine(text + _REGISTERS)


def of(account: Account, memory: str, tensor: str) -> Traffic:
    """What happened in a memory to all buffers that hold parts of a tensor."""
    total = Traffic(memory, tensor)
    for row in account.traffic:
        if row.memory == memory and tensor in (row.of, row.tensor):
            total = total + row
    return total


def words(account: Account, memory: str, *tensors: str) -> dict[str, tuple[int, int, int]]:
    """Reads by what is further in (first touches of sums are none), fills from further out, updates, by tensor."""
    rows = {t: of(account, memory, t) for t in tensors}
    return {t: (r.served, r.fills, r.updates) for t, r in rows.items()}


def total(account: Account, memory: str, *tensors: str) -> int:
    """All accesses to a memory."""
    return sum(sum(w) for w in words(account, memory, *tensors).values())


def tiles(account: Account, memory: str) -> dict[str, int]:
    """The words that the buffers of a memory have room for, by name."""
    found = next(f for f in account.footprint if f.memory == memory)
    return {b.name: b.size // 4 for b in found.buffers}


def executed(kernel: Any, schedule: Any) -> Account:
    """The account of a run with data."""
    return kernel.simulate(schedule, sizes={}).account


def skeleton(kernel: Any, schedule: Any) -> Account:
    """The account without data."""
    return kernel.account(schedule, sizes={}, time=False)


WAYS: tuple[Callable[[Any, Any], Account], ...] = (executed, skeleton)  # to an account: they are to agree
