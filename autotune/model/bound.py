"""The least time that any schedule can take, from the operations that none can leave out.

Times below it are no times: something was not computed, or the clock lies. So it counts too little rather than too much:

* of a Func that is no output, the points that a consumer reads whose indices are plain variables;
* of a definition, what it computes whatever its conditions say: nothing below a selection, nothing of a domain whose
  predicates go by data;
* of an expression, a value that is the same along some axis once along it, as common subexpressions may be shared;
* of types, those whose peak no instruction exceeds (f32 and f64; see `rates.peaks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tilewright.codegen.operations import CLASS_OF
from tilewright.lang import ir
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.contract import contract
from tilewright.lang.func import Definition, Func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import COMPARISONS, Node
from tilewright.lang.math import expand
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.regions import Box, domain
from tilewright.lang.simplify import sub
from tilewright.lang.values import index_value

MARGIN = 0.7  # of the peak that was measured: the clock may have been lower then, or an operation counted that fuses

Extents = tuple[int, ...]


def needed(p: Pipeline, sizes: Mapping[str, int]) -> dict[str, float]:
    """Operations by type (a multiply-add counts as two) that every schedule computes at these sizes."""
    found: dict[str, float] = {}
    for f, boxes in _boxes(p, sizes).items():
        for d in f.definitions:
            for name, n in _operations(d, max(boxes, key=math.prod), sizes):
                found[name] = found.get(name, 0.0) + n
    return found


def lower_bound(p: Pipeline, sizes: Mapping[str, int], peaks: Mapping[str, float]) -> float:
    """Seconds below which no run can be, with `peaks` in operations a second (`rates.peaks`): the arithmetic of every type
    by itself, less a margin. 0 where nothing is certain. Raises ArgumentError for sizes that the kernel does not have."""
    check_all_sizes(p, sizes)
    return max((MARGIN * n / peaks[t] for t, n in needed(p, sizes).items() if t in peaks), default=0.0)


def _boxes(p: Pipeline, sizes: Mapping[str, int]) -> dict[Func, list[Extents]]:
    """Boxes of every Func (their extents) of which all points are needed; a Func of which none is known has none."""
    found: dict[Func, list[Extents]] = {}
    for o in p.outputs:
        extents = [_number(e, sizes) for e in o.extents]
        if None not in extents:
            found.setdefault(o.func, []).append(tuple(max(0, n or 0) for n in extents))
    for f in reversed(p.funcs):
        if f not in found:
            continue
        box = max(found[f], key=math.prod)
        for d in f.definitions:
            ranges = _ranges(d, box, sizes)
            if ranges is None:
                continue
            for n in _certain(d.values):
                if n.op == "load" and isinstance(n.attr[0], Func) and n.attr[0] is not f:
                    read = _read(n.args, ranges)
                    if read is not None:
                        found.setdefault(n.attr[0], []).append(read)
    return found


def _ranges(d: Definition, box: Extents, sizes: Mapping[str, int]) -> dict[Node, int] | None:
    """The extents of a definition's variables over a box; None where it is not known which of their points run."""
    if d.predicates:
        return None
    zero: Box = tuple(Interval(ir.integer(0), ir.integer(n - 1)) for n in box)
    out: dict[Node, int] = {}
    for v, r in domain(d, zero).items():
        n = None if r.lo is None or r.hi is None else _number(sub(r.hi, r.lo), sizes)
        if n is None:
            return None
        out[v] = max(0, n + 1)
    return out


def _number(n: Node, sizes: Mapping[str, int]) -> int | None:
    """An index expression of sizes; None for one of anything else."""
    if any(m.op in ("var", "rvar", "load", "scalar", "call_extern") for m in ir.postorder((n,))):
        return None
    return index_value(n, sizes)


def _certain(values: Sequence[Node]) -> Iterator[Node]:
    """The nodes that are computed whatever conditions say: nothing below the arms of a selection."""
    seen: set[Node] = set()
    stack = list(values)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        yield n
        stack.extend(n.args[:1] if n.op in ("select", "and", "or") else n.args)


def _read(indices: Sequence[Node], ranges: Mapping[Node, int]) -> Extents | None:
    """The extents of a box that indices run over point by point: each a variable of its own, moved by a constant at most."""
    out, used = [], set()
    for i in indices:
        moving = [v for v in ranges if v in ir.leaves((i,), v.op)]
        if len(moving) > 1 or (moving and (moving[0] in used or not _plain(i, moving[0]))):
            return None
        used.update(moving)
        out.append(ranges[moving[0]] if moving else 1)
    return tuple(out)


def _plain(i: Node, v: Node) -> bool:
    rest = sub(i, v)
    return v not in ir.leaves((rest,), v.op)


def _operations(d: Definition, box: Extents, sizes: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    ranges = _ranges(d, box, sizes)
    if ranges is None:
        return
    for n in _certain(expand(contract(d.values), True)):
        t = n.args[0].dtype if n.op in COMPARISONS else n.dtype
        if CLASS_OF.get(n.op) in ("add", "mul", "fma", "div", "sqrt", "compare") and t.is_float:
            points = math.prod(k for v, k in ranges.items() if v in ir.leaves((n,), v.op))
            yield t.name, (2.0 if n.op == "fma" else 1.0) * points


__all__ = ["MARGIN", "lower_bound", "needed"]
