"""Values of a graph: what is read by index, with the extent of every axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lang import expr
from tilewright.lang.expr import Expr, Symbolic, to_node, wrap
from tilewright.lang.func import Func, InoutFunc, OutputSlice, automatic
from tilewright.lang.symbols import Var, bad, to_index
from tilewright.lang.tensors import Array
from tilewright.lang.types import DType

Operand = Any  # a Value, an input array, or a scalar: number or expression


class Value(Symbolic):
    """A tensor of known shape: a Func (or an input) and the extent of each of its axes, as expressions of sizes.

    Operators take and return Values. `x[i, j]` is an element; arithmetic between Values is element by element, with
    NumPy's broadcasting (an axis of extent 1, or one that is missing in front). A kernel returns it whole: `return x`.
    """

    __slots__ = ("shape", "source")

    def __init__(self, source: Array | Func, shape: Sequence[Any]):
        self.source, self.shape = source, tuple(extent(n) for n in shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}]"

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def dtype(self) -> DType:
        """The type of an element inside expressions: f32 for what is stored as f16 or bf16."""
        return self.source.dtype.compute

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, where: Any) -> Expr:
        found = where if isinstance(where, tuple) else (where,)
        if any(i is Ellipsis or isinstance(i, slice) for i in found):
            raise bad(f"{self.name} is sliced here", "slice", "tw.ops.slice(x, (start, stop), ...), a pair an axis")
        if len(found) != self.ndim:
            raise bad(f"{self.name} has {_axes(self.ndim)} and is indexed with {len(found)}", "rank",
                      "one index an axis")  # fmt: skip
        return wrap(to_node(self.source[found]))

    def as_output(self) -> OutputSlice:
        """All of it, as an output of a kernel."""
        if isinstance(self.source, Func):
            return OutputSlice(self.source, (to_index(0, "start"),) * self.ndim, tuple(map(to_node, self.shape)))
        raise bad(f"the input {self.name} is returned", "output", "return what is computed from it")

    def _with(self, other: Operand, f: Callable[..., Expr], name: str, swapped: bool = False) -> Value:
        return elementwise(f, *((other, self) if swapped else (self, other)), name=name)

    def __add__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a + b, "add")

    def __radd__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a + b, "add", True)

    def __sub__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a - b, "sub")

    def __rsub__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a - b, "sub", True)

    def __mul__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a * b, "mul")

    def __rmul__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a * b, "mul", True)

    def __truediv__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a / b, "div")

    def __rtruediv__(self, o: Operand) -> Value:
        return self._with(o, lambda a, b: a / b, "div", True)

    def __neg__(self) -> Value:
        return elementwise(lambda a: -a, self, name="neg")


def _axes(n: int) -> str:
    return f"{n} ax{'i' if n == 1 else 'e'}s"


def extent(n: Any) -> Expr:
    """An extent as an expression of sizes and numbers."""
    return wrap(to_index(n, "an extent"))


def same(a: Any, b: Any) -> bool:
    """Whether two extents are one for all sizes."""
    return to_node(extent(a)) is to_node(extent(b))


def is_one(n: Any) -> bool:
    return same(n, 1)


def value(x: Any, shape: Sequence[Any] | None = None) -> Value:
    """`x` as a Value: an input has its shape; a Func is infinite, so that its `shape` has to be given."""
    if isinstance(x, Value):
        if shape is not None and not (len(shape) == x.ndim and all(map(same, shape, x.shape))):
            raise bad(f"{x!r} is given another shape", "shape", "take a part with tw.ops.slice, or tw.ops.reshape it")
        return x
    if isinstance(x, (Array, InoutFunc)):
        return Value(x, x.shape if shape is None else shape)
    if isinstance(x, Func):
        if shape is None:
            raise bad(f"the Func {x.name} has no shape", "shape", f"give it: tw.ops.value({x.name}, (M, N))")
        if len(shape) != x.rank:
            raise bad(f"{x.name} has {_axes(x.rank)} and a shape of {len(shape)}", "shape", "one extent an axis")
        return Value(x, shape)
    raise bad(f"{x!r} is no tensor", "operand", "operators take inputs, Values, or Funcs with tw.ops.value(f, shape)")


def variables(rank: int, base: str = "x") -> tuple[Var, ...]:
    return tuple(Var(f"{base}{k}") for k in range(rank))


def broadcast(shapes: Sequence[Sequence[Expr]], what: str) -> tuple[Expr, ...]:
    """The shape that all `shapes` stretch to: aligned at the last axis; extents are the same, or 1, or missing."""
    out: list[Expr] = []
    for k in range(1, max(map(len, shapes), default=0) + 1):
        found = [s[-k] for s in shapes if len(s) >= k]
        wide = [n for n in found if not is_one(n)]
        for n in wide[1:]:
            if not same(n, wide[0]):
                raise bad(
                    f"{what}: shapes {' and '.join(map(_shown, shapes))} differ on axis {-k}", "shape",
                    "extents must be the same expression of sizes, or 1; name one size in both annotations",
                )  # fmt: skip
        out.append(wide[0] if wide else found[0])
    return tuple(reversed(out))


def _shown(shape: Sequence[Expr]) -> str:
    return "(" + ", ".join(map(repr, shape)) + ")"


def stretched(v: Value, at: Sequence[Expr]) -> Expr:
    """The element of `v` at an index of a shape that it is broadcast to."""
    own = at[len(at) - v.ndim :]
    return v[tuple(wrap(to_node(0)) if is_one(n) else i for n, i in zip(v.shape, own, strict=True))]


def is_scalar(x: Operand) -> bool:
    return not isinstance(x, (Value, Array, Func))


def elementwise(f: Callable[..., Any], *operands: Operand, name: str = "map", dtype: Any = None) -> Value:
    """`f` of the elements of all operands at each place: `tw.ops.elementwise(lambda a, b: a * tw.exp(b), x, y)`.

    Shapes are broadcast as NumPy does; numbers and scalar expressions are taken as they are. `dtype` is the type that
    the result is stored in (by default that of the values).
    """
    values = [x if is_scalar(x) else value(x) for x in operands]
    shape = broadcast([v.shape for v in values if isinstance(v, Value)], name)
    out, at = automatic(name, dtype), variables(len(shape))
    out[at] = f(*(stretched(v, at) if isinstance(v, Value) else v for v in values))
    return Value(out, shape)


def axis_of(v: Value, axis: int) -> int:
    """An axis counted from the front; negative ones count from the back."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -v.ndim <= axis < v.ndim:
        raise bad(f"{v!r} has no axis {axis!r}", "axis", f"axes are numbers from {-v.ndim} to {v.ndim - 1}")
    return axis % v.ndim


def literal(n: Any) -> int | None:
    """An extent as a number, where it is one."""
    node = to_node(extent(n))
    return int(node.attr) if node.op == "const" else None


def to_f(x: Any, like: Value) -> Expr:
    """A number or index expression as a value of the type of `like`."""
    return expr.cast(like.dtype, x)
