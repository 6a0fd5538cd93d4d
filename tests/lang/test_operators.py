"""Operators of graphs against NumPy, on the reference path; natively where a graph is made of many of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, special

import tilewright as tw
from tilewright import ops
from tilewright.lang.errors import DefinitionError

A, B, C, D, M, N = tw.sizes("A B C D M N")
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


TYPES = {"float32": tw.f32, "int64": tw.i64, "bool": tw.bool_}


def made(f, arrays):
    """A kernel of `f` over inputs whose extents are the numbers of these arrays."""
    names = [f"p{k}" for k in range(len(arrays))]
    specs = {n: TYPES[a.dtype.name][a.shape if a.ndim else ()] for n, a in zip(names, arrays, strict=True)}
    scope = {"f": f}
    exec(f"def graph({', '.join(names)}): return f({', '.join(names)})", scope)
    graph = scope["graph"]
    graph.__annotations__ = specs
    return tw.kernel(graph)


def check(f, oracle, *arrays, native=True):
    """`f` on arrays is what `oracle` says, relative to the largest magnitude; natively too."""
    tolerance = 2e-6
    k = made(f, arrays)
    wanted = oracle(*(np.float64(a) if a.dtype == np.float32 else a for a in arrays))
    for got in (k.reference(*arrays), *([k(*arrays)] if native else [])):
        assert got.shape == wanted.shape
        scale = max(1.0, np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) if wanted.dtype.kind == "f" else 1
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * scale)


# Element by element -----------------------------------------------------------------------------------------------


@given(st.data())
def test_arithmetic_broadcasts_as_numpy_does(data):
    rank = data.draw(st.integers(0, 4))
    full = data.draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=rank, max_size=rank))

    def part():
        own = full[data.draw(st.integers(0, rank)) :]
        return normal(*(n if data.draw(st.booleans()) else 1 for n in own))

    x, y = part(), part()
    try:
        wanted = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:  # pragma: no cover
        raise AssertionError("the shapes fit by construction") from None
    k = made(lambda a, b: ops.value(a) * b - ops.value(b) + 2.0, (x, y))
    got = k.reference(x, y)
    assert got.shape == wanted
    np.testing.assert_array_equal(got, x * y - y + np.float32(2))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "exp": np.exp,
    "silu": lambda x: x * special.expit(x),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "softplus": lambda x: np.logaddexp(0, x),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "abs": np.abs,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = np.float32(np.concatenate([np.linspace(-9, 9, 55), [-100, 0, 60]]))
    check(getattr(ops, name), ACTIVATIONS[name], x, native=False)


def test_where_cast_and_limits():
    x, y = normal(3, 4), normal(4)
    mask = RNG.random((3, 1)) < 0.5
    check(ops.where, np.where, mask, x, y, native=False)
    check(ops.maximum, np.maximum, x, y, native=False)
    check(ops.minimum, np.minimum, x, y, native=False)
    check(lambda a: ops.clamp(a, -0.5, 0.5), lambda a: np.clip(a, -0.5, 0.5), x, native=False)
    assert made(lambda a: ops.cast(tw.bf16, a), (x,)).reference(x).dtype.name == "bfloat16"


# Products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("lead", [((), ()), ((2,), (2,)), ((3, 1), (2,)), ((), (2,))])
def test_matmul(ta, tb, lead):
    a, b = normal(*lead[0], 3, 5), normal(*lead[1], 5, 4)
    x = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if ta else a
    y = np.ascontiguousarray(np.swapaxes(b, -1, -2)) if tb else b
    oracle = lambda p, q: (np.swapaxes(p, -1, -2) if ta else p) @ (np.swapaxes(q, -1, -2) if tb else q)  # noqa: E731
    check(lambda p, q: ops.matmul(p, q, transpose_a=ta, transpose_b=tb), oracle, x, y, native=False)


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
def test_linear(shape):
    x, w, b = normal(*shape), normal(6, 5), normal(5)
    check(ops.linear, lambda x, w, b: x @ w + b, x, w, b, native=False)
    check(lambda x, w: ops.linear(x, w, transpose=True), lambda x, w: x @ w.T, x, normal(5, 6), native=False)


@pytest.mark.parametrize(
    "form", ["ij,jk->ik", "bthd,hdo->bto", "ii->", "ij->ji", "i,j->ij", "ijk->i", "bij,bjk,bk->bi"]
)
def test_einsum(form):
    extents = {c: k + 2 for k, c in enumerate(sorted(set(form) - set(",->")))}
    arrays = [normal(*(extents[c] for c in term)) for term in form.split("->")[0].split(",")]
    check(lambda *xs: ops.einsum(form, *xs), lambda *xs: np.asarray(np.einsum(form, *xs)), *arrays, native=False)


# Rows -------------------------------------------------------------------------------------------------------------

REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "variance": np.var}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1,)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    oracle = lambda x: np.asarray(REDUCTIONS[name](x, axis=axis, keepdims=keepdims))  # noqa: E731
    check(lambda x: getattr(ops, name)(x, axis, keepdims), oracle, normal(2, 5, 3), native=False)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_an_axis(axis):
    x = normal(3, 4, 5) * 20
    check(lambda v: ops.softmax(v, axis), lambda v: special.softmax(v, axis), x, native=False)
    check(lambda v: ops.log_softmax(v, axis), lambda v: special.log_softmax(v, axis), x, native=False)
    for keep in (False, True):
        check(lambda v: ops.log_sum_exp(v, axis, keep),  # noqa: B023
              lambda v: special.logsumexp(v, axis, keepdims=keep), x, native=False)  # noqa: B023  # fmt: skip
    check(lambda v: ops.argmax(v, axis), lambda v: np.argmax(v, axis), x, native=False)
    check(lambda v: ops.argmin(v, axis), lambda v: np.argmin(v, axis), x, native=False)


def _normalised(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_norms():
    x, g, b = normal(2, 3, 8) * 3 + 1, normal(8), normal(8)
    check(ops.layer_norm, lambda x, g, b: _normalised(x, -1) * g + b, x, g, b)
    check(ops.rms_norm, lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g, x, g)
    mean, var = normal(8), np.abs(normal(8))
    check(ops.batch_norm, lambda x, m, v, g, b: (x - m) / np.sqrt(v + 1e-5) * g + b, x, mean, var, g, b)
    grouped = lambda x, g, b: _normalised(x.reshape(2, 3, 4, 2), (1, 3)).reshape(x.shape) * g + b  # noqa: E731
    check(lambda x, g, b: ops.group_norm(x, 4, g, b), grouped, x, g, b)


# Shapes -----------------------------------------------------------------------------------------------------------


@given(st.data())
def test_reshape_keeps_the_order(data):
    primes = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=5))

    def shape():
        out, run = [], 1
        for n in primes:
            run *= n
            if data.draw(st.booleans()):
                out.append(run)
                run = 1
        ones = data.draw(st.integers(0, 2))
        out = [*out, run] if run != 1 else out
        for _ in range(ones):
            out.insert(data.draw(st.integers(0, len(out))), 1)
        return tuple(out)

    old, new = shape(), shape()
    x = normal(*old)
    k = made(lambda a: ops.reshape(ops.value(a), new), (x,))
    np.testing.assert_array_equal(k.reference(x), x.reshape(new))


def test_reshape_of_symbolic_sizes():
    @tw.kernel
    def heads(x: tw.f32[A, B * C * 4]):
        parted = ops.reshape(x, (A, B, 4, -1))
        return ops.reshape(ops.transpose(parted, (1, 0, 2, 3)), (B, A, 4 * C)), ops.flatten(parted)

    x = normal(3, 2 * 5 * 4)
    for k in (heads.reference, heads):
        first, flat = k(x, sizes={"B": 2, "C": 5})
        np.testing.assert_array_equal(first, x.reshape(3, 2, 4, 5).transpose(1, 0, 2, 3).reshape(2, 3, 20))
        np.testing.assert_array_equal(flat, x.reshape(-1))


@given(st.permutations(range(4)))
def test_transpose(order):
    x = normal(2, 3, 4, 5)
    k = made(lambda a: ops.transpose(a, order), (x,))
    np.testing.assert_array_equal(k.reference(x), x.transpose(order))


def test_parts():
    x, y = normal(5, 7), normal(5, 2)
    check(lambda a: ops.slice(a, (1, 4), (0, None, 3)), lambda a: a[1:4, ::3], x)
    check(lambda a: ops.slice(a, None, (-3, -1)), lambda a: a[:, -3:-1], x)
    check(lambda a, b: ops.concat([a, b, a], 1), lambda a, b: np.concatenate([a, b, a], 1), x, y)
    check(lambda a: ops.pad(a, [(1, 2), (0, 3)], 1.5), lambda a: np.pad(a, [(1, 2), (0, 3)], constant_values=1.5), x)
    check(lambda a: ops.split(a, [3, 4])[1], lambda a: a[:, 3:], x)
    check(lambda a: ops.split(ops.slice(a, (0, 4)), 2, 0)[1], lambda a: a[2:4], x)
    check(lambda a: ops.broadcast_to(a, (2, 5, 3)), lambda a: np.broadcast_to(a, (2, 5, 3)), normal(5, 1))
    check(lambda a: ops.squeeze(ops.expand_dims(a, 1), 1), lambda a: a, x, native=False)
    tokens = RNG.integers(0, 5, (2, 3))
    check(ops.gather, lambda a, i: a[i], x, tokens)
    check(lambda a, i: ops.gather(a, i, 1), lambda a, i: np.take(a, i, 1), x, tokens)


# Convolutions -----------------------------------------------------------------------------------------------------


def _convolved(x, w, stride, padding, dilation, groups):
    """By the definition, over windows."""
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    kh, kw, ci, co = w.shape
    height, width = ((n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[1:3], (kh, kw), strict=True))
    out = np.zeros((x.shape[0], height, width, co))
    for o in range(co):
        first = o // (co // groups) * ci
        for v in range(kh):
            for u in range(kw):
                part = x[:, v * dilation :: stride, u * dilation :: stride, first : first + ci]
                out[..., o] += part[:, :height, :width] @ w[v, u, :, o]
    return out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("padding", "dilation", "groups"), [(0, 1, 1), (1, 1, 1), (2, 2, 1), (1, 1, 2)])
def test_conv2d(stride, padding, dilation, groups):
    x, w, b = normal(2, 7, 6, 4), normal(3, 3, 4 // groups, 6), normal(6)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    check(lambda x, w, b: ops.conv2d(x, w, b, **options), lambda x, w, b: _convolved(x, w, **options) + b, x, w, b)


def test_depthwise_conv2d():
    x, w = normal(1, 6, 5, 3), normal(3, 3, 3)
    oracle = lambda x, w: np.stack(  # noqa: E731
        [signal.correlate(x[0, :, :, c], w[:, :, c], "same", "direct") for c in range(3)], -1
    )[None]
    check(lambda x, w: ops.depthwise_conv2d(x, w, padding=1), oracle, x, w)
    check(lambda x, w: ops.depthwise_conv2d(x, w, padding=1, stride=2), lambda x, w: oracle(x, w)[:, ::2, ::2], x, w)


def _pooled(x, size, stride, padding, f):
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)], constant_values=np.nan)
    views = np.lib.stride_tricks.sliding_window_view(x, (size, size), (1, 2))[:, ::stride, ::stride]
    return f(views, axis=(-2, -1))


@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1)])
def test_pooling(size, stride, padding):
    x = normal(2, 7, 8, 3)
    check(lambda v: ops.max_pool2d(v, size, stride=stride, padding=padding),
          lambda v: _pooled(v, size, stride, padding, np.nanmax), x)  # fmt: skip
    check(lambda v: ops.average_pool2d(v, size, stride=stride, padding=padding),
          lambda v: _pooled(v, size, stride, padding, np.nanmean), x)  # fmt: skip


# Attention --------------------------------------------------------------------------------------------------------


def _attention(q, k, v, mask=None):
    scores = np.einsum("bhgid,bhjd->bhgij", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return np.einsum("bhgij,bhjd->bhgid", special.softmax(scores, -1), v)


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (1, 6), (3, 7)])
def test_attention(queries, keys):
    q, k, v = normal(2, 3, 2, queries, 8), normal(2, 3, keys, 8), normal(2, 3, keys, 6)
    lengths = np.array([keys, queries])
    see = np.tri(queries, keys, keys - queries, dtype=bool)
    check(ops.attention, _attention, q, k, v)
    check(lambda *x: ops.attention(*x, causal=True), lambda *x: _attention(*x, see), q, k, v)
    within = np.arange(keys) < lengths[:, None, None, None, None]
    check(lambda q, k, v, n: ops.attention(q, k, v, lengths=n), lambda q, k, v, n: _attention(q, k, v, within),
          q, k, v, lengths)  # fmt: skip
    past = np.array([keys - queries, 0])
    shown = np.arange(keys) <= np.arange(queries)[:, None] + past[:, None, None, None, None]
    check(lambda q, k, v, n: ops.attention(q, k, v, causal=True, past=n),
          lambda q, k, v, n: _attention(q, k, v, shown), q, k, v, past)  # fmt: skip
    flat = lambda q, k, v: _attention(q.reshape(2, 3, 2, queries, 8), k, v).reshape(2, 6, queries, 6)  # noqa: E731
    check(ops.attention, flat, q.reshape(2, 6, queries, 8), k, v)


@pytest.mark.parametrize("tokens", [1, 3])
def test_cache(tokens):
    @tw.kernel
    def step(cache: tw.inout(tw.f32[B, A, N, D]), new: tw.f32[B, A, M, D], at: tw.i64[B]):
        return ops.append(cache, new, at) * 2.0

    @tw.kernel
    def one(cache: tw.inout(tw.f32[B, A, N, D]), new: tw.f32[B, A, 1, D], at: tw.i64[B]):
        return ops.append(cache, new, at) * 2.0

    cache, new, at = normal(2, 3, 9, 4), normal(2, 3, tokens, 4), np.array([0, 5])
    wanted = cache.copy()
    for b, start in enumerate(at):
        wanted[b, :, start : start + tokens] = new[b]
    kernel = one if tokens == 1 else step
    np.testing.assert_array_equal(kernel(cache, new, at), wanted * 2)
    np.testing.assert_array_equal(cache, wanted)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(interleaved):
    x, angle = normal(2, 3, 4, 6), normal(4, 3)
    pairs = x.reshape(2, 3, 4, 3, 2) if interleaved else np.stack([x[..., :3], x[..., 3:]], -1)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * np.float64(angle))
    both = (turned.real, turned.imag)
    wanted = np.stack(both, -1).reshape(x.shape) if interleaved else np.concatenate(both, -1)
    check(lambda x, c, s: ops.rotary(x, c, s, interleaved=interleaved), lambda *_: wanted,
          x, np.cos(angle), np.sin(angle))  # fmt: skip


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        (lambda x, y: ops.matmul(x, x), "shape"),
        (lambda x, y: ops.linear(x, y), "shape"),
        (lambda x, y: ops.value(x) + y, "shape"),
        (lambda x, y: ops.reshape(x, (M, N, 2)), "shape"),
        (lambda x, y: ops.reshape(x, (-1, -1)), "shape"),
        (lambda x, y: ops.reshape(x, (7, -1)), "shape"),
        (lambda x, y: ops.softmax(x, 2), "axis"),
        (lambda x, y: ops.softmax(x, True), "axis"),
        (lambda x, y: ops.sum(x, ()), "axis"),
        (lambda x, y: ops.transpose(x, (0, 0)), "axis"),
        (lambda x, y: ops.concat([x, y], 1), "shape"),
        (lambda x, y: ops.split(x, 3), "shape"),
        (lambda x, y: ops.split(x, [3, 4]), "shape"),
        (lambda x, y: ops.squeeze(x, 0), "shape"),
        (lambda x, y: ops.broadcast_to(x, (2, 3)), "shape"),
        (lambda x, y: ops.slice(x, (0, 1, 0)), "shape"),
        (lambda x, y: ops.conv2d(x, y), "shape"),
        (lambda x, y: ops.attention(x, y, y), "shape"),
        (lambda x, y: ops.einsum("ij", x), "einsum"),
        (lambda x, y: ops.einsum("ij,jk->ik", x, y), "einsum"),
        (lambda x, y: ops.einsum("ij->k", x), "einsum"),
        (lambda x, y: ops.append(x, y, 0), "operand"),
        (lambda x, y: ops.relu(tw.func("f")), "shape"),
        (lambda x, y: ops.value(x), "output"),
        (lambda x, y: ops.value(ops.relu(x)[1:2, 3]), "slice"),
        (lambda x, y: ops.value(ops.relu(x)[1]), "rank"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(graph, code):
    def refused(x: tw.f32[M, N], y: tw.f32[A, B, C, D]):
        return graph(x, y)

    with pytest.raises(DefinitionError) as e:
        tw.kernel(refused)
    assert e.value.code == f"definition.{code}"
    assert e.value.where and e.value.where[0].file == __file__
    assert e.value.hint


@pytest.mark.parametrize("what", [lambda v: bool(v), lambda v: len(v), lambda v: list(v), lambda v: v @ v])
def test_a_value_is_no_number(what):
    with pytest.raises(tw.SymbolicUseError):

        @tw.kernel
        def wrong(x: tw.f32[M, N]):
            return what(ops.relu(x))


def test_scopes_keep_layers_apart():
    @tw.kernel
    def two(x: tw.f32[M, 4], w: tw.f32[4, 4]):
        for layer in range(2):
            with tw.scope(f"layer{layer}"):
                x = ops.relu(ops.linear(x, w))
        return x

    assert [f.name for f in two.pipeline().funcs] == ["layer0_linear", "layer0_relu", "layer1_linear", "layer1_relu"]
    x, w = normal(3, 4), normal(4, 4)
    once = np.maximum(x @ w, 0)
    np.testing.assert_allclose(two(x, w), np.maximum(once @ w, 0), rtol=1e-5)
