"""The text of an account for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from .account_tables import account_tables, footprint_table, heading, remarks

if TYPE_CHECKING:
    from tilewright.hw.account import Account, Footprint

WIDTH = 118


def account_text(account: Account) -> str:
    """Heading, tables and remarks, with an empty line between them."""
    parts = [heading(account), *map(str, account_tables(account))]
    notes = remarks(account)
    if notes:
        parts.append("\n".join(textwrap.fill(f"* {note}", WIDTH, subsequent_indent="  ") for note in notes))
    return "\n\n".join(parts)


def footprint_text(footprint: Footprint) -> str:
    """The live buffers of a memory at its peak as a table, with what they take of it."""
    return str(footprint_table(footprint))
