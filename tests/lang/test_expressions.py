"""The reference path against another interpreter: one point at a time, Python integers, correctly rounded floats."""

import math
import struct
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given

from tests.kernels import same
from tests.strategies import Case, expression_cases, pipeline_cases, sum_cases
from tilewright.lang.binding import bind
from tilewright.lang.extents import spans
from tilewright.lang.ir import Node
from tilewright.lang.reference import run
from tilewright.lang.tensors import Array
from tilewright.lang.types import DType, f32, index

# digits of the significand, smallest exponent of a normal number, largest finite value
FORMATS = {
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, 3.3895313892515355e38),
    "f32": (24, -126, 3.4028234663852886e38),
}


def nearest(x: Fraction, t: str) -> float:
    """The value of a narrow float type that is nearest to x; ties to even; infinity beyond the largest."""
    digits, low, largest = FORMATS[t]
    if x == 0:
        return 0.0
    e = max(math.frexp(float(x))[1] - 1, low)
    if abs(x) >= Fraction(2) ** (e + 1):
        e += 1
    unit = Fraction(2) ** (e - digits + 1)
    out = round(x / unit) * unit  # Python rounds fractions to even
    return math.copysign(math.inf, x) if abs(out) > largest else float(out)


def rounded(x: float, t: str) -> float:
    if t == "f64" or math.isnan(x) or math.isinf(x) or x == 0:
        return x
    return math.copysign(nearest(Fraction(x), t), x)


def wrapped(v: int, t: DType) -> int:
    if t is index:
        return v
    v &= (1 << t.bits) - 1
    return v - (1 << t.bits) if t.kind == "i" and v >> (t.bits - 1) else v


def float_op(op: str, t: str, a: float, b: float) -> float:
    """One operation in f64, rounded once more for f32: innocuous for + - * / and roots (53 >= 2 * 24 + 2)."""
    if op == "add":
        return rounded(a + b, t)
    if op == "sub":
        return rounded(a - b, t)
    if op == "mul":
        return rounded(a * b, t)
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return rounded(a / b, t)


def to_integer(x: float, t: DType) -> int:
    if math.isnan(x):
        return 0
    return t.low if x <= t.low else t.high if x >= t.high else int(x)


