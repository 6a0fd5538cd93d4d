"""The schedules of examples that ask for the processor's registers, on a processor with other ones."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.examples.test_examples import EXAMPLES, NAMES, example
from tilewright.schedule.registers import Registers

ASKING = [n for n in NAMES if "host_registers" in (EXAMPLES / f"{n}.py").read_text()]
OTHER = Registers(32, 16) if tw.host_registers().width == 64 else Registers(64, 32)


@pytest.mark.parametrize("name", ASKING)
def test_schedules_can_be_written_for_other_registers(monkeypatch, name):
    monkeypatch.setattr(tw, "host_registers", lambda: OTHER)
    module = example.__wrapped__(name)
    assert all(len(make()) > 0 for make in module.SCHEDULES)
