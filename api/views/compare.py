"""`compare`: two schedules, two machines or two accounts beside each other, with ratios; what is equal is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from tilewright.hw import Account, Machine, humane
from tilewright.hw.annotated import what_ran
from tilewright.hw.render.tables import Table, cut
from tilewright.hw.variants import figure_names, figure_text
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.schedule.schedule import Schedule
from tilewright.views.accounts import account_of, as_machine, as_schedule
from tilewright.views.explain import text_of
from tilewright.views.figures import figures, show

if TYPE_CHECKING:
    from tilewright.kernels import Kernel

WIDTH = 56  # columns of one side
SAME = "the accounts do not differ"


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of both sides (None: the other side has one more)."""

    a: str | None
    b: str | None

    @property
    def same(self) -> bool:
        return self.a == self.b

    @property
    def mark(self) -> str:
        return " " if self.same else "<" if self.b is None else ">" if self.a is None else "|"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of both accounts (None: one does not have it), in the unit that it is shown in."""

    group: str
    name: str
    unit: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        """b / a, None where there is none."""
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two things beside each other: the lines of their texts, and the figures of their accounts.

    `str()` shows what differs, `text(everything=True)` all of it.
    """

    names: tuple[str, str]
    lines: tuple[Pair, ...]
    rows: tuple[Row, ...]
    accounts: tuple[Account, Account]

    @property
    def different(self) -> tuple[Row, ...]:
        """The figures that differ."""
        return tuple(row for row in self.rows if row.a != row.b)

    def row(self, group: str, name: str) -> Row:
        """One figure, such as `("time", "cycles")`. Raises KeyError with those that there are."""
        for row in self.rows:
            if (row.group, row.name) == (group, name):
                return row
        raise KeyError(f"no figure {group}, {name}: {', '.join(f'{r.group}, {r.name}' for r in self.rows)}")

    def as_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "lines": [asdict(x) for x in self.lines],
            "figures": [asdict(row) | {"ratio": row.ratio} for row in self.rows],
        }

    def to_json(self) -> str:
        """All figures and lines, those that are equal too; without the accounts themselves."""
        return json.dumps(self.as_json(), indent=2)

    def __str__(self) -> str:
        return self.text()

    def text(self, everything: bool = False) -> str:
        """What differs (or everything), the texts first."""
        parts = [_title(self)]
        lines = [x for x in self.lines if everything or not x.same]
        if lines:
            parts.append("\n".join(_beside(self.names, lines)))
        rows = self.rows if everything else self.different
        parts.append(str(_table(self.names, rows)) if rows else SAME)
        return "\n\n".join([*parts, *self.notes])

    @property
    def notes(self) -> list[str]:
        """What the accounts say that a reader must know: types whose arithmetic takes no time, copies by hand."""
        sides: dict[str, list[str]] = {}
        for name, account in zip(self.names, self.accounts, strict=True):
            for note in account.notes:
                sides.setdefault(note, []).append(name)
        return [f"note{f' ({names[0]})' if len(names) == 1 else ''}: {note}" for note, names in sides.items()]

    def _repr_html_(self) -> str:
        from tilewright.hw.render.html import page

        lines = [(x.a or "", x.mark, x.b or "") for x in self.lines if not x.same]
        tables = [Table("", (self.names[0], "", self.names[1]), tuple(lines), left=3)] if lines else []
        if self.different:
            tables.append(_table(self.names, self.different))
        return page(_title(self), tables, [*([] if self.different else [SAME]), *self.notes])


def _title(c: Comparison) -> str:
    a, b = c.accounts
    kernel = a.kernel if a.kernel == b.kernel else f"{a.kernel} and {b.kernel}"
    machine = a.machine if a.machine == b.machine else f"{a.machine} and {b.machine}"
    return what_ran(kernel, machine, a.sizes) if a.sizes == b.sizes else f"{kernel} on {machine}, at different sizes"


def _beside(names: tuple[str, str], lines: Sequence[Pair]) -> Iterator[str]:
    left = min(WIDTH, max(len(x) for x in (names[0], *(x.a or "" for x in lines))))
    yield f"{names[0]:<{left}}    {names[1]}"
    for x in lines:
        yield f"{cut(x.a or '', left):<{left}}  {x.mark} {cut(x.b or '', WIDTH)}".rstrip()


def _table(names: tuple[str, str], rows: Sequence[Row]) -> Table:
    """Figures under the heading of their group, each with `b` against `a`."""
    cells: list[tuple[str, ...]] = []
    group = ""
    for row in rows:
        if row.group != group:
            cells.append((row.group, "", "", ""))
            group = row.group
        cells.append((f"  {row.name}", show(row.a, row.unit), show(row.b, row.unit), _ratio(row)))
    return Table("", ("", *(cut(name, 20) for name in names), ""), tuple(cells))


