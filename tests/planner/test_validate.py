"""Validation finds deliberate mistakes in what a plan is made by, and bisect lays them to the right pass."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.planner.faults import IN_LAYOUTS, MISTAKES, looked_at

B, M, N, D, T = tw.sizes("B M N D T")


@pytest.mark.parametrize("m", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_found_and_laid_to_its_pass(m, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))  # wrong code must not be found again by anybody
    found, bisected, text = looked_at(m, m.edits)
    assert (found, bisected) == (m.stage, m.stage), text
    assert "the first is" in text or "does not run" in text


@pytest.mark.parametrize("name", ["halo", "read later", "packing: axes"])
def test_without_a_mistake_nothing_is_found(name):
    m = next(m for m in MISTAKES if name in m.name)
    found, bisected, text = looked_at(m, ())
    assert not found and not bisected, text


def test_tensors_in_all_kinds_of_layouts_are_found_right(monkeypatch, tmp_path):
    m = next(m for m in MISTAKES if m.stage == "layout")
    found, _, text = looked_at(m, [IN_LAYOUTS])
    assert not found, text


@pytest.mark.parametrize("sizes", [{"T": -3}, {}, {"T": 3, "U": 3}, {"T": 1.5}, "T", [3]])
def test_wrong_sizes_are_refused(sizes):
    @tw.kernel
    def twice(x: tw.f32[T]):
        return tw.ops.value(x) * 2.0

    plan = tw.plan(twice, "toy", sizes={"T": 8})
    for look in (plan.validate, plan.bisect, plan.account):
        with pytest.raises(tw.ArgumentError) as e:
            look(sizes)
        assert e.value.code.startswith("argument.size-")
