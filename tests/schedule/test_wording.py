"""Bounds as they are written: flat where that is short, and never multiplied out without end."""

from __future__ import annotations

from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer
from tilewright.schedule.wording import write

i = ir.var("i")


def terms(text: str) -> set[str]:
    assert text.startswith("min(") and text.endswith(")")
    return set(text[4:-1].split(", "))


def test_nested_extremes_are_flat():
    n = simplify.minimum(simplify.add(simplify.minimum(ir.size("N"), i), integer(2)), ir.size("M"))
    assert terms(write(n)) == {"M", "N + 2", "i + 2"}
    assert terms(write(simplify.sub(n, integer(1)))) == {"M - 1", "N + 1", "i + 1"}


def test_products_of_extremes_stay_as_they_are():
    """Sums of minima have as many terms as there are choices: 2 ** 30 of them are not written down."""
    n = integer(0)
    for k in range(30):
        n = simplify.add(n, ir.node("min", i.dtype, (ir.size(f"A{k}"), simplify.add(i, integer(k)))))
    n = ir.node("min", i.dtype, (n, ir.size("M")))
    text = write(simplify.add(n, integer(1)))
    assert text.count("min(") == 31 and len(text) < 1000
