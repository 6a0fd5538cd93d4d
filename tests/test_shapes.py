"""Arrays of every shape and layout, against the reference path: natively with the default schedule and with one by
hand that has vectors and threads. Values are small integers, so that sums in any order have the same bits."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import tilewright as tw
from tests.kernels import same

K, L, M, N = tw.sizes("K L M N")
i, j = tw.vars("i j")


# Kernels, each with a schedule by hand ------------------------------------------------------------------------------


@tw.kernel
def scaled(A: tw.f32[M, N], alpha: tw.f32):
    f = tw.func("f")
    f[i, j] = A[i, j] * alpha + 1
    return f[:M, :N]


@tw.kernel
def smoothed(A: tw.i32[M, N]):
    """A stencil that reads beyond the edges."""
    a = tw.repeat_edge(A)
    f = tw.func("f")
    f[i, j] = a[i - 1, j] + 2 * a[i, j] + a[i, j + 1]
    return f[:M, :N]


@tw.kernel
def row_sums(A: tw.f32[M, N]):
    r = tw.rdom(r=N)
    s = tw.func("s")
    s[i] = 0.0
    s[i] += A[i, r]
    return s[:M]


@tw.kernel
def summed(A: tw.f32[M, N]):
    """An output of rank 0."""
    r = tw.rdom(y=M, x=N)
    s = tw.func("s")
    s[()] = 0.0
    s[()] += A[r.y, r.x]
    return s[()]


@tw.kernel
def turned(A: tw.u8[M, N]):
    f, g = tw.func("f"), tw.func("g")
    f[i, j] = A[j, i] + 1
    g[i, j] = f[i, j] * 2
    return {"f": f[:N, :M], "rest": (g[:N, :M], g[: N // 2, 1:M])}


def by_hand(k: tw.Kernel) -> Any:
    s = k.schedule()
    if k is scaled:
        s["f"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4).unroll("ii").vectorize("ji").parallel("io")
    elif k is smoothed:
        s["f"].split("i", "io", "ii", 2, tail="shift").split("j", "jo", "ji", 4).vectorize("ji").parallel("io")
    elif k is row_sums:
        s["s.update"].split("r", "ro", "ri", 4).parallel("i").vectorize("ri")
    elif k is summed:
        s["s.update"].parallel("y")
        s["s_y.update[0]"].split("x", "xo", "xi", 4).vectorize("xi")
    else:
        s["g"].split("j", "jo", "ji", 4).vectorize("ji").parallel("i")
        s["f"].split("i", "io", "ii", 2).reorder("io", "j", "ii").vectorize("ii").parallel("io")
    return s


KERNELS = [scaled, smoothed, row_sums, summed, turned]
NAMES = [k.__name__ for k in KERNELS]
DTYPES = {scaled: "f4", smoothed: "i4", row_sums: "f4", summed: "f4", turned: "u1"}
FAST = {}


def fast(k: tw.Kernel) -> list[Callable]:
    """The kernel compiled with both schedules, once."""
    if k not in FAST:
        FAST[k] = [k.compile(), k.compile(by_hand(k))]
    return FAST[k]


def arguments(k: tw.Kernel, a: Any) -> tuple:
    return (a, 3.0) if k is scaled else (a,)


def leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, dict):
        return [x for v in result.values() for x in leaves(v)]
    return [x for v in result for x in leaves(v)] if isinstance(result, tuple) else [result]


def agree(k: tw.Kernel, a: Any, out: Callable[[], Any] | None = None) -> None:
    """Both native forms give what the reference gives, and leave the input as it was."""
    before = np.array(a)
    want = leaves(k.reference(*arguments(k, a)))
    for run in fast(k):
        if out is None:
            got = run(*arguments(k, a))
        else:
            given = out()
            got = run(*arguments(k, a), out=given)
            assert got is given
        for x, y in zip(leaves(got), want, strict=True):
            assert same(x, y)
        assert same(np.array(a), before)


# Layouts --------------------------------------------------------------------------------------------------------


def filled(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.int64) * 7 % 23).astype(dtype).reshape(shape)


def padded(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    whole = np.zeros(tuple(n + 5 for n in shape), dtype)
    whole[...] = 99
    view = whole[tuple(slice(2, 2 + n) for n in shape)]
    view[...] = filled(shape, dtype)
    return view


def stepped(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    view = np.zeros(tuple(2 * n for n in shape), dtype)[tuple(slice(None, None, 2) for _ in shape)]
    view[...] = filled(shape, dtype)
    return view


def backwards(*axes: int) -> Callable:
    def make(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        flipped = tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(len(shape)))
        view = np.zeros(shape, dtype)[flipped]
        view[...] = filled(shape, dtype)
        return view

    return make


def fortran(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.asfortranarray(filled(shape, dtype))


def backwards_columns(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.ascontiguousarray(filled(shape, dtype)[::-1, ::-1].T)[::-1, ::-1].T


def along(axis: int) -> Callable:
    """Broadcast: all elements along an axis lie in one place."""

    def make(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        thin = tuple(1 if k == axis else n for k, n in enumerate(shape))
        return np.broadcast_to(filled(thin, dtype), shape)

    return make


def read_only(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    made = filled(shape, dtype)
    made.flags.writeable = False
    return made


def odd_strides(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Where an axis has at most one element, its stride means nothing."""
    made = filled(shape, dtype)
    strange = tuple(s if n > 1 else 7777 * made.itemsize for s, n in zip(made.strides, shape, strict=True))
    return as_strided(made, shape, strange)


