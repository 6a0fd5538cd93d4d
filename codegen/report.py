"""What lowering made of loops: which were parted, and how the lanes of vectors find their elements.

It adds to `schedule.report` what only the loop IR shows, strides included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tilewright.codegen import loops as L
from tilewright.lang import ir, simplify
from tilewright.lang.ir import Node
from tilewright.schedule.report import Note

_WINDOW = 4  # lanes at most this far apart are read by whole vectors and shuffled


def emitted(results: dict[str, Any]) -> tuple[Note, ...]:
    """Notes of the kinds `parts` and `lanes`. `results` are those of the passes (`Lowered.results`)."""
    before, after = results["single"].body, results["partition"].body
    return tuple(dict.fromkeys([*_parts(before, after), *_lanes(after)]))


def _parts(before: L.Stmt, after: L.Stmt) -> Iterator[Note]:
    """Loops that partitioning has made several of, or two versions of their bodies."""
    was, now = _loops(before), _loops(after)
    for name, n in was.items():
        if now[name] > n:
            yield Note("parts", name, True, f"{now[name]} loops for {n}: conditions are gone where they always hold")
    versions = [t for t in L.walk(after) if isinstance(t, L.If) and t.versions]
    if versions:
        yield Note(
            "parts", "versions", True, f"{len(versions)} statements have a fast form for where all conditions hold"
        )


def _loops(s: L.Stmt) -> Counter[str]:
    return Counter(t.var.attr for t in L.walk(s) if isinstance(t, L.For))


def _lanes(s: L.Stmt) -> Iterator[Note]:
    for loop in L.walk(s):
        if isinstance(loop, L.For) and loop.mode == L.VECTORIZE:
            for t in L.walk(loop.body):
                if isinstance(t, L.Store):
                    yield from _store(loop, t)


def _store(loop: L.For, s: L.Store) -> Iterator[Note]:
    name = loop.var.attr
    roots = (*s.values, *(i for _, i in s.targets))
    for n in ir.postorder(roots):
        if n.op in ("load", "load_if") and (how := _apart(n.args[-1], loop.var)):
            yield Note("lanes", name, False, f"{n.attr[0].name} is read lane by lane: {how}")
    for b, i in s.targets:
        if how := _apart(i, loop.var):
            yield Note("lanes", name, False, f"{b.name} is written lane by lane: {how}")


def _apart(offset: Node, var: Node) -> str:
    """Why lanes don't lie together; "" where they do."""
    if var not in ir.leaves((offset,), "var"):
        return ""
    coefs, _ = simplify.linear(offset)
    step = coefs.get(var)
    varying = [t for t in coefs if t is not var and var in ir.leaves((t,), "var")]
    if any(ir.leaves((t,), "load") for t in varying):
        return "its index is data"
    if any(t.op == "mul" for t in varying):
        return "its lanes are a row (or a stride that is known at the call) apart"
    if varying or step is None:
        return "its index is not linear in the lane"
    return "" if abs(step) <= _WINDOW else f"its lanes are {abs(step)} elements apart"
