"""A pipeline with f64 in place of every other float: the same structure, with bounds of errors that say something where
those of f32 are lost in a long chain."""

from __future__ import annotations

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func, InoutFunc, OutputSlice
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline, ScalarParam, make_pipeline
from tilewright.lang.tensors import Array, Table, Tensor
from tilewright.lang.types import DType, f64
from tilewright.planner.rebuild import Rebuilder

_OPAQUE = ("bitcast", "call_extern", "stage")  # what has no other type


def in_double(p: Pipeline) -> Pipeline | None:
    """The twin of a pipeline, its Funcs and parameters by the same names, so that its schedules are the twin's too. None
    where something in it has no such form, or where nothing would change."""
    floats = [n for n in ir.postorder(p.roots()) if n.dtype.is_float]
    if any(n.op in _OPAQUE for n in ir.postorder(p.roots())) or all(n.dtype is f64 for n in floats):
        return None
    return _Twin(p).pipeline()


def _wide(t: DType) -> DType:
    return f64 if t.is_float else t


class _Twin(Rebuilder):
    """Rebuilds a pipeline over wider tensors."""

    def __init__(self, p: Pipeline):
        super().__init__()
        self.p = p
        self.tensors: dict[Tensor, Tensor] = {}

    def pipeline(self) -> Pipeline:
        p = self.p
        params: list[Array | ScalarParam | InoutFunc] = []
        for q in p.params:
            if isinstance(q, ScalarParam):
                params.append(ScalarParam(q.name, _wide(q.dtype)))
                continue
            a = q.inout if isinstance(q, InoutFunc) else q
            assert a is not None
            made: Array | InoutFunc = Array(a.name, _wide(a.dtype), a.extents)
            if isinstance(q, InoutFunc):
                made = InoutFunc(made)
            self.tensors[q] = made
            params.append(made)
        for f in p.funcs:
            if not isinstance(f, InoutFunc):
                self.tensors[f] = Func(f.name, tuple(map(_wide, f.dtypes)))
        for f in p.funcs:
            self._define(f, self.tensors[f])  # type: ignore[arg-type]
        slices = tuple(
            OutputSlice(self.tensors[o.func], o.starts, o.stops)  # type: ignore[arg-type]
            for o in p.outputs
            if o.component == 0
        )
        return make_pipeline(slices or None, params, p.name, p.location)

    def _rebuilt(self, n: Node, args: tuple[Node, ...]) -> Node:
        if n.op == "rvar":
            return self.rvars[n]
        if n.op == "round_to" or (n.op == "cast" and args[0].dtype is _wide(n.dtype)):
            return args[0]
        if n.op == "load":
            return ir.node("load", _wide(n.dtype), args, (self._tensor(n.attr[0]), n.attr[1]))
        if not n.dtype.is_float:
            return ir.rebuild(n, args)
        return (
            simplify.build(n.op, f64, args, n.attr)
            if n.op in ("select", "likely")
            else ir.node(n.op, f64, args, n.attr)
        )

    def _tensor(self, t: Tensor) -> Tensor:
        if t not in self.tensors:
            assert isinstance(t, Table)
            wide = t.dtype.is_float
            self.tensors[t] = Table(t.name, t.values.astype("f8")) if wide else t
        return self.tensors[t]


__all__ = ["in_double"]
