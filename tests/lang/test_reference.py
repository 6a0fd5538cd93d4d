"""The reference path against NumPy and plain loops."""

from math import fsum

import ml_dtypes
import numpy as np
import pytest

from tests.kernels import call, pipeline, same
from tilewright.lang import boundary, reduce
from tilewright.lang.binding import bind
from tilewright.lang.expr import cast, clamp, maximum, select
from tilewright.lang.func import func
from tilewright.lang.reference import run
from tilewright.lang.symbols import rdom, sizes, vars
from tilewright.lang.tensors import const
from tilewright.lang.trace import inout
from tilewright.lang.types import bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u64

M, N, K, L = sizes("M N K L")
i, j = vars("i j")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def matmul(A: f32[M, K], B: f32[K, N]):
    k, C = rdom(k=K), func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@pytest.mark.parametrize("m, n, k", [(7, 9, 5), (1, 1, 1), (70, 60, 30), (3, 0, 4), (0, 2, 2), (2, 3, 0)])
def test_matmul_adds_in_order(m, n, k):
    a, b = rng().random((m, k), "f4"), rng(1).random((k, n), "f4")
    want = np.zeros((m, n), "f4")
    for q in range(k):
        want += a[:, q, None] * b[q]
    assert same(call(matmul, a, b), want)


def test_inputs_of_any_strides():
    a, b = rng().random((12, 5), "f4"), rng(1).random((8, 5), "f4")
    want = call(matmul, np.ascontiguousarray(a[::-2]), np.ascontiguousarray(b.T))
    assert same(call(matmul, a[::-2], b.T), want)
    ones = np.broadcast_to(np.float32(1), (5, 3))
    assert same(call(matmul, a, ones), call(matmul, a, np.ones((5, 3), "f4")))


@pytest.mark.parametrize("n", [0, 1, 5, 3000, 300_000])
def test_a_sum_runs_from_first_to_last(n):
    def total(A: f32[N]):
        r, s = rdom(r=N), func("s")
        s[()] = 0.0
        s[()] += A[r]
        return s[()]

    a = rng().standard_normal(n).astype("f4")
    got = call(total, a)
    want = np.float32(0)
    for x in a:
        want += x
    assert got.shape == () and same(got, want)
    assert abs(float(got) - fsum(a)) < 1


def test_a_product_and_differences_run_in_order():
    def both(A: f32[N, M]):
        r, s, p = rdom(r=N), func("s"), func("p")
        s[j] = 1.0
        s[j] -= A[r, j]
        p[j] = 1.0
        p[j] *= A[r, j]
        return s[:M], p[:M]

    a = rng().standard_normal((50, 3)).astype("f4")
    s, p = call(both, a)
    want_s, want_p = np.ones(3, "f4"), np.ones(3, "f4")
    for row in a:
        want_s -= row
        want_p *= row
    assert same(s, want_s) and same(p, want_p)


def test_histogram():
    def histogram(A: u8[M, N]):
        r, h = rdom(y=M, x=N), func("h", i32)
        h[i] = 0
        h[A[r.y, r.x]] += 1
        return h[:256]

    a = rng().integers(0, 256, (50, 41)).astype("u1")
    assert same(call(histogram, a), np.bincount(a.ravel(), minlength=256).astype("i4"))


def test_weighted_scatter_keeps_the_order():
    def scatter(at: u8[N], w: f32[N, M]):
        r, h = rdom(r=N), func("h")
        h[i, j] = 0.0
        h[at[r], j] += w[r, j]
        return h[:4, :M]

    at, w = rng().integers(0, 4, 100).astype("u1"), rng(1).standard_normal((100, 3)).astype("f4")
    want = np.zeros((4, 3), "f4")
    for r in range(100):
        want[at[r]] += w[r]
    assert same(call(scatter, at, w), want)


def test_the_last_of_several_writes_stays():
    def last(at: u8[N], w: i32[N, M]):
        r, h = rdom(r=N), func("h", i32)
        h[i, j] = -1
        h[at[r], j] = w[r, j]
        return h[:9, :M]

    at, w = rng().integers(0, 9, 50).astype("u1"), rng(1).integers(0, 99, (50, 2)).astype("i4")
    want = np.full((9, 2), -1, "i4")
    for r in range(50):
        want[at[r]] = w[r]
    assert same(call(last, at, w), want)


