"""The form of matmul's schedule for small products, at sizes that divide its tile and at others."""

from __future__ import annotations

import pytest

from tests.examples.test_examples import example


@pytest.mark.parametrize("sizes", [(16, 64, 8), (13, 35, 9), (1, 1, 1)])
def test_small_products_pack_nothing(sizes):
    matmul = example("matmul")
    m, n, k = sizes
    assert n * k <= matmul.SMALL
    matmul.check(M=m, N=n, K=k)


def test_the_small_form_has_no_copies():
    matmul = example("matmul")
    lines = str(matmul.expert().loops()).splitlines()
    form = lines.index(f"  if K*N <= {matmul.SMALL}")
    assert not any("B_C" in line or "A_C" in line for line in lines[form : lines.index("  else", form)])
