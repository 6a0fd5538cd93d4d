"""Every way in which a call can be wrong, and what is accepted."""

import array as stdlib_array

import ml_dtypes
import numpy as np
import pytest

from tests.kernels import call, pipeline
from tilewright.lang.binding import bind, index_value
from tilewright.lang.errors import ArgumentError, BoundsError
from tilewright.lang.expr import cast, maximum
from tilewright.lang.func import func
from tilewright.lang.symbols import rdom, sizes, vars
from tilewright.lang.trace import inout
from tilewright.lang.types import bf16, bool_, f16, f32, i8, i32, u8

M, N, K = sizes("M N K")
i, j = vars("i j")


def scale(A: f32[M, N], alpha: f32):
    f = func("f")
    f[i, j] = A[i, j] * alpha
    return f[:M, :N]


A = np.ones((2, 3), "f4")


def refused(fn, *args, sizes=None, **kwargs) -> ArgumentError:
    with pytest.raises(ArgumentError) as e:
        bind(pipeline(fn), args, kwargs, sizes)
    assert e.value.where and all(w.file == __file__ for w in e.value.where)
    return e.value


def test_arguments_by_position_and_name():
    b = bind(pipeline(scale), (A,), {"alpha": 2})
    assert b.arrays["A"] is A and b.scalars == {"alpha": np.float32(2)} and b.sizes == {"M": 2, "N": 3}
    assert b.env == {"M": 2, "N": 3, "alpha": 2}


@pytest.mark.parametrize(
    "args, kwargs, code, text",
    [
        ((A,), {}, "argument.missing", "alpha is missing"),
        ((), {}, "argument.missing", "A, alpha are missing"),
        ((A, 1.0, 2.0), {}, "argument.count", "3 arguments"),
        ((A, 1.0), {"beta": 2}, "argument.unknown", "no parameter 'beta'"),
        ((A, 1.0), {"alpha": 2}, "argument.duplicate", "alpha is given twice"),
    ],
)
def test_names(args, kwargs, code, text):
    e = refused(scale, *args, **kwargs)
    assert e.code == code and text in e.message


def packed() -> np.ndarray:
    return np.zeros((2, 3), np.dtype([("a", "u1"), ("b", "f4")]))["b"]


@pytest.mark.parametrize(
    "value, code, text, hint",
    [
        (A.astype("f8"), "dtype", "A must be f32 and is an array of float64", "x.astype(np.float32)"),
        (A.astype(bool), "dtype", "array of bool", "astype"),
        (A.astype(">f4"), "byte-order", "byte order", "astype"),
        (A.astype(object), "object", "Python objects", "astype"),
        (packed(), "misaligned", "4 bytes", "x.copy()"),
        (np.ma.masked_array(A, A > 0), "masked", "masked", "filled"),
        (A[0], "rank", "must have 2 axes", ""),
        ([[1.0, 2.0]], "not-array", "is a list", "np.asarray(x, np.float32)"),
        (None, "not-array", "is a NoneType", ""),
        (1.5, "not-array", "is a float", ""),
        ("text", "not-array", "is a str", ""),
    ],
)
def test_arrays_that_are_refused(value, code, text, hint):
    e = refused(scale, value, 1)
    assert e.code == f"argument.{code}" and text in e.message and e.message.startswith("scale: A ")
    assert hint in (e.hint or "")


def test_arrays_through_every_protocol():
    def total(x: u8[N]):
        f = func("f")
        f[i] = x[i]
        return f[:N]

    class Interface:
        def __init__(self, a):
            self.__array_interface__ = a.__array_interface__
            self.kept = a

    class DLPack:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **kwargs):
            return self.a.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    a = np.arange(5, dtype="u1")
    for value in (a, a.tobytes(), bytearray(a), memoryview(a), stdlib_array.array("B", a), Interface(a), DLPack(a)):
        assert call(total, value).tolist() == [0, 1, 2, 3, 4]
    for value in (Interface(a), DLPack(a), memoryview(a)):
        assert np.shares_memory(bind(pipeline(total), (value,)).arrays["x"], a)
    a.flags.writeable = False
    assert call(total, a[::-2]).tolist() == [4, 2, 0]


def test_torch_tensors_come_in_without_a_copy():
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 3)
    assert bind(pipeline(scale), (t, 1)).arrays["A"].ctypes.data == t.data_ptr()
    e = refused(scale, torch.ones(2, 3, requires_grad=True), 1)
    assert e.code == "argument.not-array" and "Tensor" in e.message


