"""Validation finds deliberate mistakes in what a plan is made by, and bisect lays them to the right pass."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.planner.faults import MISTAKES, looked_at

B, M, N, D, T = tw.sizes("B M N D T")


@pytest.mark.parametrize("m", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_found_and_laid_to_its_pass(m, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))  # wrong code must not be found again by anybody
    found, bisected, text = looked_at(m, mistaken=True)
    assert (found, bisected) == (m.stage, m.stage), text
    assert "the first is" in text or "does not run" in text


@pytest.mark.parametrize("kernel", dict.fromkeys(m.kernel for m in MISTAKES), ids=lambda k: k.__name__)
def test_without_a_mistake_nothing_is_found(kernel):
    m = next(m for m in MISTAKES if m.kernel is kernel)
    found, bisected, text = looked_at(m, mistaken=False)
    assert not found and not bisected, text
