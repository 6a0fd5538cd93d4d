"""Lesson 3: looking at what a kernel became. The algorithm, the nest, the program after each pass, machine code."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.lower import PASSES

H, W = tw.sizes("H W")


@tw.kernel
def gradient():
    y, x = tw.vars("y x")
    g = tw.func("gradient")
    g[y, x] = tw.cast(tw.i32, x + y)
    return g[:8, :W]


def scheduled():
    s = gradient.schedule()
    s["gradient"].vectorize("x", 8).parallel("y", 2)
    return s


@pytest.fixture(scope="module")
def fast():
    return gradient.compile(scheduled())


def test_the_algorithm_and_the_schedule_are_text(golden):
    golden(f"{gradient}\n\n{scheduled()}")


def test_the_nest(golden):
    golden(str(scheduled().loops()))


def test_the_nest_can_be_asked():
    """What is printed can be looked at in Python as well."""
    nest = scheduled().loops()
    assert [(x.name, x.mode, x.depth) for x in nest.loops] == [
        ("y", "parallel", 0), ("y_p", "serial", 1), ("x", "serial", 2), ("x_v", "vectorize", 3)
    ]  # fmt: skip
    assert nest.loop("gradient.x_v").extent.attr == 8
    assert nest.buffers == () and nest.uses == {}


def test_the_program_after_each_pass(fast, golden):
    """The loops as code is made of them: in the flat form; parted where conditions always hold."""
    for name, _ in PASSES:
        assert fast.dump(name) and name in fast.timings
    _, flat = fast.dump("flatten").split("\n", 1)  # the first line has the symbol, which is a hash
    _, last = fast.source.split("\n", 1)
    golden(flat, "flat")
    golden(last, "source")


def test_what_the_machine_runs(fast):
    assert "define i32 @tw_gradient" in fast.llvm and "<8 x i32>" in fast.llvm
    assert "tw_gradient" in fast.asm and "ret" in fast.asm


def test_every_pass_as_it_runs(monkeypatch, capsys):
    monkeypatch.setenv("TILEWRIGHT_DUMP", "nest,partition")
    gradient.compile(scheduled()).build()
    said = capsys.readouterr().err
    assert "--- after nest\nproduce gradient over" in said and "--- after partition\n" in said
    assert "--- after flatten" not in said


def test_it_is_still_a_gradient(fast):
    y, x = np.mgrid[:8, :21]
    np.testing.assert_array_equal(fast(sizes={"W": 21}), x + y)
