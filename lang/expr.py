"""What the user writes with: `Expr`, a thin handle around a node, and the typing rules of the numerics contract."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tilewright.lang import ir, simplify, types
from tilewright.lang.errors import SymbolicUseError, TypeRuleError, user_location
from tilewright.lang.ir import Node
from tilewright.lang.types import DType, as_dtype, bool_, f64, i64, index

Scalar = int | float | bool | np.generic


class Symbolic:
    """Base of everything symbolic: refuses to be taken for a concrete Python value."""

    __slots__ = ()
    __array_priority__ = 1000.0

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise SymbolicUseError(
            f"{what} of a symbolic value: it has no value while the kernel is being written",
            where=user_location(),
            hint=instead,
        )

    def __bool__(self) -> bool:
        self._refuse(
            "truth value",
            "use & | ~ instead of and/or/not, tw.inside(x, lo, hi) for a chained comparison, tw.select instead of if,"
            " tw.maximum and tw.minimum instead of max and min",
        )

    def __len__(self) -> int:
        self._refuse("len()", "use a size symbol from tw.sizes(...)")

    def __iter__(self):
        self._refuse("iteration", "use tw.vars(...) or tw.rdom(...) and index with them")

    def __contains__(self, item: Any) -> bool:
        self._refuse("'in'", "use tw.inside(x, lo, hi) or an == comparison")

    def __index__(self) -> int:
        self._refuse("integer conversion", "give the number as a static (keyword-only) parameter")

    __int__ = __index__

    def __float__(self) -> float:
        self._refuse("float()", "use tw.cast(tw.f64, x), and tw.exp and the like instead of the math module")

    __complex__ = __float__

    def __round__(self, digits: Any = None) -> NoReturn:
        self._refuse("round()", "use tw.round(x)")

    def __divmod__(self, other: Any) -> NoReturn:
        self._refuse("divmod()", "use x // y and x % y")

    __rdivmod__ = __divmod__

    def __matmul__(self, other: Any) -> NoReturn:
        self._refuse("@", "write the sum: C[i, j] += A[i, k] * B[k, j] with k = tw.rdom(k=K)")

    __rmatmul__ = __matmul__

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        self._refuse("conversion to an array", "index it, or call the kernel on real arrays")


class Expr(Symbolic):
    """A typed expression. Operators build new ones by the numerics contract (see docs/numerics.md)."""

    __slots__ = ("_node",)
    _node: Node

    def __init__(self, n: Node):
        self._node = n

    @property
    def node(self) -> Node:
        return self._node

    @property
    def dtype(self) -> DType:
        """The element type (i64 for expressions over Vars, sizes and literals only)."""
        return i64 if self.node.dtype is index else self.node.dtype

    def __repr__(self) -> str:
        return repr(self.node)

    __hash__ = object.__hash__

    def __add__(self, o: Any) -> Expr:
        return binary("add", self, o)

    def __radd__(self, o: Any) -> Expr:
        return binary("add", o, self)

    def __sub__(self, o: Any) -> Expr:
        return binary("sub", self, o)

    def __rsub__(self, o: Any) -> Expr:
        return binary("sub", o, self)

    def __mul__(self, o: Any) -> Expr:
        return binary("mul", self, o)

    def __rmul__(self, o: Any) -> Expr:
        return binary("mul", o, self)

    def __truediv__(self, o: Any) -> Expr:
        return divide(self, o)

    def __rtruediv__(self, o: Any) -> Expr:
        return divide(o, self)

    def __floordiv__(self, o: Any) -> Expr:
        return binary("floordiv", self, o)

    def __rfloordiv__(self, o: Any) -> Expr:
        return binary("floordiv", o, self)

    def __mod__(self, o: Any) -> Expr:
        return binary("mod", self, o)

    def __rmod__(self, o: Any) -> Expr:
        return binary("mod", o, self)

    def __and__(self, o: Any) -> Expr:
        return bitwise("and", self, o)

    def __rand__(self, o: Any) -> Expr:
        return bitwise("and", o, self)

    def __or__(self, o: Any) -> Expr:
        return bitwise("or", self, o)

    def __ror__(self, o: Any) -> Expr:
        return bitwise("or", o, self)

    def __xor__(self, o: Any) -> Expr:
        return bitwise("xor", self, o)

    def __rxor__(self, o: Any) -> Expr:
        return bitwise("xor", o, self)

    def __lshift__(self, o: Any) -> Expr:
        return shift("shl", self, o)

    def __rlshift__(self, o: Any) -> Expr:
        return shift("shl", o, self)

    def __rshift__(self, o: Any) -> Expr:
        return shift("shr", self, o)

    def __rrshift__(self, o: Any) -> Expr:
        return shift("shr", o, self)

    def __eq__(self, o: Any) -> Expr:
        return compare("eq", self, o)  # type: ignore[override]

    def __ne__(self, o: Any) -> Expr:
        return compare("ne", self, o)  # type: ignore[override]

    def __lt__(self, o: Any) -> Expr:
        return compare("lt", self, o)

    def __le__(self, o: Any) -> Expr:
        return compare("le", self, o)

    def __gt__(self, o: Any) -> Expr:
        return compare("gt", self, o)

    def __ge__(self, o: Any) -> Expr:
        return compare("ge", self, o)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return invert(self)

    def __abs__(self) -> Expr:
        return unary("abs", self)

    def __pow__(self, o: Any) -> Expr:
        return power(self, o)

    def __rpow__(self, o: Any) -> Expr:
        raise TypeRuleError("`**` needs a constant exponent", where=user_location(), hint="use tw.pow(x, y) on floats")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        fn = _ufuncs().get(ufunc.__name__) if method == "__call__" and not kwargs else None
        if fn is None:
            raise TypeRuleError(
                f"np.{ufunc.__name__} has no meaning on symbolic values",
                code="type.ufunc",
                where=user_location(),
                hint="known: " + ", ".join(f"np.{n}" for n in sorted(_ufuncs())),
            )
        return fn(*inputs)


def fail(message: str, hint: str | None = None, code: str = "type") -> NoReturn:
    raise TypeRuleError(message, code=code, where=user_location(), hint=hint)


def type_name(t: DType) -> str:
    return "i64 (index)" if t is index else t.name


# From Python values to nodes ------------------------------------------------------------------------------------


def literal(value: Scalar, like: DType | None = None) -> Node:
    """A constant node: NumPy scalars keep their dtype, Python numbers are weak and take the type of `like`.

    A value that the type can't represent is an error when it is written.
    """
    if isinstance(value, np.generic):
        t = as_dtype(value.dtype)
        return ir.const(value.item() if not t.is_storage_only else float(value), t.compute)
    if isinstance(value, (bool, np.bool_)):
        return ir.const(bool(value), bool_)
    if isinstance(value, int):
        if like is None or like is index:
            return ir.integer(value)
        if like.is_bool:
            fail(f"integer {value} with a bool", "write tw.cast(tw.i32, x) first")
        if like.is_float:
            return _float_literal(float(value), like, value)
        if not like.low <= value <= like.high:
            fail(f"{value} does not fit {like} ({like.low}..{like.high})", "cast the other operand to a wider type first",
                 code="type.literal")  # fmt: skip
        return ir.const(value, like)
    if isinstance(value, float):
        if like is None or not like.is_float:
            return ir.const(value, f64)
        return _float_literal(value, like, value)
    fail(f"{value!r} ({type(value).__name__}) can't be part of an expression",
         "numbers, truth values and expressions can", code="type.value")  # fmt: skip


def _float_literal(value: float, like: DType, shown: Any) -> Node:
    t = like.compute
    with np.errstate(over="ignore"):
        rounded = float(t.np.type(value))
    if np.isinf(rounded) and not np.isinf(value):
        fail(f"{shown} overflows {t}", "cast the other operand to a wider type first", code="type.literal")
    return ir.const(rounded, t)


def is_literal(value: Any) -> bool:
    """A weak Python number (NumPy scalars are typed)."""
    return isinstance(value, (int, float)) and not isinstance(value, np.generic)


def to_node(value: Any, like: DType | None = None) -> Node:
    """The node of an Expr, anything with a `node`, or a Python or NumPy scalar."""
    n = getattr(value, "node", None)
    if isinstance(n, Node):
        return n
    if isinstance(value, (int, float, bool, np.generic)):
        return literal(value, like)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return literal(value[()], like)  # type: ignore[arg-type]
    fail(
        f"{value!r} ({type(value).__name__}) can't be part of an expression",
        "arrays come in as kernel parameters or through tw.const(array)",
        code="type.value",
    )


def wrap(n: Node) -> Expr:
    return Expr(n)


# Typing ---------------------------------------------------------------------------------------------------------


def cast_node(n: Node, t: DType) -> Node:
    """`n` converted to `t`; to a storage type it rounds and yields the compute type."""
    if t.is_storage_only:
        wide = cast_node(n, types.f32 if n.dtype is not f64 else f64)
        return ir.node("round_to", types.f32, (wide,), t)
    if n.dtype is t:
        return n
    if n.op == "const" and n.dtype is index:
        if t.is_float:
            return ir.const(float(t.np.type(n.attr)), t)
        if t.is_int and t.low <= n.attr <= t.high:
            return ir.const(n.attr, t)
    return ir.node("cast", t, (n,))


def _settle(a: Any, other: Any) -> None:
    """A Func that only literals defined takes the type of what it first meets."""
    if getattr(a, "untyped", False) and not is_literal(other) and not getattr(other, "untyped", False):
        t = to_node(other).dtype
        open_type = a.func.open_type
        a.func.close_type(f64 if open_type.is_float and not t.is_float else t)


def unify(a: Any, b: Any, what: str) -> tuple[Node, Node]:
    """Both operands as nodes of their common type (NumPy 2 promotion, literals weak)."""
    _settle(a, b)
    _settle(b, a)
    if is_literal(a) and not is_literal(b):
        y = to_node(b)
        x = literal(a, y.dtype)
    else:
        x = to_node(a)
        y = literal(b, x.dtype) if is_literal(b) else to_node(b)
    t = types.promote(x.dtype, y.dtype)
    if t is None:
        fail(
            f"{what} of {type_name(x.dtype)} and {type_name(y.dtype)}: the types have no common type",
            "cast one of them: tw.cast(tw.i64, x)",
            code="type.promotion",
        )
    return cast_node(x, t), cast_node(y, t)


def binary(op: str, a: Any, b: Any) -> Expr:
    """An arithmetic operation by name on two operands."""
    x, y = unify(a, b, op)
    if x.dtype.is_bool:
        fail(f"{op} of bool values", "use & | ^ ~, or tw.cast(tw.i32, x)", code="type.bool-arithmetic")
    return Expr(simplify.build(op, x.dtype, (x, y)))


def divide(a: Any, b: Any) -> Expr:
    """True division: floats stay in their type, integers divide as NumPy does (f64; f16 and f32 for narrow ones)."""
    x, y = unify(a, b, "division")
    if x.dtype.is_bool:
        fail("division of bool values", "write tw.cast(tw.f32, x)", code="type.bool-arithmetic")
    if not x.dtype.is_float:
        x, y = cast_node(x, f64), cast_node(y, f64)
    return Expr(ir.node("div", x.dtype, (x, y)))


def unary(op: str, a: Any) -> Expr:
    x = to_node(a)
    if x.dtype.is_bool:
        fail(f"{op} of a bool", "use ~, or tw.cast(tw.i32, x)", code="type.bool-arithmetic")
    return Expr(simplify.build(op, x.dtype, (x,)))


def bitwise(op: str, a: Any, b: Any) -> Expr:
    x, y = unify(a, b, f"bitwise {op}")
    if x.dtype.is_float:
        fail(f"bitwise {op} of {x.dtype}", "use tw.bitcast(tw.u32, x)", code="type.bits")
    if x.dtype is index:
        x, y = cast_node(x, i64), cast_node(y, i64)
    return Expr(simplify.build(op, x.dtype, (x, y)))


def shift(op: str, a: Any, b: Any) -> Expr:
    x, y = unify(a, b, "shift")
    if not x.dtype.is_int:
        fail(f"shift of {x.dtype}", "shifts are for integers", code="type.bits")
    if x.dtype is index:
        x, y = cast_node(x, i64), cast_node(y, i64)
    return Expr(ir.node(op, x.dtype, (x, y)))


def invert(a: Any) -> Expr:
    x = to_node(a)
    if x.dtype.is_float:
        fail(f"~ of {x.dtype}", "~ is for bool and integers", code="type.bits")
    if x.dtype is index:
        x = cast_node(x, i64)
    return Expr(ir.node("not", x.dtype, (x,)))


def compare(op: str, a: Any, b: Any) -> Expr:
    """A comparison; i64 with u64 compares exactly."""
    x = to_node(a) if not is_literal(a) else None
    y = to_node(b) if not is_literal(b) else None
    if x is not None and y is not None and {x.dtype, y.dtype} in ({i64, types.u64}, {index, types.u64}):
        return Expr(_compare_mixed(op, x, y))
    if x is not None and y is None and _beyond(x.dtype, b):
        return Expr(_compare_out_of_range(op, b > 0))
    if y is not None and x is None and _beyond(y.dtype, a):
        return Expr(_compare_out_of_range(op, a < 0))
    left, right = unify(a, b, "comparison")
    if left.dtype.is_bool and op not in ("eq", "ne"):
        fail("ordering of bool values", "use == != & | ^ ~", code="type.bool-arithmetic")
    return Expr(simplify.build(op, bool_, (left, right)))


def _beyond(t: DType, value: Any) -> bool:
    """Whether a literal integer lies outside of an integer type."""
    return t.is_int and t is not index and isinstance(value, int) and not t.low <= value <= t.high


def _compare_out_of_range(op: str, literal_above: bool) -> Node:
    """typed OP literal where the literal lies outside the type, as NumPy 2 answers it."""
    if op in ("eq", "ne"):
        return ir.TRUE if op == "ne" else ir.FALSE
    return ir.TRUE if (op in ("lt", "le")) == literal_above else ir.FALSE


def _compare_mixed(op: str, x: Node, y: Node) -> Node:
    """Exact comparison of a signed with an unsigned 64-bit integer: a negative one is below all."""
    if x.dtype is types.u64:
        swapped = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(op, op)
        return _compare_mixed(swapped, y, x)
    x = cast_node(x, i64)
    negative = ir.node("lt", bool_, (x, ir.const(0, i64)))
    same = ir.node(op, bool_, (ir.node("cast", types.u64, (x,)), y))
    return ir.node("select", bool_, (negative, ir.TRUE if op in ("lt", "le", "ne") else ir.FALSE, same))


def power(a: Any, b: Any) -> Expr:
    """`x ** n` for a constant integer n >= 0, by repeated squaring."""
    if isinstance(b, (bool, np.bool_)) or not isinstance(b, (int, np.integer)) or b < 0:
        fail("`**` needs a constant integer exponent >= 0", "use tw.pow(x, y) on floats", code="type.power")
    x, n = wrap(to_node(a)), int(b)
    if x.node.dtype.is_bool:
        fail("power of a bool", "write tw.cast(tw.i32, x)", code="type.bool-arithmetic")
    if n == 0:
        return Expr(literal(1, x.node.dtype))
    result: Expr | None = None
    square = x
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        if n:
            square = square * square
    assert result is not None
    return result


# Functions of the language ----------------------------------------------------------------------------------------


def select(condition: Any, a: Any, b: Any, *more: Any) -> Expr:
    """`a` where `condition` holds, else `b`; `select(c1, a1, c2, a2, ..., otherwise)` takes the first that holds."""
    if len(more) % 2:
        fail("select needs (condition, value) pairs and a last value", "tw.select(c1, a1, c2, a2, otherwise)")
    *pairs, out = (condition, a, b, *more)
    while pairs:
        *pairs, c, value = pairs
        out = _select(c, value, out)
    return out


def _select(condition: Any, a: Any, b: Any) -> Expr:
    c = to_node(condition)
    if not c.dtype.is_bool:
        fail(f"the condition of select is {type_name(c.dtype)}", "compare it: x != 0", code="type.condition")
    x, y = unify(a, b, "select")
    return Expr(simplify.build("select", x.dtype, (c, x, y)))


def cast(t: Any, value: Any) -> Expr:
    """`value` in type `t`: integers wrap, float to integer truncates, saturates and gives 0 for NaN.

    A cast to f16 or bf16 rounds to it and yields f32.
    """
    t = as_dtype(t)
    n = to_node(value)
    return Expr(cast_node(n, t))


def bitcast(t: Any, value: Any) -> Expr:
    """The same bits read as type `t` of the same width."""
    t, n = as_dtype(t), to_node(value)
    if n.dtype is index:
        n = cast_node(n, i64)
    if t.is_storage_only or t.bits != n.dtype.bits or t.is_bool or n.dtype.is_bool:
        fail(f"bitcast from {n.dtype} to {t}", "both must have the same width and be no bool, f16 or bf16")
    return Expr(n if n.dtype is t else ir.node("bitcast", t, (n,)))


def maximum(a: Any, b: Any, *more: Any) -> Expr:
    """Element-wise: a if a > b or a is NaN, else b."""
    out = binary("max", a, b)
    for m in more:
        out = binary("max", out, m)
    return out


def minimum(a: Any, b: Any, *more: Any) -> Expr:
    """Element-wise: a if a < b or a is NaN, else b."""
    out = binary("min", a, b)
    for m in more:
        out = binary("min", out, m)
    return out


def clamp(x: Any, low: Any, high: Any) -> Expr:
    """`x` limited to low..high: minimum(maximum(x, low), high)."""
    return minimum(maximum(x, low), high)


def inside(x: Any, low: Any, high: Any) -> Expr:
    """low <= x < high, and a hint that loops should be parted so that it holds in their interior."""
    return Expr(simplify.build("likely", bool_, (((compare("ge", x, low)) & compare("lt", x, high)).node,)))


def assume(x: Any, low: Any, high: Any) -> Expr:
    """`x`, an integer, with the promise that low <= x < high: an index that comes from data gets its bounds.

    `low` and `high` are index expressions. The reference path checks the promise wherever the value is needed; native
    code believes it, unless TILEWRIGHT_DEBUG=1 is set when it is compiled. A broken one that is checked raises
    AssumptionError; one that is not may read or write anything.
    """
    n = to_node(x)
    if not n.dtype.is_int:
        fail(f"assume of {type_name(n.dtype)}", "it bounds an integer: tw.cast(tw.i64, x)", code="type.assume")
    ends = [to_node(e) for e in (low, high)]
    for e in ends:
        if e.dtype is not index:
            fail(f"a bound of assume is {type_name(e.dtype)}", "bounds are made of sizes, numbers and Vars",
                 code="type.assume")  # fmt: skip
    return Expr(ir.node("assume", n.dtype, (n, *ends), user_location()))


def _float_unary(op: str) -> Callable[[Any], Expr]:
    def fn(x: Any) -> Expr:
        n = to_node(x)
        if not n.dtype.is_float:
            fail(f"{op} of {type_name(n.dtype)}", "write tw.cast(tw.f32, x) first", code="type.float-needed")
        return Expr(ir.node(op, n.dtype, (n,)))

    fn.__name__ = op
    fn.__doc__ = f"{op} of a float, element-wise (correctly rounded)."
    return fn


sqrt = _float_unary("sqrt")
floor = _float_unary("floor")
ceil = _float_unary("ceil")
round = _float_unary("round")
trunc = _float_unary("trunc")


def abs_(x: Any) -> Expr:
    """Absolute value; the smallest signed integer stays itself (it wraps)."""
    return unary("abs", x)


_ufunc_table: dict[str, Callable] = {}


def _ufuncs() -> dict[str, Callable]:
    if not _ufunc_table:
        from tilewright.lang import math

        _ufunc_table.update(
            add=operator.add, subtract=operator.sub, multiply=operator.mul, divide=divide, true_divide=divide,
            floor_divide=lambda a, b: binary("floordiv", a, b), remainder=lambda a, b: binary("mod", a, b),
            negative=lambda a: unary("neg", a), absolute=abs_, fabs=abs_, maximum=maximum, minimum=minimum,
            bitwise_and=lambda a, b: bitwise("and", a, b), bitwise_or=lambda a, b: bitwise("or", a, b),
            bitwise_xor=lambda a, b: bitwise("xor", a, b), invert=invert, sqrt=sqrt, floor=floor, ceil=ceil,
            rint=round, trunc=trunc, square=lambda a: power(a, 2),
            left_shift=lambda a, b: shift("shl", a, b), right_shift=lambda a, b: shift("shr", a, b),
            equal=lambda a, b: compare("eq", a, b), not_equal=lambda a, b: compare("ne", a, b),
            less=lambda a, b: compare("lt", a, b), less_equal=lambda a, b: compare("le", a, b),
            greater=lambda a, b: compare("gt", a, b), greater_equal=lambda a, b: compare("ge", a, b),
            arctan2=math.atan2, power=math.pow,
        )  # fmt: skip
        _ufunc_table.update({n: getattr(math, n) for n in math.FUNCTIONS if n in np.__dict__})
        # operands may be NumPy scalars here: dispatch through our own rules, not theirs
        for name, op in (("add", "add"), ("subtract", "sub"), ("multiply", "mul")):
            _ufunc_table[name] = lambda a, b, op=op: binary(op, a, b)
    return _ufunc_table
