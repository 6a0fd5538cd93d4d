"""Random expressions over loads: native code agrees with the NumPy evaluation bit for bit, scalar and in lanes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.emit_support import argument, load, loop, program, put, run, same
from tilewright.codegen.loops import UNROLL, VECTORIZE, block
from tilewright.lang import ir
from tilewright.lang.evaluate import evaluate
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, mul
from tilewright.lang.types import INTEGERS, DType, bf16, bool_, f16, f32, f64

COMPUTE = (*INTEGERS, f32, f64)
SIZE = 48
INT_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr")
FLOAT_OPS = ("add", "sub", "mul", "div", "min", "max", "floordiv", "mod")
FLOAT_UNARY = ("neg", "abs", "sqrt", "floor", "ceil", "round", "trunc")


def some_data(t: DType, seed: int) -> np.ndarray:
    """Half ordinary values, half random bits."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, SIZE * t.bytes, dtype=np.uint8).view(t.np if not t.is_bool else np.uint8)
    if t.is_bool:
        return (bits & 1).astype(bool)
    small = rng.integers(-9, 9, SIZE) if t.kind != "u" else rng.integers(0, 9, SIZE)
    small = small / (2 if t.is_float else 1)
    return np.where(rng.integers(0, 2, SIZE) == 1, bits, small.astype(t.np)).astype(t.np)


@st.composite
def expressions(draw) -> tuple[list[Node], dict[Node, DType]]:
    """A DAG that grows by using any values made before; its leaves stand for loads of some storage type."""
    stored = draw(st.lists(st.sampled_from((*COMPUTE, bool_, f16, bf16)), min_size=2, max_size=4))
    leaves = {ir.node("size", t.compute, (), f"in{k}"): t for k, t in enumerate(stored)}
    pool: list[Node] = list(leaves)

    def pick(t: DType) -> Node:
        found = [n for n in pool if n.dtype is t]
        if found:
            return draw(st.sampled_from(found))
        source = draw(st.sampled_from(pool))
        pool.append(ir.node("cast", t, (source,)))
        return pool[-1]

    for _ in range(draw(st.integers(1, 14))):
        t = draw(st.sampled_from(COMPUTE))
        kind = draw(st.sampled_from(("binary", "binary", "unary", "compare", "select", "cast", "constant", "logic")))
        if kind == "binary":
            op = draw(st.sampled_from(FLOAT_OPS if t.is_float else INT_OPS))
            n = ir.node(op, t, (pick(t), pick(t)))
        elif kind == "unary":
            op = draw(st.sampled_from(("neg", "abs", *(FLOAT_UNARY if t.is_float else ("not",)))))
            n = ir.node(op, t, (pick(t),))
        elif kind == "compare":
            n = ir.node(draw(st.sampled_from(sorted(ir.COMPARISONS))), bool_, (pick(t), pick(t)))
        elif kind == "select":
            n = ir.node("select", t, (pick(bool_), pick(t), pick(t)))
        elif kind == "cast":
            source = pick(t)
            to = draw(st.sampled_from((*COMPUTE, bool_)))
            n = ir.node("cast", to, (source,)) if to is not t else source
            if t.is_float and draw(st.booleans()):
                n = ir.node("round_to", f32, (source,), draw(st.sampled_from((f16, bf16))))
        elif kind == "constant":
            n = ir.const(draw(st.sampled_from((0, 1, 3, 7, 100))), t)
        else:
            n = ir.node(draw(st.sampled_from(("and", "or", "xor"))), bool_, (pick(bool_), pick(bool_)))
        pool.append(n)
    roots = [n for n in pool if n not in leaves and n.op != "const"][-4:]
    return roots or [pool[-1]], leaves


@given(expressions(), st.sampled_from((0, 2, 3, 4, 8, 16)), st.booleans(), st.integers(0, 1000))
@settings(max_examples=200)
def test_random_expressions(made, n, uniform, seed):
    """`uniform`: one of the inputs is the same in all lanes."""
    roots, leaves = made
    i, lane = ir.var("i"), ir.var("l")
    at = i if n == 0 else add(mul(i, integer(n)), lane)
    row = i if n == 0 else mul(i, integer(n))
    ins = [argument(f"in{k}", t, k) for k, t in enumerate(leaves.values())]
    outs = [argument(f"out{k}", r.dtype, len(ins) + k) for k, r in enumerate(roots)]
    places = [row if uniform and k == 0 else at for k in range(len(ins))]
    env = {leaf: load(b, where) for leaf, b, where in zip(leaves, ins, places, strict=True)}
    values = ir.substitute(roots, env)
    body = block(*(put(b, at, v) for b, v in zip(outs, values, strict=True)))
    mode = UNROLL if seed % 3 == 0 else "serial"
    p = program([*ins, *outs], loop(i, SIZE // max(n, 1), loop(lane, n, body, VECTORIZE) if n else body, mode))
    arrays = [some_data(t, seed + k) for k, t in enumerate(leaves.values())]
    results = [np.zeros(SIZE, r.dtype.np) for r in roots]
    assert run(p, [*arrays, *results]) == 0
    seen = [x.astype(b.dtype.compute.np) for x, b in zip(arrays, ins, strict=True)]
    if uniform and n:
        seen[0] = np.repeat(seen[0][::n], n)
    wanted = evaluate(roots, dict(zip(leaves, seen, strict=True)))
    for got, want in zip(results, wanted, strict=True):
        assert same(got, np.broadcast_to(want, got.shape))
