"""Calls that stay native: whatever a kernel takes and gives, once it has been called in that way."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.codegen.compile import Compiled
from tilewright.codegen.runtime import layout
from tilewright.lang.errors import ArgumentError, TilewrightError

pytestmark = pytest.mark.skipif(not layout.usable(), reason="objects are laid out in another way here")

K, M, N = tw.sizes("K M N")
T = tw.dtype_var("T", tw.f32, tw.f64)


@tw.kernel
def scaled(x: tw.f32[M, N], a: tw.f32, *, shift: tw.i32):
    i, j = tw.vars("i j")
    o, p = tw.func("o"), tw.func("p")
    o[i, j] = x[i, j] * a
    p[i] = x[i, 0] + tw.cast(tw.f32, shift)
    return {"o": o[:M, :N], "p": [p[:M]]}


@tw.kernel
def flat(x: tw.f32[M * N], y: tw.f32[M], w: tw.f32[N + 2]):
    i, j = tw.vars("i j")
    o = tw.func("o")
    o[i, j] = x[i * N + j] + y[i] + w[j] + w[j + 2]
    return [o[: (M + 1) // 2, : tw.minimum(N, 5)]]


@tw.kernel
def head(x: tw.f32[N], n: tw.i64):
    i = tw.vars("i")
    o = tw.func("o")
    o[i] = x[i] * 2
    return o[:n]


@tw.kernel
def ramp(a: tw.f32):
    i = tw.vars("i")
    o = tw.func("o")
    o[i] = a * i
    return o[:N]


@tw.kernel
def scores(x: tw.f32[M, K], w: tw.f32[K, N], b: tw.f32[N]):
    i, j, k = *tw.vars("i j"), tw.rdom(k=K)
    c = tw.func("c")
    c[i, j] = b[j]
    c[i, j] += x[i, k] * w[k, j]
    return c[:M, :N]


@tw.kernel
def power(x: tw.inout(T[N]), a: T, *, degree=2):
    i = tw.vars("i")
    x[i] = a * x[i] ** degree


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of calls that Python checked."""
    calls: list[str] = []
    ready = Compiled._ready

    def counted(self: Compiled, *args: Any) -> Any:
        calls.append(self.pipeline.name)
        return ready(self, *args)

    monkeypatch.setattr(Compiled, "_ready", counted)
    return calls


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and all(map(same, a, b))
    return a.dtype == b.dtype and np.array_equal(a, b)


X, Y, W = data(4 * 7), data(4), data(9)
CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "keyword-only, a structure": (scaled, (data(3, 5), np.float32(2)), {"shift": np.int8(-3)}),
    "by name": (scaled, (), {"shift": 3, "a": 0.5, "x": data(3, 5)}),
    "numbers as arrays": (scaled, (data(3, 5), np.array(2, np.float64)), {"shift": np.array(9, np.uint64)}),
    "general extents": (flat, (X, Y, W), {}),
    "an extent that is a scalar": (head, (data(9), np.int32(4)), {}),
    "types and static values": (power, (np.ones(3), np.float64(0.1)), {"degree": 3}),
    "on one thread": (head, (data(9), 4), {"threads": 1}),
}


@pytest.mark.parametrize("kind", CALLS)
def test_these_calls_are_not_checked_in_python(checked: list[str], kind: str) -> None:
    kernel, args, kwargs = CALLS[kind]
    reference = kernel.reference(*map(_own, args), **{k: v for k, v in kwargs.items() if k != "threads"})
    kernel(*map(_own, args), **kwargs)
    checked.clear()
    made = kernel(*map(_own, args), **kwargs)
    assert checked == []
    if kernel is not power:
        assert same(made, reference)
        assert kernel(*args, **kwargs, out=made) is made and same(made, reference)
        assert checked == []


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def test_other_strides_are_native_from_the_second_call_on(checked: list[str]) -> None:
    fast = scores.compile()
    x, w, b = data(5, 12), data(6, 8, seed=1), data(16, seed=2)
    kinds = [(x[:, ::2], w, b[:8]), (x[:, :6], w, b[:8]), (x[:, ::2], w.T.copy().T, b[::2])]
    for args in kinds:
        assert np.allclose(fast(*args), args[0] @ args[1] + args[2], atol=1e-5)
    checked.clear()
    for args in (*kinds, *kinds):
        assert np.allclose(fast(*args), args[0] @ args[1] + args[2], atol=1e-5)
        assert np.allclose(fast(*args, threads=1), fast(*args))
    assert len(checked) == 2  # on one thread, the first and the third kind; the builtin of the first takes the second
    for _ in range(2):  # no builtin takes steps backwards, or wrong shapes
        assert np.allclose(fast(x[:, 5::-1], w, b[:8]), x[:, 5::-1] @ w + b[:8], atol=1e-5)
        with pytest.raises(ArgumentError) as caught:
            fast(x[:, ::2], w, b[:7])
        assert caught.value.code == "argument.size-mismatch"
    out = np.zeros((5, 16), np.float32)[:, ::2]
    for _ in range(2):
        assert fast(x[:, ::2], w, b[:8], out=out) is out


def panels() -> Any:
    s = scores.schedule()
    s.layout("w", "k j -> j//4 k j%4")
    return scores.compile(s)