WRITABLE = {
    "contiguous": filled, "fortran": fortran, "padded": padded, "stepped": stepped, "backwards": backwards(0, 1),
    "rows backwards": backwards(0), "columns backwards": backwards(1), "both turned": backwards_columns,
    "odd strides": odd_strides,
}  # fmt: skip
LAYOUTS = WRITABLE | {
    "read-only": read_only, "one row": along(0), "one column": along(1),
    "one element": lambda shape, dtype: np.broadcast_to(filled((), dtype), shape),
}  # fmt: skip
SHAPES = [(0, 0), (0, 5), (3, 0), (1, 1), (1, 9), (9, 1), (2, 3), (5, 17), (4, 8)]


def test_the_layouts_hold_the_same():
    for shape in SHAPES:
        for name, make in WRITABLE.items():
            a = make(shape, "i4")
            assert a.shape == shape and a.flags.writeable and same(a, filled(shape, "i4")), name


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs(kernel, layout):
    for shape in SHAPES:
        if kernel is not turned or shape[0]:  # its second output starts at 1
            agree(kernel, LAYOUTS[layout](shape, DTYPES[kernel]))


@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("kernel", [scaled, row_sums], ids=["scaled", "row_sums"])
def test_outputs(kernel, layout):
    """Nothing but the elements of `out=` is written."""
    for shape in SHAPES:
        rank = 2 if kernel is scaled else 1
        a = filled(shape, "f4")
        made: list[np.ndarray] = []

        def out(shape: tuple[int, ...] = shape[:rank], made: list[np.ndarray] = made) -> np.ndarray:
            made.append(WRITABLE[layout](shape, "f4") if len(shape) == 2 else WRITABLE[layout]((*shape, 3), "f4")[:, 1])
            return made[-1]

        agree(kernel, a, out)
        for x in made:
            if layout == "padded" and rank == 2 and x.base is not None:
                around = np.ones(x.base.shape, bool)
                around[2 : 2 + shape[0], 2 : 2 + shape[1]] = False
                assert (x.base[around] == 99).all()


@given(
    st.sampled_from(KERNELS), st.integers(1, 20), st.integers(1, 40), st.integers(-3, 3), st.integers(-3, 3),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=60)
def test_any_steps(kernel, m, n, down, across, swapped):
    """Views with any steps, broadcast axes included."""
    reach = (abs(down) * (m - 1) + 1, abs(across) * (n - 1) + 1)
    whole = filled(reach[::-1] if swapped else reach, DTYPES[kernel])
    whole = whole.T if swapped else whole
    steps = tuple(s * k for s, k in zip(whole.strides, (down, across), strict=True))
    first = whole[-1 if down < 0 else 0 :, -1 if across < 0 else 0 :]
    agree(kernel, as_strided(first, (m, n), steps))


def test_empty_edges_are_refused():
    """What lies beyond the edges of nothing has no value."""

    @tw.kernel
    def k(A: tw.f32[N]):
        a = tw.repeat_edge(A)
        f = tw.func("f")
        f[i] = a[i]
        return f[:3]

    for run in (k.reference, k):
        with pytest.raises(tw.BoundsError, match="there are no elements"):
            run(np.zeros(0, np.float32))


# Ranks and sizes ------------------------------------------------------------------------------------------------


