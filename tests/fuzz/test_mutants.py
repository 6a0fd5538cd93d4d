"""The checkers find deliberate mistakes within the number of cases that `mutants.MUTANTS` states for each.

A failure here says either that a checker has become blind, or that the function which a mutant changes was rewritten:
then the mutant must be as well. `python -m tests.fuzz.mutants` prints in which case each was found, and what was seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.mutants import CHECKERS, MUTANTS, Mutant, hunt

ROOT = Path(__file__).parents[2]
FAMILIES = {"tails", "sliding", "folding", "pipelining", "rfactor", "online"}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], dict]:
    """What each checker found of each mistake, all in other processes."""
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.mutants"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
    return {(x["mutant"], x["checker"]): x for x in lines}


def test_every_family_has_mistakes_that_somebody_can_see() -> None:
    assert {m.family for m in MUTANTS} == FAMILIES
    assert all(any(getattr(m, c) for c in CHECKERS) for m in MUTANTS)


@pytest.mark.parametrize("m", MUTANTS, ids=lambda m: m.name)
def test_a_mistake_is_found_in_time(m: Mutant, found: dict[tuple[str, str], dict]) -> None:
    for checker in CHECKERS:
        within = getattr(m, checker)
        if within is not None:
            seen = found[(m.name, checker)]
            assert seen["case"] is not None, f"{checker} does not find it within {within} cases"
            assert seen["what"], seen


@pytest.mark.parametrize("m", [m for m in MUTANTS if m.exact], ids=lambda m: m.name)
def test_without_the_mistake_nothing_is_found(m: Mutant) -> None:
    """The schedules for exact data are no test of something else. (The other checkers have tests of their own.)"""
    assert m.exact is not None
    assert hunt(m, "exact", min(m.exact, 4), mistaken=False) == (None, "")
