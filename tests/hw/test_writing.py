"""Machine files with remarks, machines as tables, as JSON and as HTML."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import tomllib

import pytest
from hypothesis import given

from tests.hw.random_machines import machines
from tilewright.hw import load_machine, machine_names, parse_machine
from tilewright.hw.machine import Machine, machine_problems
from tilewright.hw.render.machine_tables import figure_table, machine_data
from tilewright.hw.writing import commented_text


@given(machines())
def test_a_file_with_remarks_is_the_same_machine(machine: Machine) -> None:
    assert parse_machine(commented_text(machine, "one line\nand another")) == machine


@pytest.mark.parametrize("name", machine_names())
def test_what_is_left_out_would_be_legal(name: str) -> None:
    """With every key that stands there as a comment switched on, one at a time, it is a machine still."""
    lines = commented_text(load_machine(name)).splitlines()
    for i, line in enumerate(lines):
        if line.startswith("# ") and " = " in line.partition("#")[2].partition("#")[0] and "{ value" not in line:
            changed = [*lines[:i], line[2:], *lines[i + 1 :]]
            assert machine_problems("\n".join(changed)) == [], line


def test_the_file_like_the_toy(golden) -> None:
    golden(commented_text(dataclasses.replace(load_machine("toy"), name="mine"), "A heading."))


@pytest.mark.parametrize("name", ["snitch-cluster", "generic-avx2", "tpu-v1"])
def test_machines_as_text(name: str, golden) -> None:
    machine = load_machine(name)
    golden(f"{machine}\n\n{figure_table(machine)}")


@given(machines())
def test_any_machine_can_be_shown(machine: Machine) -> None:
    text = str(machine)
    assert machine.name in text and all(memory.name in text for memory in machine.memories)
    data = machine_data(machine)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    given = tomllib.loads(commented_text(machine))
    for path in machine.provenance:
        assert data["figures"][path]["source"] == machine.provenance[path].source
    assert [memory["name"] for memory in data["memory"]] == [memory["name"] for memory in given["memory"]]


def test_html_is_well_formed_and_escaped() -> None:
    machine = dataclasses.replace(load_machine("toy"), about='<b>"quick" & dirty</b>')
    text = machine._repr_html_()
    assert "&lt;b&gt;" in text and "<b>&quot;" not in text and "made up for the documentation" in text
    assert "<script" not in text
    open_tags: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Reader().feed(text)
    assert open_tags == []