def test_storage_types_come_as_they_are():
    def take(x: bf16[N], y: f16[N]):
        f = func("f")
        f[i] = x[i] + y[i]
        return f[:N]

    got = call(take, np.ones(2, ml_dtypes.bfloat16), np.ones(2, "f2"))
    assert got.tolist() == [2, 2] and got.dtype == np.float32
    assert "ml_dtypes.bfloat16" in (refused(take, np.ones(2, "f4"), np.ones(2, "f2")).hint or "")


# inout ----------------------------------------------------------------------------------------------------------


def bump(x: inout(f32[N])):
    x[i] += 1.0


def test_inout_is_written_through():
    x = np.zeros(6, "f4")
    call(bump, x[::2])
    call(bump, memoryview(x))
    assert x.tolist() == [2, 1, 2, 1, 2, 1]


def test_inout_must_be_writable():
    x = np.zeros(3, "f4")
    x.flags.writeable = False
    assert refused(bump, x).code == "argument.read-only"
    assert refused(bump, np.broadcast_to(np.zeros(1, "f4"), 3)).code == "argument.read-only"
    assert refused(bump, x.tobytes()).code == "argument.dtype"
    shared = np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (3,), (0,))
    assert refused(bump, shared).code == "argument.overlap"
    assert refused(bump, np.float32(1)).code == "argument.rank"


def test_two_inouts_may_not_overlap():
    def both(x: inout(f32[N]), y: inout(f32[N])):
        x[i] += 1.0
        y[i] += 2.0

    x = np.zeros(9, "f4")
    assert refused(both, x[:5], x[4:]).code == "argument.overlap"
    call(both, x[:8:2], x[1:8:2])
    assert x.tolist() == [1, 2, 1, 2, 1, 2, 1, 2, 0]


# Scalars --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element, value, want",
    [
        (f32, 1, np.float32(1)), (f32, 0.1, np.float32(0.1)), (f32, np.float64(0.5), np.float32(0.5)),
        (f32, float("inf"), np.float32("inf")), (f32, np.array(2.0), np.float32(2)), (f32, np.int8(3), np.float32(3)),
        (i8, -128, np.int8(-128)), (i8, np.int64(5), np.int8(5)), (bool_, True, np.True_),
        (bool_, np.False_, np.False_),
        (bf16, 1.003, ml_dtypes.bfloat16(1.003)), (f16, 65504, np.float16(65504)),
        (bf16, ml_dtypes.bfloat16(2), ml_dtypes.bfloat16(2)),
    ],
)  # fmt: skip
def test_scalars_that_fit(element, value, want):
    def keep(s: element):
        f = func("f", element)
        f[()] = s
        return f[()]

    got = bind(pipeline(keep), (value,)).scalars["s"]
    assert type(got) is type(want) and got == want
    assert call(keep, value) == want


@pytest.mark.parametrize(
    "element, value, code",
    [
        (i8, 128, "range"), (i8, -129, "range"), (u8, -1, "range"), (u8, 256, "range"), (i8, np.int64(200), "range"),
        (i32, 1.0, "kind"), (i32, True, "kind"), (f32, True, "kind"), (bool_, 1, "kind"), (f32, "1", "kind"),
        (f32, None, "kind"), (f32, 1 + 2j, "kind"), (f32, np.ones(1), "kind"),
        (f32, 1e39, "range"), (f32, 10**400, "range"), (f16, 1e5, "range"), (f32, np.float64(0.1), "type"),
        (f32, np.int64(2**24 + 1), "type"),
    ],
)  # fmt: skip
def test_scalars_that_are_refused(element, value, code):
    def keep(s: element):
        f = func("f")
        f[()] = s
        return f[()]

    e = refused(keep, value)
    assert e.code == f"argument.scalar-{code}" and "s " in e.message


# Sizes ----------------------------------------------------------------------------------------------------------


def test_sizes_must_agree():
    def add(A: f32[M, N], B: f32[N]):
        f = func("f")
        f[i, j] = A[i, j] + B[j]
        return f[:M, :N]

    e = refused(add, A, np.ones(4, "f4"))
    assert e.code == "argument.size-mismatch"
    assert "size N is 3 by axis 1 of A and 4 by axis 0 of B" in e.message