def _ratio(row: Row) -> str:
    if row.a is None or row.b is None:
        return ""
    return f"{humane.ratio(row.b, row.a):<6}"


# Comparing ------------------------------------------------------------------------------------------------------


def compare(
    a: Schedule | Kernel | Machine | Account | str,
    b: Schedule | Kernel | Machine | Account | str,
    *,
    machine: Machine | str | None = None,
    schedule: Schedule | Kernel | None = None,
    sizes: Mapping[str, int] | None = None,
    mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Two schedules on a machine (by default the one that each is bound to), two machines (objects, names or files) under
    one `schedule`, or two accounts that are there already.

    A kernel stands for its default schedule. `names` are what the sides are called. Raises ArgumentError
    `argument.compare` for other pairs, and what making an account raises.
    """
    if isinstance(a, Account) and isinstance(b, Account):
        return _made(names or ("a", "b"), (), a, b)
    if sizes is None:
        raise _wrong("sizes are missing", "give them: sizes=dict(M=512, ...)")
    if isinstance(a, (Machine, str)) and isinstance(b, (Machine, str)):
        if schedule is None:
            raise _wrong(
                "two machines run one schedule, and none is given", "schedule=..., or a kernel for the default one"
            )
        s = as_schedule(schedule)
        check_all_sizes(s.pipeline, sizes)
        one, other = as_machine(a, s), as_machine(b, s)
        left, right = (account_of(s, m, sizes, mode, inputs) for m in (one, other))
        return _made(names or _apart(one.name, other.name), machine_lines(one, other), left, right)
    if not isinstance(a, (Machine, str, Account)) and not isinstance(b, (Machine, str, Account)):
        first, second = as_schedule(a), as_schedule(b)
        for s in (first, second):
            check_all_sizes(s.pipeline, sizes)
        left, right = (account_of(s, as_machine(machine, s), sizes, mode, inputs) for s in (first, second))
        return _made(names or ("a", "b"), schedule_lines(first, second), left, right)
    raise _wrong(f"{a!r:.40} and {b!r:.40} are nothing to compare", "two schedules, two machines, or two accounts")


def _wrong(problem: str, legal: str) -> ArgumentError:
    return ArgumentError(f"compare: {problem}", code="argument.compare", where=user_location(), hint=legal)


def _apart(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a != b else (f"{a} (a)", f"{b} (b)")


def _made(names: tuple[str, str], lines: Sequence[Pair], a: Account, b: Account) -> Comparison:
    left, right = ({f.key: f for f in figures(x)} for x in (a, b))
    rows = []
    for key in _merged(list(left), list(right)):
        one, other = left.get(key), right.get(key)
        unit = (one or other).unit  # type: ignore[union-attr]  # a key is of one of them
        a_value, b_value = (None if f is None else f.value for f in (one, other))
        rows.append(Row(key[0], key[1], unit, a_value, b_value))
    return Comparison(names, tuple(lines), tuple(rows), (a, b))


def _merged(a: list[Any], b: list[Any]) -> list[Any]:
    """All keys in the order of both; what only one has stands in its group."""
    out: list[Any] = []
    for _, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        out += [*a[i:j], *b[k:n]]
    groups = list(dict.fromkeys(group for group, _ in out))
    return sorted(dict.fromkeys(out), key=lambda key: groups.index(key[0]))


def schedule_lines(a: Schedule, b: Schedule) -> tuple[Pair, ...]:
    """The directives of two schedules beside each other."""
    return tuple(_aligned([text_of(d) for d in a.directives], [text_of(d) for d in b.directives]))


def _aligned(a: list[str], b: list[str]) -> Iterator[Pair]:
    for _, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for x in range(max(j - i, n - k)):
            yield Pair(a[i + x] if i + x < j else None, b[k + x] if k + x < n else None)


def machine_lines(a: Machine, b: Machine) -> tuple[Pair, ...]:
    """The figures of two machines beside each other; of a part that only one has its name."""
    left, right = ({name: figure_text(m, name) for name in figure_names(m)} for m in (a, b))
    parts = [dict.fromkeys(map(_part, names)) for names in (left, right)]
    out = [
        Pair(name if name in parts[0] else None, name if name in parts[1] else None)
        for name in dict.fromkeys([*parts[0], *parts[1]])
        if (name in parts[0]) != (name in parts[1])
    ]
    for name in dict.fromkeys([*left, *right]):
        if _part(name) in parts[0] and _part(name) in parts[1]:
            out.append(Pair(*(f"{name} = {m[name]}" if name in m else None for m in (left, right))))
    return tuple(out)


def _part(name: str) -> str:
    """`memory.spm` of `memory.spm.capacity`; the table of what has no name of its own."""
    table, *rest = name.split(".")
    return f"{table}.{rest[0]}" if table in ("memory", "dma", "cache", "unit") else table


__all__ = ["Comparison", "Pair", "Row", "compare", "machine_lines", "schedule_lines"]
