"""The catalogue of errors in docs/mistakes: every code that the sources have is there, and is raised as it says."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.schedule.causes import CAUSES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from mistakes import call_examples, examples  # noqa: E402

sys.path.remove(str(ROOT / "docs"))
EXAMPLES, CALLS = examples(), call_examples()


def refusals() -> Iterator[tuple[str, ast.Call]]:
    """(place, call) of every `refuse(...)` in the sources."""
    for room in ("schedule", "codegen", "api"):
        for file in sorted((ROOT / room).rglob("*.py")):
            for n in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "refuse":
                    yield f"{file.relative_to(ROOT)}:{n.lineno}", n


def test_every_code_of_the_sources_has_a_cause_and_every_cause_an_example():
    used: set[str] = set()
    for place, call in refusals():
        literals = {x.value for x in ast.walk(call.args[1]) if isinstance(x, ast.Constant)}
        assert literals <= CAUSES.keys(), f"{place}: {literals} is no code of schedule/causes.py"
        assert len(call.args) >= 3, f"{place} does not say what would be legal"
        used |= literals if literals else CAUSES.keys() & {"output-place", "inline-update"}
    assert used == CAUSES.keys(), f"nothing raises {CAUSES.keys() - used}"
    assert {e.code for e in EXAMPLES} == CAUSES.keys()


def test_documents_name_no_other_codes():
    for document in sorted((ROOT / "docs").glob("*.md")):
        named = set(re.findall(r"\bschedule\.([a-z]+(?:-[a-z]+)*)(?![\w(-])", document.read_text(encoding="utf-8")))
        assert named <= CAUSES.keys(), document


def test_no_cause_is_anyone_elses():
    """Errors of schedules are made in one place, which knows their codes."""
    for room in ("schedule", "codegen", "api"):
        for file in sorted((ROOT / room).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            assert "ScheduleError(" not in text or file.name == "causes.py", file


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.code)
def test_an_example_is_refused_as_it_says(example):
    error = example.error()
    assert error.code == f"schedule.{example.code}"
    assert type(error) is CAUSES[example.code] and getattr(tw, type(error).__name__) is type(error)
    assert error.message and error.hint and example.cause and inspect.getdoc(type(error))
    place = error.where[0]
    assert str(error).startswith(f"{place}: {error.message} [{error.code}]\n  {error.hint}") or len(error.where) > 1
    if place.file.endswith(".py"):
        assert Path(place.file).is_relative_to(ROOT / "docs" / "mistakes"), place
        line = linecache.getline(place.file, place.line)
        asks = ".check()" in line or ".compile(" in line  # a promise that fails later is that of a directive
        assert line.strip() and (not asks or example.code in ("algorithm", "kind")), line
    else:
        assert place.file == "<text>" or place.file.endswith(".tw"), place


@pytest.mark.parametrize("example", CALLS, ids=lambda e: e.code)
def test_an_example_of_a_call_is_refused_as_it_says(example):
    error = example.error()
    assert error.code == example.code and error.message and error.hint and example.cause
    assert Path(error.where[0].file).is_relative_to(ROOT / "docs" / "mistakes"), error.where


def test_every_code_of_calls_has_an_example():
    """Those of binding and of packed inputs are given without the room that they are of."""
    found: set[str] = set()
    for room in ("lang", "codegen", "planner", "api"):
        for file in sorted((ROOT / room).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            found |= set(re.findall(r'"((?:argument|bounds|extern|export|plan)\.[a-z-]+)"', text))
            if file.name == "goal.py":
                found |= {f"plan.{c}" for c in re.findall(r'_refused\("([a-z]+)"', text)}
            if file.name in ("binding.py", "prepack.py"):
                found |= {
                    f"argument.{c}" for c in re.findall(r'(?:bad\(\s*(?:self\.)?p,|_refused\()\s*"([a-z-]+)"', text)
                }
    assert found - {e.code for e in CALLS} == {
        "export.extent",
        "export.expression",
        "plan.cycle",  # of what no kernel of a few lines has
        "plan.solver",
    }
    assert {e.code for e in CALLS} <= found


INTERNAL = {"evaluate.value", "evaluate.load"}  # for those who call parts of ours by themselves


def test_every_error_of_definitions_and_calls_says_what_would_be_legal():
    """Errors that a user can cause have a hint, wherever they are made."""
    silent = []
    for file in sorted((ROOT / "lang").rglob("*.py")):
        if file.parent.name == "text" or file.name in ("judging.py", "errors.py"):
            continue  # texts show the place and what was expected; judgements are no mistakes
        for n in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(n, ast.Call) or not isinstance(n.func, ast.Name):
                continue
            name, keywords = n.func.id, {k.arg for k in n.keywords}
            position = {"bad": 3 if file.name == "binding.py" else 2, "fail": 1}.get(name)
            ours = name.endswith("Error") and "code" in keywords
            if position is None and not ours:
                continue
            given = n.args[position] if position is not None and len(n.args) > position else None
            empty = given is None or (isinstance(given, ast.Constant) and given.value is None)
            codes = {x.value for x in ast.walk(n) if isinstance(x, ast.Constant)}
            if "hint" not in keywords and empty and not codes & INTERNAL:
                silent.append(f"{file.relative_to(ROOT)}:{n.lineno}: {ast.unparse(n)[:100]}")
    assert not silent, "\n".join(silent)
