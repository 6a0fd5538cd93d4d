"""Conditions of specialised stages: over sizes, scalars and strides, as text or as expressions.

They are written as in a kernel's text: `N % 16 == 0`, `(N >= 64) & (K % 4 == 0)`, `alpha == 1`; and besides
`contiguous(A)` and `stride(A, 1) == 1` (in elements) for arrays that are passed in and for results (`out=`).
"""

from __future__ import annotations

import re
from typing import Any

from tilewright.lang import ir, simplify
from tilewright.lang.errors import TilewrightError
from tilewright.lang.expr import Expr, wrap
from tilewright.lang.ir import Node, integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.text.expression import Writer, join
from tilewright.lang.text.rules import ATOM
from tilewright.lang.types import bool_, index
from tilewright.schedule.state import refuse

_OF_ARRAYS = re.compile(r"\b(contiguous|stride)\(\s*([A-Za-z_]\w*)\s*(?:,\s*([0-9]+)\s*)?\)")
_LEAVES = frozenset(["const", "size", "scalar", "stride", "contiguous"])


def stride(array: str, axis: int) -> Node:
    """The stride of an array's axis in elements, known at the call."""
    return ir.node("stride", index, (), (array, axis))


def parse_condition(p: Pipeline, text: str) -> Node:
    """The condition that a text says. Raises ScheduleError schedule.condition for what is none."""
    names: dict[str, Node] = {}

    def of_array(m: re.Match[str]) -> str:
        name = f"{m[1]}_of_{m[2]}_{m[3] or ''}"
        names[name] = _of_array(p, text, m[1], m[2], m[3])
        return name

    given = _OF_ARRAYS.sub(of_array, text)
    try:
        n = _read(p, given, names)
    except TilewrightError as e:
        words = re.search(r"\b(and|or|not)\b", given)
        hint = "conditions are joined by & and |, each in parentheses, and ~ says not" if words else e.hint
        raise _bad(text, e.message, hint) from None
    return checked(n, text)


def checked(n: Node, text: str) -> Node:
    """A condition that may stand around a stage."""
    if not n.dtype.is_bool:
        raise _bad(text, f"it is {n.dtype.name} and not a condition", "such as N % 16 == 0")
    for m in ir.postorder([n]):
        if (not m.args and m.op not in _LEAVES) or m.op in ("load", "call"):
            raise _bad(text, "it is not known before the kernel runs", "sizes, scalars and strides of arrays are")
    if n.op == "const":
        raise _bad(text, f"it is always {'true' if n.attr else 'false'}", "leave it out")
    return n


def _extents(p: Pipeline) -> dict[str, tuple[Node, ...]]:
    """The extents of everything that has strides at a call: arrays that are passed in, results of names of their own."""
    names = [o.name for o in p.outputs]
    found = {o.name: o.extents for o in p.outputs if names.count(o.name) == 1}
    return {**found, **{a.name: a.extents for a in p.arrays}}


def _of_array(p: Pipeline, text: str, what: str, array: str, axis: str | None) -> Node:
    extents = _extents(p)
    if array not in extents:
        raise _bad(text, f"there is no array {array}", "known: " + ", ".join(sorted(extents)))
    if what == "contiguous":
        return ir.node("contiguous", bool_, (), array)
    if axis is None or int(axis) >= len(extents[array]):
        raise _bad(text, f"{array} has {len(extents[array])} axes", f"stride({array}, 0) is the first one")
    return stride(array, int(axis))


def _read(p: Pipeline, text: str, names: dict[str, Node]) -> Node:
    from tilewright.lang.text.evaluate import Scope, evaluate, typed
    from tilewright.lang.text.reader import Source, grammar  # imports Lark

    line = " ".join(text.split())
    source = Source(f"let c = {line}\n", "<condition>")
    let = source.tree(grammar("tilewright.lang.text", "kernel.lark", "let"))
    scope = Scope(
        lets={k: wrap(n) for k, n in names.items()}, scalars={s.name: wrap(s.node) for s in p.scalars},
        sizes={s: wrap(ir.size(s)) for s in p.sizes},
    )  # fmt: skip
    return typed(evaluate(let.children[-1], scope, source)).node


def canonical_condition(p: Pipeline, given: Any) -> str:
    """The one text of a condition (a text or an expression over sizes)."""
    n = checked(given.node, repr(given)) if isinstance(given, Expr) else parse_condition(p, str(given))
    text = format_condition(n)
    again = parse_condition(p, text)
    if again is not n:
        raise _bad(text, "it has no text form", "give it as text")
    return text


class _Writer(Writer):
    def _one(self, n: Node):  # type: ignore[no-untyped-def]
        if n.op == "stride":
            return f"stride({n.attr[0]}, {n.attr[1]})", ATOM
        if n.op == "contiguous":
            return f"contiguous({n.attr})", ATOM
        return super()._one(n)


def format_condition(n: Node) -> str:
    """A condition as text."""
    return join(_Writer().write(n))


def expanded(p: Pipeline, n: Node) -> Node:
    """The condition with `contiguous` by the strides that it means."""

    def one(m: Node, args: tuple[Node, ...]) -> Node:
        if m.op != "contiguous":
            return ir.rebuild(m, args)
        extents = _extents(p)[m.attr]
        out, step = ir.TRUE, integer(1)
        for k in reversed(range(len(extents))):
            out = simplify.conjunction(simplify.compare("eq", stride(m.attr, k), step), out)
            step = simplify.mul(step, extents[k])
        return out

    return ir.transform((n,), one)[0]


def _bad(text: str, why: str, hint: str | None) -> Exception:
    return refuse(f"condition {text!r}: {why}", "condition", hint or "such as N % 16 == 0, or stride(A, 1) == 1")