def test_rank_0():
    @tw.kernel
    def k(x: tw.f64[()], y: tw.i32[()]):
        f = tw.func("f")
        f[()] = x[()] * y[()]
        return f[()]

    for x in (np.array(2.5), np.broadcast_to(np.array(2.5), ()), np.arange(3.0)[2:].reshape(())):
        for run in (k.reference, k, k.compile()):
            got = run(x, np.array(3, np.int32))
            assert got.shape == () and got.dtype == np.float64 and got[()] == x[()] * 3
    out = np.zeros((4,))
    assert k(np.array(2.5), np.array(2, np.int32), out=out[1:2].reshape(())) is not None
    assert out.tolist() == [0, 5, 0, 0]


def test_zero_size_on_every_axis():
    @tw.kernel
    def k(A: tw.f32[K, L, M]):
        f, s = tw.func("f"), tw.func("s")
        x, y, z = tw.vars("x y z")
        r = tw.rdom(r=L)
        f[x, y, z] = A[x, y, z] + 1
        s[x, z] = 2.0
        s[x, z] += A[x, r, z]
        return f[:K, :L, :M], s[:K, :M]

    s = k.schedule()
    s["f"].split("z", "zo", "zi", 4).vectorize("zi").parallel("x")
    s["s.update"].split("r", "ro", "ri", 4).vectorize("ri").parallel("x")
    runs = [k.compile(), k.compile(s)]
    for shape in [(0, 3, 5), (3, 0, 5), (3, 5, 0), (0, 0, 0), (0, 0, 2), (3, 1, 1)]:
        a = filled(shape, "f4")
        want = k.reference(a)
        assert [x.shape for x in want] == [shape, (shape[0], shape[2])]
        for run in runs:
            assert all(map(same, run(a), want))
            assert all(map(same, run(a.transpose(2, 1, 0).copy().transpose(2, 1, 0)), want))


def test_all_of_no_size():
    a = np.zeros((0, 4), np.float32)
    for run in (scaled.reference, *fast(scaled)):
        assert run(a, 1.0).shape == (0, 4)
    assert row_sums(np.zeros((3, 0), np.float32)).tolist() == [0, 0, 0]
    assert summed(np.zeros((3, 0), np.float32)) == 0


