"""Locks on accounts: the figures of a run in a small file under version control, and what has moved since.

A lock is TOML with one figure a line, sorted, so that a change of it is a diff that can be reviewed:

    format = 1
    kernel = "matmul"
    machine = "toy"

    [sizes]
    M = 64

    [bytes]
    "dram A read" = 65536

`Lock.of(account).text()` is the file, `parse_lock(text)` reads it, `lock.check(account, tolerances)` compares.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.lang.errors import Location

from .errors import AccountError
from .fields import quoted
from .reader import toml_tables
from .timing import CAUSES

if TYPE_CHECKING:
    from .account import Account

FORMAT = 1
# kind -> what its figures are
KINDS = {
    "bytes": "read and written, by memory and tensor",
    "copies": "descriptors, runs, and bytes in bursts, by place",
    "cycles": "of the run, busy, and waiting by cause",
    "footprint": "bytes at the peak of each memory",
    "misses": "lines, by cache level and tensor",
    "operations": "by element type or unit",
}
_PLACES = 3  # decimals of figures that are no whole numbers
_HEADER = "# Figures of a simulated run. `tilewright account ... --check THIS_FILE` says what has moved.\n"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a figure may move, either way: by `absolute`, or by `share` (0.01 is one percent), whichever is more.

    A share of cycles is one of the whole run, for a wait of three cycles may well become one of four.
    """

    absolute: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure that moved: `before` as locked, `after` as it is; None where the one or the other has no such figure."""

    kind: str
    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Lock:
    """The figures of a run: kind -> name -> figure."""

    kernel: str
    machine: str
    sizes: Mapping[str, int]
    figures: Mapping[str, Mapping[str, float]]

    @staticmethod
    def of(account: Account) -> Lock:
        """The lock on an account as it is."""
        found: dict[str, dict[str, float]] = {}
        for kind, name, value in _figures(account):
            names = found.setdefault(kind, {})
            names[name] = round(names.get(name, 0) + value, _PLACES)
        return Lock(account.kernel, account.machine, dict(account.sizes), found)

    def text(self) -> str:
        """The file: sorted, one figure a line."""
        head = {"format": FORMAT, "kernel": self.kernel, "machine": self.machine}
        parts = [_HEADER + _lines(head)]
        for title, table in [("sizes", self.sizes), *sorted(self.figures.items())]:
            if table:
                parts.append(f"[{title}]\n" + _lines(dict(sorted(table.items()))))
        return "\n".join(parts)

    def check(self, account: Account, tolerances: Mapping[str, Tolerance] | None = None) -> tuple[Difference, ...]:
        """What has moved by more than the tolerance of its kind (none where nothing is said), in the order of the file.

        A figure that is new or gone is a difference whatever the tolerance. Raises AccountError `lock.other` where
        the account is of another kernel, machine or sizes.
        """
        now = Lock.of(account)
        for what in ("kernel", "machine", "sizes"):
            self.require(what, getattr(now, what))
        return tuple(_differences(self, now, tolerances or {}))

    def require(self, what: str, value: Any) -> None:
        """Raise AccountError `lock.other` where the lock is on another kernel, machine or sizes (`what`) than `value`."""
        if getattr(self, what) != value:
            raise AccountError(
                f"the lock is on {what} {_said(getattr(self, what))}, not {_said(value)}", code="lock.other",
                hint="check the same run, or save a lock of this one",
            )  # fmt: skip


def _said(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) or "none" if isinstance(value, Mapping) else str(value)


def _figures(account: Account) -> Iterator[tuple[str, str, float]]:
    """(kind, name, figure); zeros are left out except of cycles, where all causes are there."""
    counted: list[tuple[str, str, float]] = []
    for t in account.traffic:
        counted += [("bytes", f"{t.memory} {t.tensor} read", t.bytes_read)]
        counted += [("bytes", f"{t.memory} {t.tensor} written", t.bytes_written)]
    for s in account.copies:
        place = f"{s.name} {s.source} to {s.target}"
        figures = {
            "descriptors": s.descriptors,
            "runs": s.runs,
            "bursts": s.burst_bytes,
            "split": s.split,
            "padded": s.padded,
        }
        counted += [("copies", f"{place} {name}", value) for name, value in figures.items()]
    counted += [("footprint", f.memory, f.peak) for f in account.footprint]
    counted += [("operations", kind, n) for kind, n in account.operations.items()]
    counted += [("misses", f"{x.name} {tensor}", c.misses) for x in account.caches for tensor, c in x.tensors.items()]
    yield from (figure for figure in counted if figure[2])
    if account.time is not None:
        yield from [("cycles", "all", account.time.cycles), ("cycles", "busy", account.time.busy)]
        yield from (("cycles", f"waiting, {cause}", account.time.waiting(cause)) for cause in CAUSES)


def _differences(before: Lock, after: Lock, tolerances: Mapping[str, Tolerance]) -> Iterator[Difference]:
    for kind in sorted({*before.figures, *after.figures}):
        old, new = before.figures.get(kind, {}), after.figures.get(kind, {})
        t = tolerances.get(kind, Tolerance())
        for name in sorted({*old, *new}):
            x, y = old.get(name), new.get(name)
            if x is None or y is None:
                yield Difference(kind, name, x, y)
                continue
            whole = old.get("all", x) if kind == "cycles" else x
            # Half a unit of the last place: both were rounded to it.
            if abs(y - x) > max(t.absolute, t.share * whole) + 0.5 * 10**-_PLACES:
                yield Difference(kind, name, x, y)


# Text -------------------------------------------------------------------------------------------------------------


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    return str(int(value)) if value == int(value) else f"{value:.{_PLACES}f}".rstrip("0")


def parse_lock(text: str, origin: str = "<lock>") -> Lock:
    """The lock that a text is; `origin` names it in errors. Raises AccountError `lock.syntax`, `lock.bad-value`."""
    data = toml_tables(text, origin, AccountError, "lock.syntax")

    def bad(problem: str, hint: str) -> AccountError:
        return AccountError(problem, code="lock.bad-value", where=Location(origin, 1), hint=hint)

    if data.pop("format", None) != FORMAT:
        raise bad("this is no lock", f"it would have format = {FORMAT} at its top")
    kernel, machine = data.pop("kernel", None), data.pop("machine", None)
    if not (isinstance(kernel, str) and isinstance(machine, str)):
        raise bad("the lock does not say what it is on", 'kernel = "..." and machine = "..." at its top')
    sizes = _table(data.pop("sizes", {}), "sizes", (int,), bad)
    for kind in data:
        if kind not in KINDS:
            raise bad(f"there are no figures of kind {kind!r}", f"kinds: {', '.join(KINDS)}")
    figures = {kind: _table(table, kind, (int, float), bad) for kind, table in data.items()}
    return Lock(kernel, machine, sizes, figures)


def _table(table: Any, title: str, kinds: tuple[type, ...], bad: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise bad(f"{title} is no table", f"[{title}] and below it one figure a line")
    for name, value in table.items():
        if not isinstance(value, kinds) or isinstance(value, bool) or not math.isfinite(value):
            raise bad(f"{title}: {name} is {value!r:.40}", "a number")
    return table


def parse_tolerances(text: str) -> dict[str, Tolerance]:
    """`bytes=0,cycles=1%,footprint=64`: by kind a number, or a percentage. Raises AccountError `lock.tolerance`."""
    found: dict[str, Tolerance] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        kind, equals, value = (x.strip() for x in part.partition("="))
        if not equals or kind not in KINDS or kind in found:
            said = "is given twice" if kind in found else "is no tolerance"
            raise AccountError(f"{part!r} {said}", code="lock.tolerance",
                               hint=f"KIND=NUMBER or KIND=PERCENT%, where KIND is one of {', '.join(KINDS)}")  # fmt: skip
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", value)
        if match is None:
            raise AccountError(f"the tolerance of {kind} is {value!r}", code="lock.tolerance",
                               hint=f"a number or a percentage: {kind}=0, {kind}=1%")  # fmt: skip
        number = float(match[1])
        found[kind] = Tolerance(share=number / 100) if match[2] else Tolerance(absolute=number)
    return found


def differences_text(found: tuple[Difference, ...]) -> str:
    """A table of what moved, and by how much."""
    from .render.tables import columns

    def said(value: float | None) -> str:
        return "-" if value is None else f"{value:,.{_PLACES}f}".rstrip("0").rstrip(".")

    rows = [("kind", "figure", "locked", "now", "moved", "")]
    for d in found:
        moved, share = "new" if d.before is None else "gone", ""
        if d.before is not None and d.after is not None:
            moved = ("+" if d.after > d.before else "") + said(d.after - d.before)
            share = f"{(d.after - d.before) / d.before:+.2%}" if d.before else ""
        rows.append((d.kind, d.name, said(d.before), said(d.after), moved, share))
    return columns(rows, left=2)
