"""The forms of the schedule for matrix products of any shape: each taken, on operands in either order."""

from __future__ import annotations

from tests.examples.test_examples import example


def test_forms_on_transposed_operands():
    example("gemm").check_forms(("nn", "tt"))