@pytest.mark.parametrize("t", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_integer_scalars_at_their_extremes(t):
    element = getattr(tw, t)

    def k(A: element[N], x: element):  # type: ignore[valid-type]
        f = tw.func("f")
        f[i] = A[i] + x
        return f[:N]

    k.__annotations__ = {"A": element[N], "x": element}
    k = tw.kernel(k)
    a = np.arange(5).astype(element.np)
    info = np.iinfo(element.np)
    for x in (int(info.min), int(info.max), element.np.type(info.max), 0, True and 1):
        want = a + element.np.type(x)
        assert all(same(run(a, x), want) for run in (k.reference, k))
    for x in (int(info.min) - 1, int(info.max) + 1):
        for run in (k.reference, k):
            with pytest.raises(tw.ArgumentError) as e:
                run(a, x)
            assert e.value.code == "argument.scalar-range"


# Objects of other kinds -------------------------------------------------------------------------------------------


class WithInterface:
    """The array-interface protocol and nothing else."""

    def __init__(self, a: np.ndarray):
        self.a, self.__array_interface__ = a, a.__array_interface__


@pytest.mark.parametrize(
    "wrap", [WithInterface, memoryview, lambda a: a.view(np.recarray)],
    ids=["interface", "memoryview", "subclass"],
)  # fmt: skip
def test_other_arrays(wrap):
    for a in (filled((3, 9), "f4"), padded((3, 9), "f4"), backwards(0)((3, 9), "f4"), filled((0, 4), "f4")):
        want = scaled.reference(a, 3.0)
        for run in (scaled.reference, *fast(scaled)):
            assert same(np.asarray(run(wrap(a), 3.0)), want)


def test_dlpack():
    torch = pytest.importorskip("torch")
    for t in (torch.arange(27.0).reshape(3, 9), torch.arange(27.0).reshape(9, 3).T, torch.ones(1, 9).expand(3, 9)):
        want = scaled.reference(t.numpy(), 3.0)
        for run in (scaled.reference, *fast(scaled)):
            assert same(run(t, 3.0), want)


def test_the_standard_library():
    @tw.kernel
    def k(A: tw.f64[N]):
        f = tw.func("f")
        f[i] = A[i] * 2
        return f[:N]

    for run in (k.reference, k):
        assert run(array.array("d", [1, 2, 3])).tolist() == [2, 4, 6]
    b = bytearray(range(6))

    @tw.kernel
    def grow(X: tw.inout(tw.u8[N])):
        X[i] += 1

    for run in (grow, grow.reference):
        run(b)
    assert list(b) == [2, 3, 4, 5, 6, 7]


# Several outputs ------------------------------------------------------------------------------------------------


def test_structures_of_outputs():
    a = filled((4, 9), "u1")
    want = turned.reference(a)
    for run in fast(turned):
        got = run(a)
        assert list(got) == ["f", "rest"] and type(got["rest"]) is tuple
        out = {"f": stepped((9, 4), "u1"), "rest": (fortran((9, 4), "u1"), padded((4, 3), "u1"))}
        assert run(a, out=out) is out
        for x, y, z in zip(leaves(got), leaves(out), leaves(want), strict=True):
            assert same(x, z) and same(y, z)


# Aliasing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", WRITABLE)
def test_in_place(layout):
    for shape in SHAPES:
        want = scaled.reference(filled(shape, "f4"), 3.0)
        for run in fast(scaled):
            a = WRITABLE[layout](shape, "f4")
            assert run(a, 3.0, out=a) is a and same(a, want)


@st.composite
def two_views(draw):
    """Two rows of windows into one array: (start, step) of each."""
    n = draw(st.integers(1, 8))
    return n, *(draw(st.tuples(st.integers(0, 10), st.sampled_from([1, 2, -1]))) for _ in range(2))


@given(two_views())
def test_overlapping_views(case):
    """An output that shares memory with its input gives the right result, or is refused and nothing is written."""
    n, *windows = case
    for run in fast(scaled):
        memory = filled((40,), "f4")
        before = memory.copy()
        a, out = (memory[8 + start :][:: step if step > 0 else 1][:n] for start, step in windows)
        if windows[0][1] < 0:
            a = a[::-1]
        want = scaled.reference(a[None].copy(), 3.0)
        try:
            run(a[None], 3.0, out=out[None])
        except tw.ArgumentError as e:
            assert e.code == "argument.alias" and np.shares_memory(a, out) and same(memory, before)
            continue
        assert same(out[None], want)
        if np.shares_memory(a, out):
            assert a.ctypes.data == out.ctypes.data and (n == 1 or a.strides == out.strides)


def test_a_stencil_is_not_computed_in_place():
    for run in fast(smoothed):
        for view in (lambda a: a, lambda a: a[1:], lambda a: a[:, :-1]):
            a = filled((5, 9), "i4")
            before, part = a.copy(), view(a)
            with pytest.raises(tw.ArgumentError, match="shares memory"):
                run(part, out=part)
            assert same(a, before)
            apart = np.zeros((5, 18), np.int32)
            apart[:, ::2] = a
            assert same(run(apart[:, ::2], out=apart[:, 1::2]), smoothed.reference(a))


# Large ----------------------------------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.parametrize("hand", [False, True])
def test_more_than_two_to_the_31(hand):
    """Offsets beyond 32 bits: 2^31 + 11 elements of u8 in and out, and a sum over all of them."""

    @tw.kernel
    def flip(A: tw.u8[N]):
        f = tw.func("f")
        f[i] = A[i] ^ 255
        return f[:N]

    @tw.kernel
    def count(A: tw.u8[N]):
        r = tw.rdom(r=N)
        s = tw.func("s", tw.i64)
        s[()] = 0
        s[()] += tw.cast(tw.i64, A[r])
        return s[()]

    def schedule(k: tw.Kernel, stage: str, loop: str, inner: str):
        s = k.schedule()
        s[stage].split(loop, "a", "b", 1 << 16).parallel("a")
        s[inner].vectorize("b", 16)
        return s

    n = 2**31 + 11
    a = np.arange(n, dtype=np.uint8)
    run = flip.compile(schedule(flip, "f", "i", "f")) if hand else flip
    total = count.compile(schedule(count, "s.update", "r", "s_a.update[0]")) if hand else count
    got = run(a)
    for part in range(0, n, 1 << 28):
        assert (got[part : part + (1 << 28)] == ~a[part : part + (1 << 28)]).all()
    whole, rest = divmod(n, 256)
    assert total(a) == whole * (255 * 256 // 2) + rest * (rest - 1) // 2
    view = a[::-1]
    assert run(view, out=view) is view
    for ends in (slice(100), slice(n - 100, n)):
        assert (a[ends] == ~np.arange(*ends.indices(n)).astype(np.uint8)).all()