def test_scan():
    def scan(A: f32[N]):
        r, s = rdom(r=(1, N)), func("s")
        s[i] = A[clamp(i, 0, N - 1)]
        s[r] = s[r - 1] + A[r]
        return s[:N]

    a = rng().standard_normal(1000).astype("f4")
    assert same(call(scan, a), np.add.accumulate(a))
    assert call(scan, a[:1]).tolist() == a[:1].tolist()


def test_a_recursion_over_two_axes_is_independent_along_neither():
    def paths(A: i64[N, N]):
        r, s = rdom(y=(1, N), x=(1, N)), func("s", i64)
        s[i, j] = select((i < 1) | (j < 1), 1, 0)
        s[r.y, r.x] = s[r.y - 1, r.x] + s[r.y, r.x - 1] + A[r.y, r.x]
        return s[:N, :N]

    a = rng().integers(-5, 5, (9, 9))
    want = np.where((np.arange(9)[:, None] < 1) | (np.arange(9) < 1), 1, 0)
    for y in range(1, 9):
        for x in range(1, 9):
            want[y, x] = want[y - 1, x] + want[y, x - 1] + a[y, x]
    assert same(call(paths, a), want)


def test_a_recursion_along_one_axis_is_vectorised_over_the_other():
    def rows(A: f32[M, N]):
        r, s = rdom(y=M, x=(1, N)), func("s")
        s[i, j] = A[clamp(i, 0, M - 1), clamp(j, 0, N - 1)]
        s[r.y, r.x] = 0.5 * s[r.y, r.x - 1] + A[r.y, r.x]
        return s[:M, :N]

    a = rng().standard_normal((30, 20)).astype("f4")
    want = a.copy()
    for x in range(1, 20):
        want[:, x] = np.float32(0.5) * want[:, x - 1] + a[:, x]
    assert same(call(rows, a), want)


@pytest.mark.parametrize("lanes", [1, 3])
def test_recursions_that_jump_by_data(lanes):
    """Indices that depend on the Func's own values, on both sides."""

    def walk(A: i64[N]):
        r, s, c = rdom(r=(1, N)), func("s"), func("c")
        s[i, j] = cast(i64, 0)
        s[r, j] = A[clamp(s[r - 1, j] + j, 0, N - 1)]
        c[i] = cast(i64, 0)
        c[clamp(c[r - 1] + 1, 0, N - 1)] = A[clamp(c[r], 0, N - 1)]
        return s[:N, :lanes], c[:N]

    a = rng().integers(0, 40, 40)
    s, c = call(walk, a)
    want_s, want_c = np.zeros((40, lanes), "i8"), np.zeros(40, "i8")
    for r in range(1, 40):
        for lane in range(lanes):
            want_s[r, lane] = a[min(want_s[r - 1, lane] + lane, 39)]
        want_c[min(want_c[r - 1] + 1, 39)] = a[want_c[r]]
    assert same(s, want_s) and same(c, want_c)


def test_a_reversed_left_side():
    def reverse(A: f32[N]):
        r, s = rdom(r=N), func("s")
        s[i] = 1.0
        s[N - 1 - r] += A[r]
        return s[:N]

    a = rng().random(20, "f4")
    assert same(call(reverse, a), np.float32(1) + a[::-1])


@pytest.mark.parametrize("dtype, element", [("f4", f32), ("i4", i32), ("u1", u8)])
def test_argmax_and_argmin(dtype, element):
    def both(A: element[M, N]):
        r = rdom(r=N)
        a, b = func("a"), func("b")
        a[i] = reduce.argmax(A[i, r])
        b[i] = reduce.argmin(A[i, r])
        return a[:M], b[:M]

    a = rng().integers(0, 4, (40, 9)).astype(dtype)
    if dtype == "f4":
        a[3, 5] = a[4, 0] = a[4, 7] = np.nan
        a[5] = -np.inf
        a[6] = np.inf
    big, small = call(both, a)
    assert same(big, a.argmax(1)) and same(small, a.argmin(1))


def test_empty_reductions_give_the_initial_value():
    def all_of_them(A: f32[M, N]):
        r = rdom(r=N)
        x, y, z = func("x"), func("y"), func("z")
        x[i] = reduce.max_(A[i, r])
        y[i] = reduce.argmax(A[i, r])
        z[i] = reduce.sum_(A[i, r])
        return x[:M], y[:M], z[:M]

    x, y, z = call(all_of_them, np.zeros((3, 0), "f4"))
    assert x.tolist() == [-np.inf] * 3 and y.tolist() == [-1] * 3 and z.tolist() == [0.0] * 3


