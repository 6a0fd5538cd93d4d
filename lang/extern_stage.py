"""Stages that the user computes: `rows = tw.extern_stage(sort_rows)`, then `S[i, j] = rows(A.box[i, 0:N])`.

The function gets NumPy views of our buffers, the output's first, and fills the output:

    def sort_rows(out, a):
        whole = np.sort(a, axis=1)
        first = out.origin[1]
        out[...] = whole[:, first : first + out.shape[1]]

What is asked for is a box of the output. The boxes of the inputs are the smallest that hold what was declared for each
of its points; a view's `origin` has the coordinates of its element 0. A value must depend on what was declared for its
point alone, not on which box is asked for: how often the function runs and for which boxes is the schedule's business.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.lang import ir
from tilewright.lang.errors import ExternStageError, Location
from tilewright.lang.expr import to_node
from tilewright.lang.ir import Node
from tilewright.lang.symbols import bad, check_name
from tilewright.lang.types import DType, index

if TYPE_CHECKING:
    from tilewright.lang.func import Definition
    from tilewright.lang.pipeline import Pipeline


class View(np.ndarray):
    """Values of a box; element 0 has the coordinates `origin` (None for parts cut out of it)."""

    origin: tuple[int, ...] | None = None


class ExternStage:
    """A function of the user's own that computes a Func. Call it with boxes (`A.box[i, 0:N]`) and scalar expressions.

    It is known by `name` and `version`, in texts, in hashes and to compiled kernels, which hold neither its code nor its
    address.
    """

    __slots__ = ("function", "name", "version")

    def __init__(self, function: Callable[..., Any], name: str, version: str):
        self.function, self.name, self.version = function, name, version

    def __repr__(self) -> str:
        return f"<extern stage {self}>"

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    def __call__(self, *arguments: Any) -> StageCall:
        return StageCall(self, arguments)


@dataclass(frozen=True, eq=False)
class StageCall:
    """The right side of `S[i, j] = stage(...)`."""

    stage: ExternStage
    arguments: tuple[Any, ...]

    def nodes(self) -> tuple[Node, ...]:
        """The arguments as nodes: loads, whose indices may be spans, and scalars."""
        from tilewright.lang.tensors import Box

        out: list[Node] = []
        for k, a in enumerate(self.arguments):
            if isinstance(a, Box):
                out += a.loads()
                continue
            n = to_node(a)
            if any(m.op in ("var", "rvar", "load", "assume") for m in ir.postorder((n,))):
                raise bad(
                    f"argument {k} of {self.stage.name} is {n!r}", "stage-argument",
                    "arguments are boxes, such as A.box[i, 0:N], and numbers made of sizes and scalars",
                )  # fmt: skip
            out.append(n)
        return tuple(out)


def extern_stage(function: Callable[..., Any], name: str | None = None, version: str = "") -> ExternStage:
    """A function of the user's own as a stage: it fills boxes of a Func from boxes of what it reads.

    It is called as `function(out, *arguments)`: `out` is a view to fill, a tuple of views for a Func of tuples; boxes
    come as views (tuples of them likewise) that can't be written, other arguments as NumPy scalars, indices and sizes as
    int. Views must not be kept. `version` is a text that tells one meaning of the name from another, in hashes and
    texts; compiled kernels call whatever function their kernel was defined with. Raises DefinitionError
    (definition.stage) for what can't be called or has no name.
    """
    label = name or getattr(function, "__name__", "")
    if not callable(function) or not isinstance(version, str):
        raise bad(f"{function!r} with version {version!r} is no stage", "stage", "give a function; versions are texts")
    if not label.isidentifier():
        raise bad(f"{label!r} is no name for a stage", "stage", "give one: name='sort_rows'")
    return ExternStage(function, check_name(label, "stage"), version)


def of_definition(d: Any) -> ExternStage | None:
    """The stage that computes a definition (or a Body), None for one made of expressions."""
    return d.values[0].attr[0] if d.values and d.values[0].op == "stage" else None


@dataclass(frozen=True)
class Signature:
    """What a definition's stage is called with. `arguments`: element types and rank of a box, or a scalar's type."""

    stage: ExternStage
    location: Location | None
    out: tuple[tuple[DType, ...], int]
    arguments: tuple[tuple[tuple[DType, ...], int] | DType, ...]


def signature(d: Any) -> Signature:
    """The signature of a definition that a stage computes."""
    stage = of_definition(d)
    assert stage is not None
    given: list[tuple[tuple[DType, ...], int] | DType] = []
    for a in arguments(d):
        if isinstance(a, Node):
            given.append(a.dtype)
            continue
        tensor = a[0].attr[0]
        given.append((getattr(tensor, "dtypes", None) or (tensor.dtype,), len(a[0].args)))
    return Signature(stage, d.location, (d.func.dtypes, len(d.lhs)), tuple(given))


def signatures(p: Pipeline) -> tuple[Signature, ...]:
    """The distinct signatures of a pipeline's stages, in order: compiled kernels know them by their position."""
    return tuple(dict.fromkeys(signature(d) for d in p.definitions() if of_definition(d) is not None))