def test_extents_with_numbers_and_arithmetic():
    def odd(W: f32[2 * K + 1], A: f32[N, 3], B: f32[N + K]):
        f = func("f")
        f[i] = W[i]
        return f[: 2 * K + 1]

    ok = [np.ones(5, "f4"), np.ones((4, 3), "f4"), np.ones(6, "f4")]
    assert bind(pipeline(odd), ok).sizes == {"K": 2, "N": 4}
    e = refused(odd, ok[0], np.ones((4, 2), "f4"), ok[2])
    assert e.code == "argument.extent" and "axis 1 of A must be 3 and is 2" in e.message
    e = refused(odd, np.ones(4, "f4"), *ok[1:])
    assert e.code == "argument.extent" and "for no integer K" in e.message
    e = refused(odd, np.ones(0, "f4"), *ok[1:])
    assert e.code in ("argument.extent", "argument.size-negative")
    e = refused(odd, ok[0], ok[1], np.ones(7, "f4"))
    assert e.code == "argument.extent" and "axis 0 of B must be 6" in e.message
    assert "N is 4 by axis 0 of A" in e.message and "K is 2 by axis 0 of W" in e.message


def test_sizes_are_solved_in_any_order():
    def later(A: f32[M + N], B: f32[M * 2], C: f32[N * M]):
        f = func("f")
        f[i] = A[i]
        return f[:N]

    arrays = [np.ones(n, "f4") for n in (7, 4, 10)]
    assert bind(pipeline(later), arrays).sizes == {"M": 2, "N": 5}
    assert refused(later, *arrays[:2], np.ones(11, "f4")).code == "argument.extent"


def test_negative_sizes():
    def shrunk(A: f32[N + 4]):
        f = func("f")
        f[i] = A[i]
        return f[:N]

    e = refused(shrunk, np.ones(3, "f4"))
    assert e.code == "argument.size-negative" and "size N is -1 by axis 0 of A" in e.message


def test_sizes_that_no_input_determines():
    def ramp():
        f = func("f")
        f[i, j] = cast(i32, i + j)
        return f[:M, :N]

    p = pipeline(ramp)
    assert bind(p, sizes={"M": 2, "N": np.int64(3)}).sizes == {"M": 2, "N": 3}
    e = refused(ramp, sizes={"M": 2})
    assert e.code == "argument.size-undetermined" and "size N" in e.message and "sizes=dict(N=...)" in (e.hint or "")
    assert refused(ramp, sizes={"M": 2, "Q": 3}).code == "argument.size-unknown"
    assert refused(ramp, sizes={"M": 2, "N": 1.5}).code == "argument.size-kind"
    assert refused(ramp, sizes={"M": -2, "N": 1}).code == "argument.size-negative"
    assert refused(ramp, sizes={"M": 2**62 + 1, "N": 1}).code == "argument.size-large"
    assert refused(scale, A, 1, sizes={"M": 3}).code == "argument.size-mismatch"


def test_extents_that_can_not_be_solved_need_the_sizes():
    def blocks(A: f32[N // 2 + maximum(M, 3)]):
        f = func("f")
        f[i] = A[i]
        return f[:N]

    assert refused(blocks, np.ones(5, "f4")).code == "argument.size-undetermined"
    assert bind(pipeline(blocks), (np.ones(5, "f4"),), sizes={"N": 4, "M": 1}).sizes["M"] == 1


def test_index_arithmetic_must_fit():
    def far(A: f32[M]):
        f = func("f")
        f[i] = A[(i * N * N * N) % 2]
        return f[:M]

    x = np.ones(3, "f4")
    assert bind(pipeline(far), (x,), sizes={"N": 1000})
    e = refused(far, x, sizes={"N": 10**7})
    assert e.code == "argument.range" and "2^62" in e.message


def test_index_scalars_bound_reductions():
    def first(A: f32[N], n: i32):
        r, f = rdom(r=n), func("f")
        f[()] = 0.0
        f[()] += A[r]
        return f[()]

    x = np.ones(4, "f4")
    assert [float(call(first, x, n)) for n in (-1, 0, 3, 4)] == [0, 0, 3, 4]
    with pytest.raises(BoundsError):
        call(first, x, 5)


def test_index_values():
    e = ((N + 3) // 2 % 5 - maximum(N, 2)).node
    assert index_value(e, {"N": 9}) == 6 % 5 - 9
    assert index_value((N // M).node, {"N": 3, "M": 0}) == index_value((N % M).node, {"N": 3, "M": 0}) == 0
