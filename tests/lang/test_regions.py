"""Region inference against an enumeration of every point that is executed."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import call, pipeline
from tests.strategies import indices, pipelines
from tilewright.lang import boundary, ir, reduce, simplify
from tilewright.lang.errors import BoundsError
from tilewright.lang.expr import cast, clamp, inside, select
from tilewright.lang.extents import numbers, required_inputs, spans
from tilewright.lang.func import func
from tilewright.lang.intervals import Interval, bounds
from tilewright.lang.pipeline import Pipeline, make_pipeline
from tilewright.lang.regions import domain, reads, required, writes
from tilewright.lang.simplify import add, mul
from tilewright.lang.symbols import rdom, sizes, vars
from tilewright.lang.tensors import Array
from tilewright.lang.trace import inout
from tilewright.lang.types import f32, i32, i64, u8
from tilewright.lang.values import index_values

M, N, K = sizes("M N K")
i, j = vars("i j")


def touched(p: Pipeline, env: dict) -> tuple[dict, dict]:
    """Points that are read of every array and written or read of every Func, by executing every point. The Funcs'
    domains are their inferred regions, so that the check goes definition by definition."""
    regions = spans(p, env)
    read: dict = {}
    written: dict = {}
    for d in p.definitions():
        if d.func not in regions:
            continue
        axes = {v: range(*regions[d.func][d.lhs.index(v)]) for v in d.pure_vars}
        if d.rdom:
            for name, ends in d.rdom.ranges.items():
                axes[d.rdom.rvar(name)] = range(*index_values(ends, env))
        for point in product(*axes.values()):
            here = {**env, **dict(zip(axes, point, strict=True))}
            if not all(index_values(d.predicates, here)):
                continue
            written.setdefault(d.func, set()).add(tuple(index_values(d.lhs, here)))
            for value in d.values:
                _walk(value, here, read)
    return read, written


def _walk(n: ir.Node, env: dict, read: dict) -> None:
    """Note the loads below n, of selects in the arm that is taken."""
    if n.op == "select":
        c, a, b = n.args
        _walk(a if index_values([c], env)[0] else b, env, read)
        return
    if n.op == "load":
        read.setdefault(n.attr[0], set()).add(tuple(index_values(n.args, env)))
        return
    for a in n.args:
        _walk(a, env, read)


def within(points: set, span: tuple) -> bool:
    return all(lo <= c < hi for pt in points for c, (lo, hi) in zip(pt, span, strict=True))


def check(p: Pipeline, env: dict) -> dict:
    """Everything touched lies in the boxes; returns what is read, by tensor."""
    read, written = touched(p, env)
    regions, inputs = spans(p, env), required_inputs(p, env)
    for tensor, points in [*read.items(), *written.items()]:
        span = inputs[tensor.name] if isinstance(tensor, Array) else regions[tensor]
        assert within(points, span), (tensor, points, span)
    return read


# Random pipelines -----------------------------------------------------------------------------------------------


@given(pipelines(), st.integers(0, 4), st.integers(0, 4))
def test_everything_touched_lies_in_the_boxes(p, m, n):
    check(p, {"M": m, "N": n})


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_boxes_of_affine_reads_are_tight(data, m, n):
    A = Array("A", i64, (M.node, N.node))
    f, r = func("f"), rdom(r=3)
    f[i, j] = 0
    f[i, j] += A[data.draw(indices([i, r], fancy=False)), data.draw(indices([j], fancy=False))] + r
    p = make_pipeline(f[:M, :N], [A])
    read = check(p, {"M": m, "N": n})[A]
    span = required_inputs(p, {"M": m, "N": n})["A"]
    for axis, (lo, hi) in enumerate(span):
        assert (min(pt[axis] for pt in read), max(pt[axis] for pt in read) + 1) == (lo, hi)


# Cases ----------------------------------------------------------------------------------------------------------


def boxes(p: Pipeline, **env: int) -> dict:
    return {f.name: s for f, s in spans(p, env).items()}


def test_a_scan_needs_its_first_element():
    def scan(A: f32[N]):
        r, s = rdom(r=(1, N)), func("s")
        s[i] = 0.0
        s[r] = s[r - 1] + A[r]
        return s[2:N]

    p = pipeline(scan)
    assert boxes(p, N=9)["s"] == ((0, 9),)
    assert required_inputs(p, {"N": 9}) == {"A": ((1, 9),)}


def test_stencils_grow_through_a_chain():
    def chain(A: f32[M, N]):
        before = boundary.repeat_edge(A)
        for k in range(3):
            f = func(f"f{k}")
            f[i, j] = before[i - 1, j] + before[i + 1, j]
            before = f
        return before[:M, :N]

    p = pipeline(chain)
    assert boxes(p, M=5, N=7)["f0"] == ((-2, 7), (0, 7))
    assert boxes(p, M=5, N=7)["A_edge"] == ((-3, 8), (0, 7))
    assert required_inputs(p, {"M": 5, "N": 7}) == {"A": ((0, 5), (0, 7))}


def test_an_exterior_reads_only_inside():
    def padded(A: f32[M, N]):
        f = boundary.constant_exterior(A, 0.0)
        return f[-5 : M + 5, 2 : N - 1]

    assert required_inputs(pipeline(padded), {"M": 4, "N": 8}) == {"A": ((0, 4), (2, 7))}


def test_predicates_shrink_ranges():
    def triangle(A: f32[M, N]):
        k, s = rdom(k=N), func("s")
        k = k.where(k <= i)
        s[i] = 0.0
        s[i] += A[i, k]
        return s[:3]

    assert required_inputs(pipeline(triangle), {"M": 9, "N": 9}) == {"A": ((0, 3), (0, 3))}


def test_a_scatter_widens_the_region():
    def histogram(A: u8[N]):
        h = func("h", i32)
        h[i] = 0
        h[A[rdom(r=N)]] += 1
        return h[10:20]

    assert boxes(pipeline(histogram), N=3)["h"] == ((0, 256),)


def test_empty_regions_stay_empty():
    def halo(A: f32[N]):
        f, g = func("f"), func("g")
        f[i] = A[i] + 1.0
        g[i] = f[i - 1] + f[i + 1]
        return g[1 : N - 1]

    p = pipeline(halo)
    assert boxes(p, N=2) == {"g": ((1, 1),)}
    assert required_inputs(p, {"N": 2}) == {"A": ((0, 0),)}
    assert call(p, np.zeros(2, "f4")).shape == (0,)
    assert call(p, np.ones(3, "f4")).tolist() == [4.0]
    with pytest.raises(BoundsError, match="stops at 0, before its start 1"):
        call(p, np.zeros(1, "f4"))


def test_an_empty_reduction_reads_nothing():
    def conv(A: f32[N], w: f32[K]):
        k, f = rdom(k=K), func("f")
        f[i] = 0.0
        f[i] += A[i + k + 5] * w[k]
        return f[:N]

    assert call(conv, np.ones(3, "f4"), np.ones(0, "f4")).tolist() == [0.0] * 3


def test_data_dependent_reads_need_a_limit():
    def gather(A: f32[N], at: i32[M]):
        f = func("f")
        f[i] = A[at[i]]
        return f[:M]

    with pytest.raises(BoundsError, match=r"-2147483648..2147483647 are needed by f") as e:
        call(gather, np.ones(3, "f4"), np.zeros(2, "i4"))
    assert e.value.code == "bounds.input" and "clamp" in (e.value.hint or "")


def test_unbounded_indices_name_everything():
    def gather(A: f32[N], at: i64[M]):
        f = func("f")
        f[i] = A[at[i]]
        return f[:M]

    with pytest.raises(BoundsError) as e:
        required(pipeline(gather))
    assert e.value.code == "bounds.unbounded"
    assert "axis 0 of A" in e.value.message and "at[i]" in e.value.message and "of f" in e.value.message
    assert e.value.where[0].file == __file__ and "clamp" in (e.value.hint or "")


@pytest.mark.parametrize("element", [i32, i64, u8])
def test_conditions_on_data_limit_reads(element):
    A, at = Array("A", f32, (N.node,)), Array("at", element, (M.node,))
    for value in (
        select(inside(at[i], 0, N), A[at[i]], 0.0),
        A[clamp(cast(i64, at[i]), 0, N - 1)],
        A[clamp(cast(i64, at[i]), 0, N - 1) * 2 // 2 - 3 + 3],
    ):
        f = func("f")
        f[i] = value
        p = make_pipeline(f[:M], [A, at])
        assert required_inputs(p, {"M": 2, "N": 100})["A"] == ((0, 100),)


def test_inout_is_whole_and_checked():
    def shift(x: inout(f32[N])):
        r = rdom(r=(0, N))
        x[r] = x[r + 1]

    with pytest.raises(BoundsError, match=r"axis 0 of x: elements 1\.\.4 are needed by x, which reads it"):
        call(shift, np.zeros(4, "f4"))

    def write(x: inout(f32[N])):
        x[rdom(r=(0, N)) + 2] = 1.0

    with pytest.raises(BoundsError, match="which writes it"):
        call(write, np.zeros(4, "f4"))


def test_too_small_an_input_names_everything():
    def blur(A: f32[N]):
        f = func("blurred")
        f[i] = A[i - 1] + A[i + 1]
        return f[:N]

    with pytest.raises(BoundsError) as e:
        call(blur, np.zeros(5, "f4"))
    assert e.value.code == "bounds.input" and e.value.where[0].file == __file__
    assert "axis 0 of A: elements -1..3 are needed by blurred" in e.value.message
    assert "5 elements (0..4)" in e.value.message


def test_a_helper_over_an_empty_array_is_an_error():
    def edge(A: f32[N]):
        return boundary.repeat_edge(A)[-1:3]

    with pytest.raises(BoundsError, match="there are no elements"):
        call(edge, np.zeros(0, "f4"))


def test_regions_at_a_loop():
    """The same functions with outer loop variables that stand for themselves."""

    def twice(A: f32[M, N]):
        C = func("C")
        C[i, j] = A[i, j]
        C[i, j] += A[i, j]
        return C[:M, :N]

    p = pipeline(twice)
    d = p.funcs[0].updates[0]
    io = ir.var("io")
    start = mul(io, ir.integer(4))
    env = {i.node: Interval(start, add(start, ir.integer(3))), j.node: Interval(j.node, j.node)}
    assert writes(d, env) == (env[i.node], env[j.node])
    found = {(r.tensor.name, r.component): r.box for r in reads(d, env)}
    assert found["A", 0] == (env[i.node], env[j.node]) and found["C", 0] == found["A", 0]
    assert numbers(found["A", 0], {"io": 3, "j": 5}) == ((12, 16), (5, 6))
    assert domain(d, (env[j.node], env[i.node]))[i.node] is env[j.node]


def test_reductions_inline_are_inferred_too():
    def rows(A: f32[M, N]):
        f = func("f")
        f[i] = reduce.sum_(A[i + 1, rdom(k=N)])
        return f[: M - 1]

    assert required_inputs(pipeline(rows), {"M": 4, "N": 3}) == {"A": ((1, 4), (0, 3))}


def test_shared_selects_do_not_explode():
    A, f = Array("A", i64, (N.node,)), func("f")
    x = A[i]
    for k in range(60):
        x = select(i < k, x, x + 1)
    f[i] = x
    assert required_inputs(make_pipeline(f[:N], [A]), {"N": 5}) == {"A": ((0, 5),)}


@given(st.integers(0, 9), st.integers(0, 6), st.integers(0, 6), st.integers(-3, 3))
def test_quotients_and_remainders_by_what_varies(top: int, a: int, b: int, shift: int) -> None:
    """A divisor that runs over a range itself: the bounds must not name it, and hold every value."""
    x, d = ir.var("x"), ir.var("d")
    divisor = simplify.maximum(simplify.sub(d, ir.integer(2)), ir.integer(0))
    low, high = min(a, b), max(a, b)
    env = {
        x: Interval(ir.integer(-top), ir.integer(top)),
        d: Interval(ir.integer(low), ir.integer(high)),
    }
    for build in (simplify.floordiv, simplify.mod):
        n = build(simplify.add(x, ir.integer(shift)), divisor)
        r = bounds(n, env)
        assert r.lo is not None and r.hi is not None
        assert not ir.leaves((r.lo, r.hi), "var")
        for v in range(-top, top + 1):
            for w in range(low, high + 1):
                (value,) = ir.substitute((n,), {x: ir.integer(v), d: ir.integer(w)})
                assert r.lo.attr <= value.attr <= r.hi.attr