def test_maximum_keeps_nan_and_the_later_zero():
    def largest(A: f32[N]):
        m = func("m")
        m[()] = reduce.max_(A[rdom(r=N)])
        return m[()]

    assert same(call(largest, np.array([0.0, -0.0], "f4")), np.float32(-0.0))
    assert same(call(largest, np.array([-0.0, 0.0, -1.0], "f4")), np.float32(0.0))
    assert np.isnan(call(largest, np.array([1, np.nan, 2], "f4")))
    a = rng().standard_normal(5000).astype("f4")
    assert same(call(largest, a), a.max())


def test_mandelbrot_in_tuples():
    def mandel(S: f64[N]):
        r, z = rdom(r=20), func("z", (f64, f64, i64))
        z[i, j] = (0.0, 0.0, 0)
        x, y, n = z[i, j]
        inside = (x * x + y * y < 4.0) & (r >= 0)  # names the domain
        z[i, j] = (
            select(inside, x * x - y * y + S[clamp(j, 0, N - 1)], x),
            select(inside, 2.0 * x * y + S[clamp(i, 0, N - 1)], y),
            n + cast(i64, inside),
        )
        return z[:N, :N]

    s = np.linspace(-2, 1, 13)
    x, y, n = call(mandel, s)
    for a in range(13):
        for b in range(13):
            u = v = 0.0
            count = 0
            for _ in range(20):
                if u * u + v * v < 4.0:
                    u, v = u * u - v * v + s[b], 2.0 * u * v + s[a]
                    count += 1
            assert (x[a, b], y[a, b], n[a, b]) == (u, v, count)


def test_tuple_updates_read_before_they_write():
    def swap(A: f32[N]):
        r, s = rdom(r=3), func("s", (f32, f32))
        s[i] = (A[i], A[i] + 1.0)
        x, y = s[i]
        s[i] = (select(r >= 0, y, x), x)
        return s[:N]

    a = rng().random(5, "f4")
    x, y = call(swap, a)
    assert same(x, a + np.float32(1)) and same(y, a)


@pytest.mark.parametrize("over", ["all at once", "reduction variable", "scatter"])
def test_components_that_only_change_places(over):
    """Each new value is a load alone, so the reference has a view of what the other component overwrites."""

    def swap(A: f32[M, N]):
        r, s = rdom(r=M), func("s")
        s[i, j] = (A[i, j], A[i, j] + 1.0)
        at = {"all at once": i, "reduction variable": r, "scatter": clamp(r * r, 0, M - 1)}[over]
        s[at, j] = (s[at, j][1], s[at, j][0])
        return s[:M, :N]

    a = rng().random((4, 5), "f4")
    swapped = [True, True, False, False] if over == "scatter" else [True] * 4  # rows 0, 1, 3, 3
    want = np.where(np.array(swapped)[:, None], [a + np.float32(1), a], [a, a + np.float32(1)])
    x, y = call(swap, a)
    assert same(x, want[0]) and same(y, want[1])


def test_predicates_leave_points_out():
    def triangle(A: f32[N, N]):
        k, s = rdom(k=N), func("s")
        k = k.where(k <= i)
        s[i] = 0.0
        s[i] += A[i, k]
        return s[:N]

    a = rng().standard_normal((20, 20)).astype("f4")
    want = np.zeros(20, "f4")
    for y in range(20):
        for x in range(y + 1):
            want[y] += a[y, x]
    assert same(call(triangle, a), want)


def test_a_circle_predicate_and_negative_zero():
    def circle(A: f32[M, N]):
        r, s = rdom(y=(-2, 3), x=(-2, 3)), func("s")
        r.where(r.y * r.y + r.x * r.x <= 4)
        s[i, j] = -0.0
        s[i, j] += A[i + r.y, j + r.x]
        return s[2 : M - 2, 2 : N - 2]

    a = np.full((9, 8), -0.0, "f4")
    a[4, 4] = 3
    want = np.full((5, 4), -0.0, "f4")
    for y in range(5):
        for x in range(4):
            for q in range(-2, 3):
                for p in range(-2, 3):
                    if q * q + p * p <= 4:
                        want[y, x] += a[y + 2 + q, x + 2 + p]
    assert same(call(circle, a), want)


