"""Every example can be shown, written as a `.tw` file, and is the same when it is read from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright import commands
from tilewright.lang.text.blocks import format_tw

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_expert_schedule_as_text(path: Path, tmp_path: Path) -> None:
    shown = commands.show(path, schedule="expert")
    copy = tmp_path / f"{path.stem}.tw"
    copy.write_text(format_tw([shown.algorithm, shown.schedule]), encoding="utf-8")
    again = commands.show(copy)
    assert (again.digest, again.schedule, again.nest) == (shown.digest, shown.schedule, shown.nest)
    assert again.buffers == shown.buffers
