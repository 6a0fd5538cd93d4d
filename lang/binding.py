"""From a call's arguments to checked values: arrays, scalars, sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.lang import ir, simplify
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.lang.extents import check_inputs, check_outputs
from tilewright.lang.func import InoutFunc
from tilewright.lang.nested import flat_arguments, flat_named, with_paths
from tilewright.lang.pipeline import Pipeline, ScalarParam
from tilewright.lang.ranges import check_ranges
from tilewright.lang.tensors import Array
from tilewright.lang.types import DType, index
from tilewright.lang.values import Env, index_value

__all__ = ["Bound", "bind", "exported", "index_value", "sizes_of_shape"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A call's checked values by name: arrays (not copied), scalars of the parameters' types, sizes."""

    arrays: Mapping[str, np.ndarray]
    scalars: Mapping[str, Any]
    sizes: Mapping[str, int]

    @property
    def env(self) -> dict[str, Any]:
        """Sizes and scalars together, as `index_value` takes them."""
        return {**self.sizes, **self.scalars}


def bind(
    p: Pipeline,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    keyword_only: int = 0,
) -> Bound:
    """Check the arguments of a call against a pipeline's parameters.

    Arrays may have any strides and be read-only or broadcast (`inout` ones must be writable and are aliased).
    `sizes` gives what no input determines; the last `keyword_only` parameters are taken by name only. What is nested in
    the kernel's annotations may be given so. Raises ArgumentError (`argument.*`) for what the kernel can't take and
    BoundsError where an input is too small for what is read of it.
    """
    given = _by_name(p, *flat_arguments(p, args, kwargs or {}), keyword_only)
    arrays: dict[str, np.ndarray] = {}
    scalars: dict[str, Any] = {}
    for q in p.params:
        if isinstance(q, ScalarParam):
            scalars[q.name] = _scalar(p, q, given[q.name])
        else:
            inout = isinstance(q, InoutFunc)
            array = q.inout if isinstance(q, InoutFunc) else q
            assert array is not None
            arrays[q.name] = _array(p, array, given[q.name], inout)
    _check_overlap(p, arrays)
    bound = Bound(arrays, scalars, _Sizes(p, sizes or {}).solve(arrays))
    check_regions(p, bound.env)
    return bound


def bind_scalars(p: Pipeline, given: Mapping[str, Any]) -> dict[str, Any]:
    """The scalars among some arguments by name, checked as `bind` does; arrays among them are not looked at."""
    given = flat_named(p, given)
    _check_names(p, given)
    return {q.name: _scalar(p, q, given[q.name]) for q in p.params if isinstance(q, ScalarParam) and q.name in given}