def whole(op: str, x: float) -> float:
    if math.isnan(x) or math.isinf(x):
        return x
    return math.copysign({"floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc}[op](x), x)


CODES = {
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "f32": "f",
    "f64": "d",
}


class Interpreter:
    """Values of nodes at one point. `env` has variables by node, sizes by name; `load(tensor, component, at)` reads."""

    def __init__(self, env: dict, load: Any):
        self.env, self.load, self.memo = env, load, {}

    def value(self, n: Node) -> Any:
        if n not in self.memo:
            self.memo[n] = self._value(n)
        return self.memo[n]

    def _value(self, n: Node) -> Any:
        op, t = n.op, n.dtype
        if op == "const":
            return n.attr
        if op in ("var", "rvar"):
            return self.env[n]
        if op in ("size", "scalar"):
            return self.env[n.attr]
        if op == "select":
            return self.value(n.args[1] if self.value(n.args[0]) else n.args[2])
        args = [self.value(a) for a in n.args]
        if op == "load":
            return self.load(*n.attr, tuple(args))
        if op in ("eq", "ne", "lt", "le", "gt", "ge"):
            a, b = args
            return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op]
        if op in ("max", "min"):
            a, b = args
            return a if (a > b if op == "max" else a < b) or a != a else b
        if op == "likely":
            return args[0]
        if op == "cast":
            return self._cast(args[0], n.args[0].dtype, t)
        if op == "bitcast":
            return struct.unpack("<" + CODES[t.name], struct.pack("<" + CODES[n.args[0].dtype.name], args[0]))[0]
        return self._float(op, n, *args) if t.is_float else self._integer(op, t, *args)

    def _cast(self, a: Any, source: DType, t: DType) -> Any:
        if t.is_bool:
            return bool(a) or a != a
        if t.is_int:
            return to_integer(a, t) if source.is_float else wrapped(int(a), t)
        if source.is_float:
            return rounded(a, t.name)
        return float(int(a)) if t.name == "f64" else nearest(Fraction(int(a)), t.name)

    def _float(self, op: str, n: Node, *args: float) -> float:
        t, a = n.dtype.name, args[0]
        if op in ("add", "sub", "mul", "div"):
            return float_op(op, t, *args)
        if op == "neg":
            return -a
        if op == "abs":
            return abs(a)
        if op == "round_to":
            return rounded(a, n.attr.name)
        if op == "sqrt":
            return math.nan if a < 0 else rounded(math.sqrt(a), t)
        return whole(op, a)

    def _integer(self, op: str, t: DType, *args: Any) -> Any:
        a, b = (*args, 0)[:2]
        if t.is_bool:
            return {"and": a and b, "or": a or b, "xor": a != b, "not": not a}[op]
        if op in ("shl", "shr"):
            inside = 0 <= b < t.bits
            if op == "shl":
                return wrapped(a << b, t) if inside else 0
            return a >> b if inside else -1 if a < 0 else 0
        return wrapped(
            {
                "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "neg": lambda: -a,
                "abs": lambda: abs(a), "floordiv": lambda: a // b if b else 0, "mod": lambda: a % b if b else 0,
                "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b, "not": lambda: ~a,
            }[op](),
            t,
        )  # fmt: skip


def interpret(case: Case) -> np.ndarray:
    """The (only) output of a case, every Func computed point by point in the order that the language says."""
    p = case.pipeline
    bound = bind(p, (), case.arrays)
    elements: dict = {}
    for a in p.arrays:
        for at in np.ndindex(case.arrays[a.name].shape):
            elements[a, 0, at] = python(case.arrays[a.name][at])
    for f, span in spans(p, bound.env).items():
        for d in f.definitions:
            run_points(d, span, bound, elements)
    (o,) = p.outputs
    starts = [Interpreter(bound.env, None).value(s) for s in o.starts]
    shape = [Interpreter(bound.env, None).value(s) - b for s, b in zip(o.stops, starts, strict=True)]
    out = np.zeros(shape, o.dtype.np)
    for at in np.ndindex(*shape):
        v = elements[o.func, 0, tuple(a + b for a, b in zip(at, starts, strict=True))]
        out[at] = np.array(v, np.float64).astype(o.dtype.np) if o.dtype.is_float else v
    return out


def python(v: Any) -> Any:
    return float(v) if isinstance(v, np.floating) or not isinstance(v, np.number | np.bool_) else v.item()


def run_points(d: Any, span: tuple, bound: Any, elements: dict) -> None:
    axes = {v: range(*span[d.lhs.index(v)]) for v in d.pure_vars}
    if d.rdom:
        for name, ends in d.rdom.ranges.items():
            axes[d.rdom.rvar(name)] = range(*(Interpreter(bound.env, None).value(e) for e in ends))

    def load(tensor: Any, component: int, at: tuple) -> Any:
        value = elements.get((tensor, component, at))
        assert value is not None or isinstance(tensor, Array), (tensor, at)
        return value

    for point in product(*axes.values()):
        here = Interpreter({**bound.env, **dict(zip(axes, point, strict=True))}, load)
        if all(here.value(c) for c in d.predicates):
            at = tuple(here.value(e) for e in d.lhs)
            for k, v in enumerate([here.value(v) for v in d.values]):
                elements[d.func, k, at] = v


def check(case: Case) -> None:
    got = run(case.pipeline, bind(case.pipeline, (), case.arrays))
    want = interpret(case)
    assert same(got, want), (got, want)


@given(expression_cases())
def test_element_wise_expressions(case):
    check(case)


@given(sum_cases())
def test_reductions_of_expressions(case):
    check(case)


@given(pipeline_cases())
def test_pipelines(case):
    check(case)


def test_the_interpreter_rounds_as_hardware_does():
    values = np.concatenate(
        [np.random.default_rng(0).standard_normal(300) * 10.0**k for k in (-45, -39, -7, 0, 4, 5, 38)]
    )
    with np.errstate(all="ignore"):
        for t, dtype in (("f32", np.float32), ("f16", np.float16)):
            assert all(rounded(float(x), t) == float(y) for x, y in zip(values, values.astype(dtype), strict=True))
    assert [nearest(Fraction(v), "f32") for v in (2**24 + 1, 2**24 + 3, 2**63 - 1)] == [2.0**24, 2.0**24 + 4, 2.0**63]
    assert f32.bits == 32
