"""Tables as data: a head and rows of texts, printed for a terminal here and as HTML in `html`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """`title` may be empty. The first `left` columns are words and stand flush left, the others are figures."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1

    def __str__(self) -> str:
        return (self.title + "\n" if self.title else "") + columns([self.head, *self.rows], self.left)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """A table without the columns in which no row says anything."""
    said = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    return Table(
        title, tuple(head[i] for i in said), tuple(tuple(row[i] for i in said) for row in rows),
        sum(i < left for i in said),
    )  # fmt: skip


def cut(text: str, width: int) -> str:
    """A text of at most `width` columns, with dots where some of it is missing."""
    return text if len(text) <= width else text[: width - 4].rstrip() + " ..."


def columns(rows: Sequence[Sequence[str]], left: int) -> str:
    """Rows as aligned columns, the first `left` of them flush left and the others flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
