"""Element types. `f32` and its like are classes, so that `A: tw.f32[M, K]` reads well and satisfies checkers.

The metaclass `DType` carries the facts. `index` is not a storage type: it is the type of expressions over Vars,
sizes and literals, which live in the integers (see the numerics contract), so the simplifier may treat them freely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.lang.errors import TypeRuleError, user_location

if TYPE_CHECKING:
    from tilewright.lang.expr import Expr


class DType(type):
    """The class of element types: `name`, `kind` (one of b i u f), `bits`, `np` (the NumPy dtype)."""

    name: str
    kind: str
    bits: int

    def __new__(mcls, clsname: str, bases: tuple, ns: dict, kind: str = "", bits: int = 0):
        cls = super().__new__(mcls, clsname, bases, ns)
        cls.name, cls.kind, cls.bits = clsname.rstrip("_"), kind, bits
        return cls

    def __init__(cls, clsname: str, bases: tuple, ns: dict, kind: str = "", bits: int = 0):
        super().__init__(clsname, bases, ns)

    def __repr__(cls) -> str:
        return cls.name

    @property
    def np(cls) -> np.dtype:
        """The NumPy dtype of stored elements."""
        return _numpy_dtype(cls.name)

    @property
    def bytes(cls) -> int:
        return max(1, cls.bits // 8)

    @property
    def is_float(cls) -> bool:
        return cls.kind == "f"

    @property
    def is_int(cls) -> bool:
        return cls.kind in "iu"

    @property
    def is_bool(cls) -> bool:
        return cls.kind == "b"

    @property
    def is_storage_only(cls) -> bool:
        """f16 and bf16 exist in memory only; a load of them is f32 at once."""
        return cls.name in ("f16", "bf16")

    @property
    def compute(cls) -> DType:
        """The type that a value of this type has inside an expression."""
        return f32 if cls.is_storage_only else cls

    @property
    def low(cls) -> int:
        """Smallest value of an integer type."""
        return -(1 << (cls.bits - 1)) if cls.kind == "i" else 0

    @property
    def high(cls) -> int:
        """Largest value of an integer type (1 for bool)."""
        if cls.kind == "b":
            return 1
        return (1 << (cls.bits - 1)) - 1 if cls.kind == "i" else (1 << cls.bits) - 1


class ArraySpec:
    """What an annotation such as `tw.f32[M, K]` says: element type and one extent an axis."""

    __slots__ = ("axes", "dtype", "inout")

    def __init__(self, dtype: Any, axes: tuple, inout: bool = False):
        self.dtype, self.axes, self.inout = dtype, axes, inout

    def __repr__(self) -> str:
        text = f"{self.dtype!r}[{', '.join(map(str, self.axes))}]"
        return f"inout({text})" if self.inout else text


class Element(metaclass=DType):
    """Base of the element types; indexing a type gives an array annotation, `f32[()]` one of rank 0."""

    if TYPE_CHECKING:
        shape: tuple[Expr, ...]

        def __getitem__(self, index: Any) -> Expr: ...

    def __class_getitem__(cls, axes: Any) -> Any:
        return ArraySpec(cls, axes if isinstance(axes, tuple) else (axes,))


class bool_(Element, kind="b", bits=8): ...


class i8(Element, kind="i", bits=8): ...


class i16(Element, kind="i", bits=16): ...


class i32(Element, kind="i", bits=32): ...


class i64(Element, kind="i", bits=64): ...


class u8(Element, kind="u", bits=8): ...


class u16(Element, kind="u", bits=16): ...


class u32(Element, kind="u", bits=32): ...


class u64(Element, kind="u", bits=64): ...


class f16(Element, kind="f", bits=16): ...


class bf16(Element, kind="f", bits=16): ...


class f32(Element, kind="f", bits=32): ...


class f64(Element, kind="f", bits=64): ...


class index(Element, kind="i", bits=64): ...


DTYPES: dict[str, DType] = {t.name: t for t in (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)}
INTEGERS: tuple[DType, ...] = (i8, i16, i32, i64, u8, u16, u32, u64)

_NUMPY_NAMES = {
    "bool": "bool", "index": "int64", "f16": "float16", "f32": "float32", "f64": "float64",
    **{f"i{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)},
}  # fmt: skip
_numpy_cache: dict[str, np.dtype] = {}


def _numpy_dtype(name: str) -> np.dtype:
    found = _numpy_cache.get(name)
    if found is None:
        if name == "bf16":
            import ml_dtypes  # only programs with bf16 pay for the import

            found = np.dtype(ml_dtypes.bfloat16)
        else:
            found = np.dtype(_NUMPY_NAMES[name])
        _numpy_cache[name] = found
    return found


_BY_NUMPY_NAME = {v: DTYPES[k] for k, v in _NUMPY_NAMES.items() if k in DTYPES} | {"bfloat16": bf16}


def from_numpy(dtype: Any) -> DType | None:
    """The element type that stores like a NumPy dtype in native byte order, or None."""
    dtype = np.dtype(dtype)
    return _BY_NUMPY_NAME.get(dtype.name) if dtype.isnative else None


def as_dtype(value: Any) -> DType:
    """An element type from one of ours, its name, or anything that NumPy takes for a dtype."""
    if isinstance(value, DType):
        return value
    found = DTYPES.get(value) if isinstance(value, str) else None
    if found is None:
        try:
            found = from_numpy(value)
        except (TypeError, ValueError):
            found = None
    if found is None:
        raise TypeRuleError(
            f"{value!r} is not an element type",
            code="type.unknown",
            where=user_location(),
            hint="known types: " + ", ".join(DTYPES),
        )
    return found


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2}


def promote(a: DType, b: DType) -> DType | None:
    """The type of an operation on two typed values (NumPy's `result_type`, index rules besides); None if there is none.

    index against integers is i64, against floats it is weak, against u64 there is no type.
    """
    if a is b:
        return a
    if index in (a, b):
        other = b if a is index else a
        if other.is_float:
            return other
        if other is u64:
            return None
        return i64
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_float and b.is_float:
        return a if a.bits >= b.bits else b
    if a.is_float or b.is_float:
        flt, itg = (a, b) if a.is_float else (b, a)
        return f64 if flt is f64 or itg.bits > 16 else f32
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    wider = {8: i16, 16: i32, 32: i64}.get(unsigned.bits)
    return f64 if wider is None else wider  # i64 with u64: NumPy goes to f64


class DTypeVar:
    """A type parameter of a generic kernel: `T = tw.dtype_var("T", tw.f32, tw.f64)`; `T[M, K]` annotates."""

    def __init__(self, name: str, *choices: Any):
        self.name = name
        self.choices = tuple(as_dtype(c) for c in choices) or tuple(DTYPES.values())

    def __getitem__(self, axes: Any) -> Any:
        return ArraySpec(self, axes if isinstance(axes, tuple) else (axes,))

    def __repr__(self) -> str:
        return self.name


def dtype_var(name: str, *choices: Any) -> DTypeVar:
    """A type parameter named `name` that may stand for any of `choices` (all types if none are given)."""
    return DTypeVar(name, *choices)
