"""Conditions of loads in long and deep expressions."""

from __future__ import annotations

from tests.schedule.algorithms import made
from tests.schedule.native import natively
from tilewright.codegen.needs import ALWAYS, Needs
from tilewright.lang import expr, ir, simplify
from tilewright.lang.func import func
from tilewright.lang.symbols import sizes, vars
from tilewright.lang.types import bool_, i32
from tilewright.schedule.schedule import Schedule

N = sizes("N")


def test_thousands_of_parts_of_a_condition():
    i = ir.var("i")
    parts = [simplify.compare("ge", i, ir.integer(k)) for k in range(4000)]
    whole = parts[0]
    for p in parts[1:]:
        whole = ir.node("and", bool_, (whole, p))
    needs = Needs()
    made_ = needs.under(ALWAYS, whole)
    assert needs.under(made_, whole) is made_
    assert needs.mask(made_, lambda c, outer: c) is whole


def test_a_long_condition_of_a_load():
    def long(A: i32[N]):
        i, o = vars("i"), func("o")
        c = i >= 0
        for k in range(1100):
            c = c & (i != 3 * k + 1)
        o[i] = expr.select(c, A[i], -A[i])
        return o[:N]

    natively(Schedule(made(long)), {"N": 0}, {"N": 9})