def test_a_predicate_that_reads_data():
    def ragged(A: f32[M, K], length: i32[M]):
        k, s = rdom(k=K), func("s")
        k = k.where(k < length[i])
        s[i] = 0.0
        s[i] += A[i, k]
        return s[:M]

    a, n = rng().standard_normal((8, 6)).astype("f4"), np.array([0, 6, 3, -1, 9, 1, 2, 5], "i4")
    want = np.zeros(8, "f4")
    for y in range(8):
        for x in range(max(0, min(6, n[y]))):
            want[y] += a[y, x]
    assert same(call(ragged, a, n), want)


def test_predicates_of_scatters_and_recursions():
    def odd(at: u8[N], w: f32[N]):
        r, h, s = rdom(r=N), func("h"), func("s")
        q = rdom(q=(1, N))
        r = r.where(at[r] % 2 == 1)
        q = q.where(w[q] > 0.0)
        h[i] = 0.0
        h[at[r]] += w[r]
        s[i] = 1.0
        s[q] = s[q - 1] + w[q]
        return h[:8], s[:N]

    at, w = rng().integers(0, 8, 60).astype("u1"), rng(1).standard_normal(60).astype("f4")
    h, s = call(odd, at, w)
    want_h, want_s = np.zeros(8, "f4"), np.ones(60, "f4")
    for r in range(60):
        if at[r] % 2 == 1:
            want_h[at[r]] += w[r]
        if r and w[r] > 0:
            want_s[r] = want_s[r - 1] + w[r]
    assert same(h, want_h) and same(s, want_s)


def test_gauss_seidel_in_place():
    def seidel(x: inout(f64[N])):
        t, r = rdom(t=3, q=(1, N - 1)), None
        x[t.q] = (x[t.q - 1] + x[t.q + 1]) * 0.5
        del r
        return x[1 : N - 1]

    a = rng().random(9)
    want = a.copy()
    for _ in range(3):
        for q in range(1, 8):
            want[q] = (want[q - 1] + want[q + 1]) * 0.5
    base = np.zeros(18)
    base[::2] = a
    inner = call(seidel, base[::2])
    assert same(base[::2], want) and same(inner, want[1:-1]) and (base[1::2] == 0).all()


def test_inout_without_a_result():
    def accumulate(x: inout(f32[M, N]), y: f32[M, N]):
        x[i, j] += y[i, j]

    x, y = rng().random((3, 4), "f4"), rng(1).random((3, 4), "f4")
    want = x + y
    assert call(accumulate, x, y) is None
    assert same(x, want)


@pytest.mark.parametrize(
    "make, mode",
    [
        (boundary.repeat_edge, "edge"),
        (boundary.wrap_around, "wrap"),
        (boundary.reflect, "symmetric"),
        (boundary.reflect_interior, "reflect"),
        (lambda t: boundary.constant_exterior(t, 7), "constant"),
    ],
)
@pytest.mark.parametrize("shape, pad", [((5, 7), 3), ((3, 4), 11), ((1, 2), 3)])
def test_boundary_conditions_are_numpys_pad(make, mode, shape, pad):
    def padded(A: i32[M, N]):
        f = func("f")
        f[i, j] = make(A)[i, j]
        return f[-pad : M + pad, -pad : N + pad]

    a = rng().integers(0, 99, shape).astype("i4")
    more = {"constant_values": 7} if mode == "constant" else {}
    assert same(call(padded, a), np.pad(a, pad, mode=mode, **more))


def test_rank_0():
    def scaled(x: f32[()], alpha: f32):
        f = func("f")
        f[()] = x[()] * alpha
        return f[()]

    got = call(scaled, np.array(3, "f4"), 2)
    assert got.shape == () and got.dtype == np.float32 and got == 6


def test_shifted_outputs_start_at_their_start():
    def ramp():
        f = func("f")
        f[i, j] = cast(i64, 10 * i + j)
        return f[-3:N, 5:7]

    got = call(ramp, sizes={"N": 1})
    assert got.tolist() == [[10 * y + x for x in (5, 6)] for y in range(-3, 1)]


def test_structures_are_kept():
    def several(A: i32[N]):
        f = func("f")
        f[i] = A[i] + 1
        return {"a": f[:N], "b": [f[1:N], (f[:0],)]}

    a = np.arange(4, dtype="i4")
    got = call(several, a)
    assert got["a"].tolist() == [1, 2, 3, 4]
    assert got["b"][0].tolist() == [2, 3, 4] and got["b"][1][0].shape == (0,)