def arguments(d: Any) -> tuple[tuple[Node, ...] | Node, ...]:
    """What a stage is called with: for each box its loads (one a component), else the scalar's node."""
    out: list[tuple[Node, ...] | Node] = []
    nodes = list(d.values[0].args)
    while nodes:
        n = nodes.pop(0)
        if n.op != "load":
            out.append(n)
            continue
        tensor = n.attr[0]
        more = len(getattr(tensor, "dtypes", (None,))) - 1
        out.append((n, *nodes[:more]))
        del nodes[:more]
    return tuple(out)


# Running one ------------------------------------------------------------------------------------------------------

Views = tuple["View", ...]  # one a component


def made_view(array: np.ndarray, origin: Sequence[int], write: bool) -> View:
    """An array as a view that knows its coordinates."""
    v = array.view(View)
    v.origin = tuple(int(o) for o in origin)
    v.flags.writeable = write
    return v


def call(stage: ExternStage, where: Location | None, out: Views, given: Sequence[Views | Any]) -> None:
    """Run the function once. What it raises becomes the cause of an ExternStageError (extern.failed); where it keeps a
    view of memory that may be gone afterwards, that is one too (extern.kept)."""
    passed = [_one_or_all(v) if isinstance(v, tuple) else v for v in (out, *given)]
    views = [v for group in (out, *given) if isinstance(group, tuple) for v in group]
    before = [sys.getrefcount(v) for v in views]
    problem = None
    try:
        stage.function(*passed)
    except Exception as e:
        problem = e.with_traceback(e.__traceback__.tb_next if e.__traceback__ else None)  # this frame holds views
        traceback.clear_frames(problem.__traceback__)  # and so do the variables of the others
    after = [sys.getrefcount(v) for v in views]
    if any(a > b for a, b in zip(after, before, strict=True)):
        gc.collect()
        after = [sys.getrefcount(v) for v in views]
    if problem is not None:
        raise ExternStageError(
            f"the stage {stage.name} raised {type(problem).__name__}: {problem}", code="extern.failed", where=where,
            hint=f"it was asked for {_asked(out)}",
        ) from problem  # fmt: skip
    if any(a > b for a, b in zip(after, before, strict=True)):
        raise ExternStageError(
            f"the stage {stage.name} keeps a view that it was given", code="extern.kept", where=where,
            hint="the memory behind it is used for something else afterwards: keep a copy",
        )  # fmt: skip


def _one_or_all(views: Views) -> Any:
    return views[0] if len(views) == 1 else views


def _asked(out: Views) -> str:
    origin = out[0].origin or ()
    ends = (f"{o}..{o + n}" for o, n in zip(origin, out[0].shape, strict=True))
    return f"[{', '.join(ends)}]"


def scalar_value(n: Node, value: Any) -> Any:
    """A scalar as the function gets it."""
    return int(value) if n.dtype is index else n.dtype.np.type(value)


def run(d: Definition, span: Sequence[tuple[int, int]], machine: Any) -> None:
    """The reference path: the whole region of the Func at once, from the buffers of what it reads."""
    from tilewright.lang.intervals import Interval
    from tilewright.lang.regions import domain, reads
    from tilewright.lang.values import index_values

    stage = of_definition(d)
    assert stage is not None
    if any(a >= b for a, b in span):
        return
    env = domain(d, tuple(Interval(ir.integer(a), ir.integer(b - 1)) for a, b in span))
    boxes = {r.load: r.box for r in reads(d, env)}
    target = machine.buffers[d.func]
    cut = tuple(slice(a - o, b - o) for (a, b), o in zip(span, target.origin, strict=True))
    out = tuple(made_view(x[(*cut, ...)], [a for a, _ in span], True) for x in target.data)
    given: list[Any] = []
    for a in arguments(d):
        if isinstance(a, Node):
            given.append(scalar_value(a, machine.values((a,), {})[0][()]))
            continue
        views = []
        for load in a:
            source = machine.buffers[load.attr[0]]
            ends = index_values([x for r in boxes[load] for x in (r.lo, r.hi) if x is not None], machine.constants)
            views.append(_cut(source.data[load.attr[1]], source.origin, ends[::2], ends[1::2]))
        given.append(tuple(views))
    call(stage, d.location, out, given)


def _cut(data: np.ndarray, origin: Sequence[int], first: Sequence[Any], last: Sequence[Any]) -> View:
    """The box first..last of a buffer (inclusive)."""
    starts = [max(int(a), o) for a, o in zip(first, origin, strict=True)]
    stops = [min(int(b) + 1, o + n) for b, o, n in zip(last, origin, data.shape, strict=True)]
    cut = tuple(slice(a - o, max(a, b) - o) for a, b, o in zip(starts, stops, origin, strict=True))
    return made_view(data[(*cut, ...)], starts, False)


__all__ = ["ExternStage", "StageCall", "View", "arguments", "call", "extern_stage", "of_definition", "run"]
