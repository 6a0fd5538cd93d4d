"""Stages that the user computes: the reference path, bounds, texts, looking inside."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.lang.text import parse_kernel, print_kernel

M, N = tw.sizes("M N")
RNG = np.random.default_rng(7)


@tw.extern_stage
def sort_rows(out, a):
    first = out.origin[1] - a.origin[1]
    out[...] = np.sort(a, axis=1)[:, first : first + out.shape[1]]


def blur(out, a, weight, n):
    """Three rows for each row of the output; the last two arguments are numbers."""
    assert isinstance(n, int) and weight.dtype == np.float32
    assert a.origin == (out.origin[0] - 1, out.origin[1]) and a.shape == (out.shape[0] + 2, out.shape[1])
    out[...] = (a[:-2] + a[1:-1] + a[2:]) * weight + np.float32(n)


@tw.kernel
def sorted_sum(A: tw.f32[M, N], w: tw.f32):
    i, j = tw.vars("i j")
    twice = tw.func("twice")
    twice[i, j] = A[i, j] * 2
    rows = tw.func("rows", tw.f32)
    rows[i, j] = sort_rows(twice.box[i, 0:N])
    out = tw.func("out")
    out[i, j] = rows[i, j] + w * rows[i, N - 1 - j]
    return out[:M, :N]


def wanted(a, w):
    r = np.sort(a * np.float32(2), axis=1)
    return r + np.float32(w) * r[:, ::-1]


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (13, 7)])
def test_reference(shape):
    a = RNG.standard_normal(shape, np.float32)
    got = sorted_sum.reference(a, 0.5)
    assert got.dtype == np.float32 and (got == wanted(a, 0.5)).all()


def test_boxes_are_the_hull_of_what_the_points_need():
    @tw.kernel
    def k(A: tw.f32[M + 2, N], w: tw.f32):
        i, j = tw.vars("i j")
        b = tw.func("b", tw.f32)
        b[i, j] = tw.extern_stage(blur, name="blur")(A.box[i - 1 : i + 2, j], w, N)
        return b[1 : M + 1, 2:N]

    a = RNG.standard_normal((6, 9), np.float32)
    got = k.reference(a, 0.25)
    want = (a[:-2, 2:] + a[1:-1, 2:] + a[2:, 2:]) * np.float32(0.25) + np.float32(9)
    assert (got == want).all()
    assert k.required_inputs(M=4, N=9) == {"A": ((0, 6), (2, 9))}
    assert "  [0..M + 1, 2..N - 1]: b reads A[i - 1:i + 2, j]" in k.explain_bounds("A")


def test_an_input_that_is_too_small_is_an_error_at_the_call():
    @tw.kernel
    def k(A: tw.f32[M, N]):
        i, j = tw.vars("i j")
        b = tw.func("b", tw.f32)
        b[i, j] = tw.extern_stage(blur)(A.box[i - 1 : i + 2, j], 1.0, 2)
        return b[:M, :N]

    for call in (k, k.reference):
        with pytest.raises(tw.BoundsError, match="elements -1") as e:
            call(np.zeros((4, 4), np.float32))
        assert e.value.code == "bounds.input"


def test_the_ends_of_a_box_may_be_clamped():
    def smooth(out, a):
        for r in range(out.shape[0]):
            i = r + out.origin[0] - a.origin[0]
            out[r] = a[max(0, i - 1) : i + 2].sum(axis=0)

    @tw.kernel
    def k(A: tw.f32[M, N]):
        i, j = tw.vars("i j")
        b = tw.func("b", tw.f32)
        b[i, j] = tw.extern_stage(smooth)(A.box[tw.maximum(i - 1, 0) : tw.minimum(i + 2, M), j])
        return b[:M, :N]

    a = RNG.integers(-9, 9, (6, 3)).astype(np.float32)
    want = np.stack([a[max(0, i - 1) : i + 2].sum(axis=0) for i in range(6)])
    assert (k.reference(a) == want).all() and (k(a) == want).all()


def polar(out, z):
    radius, angle = out
    re, im = z
    radius[...] = np.hypot(re, im)
    angle[...] = np.arctan2(im, re)


def polar_of():
    @tw.kernel
    def k(A: tw.f64[N], B: tw.f64[N]):
        i = tw.vars("i")
        z, p = tw.func("z"), tw.func("p", (tw.f64, tw.f64))
        z[i] = (A[i], B[i])
        p[i] = tw.extern_stage(polar)(z.box[i])
        return p[:N]

    return k


def test_tuples_in_and_out():
    a, b = RNG.standard_normal((2, 11))
    k = polar_of()
    for got in (k.reference(a, b), k(a, b)):
        assert (got[0] == np.hypot(a, b)).all() and (got[1] == np.arctan2(b, a)).all()


@pytest.mark.parametrize("dtype", [tw.f64, tw.f16, tw.bf16, tw.i8, tw.u8, tw.i64, tw.u64, tw.bool_])
def test_types(dtype):
    def flip(out, a):
        assert a.dtype == out.dtype == dtype.np
        out[...] = a[::-1]

    @tw.kernel
    def k(A: dtype[N]):
        i = tw.vars("i")
        f = tw.func("f", dtype)
        f[i] = tw.extern_stage(flip)(A.box[:])
        return f[:N]

    a = RNG.integers(0, 2, 9).astype(dtype.np)
    for got in (k.reference(a), k(a)):
        assert got.dtype == dtype.np and (got == a[::-1]).all()


def test_scalars_of_all_types():
    seen = []

    def fill(out, *numbers):
        seen.append(numbers)
        out[...] = 0

    @tw.kernel
    def k(A: tw.f32[N], a: tw.f32, b: tw.f64, c: tw.i8, d: tw.u8, e: tw.i64, f: tw.u64, g: tw.bool_, h: tw.f16):
        i = tw.vars("i")
        o = tw.func("o", tw.f32)
        o[i] = tw.extern_stage(fill)(a, b, c, d, e, f, g, h, N + 1, 7, 2.5)
        return o[:N]

    given = (0.1, 0.1, -3, 200, -(2**62), 2**63 + 5, True, 0.1)
    k.reference(np.zeros(3, np.float32), *given)
    k(np.zeros(3, np.float32), *given)
    assert len(seen) == 2 and seen[0] == seen[1]
    assert [type(x) for x in seen[0]] == [type(x) for x in seen[1]]
    assert seen[0][:7] == (np.float32(0.1), 0.1, -3, 200, -(2**62), 2**63 + 5, True) and seen[0][8:] == (4, 7, 2.5)


def test_why_says_what_was_read():
    text = sorted_sum.why(np.ones((3, 4), np.float32), 1.0, out=(1, 2))
    assert "what the stage sort_rows computes" in text and "it reads twice[i, 0:N]" in text


def test_nothing_is_known_of_its_error():
    k = polar_of()
    a, b = RNG.standard_normal((2, 5))
    got = k.reference(a, b)
    with pytest.raises(testing.ProvesNothingError):
        testing.assert_within_bound(k, got, a, b)


# Texts ----------------------------------------------------------------------------------------------------------------


def test_text_form():
    p = sorted_sum.pipeline()
    text = print_kernel(p)
    assert "rows[i, j] = stage!sort_rows(twice[i, 0:N])" in text
    again = parse_kernel(text, externs=[sort_rows])
    assert again.digest == p.digest and print_kernel(again) == text


def test_text_form_of_all_kinds_of_arguments():
    @tw.kernel
    def k(A: tw.f32[M + 2, N], T: tw.f32[N], w: tw.f32):
        i, j = tw.vars("i j")
        pair = tw.func("pair")
        pair[i, j] = (A[i, j], A[i, j] * w)
        b = tw.func("b", (tw.f32, tw.i32))
        stage = tw.extern_stage(blur, version='two "2"')
        b[i, j] = stage(pair.box[i - 1 : i + 2, 0:N], T.box[:], w * 2, N * M, 3, True, 0.5, A.box[0, 0])
        return b[1:M, :N]

    p = k.pipeline()
    text = print_kernel(p)
    again = parse_kernel(text, externs=[tw.extern_stage(blur, version='two "2"')])
    assert again.digest == p.digest and print_kernel(again) == text


def test_a_text_is_bound_when_it_is_read():
    text = print_kernel(sorted_sum.pipeline())
    with pytest.raises(tw.TilewrightError, match="is not given"):
        parse_kernel(text)
    with pytest.raises(tw.TilewrightError, match="version"):
        parse_kernel(text, externs=[tw.extern_stage(blur, name="sort_rows", version="2")])
    k = tw.parse_kernel(text, externs=[sort_rows])
    a = RNG.standard_normal((4, 6), np.float32)
    assert (k(a, 0.5) == wanted(a, 0.5)).all()


def test_slices_are_for_stages_only():
    with pytest.raises(tw.TilewrightError, match="a slice in an expression") as e:
        tw.parse_kernel("kernel k(A: f32[N]) -> f[:N]\n  f: f32\n  f[i] = A[i] + A[0:N]\n")
    assert (e.value.where[0].line, e.value.where[0].column) == (3, 19)
    with pytest.raises(tw.TilewrightError, match="is updated by a stage"):
        tw.parse_kernel("kernel k(A: inout f32[N]) -> none\n  A[i] = stage!g(A[0:N])\n")


def test_a_func_may_be_called_stage():
    text = "kernel k(A: f32[N]) -> stage[:N]\n  stage: f32\n  stage[i] = A[i] + 1.0\n"
    assert print_kernel(parse_kernel(text)) == text


def test_the_version_is_part_of_the_algorithm():
    def digest(version):
        @tw.kernel
        def k(A: tw.f32[N]):
            i = tw.vars("i")
            f = tw.func("f", tw.f32)
            f[i] = tw.extern_stage(sort_rows.function, version=version)(A.box[:])
            return f[:N]

        return k.pipeline().digest

    assert digest("1") == digest("1") != digest("2")


# Mistakes -------------------------------------------------------------------------------------------------------------


def refused(define, code):
    def k(A: tw.f32[M, N], B: tw.f32[N]):
        i, j = tw.vars("i j")
        return define(A, B, i, j)

    with pytest.raises(tw.TilewrightError) as e:
        tw.kernel(k).pipeline()
    assert e.value.code == code and e.value.where[0].file == __file__


def test_mistakes():
    def untyped(A, B, i, j):
        f = tw.func("f")
        f[i, j] = sort_rows(A.box[i, :])
        return f[:M, :N]

    def update(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, j] = 0
        f[i, j] = sort_rows(A.box[i, :])
        return f[:M, :N]

    def argument(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, j] = sort_rows(A[i, j])
        return f[:M, :N]

    def free(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i] = sort_rows(A.box[i, j])
        return f[:M]

    def rank(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, j] = sort_rows(A.box[i])
        return f[:M, :N]

    def step(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, j] = sort_rows(A.box[i, ::2])
        return f[:M, :N]

    def no_stop(A, B, i, j):
        g, f = tw.func("g"), tw.func("f", tw.f32)
        g[i] = B[i]
        f[i, j] = sort_rows(g.box[:])
        return f[:M, :N]

    def data(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, j] = sort_rows(A.box[0 : tw.cast(tw.i32, B[j]), :])
        return f[:M, :N]

    def itself(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, j] = sort_rows(f.box[i, 0:j])
        return f[:M, :N]

    def lhs(A, B, i, j):
        f = tw.func("f", tw.f32)
        f[i, i] = sort_rows(A.box[i, :])
        return f[:M, :N]

    refused(untyped, "definition.stage-type")
    refused(update, "definition.stage-update")
    refused(argument, "definition.stage-argument")
    refused(free, "definition.free-var")
    refused(rank, "definition.rank")
    refused(step, "definition.stage-box")
    refused(no_stop, "definition.stage-box")
    refused(data, "definition.stage-box")
    refused(itself, "definition.undefined")
    refused(lhs, "definition.pure-lhs")
    for bad in (lambda: tw.extern_stage(3), lambda: tw.extern_stage(blur, version=2),
                lambda: tw.extern_stage(lambda out: None)):  # fmt: skip
        with pytest.raises(tw.TilewrightError) as e:
            bad()
        assert e.value.code == "definition.stage"


@pytest.mark.parametrize("call", ["reference", "__call__"])
def test_an_exception_is_the_cause_of_ours(call):
    def fails(out, a):
        raise ValueError("no good")

    @tw.kernel
    def k(A: tw.f32[N]):
        i = tw.vars("i")
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(fails)(A.box[:])
        return f[:N]

    with pytest.raises(tw.ExternStageError, match="the stage fails raised ValueError: no good") as e:
        getattr(k, call)(np.zeros(3, np.float32))
    assert e.value.code == "extern.failed" and isinstance(e.value.__cause__, ValueError)
    assert e.value.where[0].file == __file__ and "0..3" in str(e.value)


@pytest.mark.parametrize("call", ["reference", "__call__"])
def test_a_view_that_is_kept_is_an_error(call):
    kept = []

    def keeps(out, a):
        out[...] = a
        kept.append(a[1:])

    @tw.kernel
    def k(A: tw.f32[N]):
        i = tw.vars("i")
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(keeps)(A.box[:])
        return f[:N]

    with pytest.raises(tw.ExternStageError) as e:
        getattr(k, call)(np.zeros(3, np.float32))
    assert e.value.code == "extern.kept"
    kept.clear()


@pytest.mark.parametrize("call", ["reference", "__call__"])
def test_inputs_can_not_be_written(call):
    def writes(out, a):
        a[...] = 0

    @tw.kernel
    def k(A: tw.f32[N]):
        i = tw.vars("i")
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(writes)(A.box[:])
        return f[:N]

    with pytest.raises(tw.ExternStageError, match="read-only"):
        getattr(k, call)(np.ones(3, np.float32))
