"""Formulas of machine files: values, texts that read back, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import MachineError, load_machine, machine_text, parse_machine
from tilewright.hw.formulas import Formula, parse_formula

TREES = st.recursive(
    st.one_of(st.integers(0, 99).map(lambda n: ("number", n)), st.sampled_from("mnk").map(lambda n: ("name", n))),
    lambda t: st.tuples(st.sampled_from(["+", "-", "*", "//", "min", "max"]), t, t),
    max_leaves=12,
)


@given(TREES, st.tuples(*[st.integers(1, 50)] * 3))
def test_the_text_reads_back(tree, extents):
    f, env = Formula(tree), dict(zip("mnk", extents, strict=True))
    again = parse_formula(str(f)) if len(str(f)) <= 200 else f

    def value(x: Formula) -> int | None:
        try:
            return x.value(env)
        except ZeroDivisionError:
            return None

    assert value(again) == value(f)
    assert str(again) == str(f)


def test_values():
    env = {"m": 5, "n": 7, "k": 3}
    for text, value in {
        "k + m + n - 2": 13, "m - n - k": -5, "m - (n - k)": 1, "2*m//k": 3, "2*(m//k)": 2, "-m + 2 * n": 9,
        "max(m, min(n, k)) * 10": 50, "(7)": 7, "-2*m": -10,
    }.items():  # fmt: skip
        assert parse_formula(text).value(env) == value, text


@pytest.mark.parametrize("text", ["", "k +", "k k", "2k", "(m", "m)", "m ** 2", "__import__('os')", "max(m)", "1.5", "m / 2",
                                  "k" * 300, "99999999999999"])  # fmt: skip
def test_what_is_no_formula(text):
    with pytest.raises(ValueError):
        parse_formula(text)


def test_in_a_machine_file():
    text = machine_text(load_machine("toy")).replace("interval = 4", 'interval = "k + m + n - 2"')
    text = text.replace("shape = { m = 4, n = 4, k = 4 }", 'shape = { m = 4, n = 4, k = "any" }')
    made = parse_machine(text)
    assert made.units[0].shape == {"m": 4, "n": 4, "k": None}
    assert isinstance(made.units[0].interval, Formula)
    assert parse_machine(machine_text(made)) == made
    for old, new, says in (
        ('"k + m + n - 2"', '"k + x"', "interval speaks of 'x'"), ('"k + m + n - 2"', '"m - 1"', "interval is 0 at m = 1"),
        ('"k + m + n - 2"', '"m // (n - 4)"', "interval"), ('"k + m + n - 2"', '"k +"', "formula"),
        ("n = 4, k", "p = 4, k", "role 'p'"), ('k = "any"', 'k = "all"', "any"), ('k = "any"', "k = 0", "any"),
    ):  # fmt: skip
        with pytest.raises(MachineError) as e:
            parse_machine(text.replace(old, new))
        assert says in str(e.value), e.value
