"""Operators of pictures and classes, weights of few bits, running sums: against NumPy (and PyTorch, where it is)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import tilewright as tw
from tests.lang.test_operators import check, normal
from tilewright import ops
from tilewright.lang.errors import DefinitionError

A, B, C, D, M, N = tw.sizes("A B C D M N")
RNG = np.random.default_rng(0)


def conv_transpose(x, w, stride, padding, output_padding):
    """By its definition: every element adds the filter."""
    b, h, width, _ = x.shape
    kh, kw, _, o = w.shape
    full = np.zeros(
        (b, (h - 1) * stride[0] + kh + output_padding[0], (width - 1) * stride[1] + kw + output_padding[1], o)
    )
    for i in range(h):
        for j in range(width):
            y, u = i * stride[0], j * stride[1]
            full[:, y : y + kh, u : u + kw] += np.einsum("bc,vuco->bvuo", x[:, i, j], w)
    (p, q), (_, rows, columns, _) = padding, full.shape
    return full[:, p : rows - p, q : columns - q]


@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "size"),
    [((1, 1), (0, 0), (0, 0), (3, 3)), ((2, 2), (1, 1), (1, 1), (3, 3)), ((2, 3), (1, 0), (0, 2), (4, 2)),
     ((3, 3), (0, 0), (0, 0), (2, 2)), ((2, 1), (0, 1), (1, 0), (1, 3))],
)  # fmt: skip
def test_conv_transpose2d(stride, padding, output_padding, size):
    x, w, b = normal(2, 4, 5, 3), normal(*size, 3, 2), normal(2)
    graph = lambda x, w, b: ops.conv_transpose2d(  # noqa: E731
        x, w, b, stride=stride, padding=padding, output_padding=output_padding
    )
    check(graph, lambda x, w, b: conv_transpose(x, w, stride, padding, output_padding) + b, x, w, b)


def test_conv_transpose2d_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    x, w = normal(1, 5, 4, 3), normal(3, 3, 3, 2)
    wanted = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), torch.from_numpy(w.transpose(2, 3, 0, 1).copy()),
        stride=2, padding=1, output_padding=1,
    ).numpy().transpose(0, 2, 3, 1)  # fmt: skip
    check(lambda x, w: ops.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), lambda *_: wanted, x, w,
          native=False)  # fmt: skip


def bilinear(x, axis, factor):
    n = x.shape[axis]
    place = np.clip((np.arange(n * factor) + 0.5) / factor - 0.5, 0, n - 1)
    low = np.floor(place).astype(int)
    shape = [-1 if k == axis else 1 for k in range(4)]
    part = (place - low).reshape(shape)
    return x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, n - 1), axis) * part


@pytest.mark.parametrize("factor", [1, 2, (3, 2), (1, 4)])
def test_upsample2d(factor):
    f = factor if isinstance(factor, tuple) else (factor, factor)
    x = normal(2, 3, 4, 2)
    check(lambda x: ops.upsample2d(x, factor), lambda x: x.repeat(f[0], 1).repeat(f[1], 2), x)
    check(lambda x: ops.upsample2d(x, factor, method="bilinear"), lambda x: bilinear(bilinear(x, 1, f[0]), 2, f[1]), x)


def test_instance_norm():
    x, g, b = normal(2, 4, 5, 3), normal(3), normal(3)

    def oracle(x, g, b):
        middle = x.mean((1, 2), keepdims=True)
        return (x - middle) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5) * g + b

    check(ops.instance_norm, oracle, x, g, b)
    check(lambda x: ops.mean(x, (1, 2)), lambda x: x.mean((1, 2)), x)  # global pooling


@pytest.mark.parametrize("name", ["elu", "hard_swish"])
def test_activations(name):
    oracle = {"elu": lambda x: np.where(x > 0, x, np.expm1(x)), "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6}
    check(getattr(ops, name), oracle[name], np.float32(np.linspace(-9, 9, 55)), native=False)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_cumsum(axis, n):
    shape = [3, 4, 2]
    shape[axis] = n
    check(lambda x: ops.cumsum(x, axis), lambda x: x.cumsum(axis), normal(*shape))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_topk(axis):
    x = RNG.integers(-3, 4, (6, 5, 7)).astype(np.float32)  # with ties
    x[0, 0] = -np.inf
    order = np.argsort(-x, axis, kind="stable").take(range(4), axis)
    check(lambda x: ops.topk(x, 4, axis)[1], lambda _: order, x)
    check(lambda x: ops.topk(x, 4, axis)[0], lambda x: np.take_along_axis(x, order, axis), x)


def test_topk_of_a_short_row():
    check(lambda x: ops.topk(x, 3)[1], lambda _: np.array([1, 0, -1]), np.float32([1, 2]))


def test_cross_entropy():
    x, t = normal(4, 5, 6) * 30, RNG.integers(0, 6, (4, 5))

    def oracle(x, t):
        return special.logsumexp(x, -1) - np.take_along_axis(x, t[..., None], -1)[..., 0]

    check(ops.cross_entropy, oracle, x, t)
    check(ops.cross_entropy, lambda x, t: oracle(x, np.clip(t, 0, 5)), x, t * 5 - 6, native=False)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("groups", [None, 1, 3])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_linear(transpose, groups, dtype):
    x, b, scales = normal(2, 3, 12), normal(5), np.abs(normal(*(() if groups is None else (groups,)), 5))
    w = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (12, 5), dtype, endpoint=True)
    whole = w * (scales if groups is None else scales.repeat(12 // groups, 0))
    turned = (lambda a: np.ascontiguousarray(a.T)) if transpose else (lambda a: a)

    @tw.kernel
    def k(
        x: tw.f32[2, 3, 12], w: (tw.i8 if dtype == np.int8 else tw.u8)[(5, 12) if transpose else (12, 5)],
        s: tw.f32[turned(scales).shape if groups else (5,)], b: tw.f32[5],
    ):  # fmt: skip
        return ops.quantized_linear(x, w, s, b, transpose=transpose)

    args = x, turned(w), turned(scales) if groups else scales, b
    for got in (k(*args), k.reference(*args)):
        np.testing.assert_allclose(got, x @ whole + b, rtol=1e-5, atol=1e-4 * np.abs(x @ whole).max())


def test_weights_in_half_the_bits():
    @tw.kernel
    def k(x: tw.f32[M, 8], w: tw.bf16[8, 5], v: tw.f16[5, 3]):
        return ops.linear(ops.relu(ops.linear(x, w)), v)

    x, w, v = normal(4, 8), normal(8, 5).astype(ml_dtypes.bfloat16), normal(5, 3).astype(np.float16)
    wanted = np.maximum(x @ w.astype(np.float32), 0) @ v.astype(np.float32)
    for got in (k(x, w, v), k.reference(x, w, v)):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        (lambda x, y: ops.conv_transpose2d(y, x), "shape"),
        (lambda x, y: ops.conv_transpose2d(y, y), "shape"),
        (lambda x, y: ops.conv_transpose2d(y, ops.transpose(y, (0, 1, 3, 2)), output_padding=1), "operator-option"),
        (lambda x, y: ops.upsample2d(x, 2), "shape"),
        (lambda x, y: ops.upsample2d(y, 0), "operator-option"),
        (lambda x, y: ops.upsample2d(y, 2, method="cubic"), "operator-option"),
        (lambda x, y: ops.instance_norm(x), "shape"),
        (lambda x, y: ops.topk(x, 0), "operator-option"),
        (lambda x, y: ops.topk(x, 2, 2), "axis"),
        (lambda x, y: ops.cumsum(x, 5), "axis"),
        (lambda x, y: ops.cross_entropy(y, x), "shape"),
        (lambda x, y: ops.quantized_linear(x, x, x), "shape"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(graph, code):
    def refused(x: tw.f32[M, N], y: tw.f32[A, B, C, D]):
        return graph(x, y)

    with pytest.raises(DefinitionError) as e:
        tw.kernel(refused)
    assert e.value.code == f"definition.{code}"
    assert e.value.where
    assert e.value.where[0].file == __file__
    assert e.value.hint
