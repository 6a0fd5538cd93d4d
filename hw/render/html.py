"""HTML for notebooks: tables and texts with inline styles that suit light and dark backgrounds; no scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from tilewright.hw.annotated import BARS, LEFT, TEXT

from .account_tables import account_tables, heading, remarks
from .pictures import CAUSE_COLOURS, COMPUTE
from .roofline_text import roofline_heading, roofline_tables
from .tables import Table

if TYPE_CHECKING:
    from tilewright.hw.account import Account
    from tilewright.hw.annotated import AnnotatedNest, Row
    from tilewright.hw.roofline import Roofline

# Colours are those of the page, rules a grey that shows on white and on black.
_RULE = "1px solid rgba(128,128,128,0.45)"
_CELL = "padding:1px 10px 1px 0;border:0;background:none;white-space:nowrap;vertical-align:top;text-align:"
_HEAD = f"{_CELL}{{side}};font-weight:600;border-bottom:{_RULE};opacity:0.75"
_PRE = f"margin:0;padding:6px 10px;border:0;border-left:{_RULE};background:none;color:inherit;line-height:1.35"
_WORDS = "color:#2a7fc9"  # a blue of middle brightness: legible on both


def table_html(t: Table) -> str:
    """A table; words flush left and figures flush right, as in the text."""

    def cells(row: Sequence[str], tag: str, style: str) -> str:
        sides = ("left" if i < t.left else "right" for i in range(len(row)))
        return "".join(
            f'<{tag} style="{style.format(side=side)}">{escape(cell)}</{tag}>'
            for cell, side in zip(row, sides, strict=True)
        )

    title = f'<div style="margin:6px 0 2px 0">{escape(t.title)}</div>' if t.title else ""
    head = f"<tr>{cells(t.head, 'th', _HEAD)}</tr>" if any(t.head) else ""
    rows = "".join(f"<tr>{cells(row, 'td', _CELL + '{side}')}</tr>" for row in t.rows)
    style = "border-collapse:collapse;border:0;margin:4px 0 10px 0;font-size:90%;font-variant-numeric:tabular-nums"
    return f'{title}<table style="{style}">{head}{rows}</table>'


def page(title: str, tables: Iterable[Table], notes: Sequence[str] = ()) -> str:
    """A heading, tables, and remarks as a list."""
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    end = f'<ul style="margin:4px 0 0 0;padding-left:18px;font-size:90%">{listed}</ul>' if notes else ""
    return f"<div><b>{escape(title)}</b>{''.join(map(table_html, tables))}{end}</div>"


def account_html(account: Account) -> str:
    return page(heading(account), account_tables(account), remarks(account))


def roofline_html(line: Roofline) -> str:
    return page(roofline_heading(line), roofline_tables(line))


NEST_WORDS = ("for", "if", "else", "produce", "init", "load", "store", "update", "buffer", "prefetch")


def code_html(text: str, words: Iterable[str] = NEST_WORDS) -> str:
    """A text of schedules or nests, with `words` in another colour where a line begins with one."""
    return f'<pre style="{_PRE}">{"&#10;".join(_coloured(line, words) for line in text.splitlines())}</pre>'


def _coloured(line: str, words: Iterable[str]) -> str:
    found = re.match(rf"(\s*)({'|'.join(map(re.escape, words))})\b", line)
    if not found:
        return escape(line)
    return f'{found[1]}<span style="{_WORDS}">{escape(found[2])}</span>{escape(line[found.end() :])}'


_BAR = "display:inline-block;height:0.7em;border-radius:1px;background:"
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;white-space:pre"


def nest_html(nest: AnnotatedNest) -> str:
    """An annotated nest: its lines with the figures beside them, busy and waiting time as bars."""
    rows = nest.rows()
    used = [k for k in range(len(nest.head.cells)) if k == TEXT or any(row.cells[k] for row in rows)]
    head = "".join(f'<th style="{_HEAD.format(side=_side(k))}">{escape(nest.head.cells[k])}</th>' for k in used)
    body = "".join(f"<tr>{''.join(_nest_cell(row, k) for k in used)}</tr>" for row in rows)
    title = "<br>".join(map(escape, nest.title().splitlines()))
    notes = "".join(f'<div style="font-size:90%;white-space:pre-wrap">{escape(note)}</div>' for note in nest.remarks())
    style = "border-collapse:collapse;border:0;margin:6px 0;font-size:90%;font-variant-numeric:tabular-nums"
    return f'<div><b>{title}</b><table style="{style}"><tr>{head}</tr>{body}</table>{notes}</div>'


def _side(column: int) -> str:
    return "left" if column in LEFT else "right"


def _nest_cell(row: Row, column: int) -> str:
    style, cell = f"{_CELL}{_side(column)}", row.cells[column]
    if column == TEXT:
        return f'<td style="{style};{_MONO}">{_coloured(cell, NEST_WORDS)}</td>'
    if column != BARS:
        return f'<td style="{style}">{escape(cell)}</td>'
    parts = ((cell.count("#"), COMPUTE), (cell.count("."), CAUSE_COLOURS["load"]))
    bars = "".join(f'<span style="{_BAR}{colour};width:{0.8 * n:g}em"></span>' for n, colour in parts if n)
    return f'<td style="{style}">{bars}</td>'
