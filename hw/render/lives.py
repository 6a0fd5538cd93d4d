"""The timeline of an account: what happened when, and what each memory held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.hw.errors import AccountError

if TYPE_CHECKING:
    from tilewright.hw.account import Account
    from tilewright.hw.timing import Interval


def timeline(account: Account) -> tuple[Interval, ...]:
    """The intervals of an account. Raises AccountError `account.timeline` where it has none."""
    time = account.time
    found = time.intervals if time is not None else ()
    if time is not None and not found and not time.cycles:
        sizes = ", ".join(f"{name}={value}" for name, value in account.sizes.items())
        raise AccountError(
            f"{account.kernel} takes no time with {sizes}: there is no timeline" if sizes else
            f"{account.kernel} takes no time: there is no timeline", code="account.timeline",
        )  # fmt: skip
    if not found:
        raise AccountError(
            f"this account of {account.kernel} has no timeline", code="account.timeline",
            hint=account.untimed or "ask for one: kernel.account(..., timeline=1000) keeps the first thousand intervals",
        )  # fmt: skip
    return found


def occupancy(found: Iterable[Interval]) -> dict[str, list[tuple[float, dict[str, int]]]]:
    """For each memory, the times at which something changes and the bytes that each buffer has from then on."""
    by_memory: dict[str, list[Interval]] = {}
    for i in found:
        if i.memory:
            by_memory.setdefault(i.memory, []).append(i)
    return {memory: _steps(lives) for memory, lives in by_memory.items()}


def _steps(lives: list[Interval]) -> list[tuple[float, dict[str, int]]]:
    changes: dict[float, list[tuple[str, int]]] = {}
    for i in lives:
        changes.setdefault(i.start, []).append((i.name, i.bytes))
        changes.setdefault(i.end, []).append((i.name, -i.bytes))
    now = dict.fromkeys((i.name for i in lives), 0)
    steps = []
    for at in sorted(changes):
        for name, grown in changes[at]:
            now[name] += grown
        steps.append((at, dict(now)))
    return steps
