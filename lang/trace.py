"""From a Python function to a pipeline: the parameters by their annotations, the body run once on symbols."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.lang import ir
from tilewright.lang.errors import DefinitionError, Location, user_frame
from tilewright.lang.expr import to_node, wrap
from tilewright.lang.func import InoutFunc
from tilewright.lang.nested import Names, Path, check_apart, check_keys, flat_name, is_nested, leaves, mapped
from tilewright.lang.pipeline import Pipeline, ScalarParam, make_pipeline
from tilewright.lang.symbols import bad, naming, to_index
from tilewright.lang.tensors import Array
from tilewright.lang.types import ArraySpec, DType, DTypeVar


class Inout:
    """`tw.inout(tw.f32[N])`: the array is read and written in place."""

    def __new__(cls, spec: ArraySpec) -> Any:
        return ArraySpec(spec.dtype, spec.axes, inout=True)


inout = Inout


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel function: `spec` is an ArraySpec, a type, a type variable, a dict, list or tuple of
    such, or None (static)."""

    name: str
    spec: Any
    default: Any
    keyword_only: bool

    @property
    def static(self) -> bool:
        return self.spec is None

    @property
    def flat(self) -> dict[str, Any]:
        """What it is of, by the names that its parts have as parameters of their own."""
        return {} if self.static else {flat_name(path): leaf for path, leaf in leaves(self.spec, (self.name,))}

    @property
    def default_missing(self) -> Any:
        """What `default` is where the function gives none."""
        return inspect.Parameter.empty


@dataclass(frozen=True)
class Interface:
    """What the signature of a kernel function says."""

    params: tuple[Parameter, ...]

    @property
    def statics(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.params if p.static)

    @property
    def type_vars(self) -> tuple[DTypeVar, ...]:
        found = (s.dtype if isinstance(s, ArraySpec) else s for p in self.params for s in p.flat.values())
        return tuple(dict.fromkeys(t for t in found if isinstance(t, DTypeVar)))

    @property
    def nested(self) -> bool:
        """Whether some parameter is a dict or a list of others."""
        return any(is_nested(p.spec) for p in self.params)

    @property
    def keyword_only(self) -> tuple[str, ...]:
        """The flat names of the parameters that a call gives by name."""
        return tuple(n for p in self.params if p.keyword_only for n in p.flat)


def function_location(fn: Callable) -> Location | None:
    code = getattr(fn, "__code__", None)
    return Location(code.co_filename, code.co_firstlineno) if code else None


def read_interface(fn: Callable) -> Interface:
    """The parameters of a kernel function, from its annotations."""
    place = function_location(fn)
    try:
        around = user_frame()  # sizes may be local to the function that the kernel is defined in
        notes = inspect.get_annotations(fn, locals=dict(around.f_locals) if around else None, eval_str=True)
    except Exception as e:
        raise DefinitionError(
            f"the annotations of {fn.__name__} can't be read: {e}", code="definition.annotation", where=place,
            hint="make the sizes first: M, N = tw.sizes('M N')",
        ) from e  # fmt: skip
    out = []
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise bad(f"{fn.__name__} takes *{p.name}", "signature", "name every parameter", place)
        spec = notes.get(p.name)
        ours = _is_spec(spec)
        if ours and is_nested(spec):
            check_keys(p.name, spec, place)
        if not ours and p.kind is not p.KEYWORD_ONLY:
            raise bad(f"parameter {p.name} of {fn.__name__} has no tilewright type", "annotation",
                      "annotate it: tw.f32[M, N] (or a dict or list of such) or, for a scalar, tw.f32; static values are "
                      "keyword-only",
                      place)  # fmt: skip
        out.append(Parameter(p.name, spec if ours else None, p.default, p.kind is p.KEYWORD_ONLY))
    check_apart([path for p in out if not p.static for path, _ in leaves(p.spec, (p.name,))], place)
    return Interface(tuple(out))


def _is_spec(x: Any) -> bool:
    """Whether an annotation is of ours: a static value may be annotated with a dict of something else."""
    if is_nested(x):
        return all(_is_spec(leaf) for _, leaf in leaves(x, ("",)))
    return isinstance(x, (ArraySpec, DType, DTypeVar))


def _resolve(t: Any, types: Mapping[str, DType], name: str) -> DType:
    if isinstance(t, DTypeVar):
        if t.name not in types:
            raise bad(
                f"the type {t.name} of {name} is not known yet", "generic", f"give it: dtypes={{'{t.name}': tw.f32}}"
            )
        return types[t.name]
    return t


def trace(
    fn: Callable, interface: Interface, statics: Mapping[str, Any], types: Mapping[str, DType] | None = None
) -> Pipeline:
    """Run the body of `fn` on symbols and freeze what it returns."""
    types = types or {}
    values: dict[str, Any] = {}
    params: list[Array | ScalarParam | InoutFunc] = []
    with naming() as table:
        for p in interface.params:
            if p.static:
                values[p.name] = statics[p.name]
                continue
            values[p.name] = declared(p.name, p.spec, params, types)
            table.used.update(dict.fromkeys(p.flat, 1))
        positional = [values[p.name] for p in interface.params if not p.keyword_only]
        keywords = {p.name: values[p.name] for p in interface.params if p.keyword_only}
        returned = fn(*positional, **keywords)
        idle = next((d for d in table.conditional if not d.frozen), None)
        if idle is not None:
            raise bad(
                f"no definition runs over the reduction domain of {', '.join(idle.ranges)}, which has a where()",
                "rdom-unused", "use one of its variables in an index or in a value, or reduce over it: tw.sum(1, over=r)",
                idle.location,
            )  # fmt: skip
        signature = tuple(named(p.name, p.spec) for p in interface.params if not p.static) if interface.nested else ()
        return make_pipeline(returned, params, fn.__name__, function_location(fn), statics, signature)


def declared(
    name: str,
    spec: Any,
    params: list[Array | ScalarParam | InoutFunc],
    types: Mapping[str, DType] = MappingProxyType({}),
) -> Any:
    """What stands for a parameter in the body of a kernel, of the structure of `spec`; `params` gets its leaves."""

    def one(path: Path, leaf: Any) -> Any:
        own = flat_name(path)
        if isinstance(leaf, ArraySpec):
            a = Array(own, _resolve(leaf.dtype, types, own), tuple(_axis(x, own) for x in leaf.axes))
            made: Array | InoutFunc = InoutFunc(a) if leaf.inout else a
            params.append(made)
            return made
        scalar = ScalarParam(own, _resolve(leaf, types, own))
        params.append(scalar)
        return wrap(scalar.node)

    return mapped(one, spec, (name,))


def named(name: str, spec: Any) -> tuple[str, Names]:
    """A parameter of a signature: its name, and the flat names of its leaves in their structure."""
    return name, mapped(lambda path, leaf: flat_name(path), spec, (name,))


def _axis(a: Any, name: str) -> ir.Node:
    n = to_index(a, f"an extent of {name}")
    for leaf in ir.postorder([n]):
        if leaf.op in ("var", "rvar", "load", "assume"):
            raise bad(f"an extent of {name} is {n!r}", "extent", "extents are sizes, numbers and arithmetic on them")
    if n.op == "const" and n.attr < 0:
        raise bad(f"an extent of {name} is {n.attr}", "extent", "an extent is not negative")
    return to_node(wrap(n))