def test_packed_inputs(checked: list[str]) -> None:
    fast, x, b = panels(), data(5, 6), data(7)
    for seed in (1, 2):
        w = data(6, 7, seed=seed)
        packed = fast.prepack("w", w)
        want = fast(x, w, b)
        assert same(fast(x, packed, b), want)
        checked.clear()
        out = np.zeros_like(want)
        assert same(fast(x, packed, b), want) and fast(x, packed, b, out=out) is out and same(out, want)
        assert same(fast(x, w=packed, b=b, threads=1), want) and same(fast(b=b, w=packed, x=x), want)
        assert checked == []
    for _ in range(2):
        for wrong in ((x[:, :5], packed, b), (x, packed, b[:6]), (x, packed, data(8)), (x, packed, packed)):
            with pytest.raises(ArgumentError) as caught:
                fast(*wrong)
            assert caught.value.where[0].file == __file__
        for threads in (0, True, "1"):
            with pytest.raises(ArgumentError) as caught:
                fast(x, packed, b, threads=threads)
            assert caught.value.code == "argument.threads"
    assert same(fast(x[::-1], packed, b), want[::-1]) and same(fast(x.copy(), packed, b, sizes={"N": 7}), want)


def test_handles_that_do_not_agree() -> None:
    """37 and 40 columns have panels of one shape."""

    @tw.kernel
    def two(v: tw.f32[K, N], w: tw.f32[K, N]):
        i, j = tw.vars("i j")
        c = tw.func("c")
        c[i, j] = v[i, j] + w[i, j]
        return c[:K, :N]

    s = two.schedule()
    s.layout("v", "k j -> j//8 k j%8")
    s.layout("w", "k j -> j//8 k j%8")
    fast = two.compile(s)
    a, b = data(3, 37), data(3, 40)
    v, v40, w, w37 = fast.prepack("v", a), fast.prepack("v", b), fast.prepack("w", b), fast.prepack("w", a)
    for _ in range(2):
        assert same(fast(v, w37), a + a) and same(fast(v40, w), b + b)
        with pytest.raises(ArgumentError) as caught:
            fast(v, w)
        assert caught.value.code == "argument.size-mismatch"


def test_a_handle_that_is_gone_is_no_longer_known() -> None:
    fast, x, b = panels(), data(5, 6), data(7)
    for seed in range(5):  # ids come again
        w = data(6, 7, seed=seed)
        packed = fast.prepack("w", w)
        alive = weakref.ref(packed.data)
        assert same(fast(x, packed, b), fast(x, w, b))
        del packed
        gc.collect()
        assert alive() is None and not fast.accepted


def test_sizes_by_name_and_by_outputs(checked: list[str]) -> None:
    fast = ramp.compile()
    want = np.arange(5, dtype=np.float32) * 2
    assert same(fast(2.0, sizes={"N": 5}), want)
    out = np.zeros(5, np.float32)
    checked.clear()
    assert same(fast(2.0, sizes={"N": 5}), want)
    assert fast(2.0, out=out) is out and same(out, want)
    assert checked == []
    wide = np.zeros((5, 2), np.float32)
    assert same(fast(2.0, out=wide[:, 1]), want) and not wide[:, 0].any()
    for wrong in (
        {},
        {"sizes": {"M": 5}},
        {"sizes": 5},
        {"sizes": {"N": -1}},
        {"sizes": {3: 3}},
        {"sizes": {"N": 4}, "out": out},
    ):
        with pytest.raises(ArgumentError):
            fast(2.0, **wrong)


NUMBERS = [np.dtype(c).type for c in "dfe?bhilqBHILQ"] + [ml_dtypes.bfloat16, int, float, bool]
PLACES: list[Callable[[Any], Any]] = [lambda v: v, np.asarray]
TYPES = [tw.f32, tw.f64, tw.f16, tw.bf16, tw.i8, tw.u16, tw.i64, tw.u64, tw.bool_]
KERNELS: dict[Any, Any] = {}


def keeping(t: Any) -> Any:
    if t not in KERNELS:

        @tw.kernel
        def keep(a: t):
            o = tw.func("o")
            o[tw.vars("i")] = a
            return o[:1]

        KERNELS[t] = keep.compile()
    return KERNELS[t]


@given(st.sampled_from(TYPES), st.sampled_from(NUMBERS), st.sampled_from(PLACES), st.data())
@settings(max_examples=150, deadline=None)
def test_every_number_is_what_the_checks_in_python_make_of_it(t: Any, kind: Any, place: Any, data: Any) -> None:
    numbers = st.one_of(
        st.integers(-300, 300), st.integers(-(2**63), 2**64 - 1), st.floats(),
        st.sampled_from([0.5, 1e39, 65519.9, 65520.0, 3.4e38, 1e-7, float("inf"), -0.0]),
    )  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            value = kind(data.draw(numbers))
    except (OverflowError, ValueError):
        return
    value, fast, got = place(value), keeping(t), []
    for call in (fast, lambda v: fast._checked(tw.codegen.runtime.context(), v)):
        try:
            got.append(call(value).tobytes())
        except TilewrightError as e:
            got.append((type(e), e.code, e.message))
    assert got[0] == got[1]
