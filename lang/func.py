"""Funcs, their definitions and updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.lang import ir, types
from tilewright.lang.errors import Location, TilewrightError, user_location
from tilewright.lang.expr import Expr, cast_node, fail, is_literal, to_node, type_name, wrap
from tilewright.lang.extern_stage import StageCall
from tilewright.lang.ir import Node
from tilewright.lang.symbols import Domain, Var, automatic_name, bad, given_name, to_index
from tilewright.lang.tensors import Array, Tensor, as_indexed, axes_of
from tilewright.lang.types import DType, as_dtype, index

# Funcs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Definition:
    """One definition of a Func: `func[lhs] = values` over the Vars in `lhs` and the points of `rdom`.

    `lhs` are index nodes (distinct Vars for the pure definition), `values` one node a component, already of the
    Func's types (with explicit rounding to f16 and bf16).
    """

    func: Func
    number: int  # -1: the pure definition, else the update's position
    lhs: tuple[Node, ...]
    values: tuple[Node, ...]
    rdom: Domain | None
    location: Location | None

    @property
    def predicates(self) -> tuple[Node, ...]:
        return self.rdom.predicates if self.rdom is not None else ()

    @property
    def is_pure(self) -> bool:
        return self.number < 0

    @property
    def pure_vars(self) -> tuple[Node, ...]:
        """Vars of the left side, in its order."""
        return tuple(i for i in self.lhs if i.op == "var")

    @property
    def roots(self) -> tuple[Node, ...]:
        """All expressions of the definition: left side, values, predicates."""
        return (*self.lhs, *self.values, *self.predicates)


@dataclass(frozen=True)
class OutputSlice:
    """A region of a Func that a kernel returns: per axis start and stop (index nodes)."""

    func: Func
    starts: tuple[Node, ...]
    stops: tuple[Node, ...]


class FuncRef(Expr):
    """`f[i, j]`: the element of a Func, or the left side of a definition."""

    __slots__ = ("_made", "func", "indices")

    def __init__(self, func: Func, indices: tuple):
        self.func, self.indices, self._made = func, indices, None

    @property
    def untyped(self) -> bool:
        """The Func was only defined by literals so far: its type is still open."""
        return self.func.open_type is not None

    @property
    def node(self) -> Node:
        if self._made is None:
            f = self.func
            f.require_defined()
            if f.open_type is not None:
                f.close_type(f.open_type)
            if len(f.dtypes) != 1:
                raise bad(f"{f.name} is a tuple", "tuple-value", f"take a component: {f.name}[...][0]")
            self._made = f._load(self.indices, f.rank, f.dtypes[0])
            f.used = True
        return self._made

    def component(self, k: int) -> Expr:
        f = self.func
        f.require_defined()
        if f.open_type is not None:
            f.close_type(f.open_type)
        if not 0 <= k < len(f.dtypes):
            raise bad(f"{f.name} has {len(f.dtypes)} components, there is no {k}", "tuple-component",
                      f"0 to {len(f.dtypes) - 1}")  # fmt: skip
        f.used = True
        return wrap(f._load(self.indices, f.rank, f.dtypes[k], k))

    def __getitem__(self, k: int) -> Expr:
        if not isinstance(k, int):
            raise bad(f"component {k!r} of {self.func.name}", "tuple-component", "components are numbered from 0")
        return self.component(k)

    def __iter__(self) -> Iterator[Expr]:
        if len(self.func.dtypes) < 2:
            return super().__iter__()
        return iter([self.component(k) for k in range(len(self.func.dtypes))])

    def _step(self, op: str, value: Any) -> Increment:
        return Increment(self, op, value)

    def __iadd__(self, o: Any) -> Any:
        return self._step("add", o)

    def __isub__(self, o: Any) -> Any:
        return self._step("sub", o)

    def __imul__(self, o: Any) -> Any:
        return self._step("mul", o)

    def __itruediv__(self, o: Any) -> Any:
        return self._step("div", o)

    def __iand__(self, o: Any) -> Any:
        return self._step("and", o)

    def __ior__(self, o: Any) -> Any:
        return self._step("or", o)

    def __ixor__(self, o: Any) -> Any:
        return self._step("xor", o)


@dataclass(frozen=True)
class Increment:
    """`f[i] op= value` on its way from the operator to the assignment."""

    ref: FuncRef
    op: str
    value: Any

    def apply(self) -> Any:
        from tilewright.lang import expr

        if self.op in ("add", "sub", "mul"):
            return expr.binary(self.op, self.ref, self.value)
        if self.op == "div":
            return expr.divide(self.ref, self.value)
        return expr.bitwise(self.op, self.ref, self.value)


_INITIAL = {"add": 0, "sub": 0, "mul": 1, "div": 1, "or": 0, "xor": 0, "and": -1}


class Func(Tensor):
    """A stage of the computation: a function on an infinite integer grid, of one value or a tuple of values."""

    def __init__(self, name: str, dtype: Any = None):
        self.name = name
        declared = dtype if isinstance(dtype, tuple) else (dtype,) if dtype is not None else ()
        self.declared: tuple[DType, ...] = tuple(as_dtype(d) for d in declared)
        self.dtypes: tuple[DType, ...] = self.declared
        self.init: Definition | None = None
        self.updates: list[Definition] = []
        self.inout: Array | None = None
        self.open_type: DType | None = None  # set while only literals define it
        self.used = False
        self.frozen_by: str | None = None

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Func {self.name}"

    @property
    def rank(self) -> int:
        if self.inout is not None:
            return self.inout.ndim
        self.require_defined()
        return len(self.init.lhs)  # type: ignore[union-attr]

    @property
    def dtype(self) -> DType:
        self.require_defined()
        return self.dtypes[0]

    @property
    def args(self) -> tuple[Node, ...]:
        """The Vars of the pure definition."""
        self.require_defined()
        return self.init.lhs  # type: ignore[union-attr]

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The pure definition (none for an `inout`, which starts as the array's content), then the updates."""
        return ((self.init,) if self.init and self.inout is None else ()) + tuple(self.updates)

    def require_defined(self) -> None:
        if self.init is None and self.inout is None:
            raise bad(
                f"{self.name} is used before it is defined", "undefined", f"define it first: {self.name}[i] = ..."
            )

    def boxed(self) -> tuple[Node | None, ...]:
        self.require_defined()
        if self.open_type is not None:
            self.close_type(self.open_type)
        self.used = True
        return (None,) * self.rank if self.inout is None else self.inout.extents

    def __getitem__(self, where: Any) -> Any:
        found = where if isinstance(where, tuple) else (where,)
        if any(isinstance(i, slice) for i in found):
            return self._slice(found)
        if self.init is not None and len(found) != self.rank:
            hint = as_indexed(self.name, self.rank)
            raise bad(f"{self.name} has {axes_of(self.rank)} and is indexed with {len(found)}", "rank", hint)
        return FuncRef(self, found)

    def _slice(self, where: tuple) -> OutputSlice:
        self.require_defined()
        if len(where) != self.rank:
            hint = f"slice it as {self.name}[{', '.join([':stop'] * self.rank) or '()'}]"
            raise bad(f"{self.name} has {axes_of(self.rank)} and is sliced with {len(where)}", "rank", hint)
        starts, stops = [], []
        for k, s in enumerate(where):
            if not isinstance(s, slice) or s.step is not None or s.stop is None:
                what = "an index" if not isinstance(s, slice) else "no stop" if s.stop is None else "a step"
                raise bad(
                    f"axis {k} of the output {self.name} has {what}", "output-slice",
                    "write start:stop or :stop for every axis; the stop is required, steps are not allowed",
                )  # fmt: skip
            starts.append(to_index(0 if s.start is None else s.start, "start"))
            stops.append(to_index(s.stop, "stop"))
            for n in ir.postorder([starts[-1], stops[-1]]):
                if n.op in ("var", "rvar", "load", "assume"):
                    raise bad(f"axis {k} of the output {self.name} is cut at {n!r}", "output-slice",
                              "an output has one shape: its ends are made of sizes, scalars and numbers")  # fmt: skip
        return OutputSlice(self, tuple(starts), tuple(stops))

    def __setitem__(self, where: Any, value: Any) -> None:
        found = where if isinstance(where, tuple) else (where,)
        if any(isinstance(i, slice) for i in found):
            raise bad(f"{self.name} is assigned a slice", "slice", "define it for one element: f[i, j] = ...")
        if self.frozen_by:
            raise bad(
                f"{self.name} is defined again after {self.frozen_by}", "frozen",
                "a Func can't change once a pipeline was made of it; make another Func",
            )  # fmt: skip
        before = self.init, self.dtypes, self.open_type
        try:
            self._define(found, value)
        except TilewrightError:
            self.init, self.dtypes, self.open_type = before
            raise

    def _define(self, found: tuple, value: Any) -> None:
        if isinstance(value, StageCall):
            return self._define_by_stage(found, value)
        if isinstance(value, Increment):
            if value.ref.func is not self:
                raise bad(f"{self.name} is assigned an update of {value.ref.func.name}", "increment",
                          "write f[...] += value, with one Func on both sides")  # fmt: skip
            if self.init is None and self.inout is None:
                self._implicit_init(value, len(found))
            value = value.apply()
        if isinstance(value, FuncRef) and len(value.func.dtypes) > 1:
            value = tuple(value)
        values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if self.init is None and self.inout is None:
            self._define_pure(found, values)
        else:
            self._define_update(found, values)

    def _implicit_init(self, step: Increment, rank: int) -> None:
        start = _INITIAL[step.op]
        names = [f"_{k}" for k in range(rank)]  # names of their own: the update's Vars may stand anywhere
        for k, i in enumerate(step.ref.indices):
            if isinstance(i, Var) and i.name not in names:
                names[k] = i.name
        if not self.declared and step.op in ("and", "or", "xor"):
            t = to_node(step.value).dtype
            self._define_pure(tuple(Var(n) for n in names), (wrap(ir.const(bool(start) if t.is_bool else start, t)),))
        else:
            self._define_pure(tuple(Var(n) for n in names), (start,))

    # Definitions ---------------------------------------------------------------------------------------------

    def _define_pure(self, where: tuple, values: tuple) -> None:
        place = user_location()
        lhs = self._pure_lhs(where, place)
        if self.declared and len(self.declared) != len(values):
            raise bad(f"{self.name} has {len(self.declared)} declared types and {len(values)} values", "tuple-arity",
                      "give a value for each type, or leave the types out")  # fmt: skip
        if not self.declared:
            self.dtypes, self.open_type = self._types_of(values)
        nodes = tuple(self._value(v, k) for k, v in enumerate(values)) if self.open_type is None else ()
        self._literals = values
        for n in ir.postorder(nodes):
            if n.op == "rvar":
                raise bad(f"the pure definition of {self.name} uses the reduction variable {n!r}", "pure-rvar",
                          "reduce in an update, or with tw.sum(..., over=)", place)  # fmt: skip
            if n.op == "load" and n.attr[0] is self:
                hint = f"give it first values, then an update over a reduction domain: {self.name}[r] = ..."
                raise bad(f"the pure definition of {self.name} reads {self.name}", "pure-self", hint, place)
        self._free_vars(lhs, nodes, place)
        self.init = Definition(self, -1, lhs, nodes, None, place)

    def _pure_lhs(self, where: tuple, place: Location | None) -> tuple[Node, ...]:
        lhs: list[Node] = []
        for k, i in enumerate(where):
            n = to_node(i)
            if n.op != "var" or n in lhs:
                raise bad(
                    f"index {k} of the pure definition of {self.name} is {n!r}", "pure-lhs",
                    "the first definition takes distinct Vars; reductions and scatters are updates of it", place,
                )  # fmt: skip
            lhs.append(n)
        return tuple(lhs)

    def _define_by_stage(self, where: tuple, called: StageCall) -> None:
        """The pure definition `f[i, j] = stage(...)`: one `stage` node a component, which all have the same arguments."""
        place, name = user_location(), called.stage.name
        if self.init is not None or self.inout is not None:
            raise bad(f"{self.name} is updated by the stage {name}", "stage-update",
                      "a stage is a pure definition: give it a Func of its own", place)  # fmt: skip
        if not self.declared:
            raise bad(f"{self.name} is computed by the stage {name} and has no type", "stage-type",
                      f"declare it: tw.func({self.name!r}, tw.f32)", place)  # fmt: skip
        lhs, args = self._pure_lhs(where, place), called.nodes()
        for n in ir.leaves(args, "load"):
            if n.attr[0] is self:
                raise bad(f"the stage of {self.name} reads {self.name}", "pure-self",
                          "a stage of yours computes a Func as a whole, from others", place)  # fmt: skip
        self._free_vars(lhs, args, place)
        nodes = tuple(ir.node("stage", t.compute, args, (called.stage, k)) for k, t in enumerate(self.dtypes))
        self.init = Definition(self, -1, lhs, nodes, None, place)

    def _types_of(self, values: tuple) -> tuple[tuple[DType, ...], DType | None]:
        if len(values) == 1 and is_literal(values[0]):
            v = values[0]
            t = types.bool_ if isinstance(v, bool) else types.i64 if isinstance(v, int) else types.f64
            return (t,), None if isinstance(v, bool) else t
        found = []
        for v in values:
            t = to_node(v).dtype
            found.append(types.i64 if t is index else t)
        return tuple(found), None

    def close_type(self, t: DType) -> None:
        """Settle the type of a Func that only literals defined so far."""
        assert self.init is not None
        self.open_type = None
        self.dtypes = (types.i64 if t is index else t,)
        old = self.init
        nodes = tuple(self._value(v, k) for k, v in enumerate(self._literals))
        self.init = Definition(self, -1, old.lhs, nodes, None, old.location)

    def _value(self, value: Any, k: int) -> Node:
        """A value as a node of component k's type; other types are an error that says cast."""
        t = self.dtypes[k]
        n = to_node(value, t)
        if n.dtype is not t.compute:
            weak = n.dtype is index and (t is types.i64 or t.is_float)
            if not weak and not (t.is_storage_only and n.dtype in (types.f32, types.f64)):
                fail(
                    f"{self.name} has type {t} and is given a value of type {type_name(n.dtype)}",
                    f"write tw.cast(tw.{t}, ...), or declare the type: tw.func({self.name!r}, tw.{n.dtype})",
                    code="type.definition",
                )
        return cast_node(n, t)

    def _define_update(self, where: tuple, values: tuple) -> None:
        place = user_location()
        if len(where) != self.rank:
            hint = as_indexed(self.name, self.rank)
            given = f"{len(where)} indices"
            raise bad(f"{self.name} has {axes_of(self.rank)} and is updated with {given}", "rank", hint, place)
        if self.open_type is not None:
            t = to_node(values[0]).dtype if not is_literal(values[0]) else self.open_type
            if self.open_type is not None:
                self.close_type(t)
        if len(values) != len(self.dtypes):
            raise bad(
                f"{self.name} has {len(self.dtypes)} components and is given {len(values)}",
                "tuple-arity",
                "an update gives every component a value; its old ones may be among them",
                place,
            )
        lhs = tuple(to_index(i, f"index {k} of {self.name}") for k, i in enumerate(where))
        nodes = tuple(self._value(v, k) for k, v in enumerate(values))
        domain = self._domain(lhs + nodes, place)
        d = Definition(self, len(self.updates), lhs, nodes, domain, place)
        self._check_update(d, place)
        self.updates.append(d)

    def _domain(self, roots: Sequence[Node], place: Location | None) -> Domain | None:
        found = list(dict.fromkeys(n.attr[0] for n in ir.leaves(roots, "rvar")))
        if len(found) > 1:
            raise bad(f"an update of {self.name} uses {len(found)} reduction domains", "rdom-several",
                      "put all its variables into one tw.rdom(...)", place)  # fmt: skip
        if found:
            found[0].frozen = True
        return found[0] if found else None

    def _check_update(self, d: Definition, place: Location | None) -> None:
        bare = {n: k for k, n in enumerate(d.lhs) if n.op == "var"}
        if d.rdom:
            clash = [n for n in d.rdom.ranges if ir.var(n) in bare]
            if clash:
                raise bad(f"{clash[0]} is both a Var and a reduction variable here", "name-twice", "rename one", place)
            for n in ir.postorder(d.predicates):
                if n.op == "load" and n.attr[0] is self:
                    hint = f"select inside the value: tw.select({self.name}[...] > 0, new, {self.name}[...])"
                    raise bad(
                        f"the predicate of an update of {self.name} reads {self.name}", "predicate-self", hint, place
                    )
                if n.op == "rvar" and n.attr[0] is not d.rdom:
                    raise bad("the predicate uses another reduction domain", "rdom-several",
                              "an update has one: tw.rdom(y=..., x=...) has several variables", place)  # fmt: skip
        for k, n in enumerate(d.lhs):
            if any(v not in bare for v in ir.leaves([n], "var")):
                raise bad(f"index {k} of an update of {self.name} is {n!r}", "update-lhs",
                          "a Var must be an index by itself as well, so that each of its values has elements of its own; "
                          "or use a reduction variable", place)  # fmt: skip
        if len(bare) != sum(1 for n in d.lhs if n.op == "var"):
            raise bad(f"an update of {self.name} uses a Var twice on the left", "update-lhs",
                      "for a diagonal take a reduction variable: f[r, r] = ... with r = tw.rdom(r=N)", place)  # fmt: skip
        for n in ir.postorder(d.roots):
            if n.op == "load" and n.attr[0] is self:
                for v, k in bare.items():
                    if n.args[k] is not v:
                        raise bad(
                            f"an update of {self.name} over {v!r} reads {n!r}", "update-self",
                            f"where the left has {v!r}, it must read {v!r} in the same place; use a reduction variable",
                            place,
                        )  # fmt: skip
        self._free_vars(d.lhs, d.roots, place)

    def _free_vars(self, lhs: tuple[Node, ...], roots: Sequence[Node], place: Location | None) -> None:
        known = {n for n in lhs if n.op == "var"}
        for n in ir.leaves(roots, "var"):
            if n not in known:
                raise bad(f"{n!r} is used in a definition of {self.name} but not on its left side", "free-var",
                          "give it an index, or reduce over it with a reduction variable", place)  # fmt: skip


class InoutFunc(Func):
    """An `inout` parameter: starts as the array's content; updates write through."""

    def __init__(self, array: Array):
        super().__init__(array.name, array.dtype)
        self.inout = array

    @property
    def shape(self) -> tuple[Expr, ...]:
        assert self.inout is not None
        return self.inout.shape

    @property
    def ndim(self) -> int:
        return self.rank

    @property
    def args(self) -> tuple[Node, ...]:
        return tuple(ir.var(f"_{k}") for k in range(self.rank))


def func(name: str | None = None, dtype: Any = None) -> Func:
    """A new Func. `dtype` declares its type (a tuple of types for a tuple); else it follows from the definition."""
    if name is None:
        return Func(automatic_name("f"), dtype)
    return Func(given_name(name, "Func"), dtype)


def automatic(base: str, dtype: Any = None) -> Func:
    """A Func with a name of ours: `base`, or `base_1`, ... where that is taken."""
    return Func(automatic_name(base), dtype)
