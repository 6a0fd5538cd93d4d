"""What is read by index: input arrays, tables, and (in `func`) Funcs; and the boxes of them that stages read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tilewright.lang import ir, types
from tilewright.lang.errors import SymbolicUseError, user_location
from tilewright.lang.expr import Expr, Symbolic, wrap
from tilewright.lang.ir import Node
from tilewright.lang.symbols import automatic_name, bad, check_name, to_index
from tilewright.lang.types import DType, index


def axes_of(rank: int) -> str:
    return f"{rank} ax{'i' if rank == 1 else 'e'}s"


def as_indexed(name: str, rank: int) -> str:
    return f"index it as {name}[{', '.join(f'i{k}' for k in range(rank)) or '()'}]"


class Tensor(Symbolic):
    """What is read by index: an input array, a table or a Func."""

    name: str

    def _unindexed(self, *others: Any) -> NoReturn:
        raise SymbolicUseError(
            f"arithmetic on all of {self.name} at once", where=user_location(),
            hint=f"say it for one element: {self.name}[i]",
        )  # fmt: skip

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _unindexed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _unindexed
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _unindexed
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _unindexed
    __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _unindexed

    @property
    def box(self) -> Boxes:
        """What a stage of the user's reads (`tw.extern_stage`): `A.box[i - 1 : i + 2, :]`, an index or a slice an axis."""
        return Boxes(self)

    def boxed(self) -> tuple[Node | None, ...]:
        """The extent of every axis, None where it has none: a stage reads boxes of it from now on."""
        raise NotImplementedError

    def _load(self, where: tuple, rank: int, dtype: DType, component: int = 0) -> Node:
        found = where if isinstance(where, tuple) else (where,)
        if any(i is Ellipsis or isinstance(i, slice) for i in found):
            raise bad(f"{self.name} is sliced here", "slice", "index it with one expression an axis")
        if len(found) != rank:
            hint = as_indexed(self.name, rank)
            raise bad(f"{self.name} has {axes_of(rank)} and is indexed with {len(found)}", "rank", hint)
        args = tuple(to_index(i, f"index {k} of {self.name}") for k, i in enumerate(found))
        return ir.node("load", dtype.compute, args, (self, component))


class Boxes:
    """What `A.box` gives: index it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def __getitem__(self, where: Any) -> Box:
        t = self.tensor
        found = where if isinstance(where, tuple) else (where,)
        ends = t.boxed()
        rank = len(ends)
        if len(found) != rank:
            raise bad(f"{t.name} has {axes_of(rank)} and a box of it {len(found)}", "rank",
                      f"write it as {t.name}.box[{', '.join(['start:stop'] * rank) or '()'}]")  # fmt: skip
        return Box(t, tuple(_box_axis(t, k, i, ends[k]) for k, i in enumerate(found)))


@dataclass(frozen=True, eq=False)
class Box:
    """A box of a tensor that a stage of the user's reads; `indices` are index nodes, `span` nodes where it is a slice."""

    tensor: Tensor
    indices: tuple[Node, ...]

    def loads(self) -> tuple[Node, ...]:
        """One load node a component."""
        types_ = getattr(self.tensor, "dtypes", None) or (self.tensor.dtype,)  # type: ignore[attr-defined]
        return tuple(ir.node("load", t.compute, self.indices, (self.tensor, k)) for k, t in enumerate(types_))


def _box_axis(t: Tensor, k: int, i: Any, extent: Node | None) -> Node:
    if isinstance(i, slice):
        stop = extent if i.stop is None else i.stop
        if i.step is not None or stop is None:
            what = "a step" if i.step is not None else "no stop"
            raise bad(f"axis {k} of a box of {t.name} has {what}", "stage-box", "write start:stop; there are no steps")
        ends = (to_index(0 if i.start is None else i.start, "start"),
                stop if isinstance(stop, Node) else to_index(stop, "stop"))  # fmt: skip
        made = ir.node("span", index, ends)
    else:
        made = to_index(i, f"index {k} of a box of {t.name}")
    if any(n.op in ("load", "rvar", "assume") for n in ir.postorder((made,))):
        raise bad(f"axis {k} of a box of {t.name} is {made!r}", "stage-box",
                  "its ends are made of Vars, sizes, scalars and numbers")  # fmt: skip
    return made


class Array(Tensor):
    """An input: element type, one extent (an index node) an axis."""

    def __init__(self, name: str, dtype: DType, extents: tuple[Node, ...]):
        self.name, self.dtype, self.extents = name, dtype, extents

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(repr, self.extents))}]"

    __hash__ = object.__hash__

    @property
    def ndim(self) -> int:
        return len(self.extents)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents as expressions."""
        return tuple(wrap(e) for e in self.extents)

    def boxed(self) -> tuple[Node | None, ...]:
        return self.extents

    def __getitem__(self, where: Any) -> Expr:
        return wrap(self._load(where, self.ndim, self.dtype))

    def __setitem__(self, where: Any, value: Any) -> NoReturn:
        raise bad(
            f"{self.name} is an input and is given a value", "input",
            f"define a Func, or let it be written: {self.name}: tw.inout(tw.{self.dtype}[...])",
        )  # fmt: skip


class Table(Array):
    """A constant array that the kernel refers to; its content is part of the algorithm, never of the code."""

    def __init__(self, name: str, values: np.ndarray):
        t = types.from_numpy(values.dtype)
        if t is None:
            raise bad(f"a table of {values.dtype}", "table-type", "known types: " + ", ".join(types.DTYPES))
        super().__init__(name, t, tuple(ir.integer(n) for n in values.shape))
        self.values = values


def const(array: Any, name: str = "table") -> Table:
    """A constant table, passed by reference: `w = tw.const(np.array([1, 2, 1], np.float32))`, read as `w[k]`."""
    values = np.array(array, copy=True)  # a later change of the caller's array must not change the algorithm
    values.setflags(write=False)
    return Table(automatic_name(check_name(name, "table")), values)
