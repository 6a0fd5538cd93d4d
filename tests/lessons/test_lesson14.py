"""Lesson 14: types. What operands of two types give, constants, and helpers that work for every type."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

N = tw.sizes("N")
TYPES = (tw.bool_, tw.i8, tw.i16, tw.i32, tw.i64, tw.u8, tw.u16, tw.u32, tw.u64, tw.f32, tw.f64)
NUMBERS = TYPES[1:]


def result_of(expression, *types):
    """The type of an expression of arrays of these types, as what a kernel returns has it."""
    p = tw.Pipeline("typed", **{name: t[N] for name, t in zip("ab", types, strict=False)})
    i = tw.vars("i")
    f = tw.func("f")
    f[i] = expression(*(p[name][i] for name, _ in zip("ab", types, strict=False)))
    kernel = p.returns(f[:N])
    return kernel(*(np.ones(3, t.np) for t in types)).dtype


@pytest.mark.parametrize("a", NUMBERS, ids=str)
def test_two_types_give_what_numpy_says(a):
    for b in NUMBERS:
        assert result_of(lambda x, y: x + y, a, b) == np.result_type(a.np, b.np)


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_a_literal_has_the_type_of_the_other_operand(t):
    assert result_of(lambda x: x + 1, t) == t.np
    assert result_of(lambda x: x / 2, t) == np.true_divide(np.ones(1, t.np), 2).dtype


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_comparisons_are_bool_and_casts_are_what_they_say(t):
    assert result_of(lambda x: x == 1, t) == np.bool_
    for target in TYPES:
        assert result_of(lambda x, target=target: tw.cast(target, x), t) == target.np


def test_a_literal_that_does_not_fit_is_an_error():
    with pytest.raises(tw.TypeRuleError, match="300"):
        result_of(lambda x: x + 300, tw.u8)


def test_arithmetic_of_truth_values_is_an_error_that_says_cast():
    with pytest.raises(tw.TypeRuleError, match="cast"):
        result_of(lambda x: x + x, tw.bool_)


# A helper for every type -------------------------------------------------------------------------------------------


def average(a, b):
    """(a + b) / 2 without overflow, in the type of the operands: integers through a wider type."""
    narrow = a.dtype
    wide = {"i8": tw.i16, "i16": tw.i32, "i32": tw.i64, "u8": tw.u16, "u16": tw.u32, "u32": tw.u64}.get(str(narrow))
    if wide is None:
        return (a + b) / 2
    return tw.cast(narrow, (tw.cast(wide, a) + tw.cast(wide, b)) // 2)


T = tw.dtype_var("T", tw.i8, tw.i16, tw.i32, tw.u8, tw.u16, tw.u32, tw.f32, tw.f64)


@tw.kernel
def averages(a: T[N], b: T[N]):
    i = tw.vars("i")
    result = tw.func("result")
    result[i] = average(a[i], b[i])
    return result[:N]


@pytest.mark.parametrize("t", T.choices, ids=str)
def test_an_average_of_extremes(t):
    ends = [np.finfo(t.np).max / 4, -1.5] if t.is_float else [np.iinfo(t.np).max, np.iinfo(t.np).max - 3]
    a, b = np.array([ends[0], 4, 7], t.np), np.array([ends[1], 8, 2], t.np)
    expected = (a + b) / 2 if t.is_float else (a.astype(object) + b.astype(object)) // 2
    result = averages(a, b)
    assert result.dtype == t.np
    np.testing.assert_array_equal(result, expected.astype(t.np))
