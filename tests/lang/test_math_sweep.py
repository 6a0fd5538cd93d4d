"""Every f32 argument of every function of one argument, with and without fma: `pytest -m campaign`, by hand.

The definition is printed as scalar Python for Numba, which also shows that LLVM's arithmetic gives NumPy's bits.
`python tests/lang/test_math_sweep.py exp tanh` prints the largest errors; STRIDE=16 looks at one argument in 16.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable

import numba as nb
import numpy as np
import pytest
from llvmlite import ir as llvm
from numba.extending import intrinsic

from tilewright.lang import ir, types
from tilewright.lang.contract import contract
from tilewright.lang.evaluate import evaluate
from tilewright.lang.math import ULP, definition

UNARY = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "rsqrt")
STRIDE = int(os.environ.get("STRIDE", "1"))


@intrinsic
def fma(typingctx, a, b, c):  # pyright: ignore
    def build(context, builder, signature, args):
        kind = args[0].type
        fn = builder.module.declare_intrinsic("llvm.fma", [kind], llvm.FunctionType(kind, [kind] * 3))
        return builder.call(fn, args)

    return a(a, b, c), build


@intrinsic
def bitcast(typingctx, value, like):  # pyright: ignore
    def build(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return like(value, like), build


NUMPY = {"f32": "np.float32", "f64": "np.float64", "u32": "np.uint32", "u64": "np.uint64", "bool": "bool"}
TEXT = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}", "abs": "abs({})",
    "and": "{} & {}", "or": "{} | {}", "xor": "{} ^ {}", "shl": "{} << {}", "shr": "{} >> {}", "not": "not {}",
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}",
    "select": "{1} if {0} else {2}", "sqrt": "math.sqrt({})", "fma": "fma({}, {}, {})",
    "max": "{0} if {0} > {1} or {0} != {0} else {1}", "min": "{0} if {0} < {1} or {0} != {0} else {1}",
}  # fmt: skip


def source(name: str, fuse: bool) -> str:
    """The definition for f32 as a Python function of one np.float32."""
    params, value = definition(name, types.f32)
    (value,) = contract([value]) if fuse else (value,)
    names: dict[ir.Node, str] = {params[0]: "x"}
    lines = ["def definition(x):"]
    for n in ir.postorder([value]):
        if n in names:
            continue
        args, kind = [names[a] for a in n.args], NUMPY[n.dtype.name]
        if n.op == "const":
            text = f"float('{n.attr}')" if n.dtype.is_float else repr(n.attr)
        elif n.op in ("cast", "bitcast"):
            text = args[0] if n.op == "cast" else f"bitcast({args[0]}, {kind}(0))"
        else:
            text = TEXT[n.op].format(*args)
        names[n] = f"v{len(names)}"
        lines.append(f"    {names[n]} = {kind}({text})")
    return "\n".join([*lines, f"    return {names[value]}"])


def compiled(name: str, fuse: bool) -> Callable:
    scope = {"np": np, "math": math, "fma": fma, "bitcast": bitcast}
    exec(source(name, fuse), scope)  # our own text
    return nb.njit(scope["definition"], error_model="numpy")


ORACLES: dict[str, Callable] = {
    "exp": lambda x: math.exp(x), "exp2": lambda x: 2.0**x, "expm1": lambda x: math.expm1(x),
    "log": lambda x: math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    "log2": lambda x: math.log2(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    "log1p": lambda x: math.log1p(x) if x > -1 else (-math.inf if x == -1 else math.nan),
    "sin": lambda x: math.sin(x), "cos": lambda x: math.cos(x), "tan": lambda x: math.tan(x),
    "tanh": lambda x: math.tanh(x), "erf": lambda x: math.erf(x),
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
    "rsqrt": lambda x: 1.0 / math.sqrt(x) if x != 0 else math.copysign(math.inf, x),
}  # fmt: skip


@functools.cache
def sweeper(name: str, fuse: bool) -> Callable:
    """(stride, first) -> largest error in ulps and the bits of its argument; infinite where an end is wrong."""
    fn, oracle = compiled(name, fuse), nb.njit(ORACLES[name], error_model="numpy")

    @nb.njit
    def sweep(stride, first):
        worst, where = 0.0, first
        for i in range(first, 2**32, stride):
            x = bitcast(np.uint32(i), np.float32(0))
            got, want = np.float64(fn(x)), oracle(np.float64(x))
            if want != want or math.isinf(want) or abs(want) >= 2.0**128 - 2.0**103:
                good = (want != want and got != got) or (math.isinf(got) and (got > 0) == (want > 0))
                error = 0.0 if good else math.inf
            else:
                field = min(max((bitcast(want, np.int64(0)) >> 52) & 2047, 1023 - 126), 1023 + 127)
                per_ulp = bitcast(np.int64((2 * 1023 + 23 - field) << 52), 0.0)
                error = abs(got - want) * per_ulp
                if error != error:
                    error = math.inf
            if error > worst:
                worst, where = error, i
        return worst, where

    return sweep


@pytest.mark.campaign
@pytest.mark.parametrize("fuse", [False, True], ids=["strict", "contract"])
@pytest.mark.parametrize("name", UNARY)
def test_every_f32(name: str, fuse: bool) -> None:
    worst, where = sweeper(name, fuse)(STRIDE, 0)
    assert worst <= ULP[name, "f32"], hex(where)


@pytest.mark.campaign
@pytest.mark.parametrize("fuse", [False, True], ids=["strict", "contract"])
@pytest.mark.parametrize("name", UNARY)
def test_llvm_gives_the_bits_of_numpy(name: str, fuse: bool) -> None:
    fn = compiled(name, fuse)

    @nb.njit
    def run(xs, out):
        for i in range(len(xs)):
            out[i] = fn(xs[i])

    xs = np.arange(0, 2**32, 16411, dtype=np.uint32).view(np.float32)
    native = np.empty_like(xs)
    run(xs, native)
    params, value = definition(name, types.f32)
    (numpy,) = evaluate(contract([value]) if fuse else [value], {params[0]: xs})
    same = (native.view(np.uint32) == numpy.view(np.uint32)) | (np.isnan(native) & np.isnan(numpy))
    assert same.all(), xs[~same][:5]


if __name__ == "__main__":
    for function in sys.argv[1:] or UNARY:
        for fused in (False, True):
            largest, at = sweeper(function, fused)(STRIDE, 0)
            argument = np.array([at], np.uint32).view(np.float32)[0]
            print(function, "contract" if fused else "strict", f"{largest:.4f} at {argument!r}", flush=True)
