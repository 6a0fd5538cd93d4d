"""Error bounds, exact data and the judgements that are built on them."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

from tests.kernels import call, pipeline
from tests.strategies import Case, expression_cases, sum_cases
from tilewright import testing
from tilewright.lang import math as functions
from tilewright.lang import reduce
from tilewright.lang.binding import bind
from tilewright.lang.errorbound import error_bound
from tilewright.lang.errors import ArgumentError
from tilewright.lang.expr import cast, floor, maximum, select
from tilewright.lang.func import func
from tilewright.lang.judging import MismatchError, ProvesNothingError, _near
from tilewright.lang.reference import run, why
from tilewright.lang.symbols import rdom, sizes, vars
from tilewright.lang.trace import inout
from tilewright.lang.types import bf16, f16, f32, f64, i32, u8

M, N, K = sizes("M N K")
i, j = vars("i j")


def matmul(A: f32[M, K], B: f32[K, N]):
    k, C = rdom(k=K), func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def softmax(A: f32[M, N]):
    r = rdom(r=N)
    e = func("e")
    e[i, j] = functions.exp(A[i, j] - reduce.max_(A[i, r], name="m"))
    s = func("s")
    s[i, j] = e[i, j] / reduce.sum_(e[i, rdom(q=N)], name="l")
    return s[:M, :N]


# Bounds ---------------------------------------------------------------------------------------------------------


def within(case: Case) -> None:
    bound = bind(case.pipeline, (), case.arrays)
    got = np.asarray(run(case.pipeline, bound))
    (e,) = error_bound(case.pipeline, bound)
    assert (_near(got, e) | e.ambiguous).all(), (got, e)


@pytest.mark.parametrize("n", range(5))
def test_bounds_where_no_point_needs_a_func(n):
    """What is read only under a where() that never holds is not computed, and there is nothing to judge there."""
    a, x = func("a"), func("x")
    k = rdom(k=N)
    k.where(i >= k.k + 2)

    def few(A: f32[N]):
        a[i] = A[maximum(i - 1, 0)] * 0.5
        x[i] = 0.0
        x[i] += functions.exp(a[i]) * A[k.k]
        return x[-2 : N - 2]

    within(Case(pipeline(few), {"A": np.linspace(-1, 1, n).astype(np.float32)}))


@given(expression_cases())
def test_expressions_lie_within_their_bounds(case):
    within(case)


@given(sum_cases())
def test_reductions_lie_within_their_bounds(case):
    within(case)


def test_a_matmul_bound_is_useful_and_holds_in_any_order():
    args = testing.random_inputs(pipeline(matmul), {"M": 30, "N": 40, "K": 200})
    p = pipeline(matmul)
    testing.assert_within_bound(p, run(p, bind(p, (), args)), **args)
    testing.assert_within_bound(p, args["A"] @ args["B"], **args)
    backwards = call(p, args["A"][:, ::-1], args["B"][::-1])
    testing.assert_within_bound(p, backwards, **args)
    (e,) = error_bound(p, bind(p, (), args))
    exact = args["A"].astype("f8") @ args["B"].astype("f8")
    assert np.abs(e.value - exact).max() < 1e-12
    assert (e.bound <= 210 * 2.0**-24 * (np.abs(args["A"]).astype("f8") @ np.abs(args["B"]).astype("f8"))).all()
    wrong = backwards.copy()
    wrong[3, 4] += e.bound[3, 4] * 3
    with pytest.raises(
        MismatchError, match=r"1 of 1200 elements lie outside their error bound; the first is result\[3, 4\]"
    ):
        testing.assert_within_bound(p, wrong, **args)


def test_components_that_only_change_places_keep_their_bounds():
    def swap(A: f32[N]):
        r, s = rdom(r=N), func("s")
        s[i] = (A[i], A[i] * 3.0)
        s[i] = (s[i][1], s[i][0])
        s[r] = (s[r][1], s[r][0])
        s[i] = (s[i][1], s[i][0])
        return s[:N]

    a = np.arange(1, 6, dtype="f4")
    triple, single = error_bound(pipeline(swap), bind(pipeline(swap), (a,)))
    assert (single.value == a).all() and (triple.value == 3 * a).all()


def test_a_softmax_bound_is_useful():
    p = pipeline(softmax)
    args = testing.random_inputs(p, {"M": 20, "N": 300})
    got = call(p, **args)
    testing.assert_within_bound(p, got, **args)
    a = args["A"].astype("f8")
    e = np.exp(a - a.max(1, keepdims=True))
    testing.assert_within_bound(p, (e / e.sum(1, keepdims=True)).astype("f4"), **args)
    with pytest.raises(MismatchError):
        testing.assert_within_bound(p, got * np.float32(1.001), **args)


@pytest.mark.parametrize("name", [n for n in functions.FUNCTIONS if n not in ("pow", "atan2")])
@pytest.mark.parametrize("element", [f32, f64])
def test_functions_lie_within_their_bounds(name, element):
    def apply(A: element[N]):
        f, g = func("f"), func("g")
        f[i] = A[i] * 1.1 + 0.3
        g[i] = getattr(functions, name)(f[i])
        return g[:N]

    x = np.abs(np.random.default_rng(0).standard_normal(500)).astype(element.np) * 3
    p = pipeline(apply)
    testing.assert_within_bound(p, call(p, x), x)


def test_binary_functions_lie_within_their_bounds():
    def apply(A: f32[N], B: f32[N]):
        f, g = func("f"), func("g")
        f[i] = functions.pow(A[i] * A[i] + 0.1, B[i] * 1.1)
        g[i] = functions.atan2(A[i] * 1.1 + 0.3, B[i] * 1.3)
        return f[:N], g[:N]

    p = pipeline(apply)
    args = testing.random_inputs(p, {"N": 500})
    testing.assert_within_bound(p, call(p, **args), **args)


def test_flips_are_ambiguous():
    def steps(A: f32[N]):
        s, f, g = func("s"), func("f"), func("g")
        s[i] = A[i] * 3.0
        f[i] = select(s[i] < 3.0, 0.0, 1.0)
        g[i] = cast(i32, s[i])
        h = func("h")
        h[i] = floor(A[i]) + maximum(s[i], 3.0)
        return f[:N], g[:N], h[:N]

    a = np.array([0.5, 1.0, 2.2], "f4")
    f, g, h = error_bound(pipeline(steps), bind(pipeline(steps), (a,)))
    assert f.ambiguous.tolist() == [False, True, False] and g.ambiguous.tolist() == [False, True, False]
    assert h.ambiguous.tolist() == [False, False, False]
    p = pipeline(steps)
    with pytest.raises(ProvesNothingError, match=r"33\.3% of the elements are ambiguous"):
        testing.assert_within_bound(p, call(p, a), a)


def test_cancellation_proves_nothing():
    def cancel(A: f32[N]):
        f = func("f")
        f[i] = (A[i] + 1e6) - 1e6
        return f[:N]

    p = pipeline(cancel)
    args = testing.random_inputs(p, {"N": 50})
    with pytest.raises(ProvesNothingError, match="median"):
        testing.assert_within_bound(p, call(p, **args), **args)


def test_storage_types_have_bounds_of_their_own():
    def dot(A: bf16[M, K], B: f16[K]):
        k, s = rdom(k=K), func("s", bf16)
        t = func("t")
        t[i] = 0.0
        t[i] += A[i, k] * B[k]
        s[i] = t[i]
        return s[:M]

    p = pipeline(dot)
    rng = np.random.default_rng(0)
    args = {"A": rng.random((20, 50)).astype(ml_dtypes.bfloat16), "B": rng.random(50).astype("f2")}
    got = call(p, **args)
    testing.assert_within_bound(p, got, **args)
    with pytest.raises(MismatchError):
        testing.assert_within_bound(p, (got.astype("f4") * 1.02).astype(ml_dtypes.bfloat16), **args)


# Exact data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 300, 5000])
def test_exact_data_for_a_matmul(k):
    args = testing.exact_inputs(pipeline(matmul), {"M": 5, "N": 6, "K": k}, seed=k)
    assert np.abs(args["A"]).max() > 0
    got = call(matmul, **args)
    testing.assert_bitwise(got, (args["A"].astype("f8") @ args["B"].astype("f8")).astype("f4"), zeros=True)
    testing.assert_bitwise(got, call(matmul, args["A"][:, ::-1], args["B"][::-1]), zeros=True)


def test_exact_data_for_narrow_accumulators_is_thinned_out():
    def total(A: bf16[M, K]):
        s = func("s", bf16)
        s[i] = 0.0
        s[i] += A[i, rdom(k=K)]
        return s[:M]

    args = testing.exact_inputs(pipeline(total), {"M": 3, "K": 500})
    a = args["A"].astype("f4")
    assert 0 < np.abs(a).sum(1).max() <= 256
    assert (call(total, **args).astype("f4") == a.sum(1)).all()


def test_exact_data_through_powers_of_two():
    def online(A: f32[M, N]):
        r = rdom(r=N)
        e = func("e")
        e[i, j] = functions.exp2(A[i, j] - reduce.max_(A[i, r], name="m"))
        s = func("s")
        s[i] = reduce.sum_(e[i, rdom(q=N)], name="l")
        return s[:M]

    args = testing.exact_inputs(pipeline(online), {"M": 3, "N": 100})
    a = args["A"].astype("f8")
    assert (call(online, **args) == np.exp2(a - a.max(1, keepdims=True)).sum(1)).all()

    def divided(A: f32[N], B: f32[N]):
        s, r = func("s"), rdom(r=N)
        s[()] = 0.0
        s[()] += A[r] / B[r]
        return s[()]

    args = testing.exact_inputs(pipeline(divided), {"N": 40})
    assert (np.frexp(np.abs(args["B"]))[0] == 0.5).all()


def test_exact_data_is_refused_with_a_reason():
    with pytest.raises(testing.NotExactError) as e:
        testing.exact_inputs(pipeline(softmax), {"M": 3, "N": 10})
    assert "exp" in e.value.message and " in e " in e.value.message and e.value.where[0].file == __file__

    def third(A: f32[N]):
        s, r = func("s"), rdom(r=N)
        s[()] = 0.0
        s[()] += A[r] * 0.1 + 0.3
        return s[()]

    with pytest.raises(testing.NotExactError, match="in s is rounded"):
        testing.exact_inputs(pipeline(third), {"N": 30})

    def mean(A: f32[N]):  # the division comes after the sum and is the same for every schedule
        m = func("m")
        m[()] = reduce.sum_(A[rdom(r=N)]) / 3.0
        return m[()]

    assert testing.exact_inputs(pipeline(mean), {"N": 7})["A"].shape == (7,)


def test_indices_reach_everything():
    def gather(A: f32[N], at: u8[M]):
        h = func("h")
        h[i] = 0.0
        h[at[rdom(r=M)]] += A[0]
        return h[:N]

    args = testing.exact_inputs(pipeline(gather), {"N": 50, "M": 300})
    assert args["at"].max() >= 50 and args["at"].min() < 9
    args = testing.random_inputs(pipeline(gather), {"N": 50, "M": 300})
    assert args["at"].dtype == np.uint8 and args["A"].dtype == np.float32


def test_given_arguments_are_kept():
    def scaled(x: inout(f32[N]), alpha: f32):
        x[i] *= alpha
        return x[:N]

    args = testing.exact_inputs(pipeline(scaled), {"N": 4}, given={"alpha": np.float32(0.25)})
    assert args["alpha"] == 0.25 and set(args) == {"x", "alpha"}


# Bits -----------------------------------------------------------------------------------------------------------


def test_assert_bitwise():
    nan, other = np.array([np.nan], "f4"), np.array([-np.nan], "f4")
    testing.assert_bitwise(nan, other)
    testing.assert_bitwise({"a": [np.arange(3)]}, {"a": [np.arange(3)]})
    testing.assert_bitwise(np.array(0.0), np.array(-0.0), zeros=True)
    for a, b, text in (
        (
            np.array([0.0, 1.0]),
            np.array([-0.0, 1.0]),
            r"1 of 2 elements differ in their bits; the first is result\[0\]",
        ),
        (np.zeros(2), np.zeros(2, "f4"), "float64"),
        (np.zeros(2), np.zeros(3), r"\[2\] and float64\[3\]"),
        ([np.zeros(2)], np.zeros(2), "structures"),
    ):
        with pytest.raises(AssertionError, match=text):
            testing.assert_bitwise(a, b)


# Why ------------------------------------------------------------------------------------------------------------


def test_why_tells_an_elements_story(golden):
    def both(A: f32[N], at: u8[M]):
        k = rdom(k=(-1, 2))
        edge, b, h = func("edge"), func("b"), func("h")
        edge[i] = select(i < 0, -1.0, A[maximum(i, 0)])
        b[i] = 0.0
        b[i] += edge[i + k] * 0.5
        h[i] = 0
        h[at[rdom(r=M)]] += 1
        return b[-1 : N - 1], h[:4]

    p = pipeline(both)
    bound = bind(p, (np.arange(6, dtype="f4"), np.array([2, 0, 2, 2, 2, 1, 2, 2], "u1")))
    first, second = why(p, bound, (1,)), why(p, bound, 2, output=1)
    text = f"{first}\n\n{second}"
    golden(re.sub(re.escape(__file__) + r":\d+", "FILE:LINE", text))
    for wrong in ((9,), (1, 2), ()):
        with pytest.raises(ArgumentError, match="has no element"):
            why(p, bound, wrong)
    with pytest.raises(ArgumentError, match="has no output 5"):
        why(p, bound, (0,), output=5)