def test_storage_types_round_at_every_step():
    def sums(A: bf16[N], B: f16[N]):
        r = rdom(r=N)
        s, t, d = func("s", bf16), func("t", f16), func("d", bf16)
        s[()] = 0.0
        s[()] += A[r]
        t[()] = 0.0
        t[()] += B[r]
        d[i] = A[i] * 1.1
        return s[()], t[()], d[:N]

    a = rng().random(200).astype(ml_dtypes.bfloat16)
    b = rng(1).random(200).astype("f2")
    s, t, d = call(sums, a, b)
    want_s, want_t = ml_dtypes.bfloat16(0), np.float16(0)
    for x, y in zip(a, b, strict=True):
        want_s = ml_dtypes.bfloat16(np.float32(want_s) + np.float32(x))
        want_t = np.float16(np.float32(want_t) + np.float32(y))
    assert same(s, want_s) and same(t, want_t)
    assert same(d, (a.astype("f4") * np.float32(1.1)).astype(ml_dtypes.bfloat16))


def test_integers_at_their_extremes():
    def ops(A: i8[N], B: i8[N]):
        names = ["a", "s", "m", "d", "r", "n"]
        fs = [func(n) for n in names]
        x, y = A[i], B[i]
        for f, v in zip(fs, (x + y, x - y, x * y, x // y, x % y, -x), strict=True):
            f[i] = v
        return [f[:N] for f in fs]

    values = np.array([-128, -127, -1, 0, 1, 2, 126, 127], "i1")
    a, b = (v.ravel() for v in np.meshgrid(values, values, indexing="ij"))
    add, sub, mul, div, mod, neg = call(ops, a, b)
    for k in range(len(a)):
        x, y = int(a[k]), int(b[k])
        want = (x + y, x - y, x * y, x // y if y else 0, x % y if y else 0, -x)
        got = (add[k], sub[k], mul[k], div[k], mod[k], neg[k])
        assert tuple(map(int, got)) == tuple((w + 128) % 256 - 128 for w in want)


def test_unsigned_sums_wrap_in_their_type():
    def total(A: u8[N], B: u64[N]):
        r = rdom(r=N)
        s, t = func("s"), func("t")
        s[()] = reduce.sum_(A[r])
        t[()] = reduce.sum_(B[r])
        return s[()], t[()]

    s, t = call(total, np.full(20, 200, "u1"), np.full(20, 2**63 + 1, "u8"))
    assert s.dtype == np.uint8 and s == 20 * 200 % 256
    assert t == 20 * (2**63 + 1) % 2**64


def test_any_and_all():
    def both(A: bool_[M, N]):
        r = rdom(r=N)
        x, y = func("x"), func("y")
        x[i] = reduce.any_(A[i, r])
        y[i] = reduce.all_(A[i, r])
        return x[:M], y[:M]

    a = rng().random((30, 3)) < 0.5
    x, y = call(both, a)
    assert same(x, a.any(1)) and same(y, a.all(1))


def test_tables_and_gathers():
    weights = np.array([1, 2, 1], "f4")

    def blur(A: f32[N], at: i32[M]):
        w, k = const(weights), rdom(k=3)
        s, g = func("s"), func("g")
        s[i] = 0.0
        s[i] += w[k] * A[i + k]
        g[i] = s[clamp(at[i], 0, N - 3)]
        return g[:M]

    a, at = rng().random(12, "f4"), np.array([3, -7, 100, 0], "i4")
    s = (np.float32(0) + a[:10]) + np.float32(2) * a[1:11] + a[2:]
    assert same(call(blur, a, at), s[np.clip(at, 0, 9)])


def test_kept_intermediates_have_an_origin():
    def two(A: f32[N]):
        f, g = func("f"), func("g")
        f[i] = boundary.repeat_edge(A)[i] + 1.0
        g[i] = f[i - 2] + f[i + 1]
        return g[:N]

    p, a = pipeline(two), rng().random(6, "f4")
    got, kept = run(p, bind(p, (a,)), keep=["f"])
    assert kept["f"].origin == (-2,) and kept["f"].shape == (9,)
    assert isinstance(kept["f"], np.ndarray)
    assert same(kept["f"], np.pad(a, (2, 1), mode="edge") + np.float32(1))
    assert same(got, kept["f"][:6] + kept["f"][3:])


def test_a_chain_of_a_hundred_uses_is_linear_work():
    def doubled(A: i64[N]):
        f = func("f")
        x = A[i]
        for _ in range(100):
            x = x + x
        f[i] = maximum(x, 0)
        return f[:N]

    assert call(doubled, np.array([1, 3])).tolist() == [0, 0]
