"""Frozen schedules: files for review, made from records, checked, upgraded and compared."""

from tilewright.autotune.frozen.checking import Checked, check
from tilewright.autotune.frozen.difference import Differences, diff
from tilewright.autotune.frozen.file import Entry, Frozen, Measured, entry_of, frozen, read_frozen
from tilewright.autotune.frozen.freezing import freeze
from tilewright.autotune.frozen.upgrading import Upgraded, upgrade

__all__ = [
    "Checked", "Differences", "Entry", "Frozen", "Measured", "Upgraded", "check", "diff", "entry_of", "freeze", "frozen",
    "read_frozen", "upgrade",
]  # fmt: skip