def bind_arrays(p: Pipeline, given: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Some arrays that are only read, by name, checked as `bind` does, and the sizes that their shapes say."""
    given = flat_named(p, given)
    _check_names(p, given)
    arrays = {q.name: _array(p, q, given[q.name], False) for q in p.params if isinstance(q, Array) and q.name in given}
    sizes = _Sizes(p, {})
    sizes.take({n: a.shape for n, a in arrays.items()})
    return arrays, dict(sizes.known)


def check_regions(p: Pipeline, env: Env) -> None:
    """Outputs, inputs and index arithmetic at these sizes and scalars; what was found good is remembered."""
    passed = regions_passed(p)
    key = tuple(env[name] for name in (*p.sizes, *index_scalars(p)))
    if key not in passed:
        check_outputs(p, env)
        check_inputs(p, env)
        check_ranges(p, env)
        if len(passed) > 1000:
            passed.clear()
        passed.add(key)


def regions_passed(p: Pipeline) -> set[tuple]:
    """The sizes and scalars at which `check_regions` found nothing wrong."""
    return p.__dict__.setdefault("_passed", set())


def index_scalars(p: Pipeline) -> tuple[str, ...]:
    """Names of the scalars that ranges and indices depend on."""
    found = p.__dict__.get("_index_scalars")
    if found is None:
        roots = [e for o in p.outputs for e in (*o.starts, *o.stops)]
        for d in p.definitions():
            roots += [n for n in ir.postorder(d.roots) if n.dtype is index]
            roots += [e for r in d.rdom.ranges.values() for e in r] if d.rdom else []
        found = p.__dict__["_index_scalars"] = tuple(n.attr for n in ir.leaves(roots, "scalar"))
    return found


def bad(p: Pipeline, code: str, message: str, hint: str | None = None) -> ArgumentError:
    """An error in a call: the call's place first, then the kernel's."""
    return ArgumentError(
        f"{p.name}: {with_paths(p, message)}", code=f"argument.{code}", where=(user_location(), p.location), hint=hint
    )


def _by_name(p: Pipeline, args: Sequence[Any], kwargs: Mapping[str, Any], keyword_only: int) -> dict[str, Any]:
    names, takes = [q.name for q in p.params], _takes(p)
    if len(args) > len(names):
        raise bad(p, "count", f"{len(args)} arguments are given", takes)
    positional = len(names) - keyword_only
    if len(args) > positional:
        raise bad(p, "count", f"{names[positional]} is given by position", f"give it by name: {names[positional]}=...")
    out = dict(zip(names, args, strict=False))
    _check_names(p, kwargs)
    for name, value in kwargs.items():
        if name in out:
            raise bad(p, "duplicate", f"{name} is given twice", "give it by position or by name")
        out[name] = value
    missing = [n for n in names if n not in out]
    if missing:
        raise bad(p, "missing", f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", takes)
    return out


def _takes(p: Pipeline) -> str:
    return f"it takes {', '.join(q.name for q in p.params)}" if p.params else "it takes no arguments"


def _check_names(p: Pipeline, given: Iterable[str]) -> None:
    names = [q.name for q in p.params]
    for name in given:
        if name not in names:
            raise bad(p, "unknown", f"there is no parameter {name!r}", _takes(p))


# Arrays ---------------------------------------------------------------------------------------------------------


def _array(p: Pipeline, q: Array, value: Any, inout: bool) -> np.ndarray:
    a = _exported(p, q, value, inout)
    if a.dtype.hasobject:
        raise bad(
            p, "object", f"{q.name} is an array of Python objects", f"convert it: x.astype({_numpy_name(q.dtype)})"
        )
    if not a.dtype.isnative:
        raise bad(
            p, "byte-order", f"{q.name} has the byte order of another machine ({a.dtype.str})",
            f"convert it: x.astype({_numpy_name(q.dtype)})",
        )  # fmt: skip
    if a.dtype != q.dtype.np:
        raise bad(
            p, "dtype", f"{q.name} must be {q.dtype} and is an array of {a.dtype.name}",
            f"convert it: x.astype({_numpy_name(q.dtype)})",
        )  # fmt: skip
    if not a.flags.aligned:
        raise bad(
            p, "misaligned", f"{q.name} is not aligned to its elements ({q.dtype.bytes} bytes)", "copy it: x.copy()"
        )
    if a.ndim != q.ndim:
        fewer = f"drop some: {q.name}.reshape(...), or index them away"
        raise bad(p, "rank", f"{q.name} must have {q.ndim} axes ({q!r}) and has {a.ndim}: shape {a.shape}",
                  f"add one: {q.name}[np.newaxis]" if a.ndim < q.ndim else fewer)  # fmt: skip
    if inout:
        if not a.flags.writeable:
            raise bad(
                p, "read-only", f"{q.name} is written (inout) and is read-only", "pass a writable array: x.copy()"
            )
        if folds(a):
            raise bad(p, "overlap", f"{q.name} is written (inout) and its elements share memory", "pass x.copy()")
    return a


def folds(a: np.ndarray) -> bool:
    """Whether elements of an array may share memory (broadcast or sliding views): such an array can't be written."""
    if a.size == 0:
        return False
    reach = 0  # bytes from the first element to the last one along the axes seen so far
    for step, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if step < reach + a.itemsize:
            return True
        reach += step * (n - 1)
    return False


def _numpy_name(t: DType) -> str:
    return "ml_dtypes.bfloat16" if t.name == "bf16" else f"np.{t.np.name}"


def _exported(p: Pipeline, q: Array, value: Any, inout: bool) -> np.ndarray:
    masked = sys.modules.get("numpy.ma")  # importing it takes longer than a call, and there are none without it
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise bad(p, "masked", f"{q.name} is a masked array", "fill it: x.filled(0)")
    found = exported(value, inout)
    if isinstance(found, np.ndarray):
        return found
    raise bad(
        p, "not-array", f"{q.name} must be an array of {q.dtype} and is a {type(value).__name__}{found}",
        f"convert it: np.asarray(x, {_numpy_name(q.dtype)})",
    )  # fmt: skip


def exported(value: Any, inout: bool = False) -> np.ndarray | str:
    """`value` as an ndarray through whichever protocol it has, without a copy unless its exporter forces one; else
    why not (in brackets, or nothing). With `inout` only protocols that share memory count."""
    if isinstance(value, (np.ndarray, np.generic)) and not (inout and isinstance(value, np.generic)):
        return np.asarray(value)
    ways = [
        lambda v: np.asarray(memoryview(v)),
        *([lambda v: np.asarray(v)] if hasattr(value, "__array_interface__") else []),
        *([np.from_dlpack] if hasattr(value, "__dlpack__") else []),
        *([lambda v: np.asarray(v)] if hasattr(value, "__array__") and not inout else []),
    ]
    reasons = []
    for way in ways:
        try:
            return way(value)
        except (TypeError, ValueError, BufferError, RuntimeError, AttributeError) as e:
            reasons.append(str(e).split("\n")[0])
    return f" ({reasons[-1]})" if len(reasons) > 1 else ""


def _check_overlap(p: Pipeline, arrays: Mapping[str, np.ndarray]) -> None:
    written = [(f.name, arrays[f.name]) for f in p.inouts]
    for k, (name, a) in enumerate(written):
        for other, b in written[:k]:
            if np.may_share_memory(a, b) and np.shares_memory(a, b):
                raise bad(p, "overlap", f"{other} and {name} are both written (inout) and share memory", "pass a copy")


# Scalars --------------------------------------------------------------------------------------------------------


def _scalar(p: Pipeline, q: ScalarParam, value: Any) -> Any:
    """`value` as a NumPy scalar of the parameter's type. Python numbers are weak, typed ones must be representable."""
    t = q.dtype
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    is_bool = isinstance(value, (bool, np.bool_))
    is_int = isinstance(value, (int, np.integer)) and not is_bool
    is_float = isinstance(value, (float, np.floating)) or getattr(type(value), "__module__", "") == "ml_dtypes"
    if not (is_bool if t.is_bool else is_int if t.is_int else is_int or is_float):
        kind = "a bool" if t.is_bool else "an integer" if t.is_int else "a number"
        shown = repr(value) if is_bool or is_int or is_float else type(value).__name__
        give = "True or False" if t.is_bool else "int(x) is one" if t.is_int else "float(x) is one"
        raise bad(p, "scalar-kind", f"{q.name} must be {kind} ({t}) and is {shown}", give)
    if t.is_bool:
        return np.bool_(value)
    if t.is_int:
        if not t.low <= int(value) <= t.high:
            raise bad(p, "scalar-range", f"{q.name} is {value} and must lie in {t.low}..{t.high} ({t})",
                      "pass a value in that range, or give the parameter a wider type")  # fmt: skip
        return t.np.type(int(value))
    with np.errstate(over="ignore"):
        try:
            out = t.np.type(float(value))
        except OverflowError:
            out = t.np.type(np.inf)
    if np.isinf(float(out)) and not (is_float and np.isinf(float(value))):
        raise bad(p, "scalar-range", f"{q.name} is {value}, which overflows {t}",
                  f"at most {float(_largest(t)):g}; infinities are passed as such")  # fmt: skip
    if isinstance(value, np.generic) and float(out) != float(value) and float(value) == float(value):
        raise bad(
            p, "scalar-type", f"{q.name} must be {t} and is {value!r}, which is not exact in it",
            f"convert it: {_numpy_name(t)}(x)",
        )  # fmt: skip
    return out


def _largest(t: DType) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(t.np).max


# Sizes ----------------------------------------------------------------------------------------------------------


def check_sizes(p: Pipeline, sizes: Mapping[str, int]) -> None:
    """Refuse sizes by name that `p` does not have, or that no array can have."""
    _Sizes(p, sizes)


def check_all_sizes(p: Pipeline, sizes: Mapping[str, int]) -> None:
    """As `check_sizes`, where there are no arrays that would say the sizes that are not given."""
    _Sizes(p, sizes).solve({})


def sizes_of_shape(p: Pipeline, name: str, shape: Sequence[int]) -> dict[str, int]:
    """The sizes that the shape of one input says. Raises ArgumentError where no such array fits the parameter."""
    sizes = _Sizes(p, {})
    sizes.take({name: shape})
    return dict(sizes.known)


LARGEST_SIZE = 1 << 62  # rounded up to tiles it still is an int64


class _Sizes:
    """Solves the sizes from the extents of the arrays; remembers where each was found."""

    def __init__(self, p: Pipeline, given: Mapping[str, int]):
        self.p = p
        self.known: dict[str, int] = {}
        self.source: dict[str, str] = {}
        if not isinstance(given, Mapping):
            raise bad(p, "size-kind", f"sizes= is {given!r}", "give a dict of numbers: sizes=dict(M=3)")
        for name, value in given.items():
            if name not in p.sizes:
                hint = f"its sizes: {', '.join(p.sizes)}" if p.sizes else "it has no sizes"
                raise bad(p, "size-unknown", f"there is no size {name!r}", hint)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise bad(p, "size-kind", f"size {name} must be an integer and is {value!r}", f"such as {name}=64")
            self._set(name, int(value), "sizes=")

    def take(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Take the shapes of arrays into account."""
        todo = [(q, k) for q in self.p.arrays if q.name in shapes for k in range(q.ndim)]
        todo.sort(key=lambda t: t[0].extents[t[1]].op != "size")  # plain sizes first: their messages are the clearest
        while todo:
            left = [t for t in todo if not self._one(*t, shapes[t[0].name][t[1]])]
            if len(left) == len(todo):
                break
            todo = left

    def solve(self, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
        self.take({n: a.shape for n, a in arrays.items()})
        missing = [s for s in self.p.sizes if s not in self.known]
        if missing:
            what = "the size" if len(missing) == 1 else "the sizes"
            raise bad(
                self.p,
                "size-undetermined",
                f"no input determines {what} {', '.join(missing)}",
                f"give it: sizes=dict({', '.join(f'{m}=...' for m in missing)})",
            )
        return {s: self.known[s] for s in self.p.sizes}

    def _one(self, q: Array, axis: int, given: int) -> bool:
        """Take one extent into account; False if too many of its sizes are still unknown."""
        e, place = q.extents[axis], f"axis {axis} of {q.name}"
        if e.op == "size":
            self._set(e.attr, given, place)
            return True
        unknown = {n.attr for n in _sizes_of(e)} - self.known.keys()
        if not unknown:
            needed = index_value(e, self.known)
            if needed != given:
                used = [f"{n.attr} is {self.known[n.attr]} by {self.source[n.attr]}" for n in _sizes_of(e)]
                why = f" ({e!r}; {', '.join(used)})" if used else ""
                raise bad(self.p, "extent", f"{place} must be {needed}{why} and is {given}",
                          f"pass arrays that go together: {q!r}")  # fmt: skip
            return True
        return len(unknown) == 1 and self._solve(q, axis, given, unknown.pop())

    def _solve(self, q: Array, axis: int, given: int, name: str) -> bool:
        """`a * name + rest == given` for the one unknown size; False where the extent is not linear in it."""
        coefs, constant = simplify.linear(q.extents[axis])
        rest, factor = constant, 0
        for atom, k in coefs.items():
            if atom.op == "size" and atom.attr == name:
                factor = k
            elif any(n.attr == name for n in _sizes_of(atom)):
                return False
            else:
                rest += k * index_value(atom, self.known)
        place = f"axis {axis} of {q.name}"
        if (given - rest) % factor:
            step, least = abs(factor), rest % abs(factor)
            raise bad(self.p, "extent", f"{place} is {given}, which is {q.extents[axis]!r} for no integer {name}",
                      f"{least}, {least + step}, {least + 2 * step}, ... would do")  # fmt: skip
        self._set(name, (given - rest) // factor, place)
        return True

    def _set(self, name: str, value: int, place: str) -> None:
        if value < 0:
            raise bad(self.p, "size-negative", f"size {name} is {value} by {place}: a size is not negative",
                      "0 is the smallest: everything is empty then")  # fmt: skip
        if value > LARGEST_SIZE:
            raise bad(self.p, "size-large", f"size {name} is {value} by {place}", "2**62 is the largest")
        old = self.known.get(name)
        if old is None:
            self.known[name], self.source[name] = value, place
        elif old != value:
            raise bad(self.p, "size-mismatch", f"size {name} is {old} by {self.source[name]} and {value} by {place}",
                      f"both must be the same: {', '.join(map(repr, self.p.arrays))}")  # fmt: skip


def _sizes_of(e: ir.Node) -> list[ir.Node]:
    return ir.leaves([e], "size")
