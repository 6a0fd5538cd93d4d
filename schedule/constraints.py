"""Conditions between knobs: `t1 * t2 <= 64`, `16 <= t < 128 and t % 8 == 0`.

They are read by Python's parser and worked out here; nothing of them is ever run as Python. Comparisons of sums,
products, floor quotients and remainders of integers and knobs, joined by `and` and `or`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

from tilewright.schedule.state import refuse

_LONGEST = 400
_ARITHMETIC: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: Mapping[type, Callable[[int, int], bool]] = {
    ast.LtE: operator.le, ast.Lt: operator.lt, ast.GtE: operator.ge, ast.Gt: operator.gt, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def canonical_constraint(text: str) -> str:
    """The condition in canonical spacing. Raises ScheduleError (schedule.constraint) for what is no such condition."""
    return ast.unparse(_read(text))


def knobs_of(text: str) -> tuple[str, ...]:
    """Names of the knobs in a condition, in order."""
    found = sorted((n.lineno, n.col_offset, n.id) for n in ast.walk(_read(text)) if isinstance(n, ast.Name))
    return tuple(dict.fromkeys(name for *_, name in found))


def holds(text: str, knobs: Mapping[str, int]) -> bool:
    """Whether the condition holds for these values of the knobs. A division by 0 does not hold."""
    try:
        return bool(_value(_read(text), knobs))
    except ZeroDivisionError:
        return False


def check_constraint(text: str, knobs: Mapping[str, object]) -> None:
    """Raise ScheduleError for an unknown knob (schedule.unknown-knob) or where it fails (schedule.constraint)."""
    for name in knobs_of(text):
        if name not in knobs:
            known = f"known: {', '.join(knobs)}" if knobs else "make it first: t = s.knob('t', 8)"
            raise refuse(f"there is no knob {name!r} in {text}", "unknown-knob", known)
    values = {k: v for k, v in knobs.items() if isinstance(v, int)}
    if not holds(text, values):
        said = ", ".join(f"{n} = {values[n]}" for n in knobs_of(text))
        raise refuse(f"{text} does not hold: {said}", "constraint", "choose other values of these knobs")


@lru_cache(maxsize=256)
def _read(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise _no_condition(text[:40] + "...", f"it is longer than {_LONGEST} characters")
    try:
        made = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _no_condition(text, "it can't be read") from None
    _check(text, made, truth=True)
    return made


def _check(text: str, n: ast.expr, truth: bool) -> None:
    """Only conditions of integers; `truth`: a condition is expected here, else an integer."""
    match n:
        case ast.BoolOp(values=values) if truth:
            for v in values:
                _check(text, v, True)
        case ast.Compare(left=left, ops=ops, comparators=rest) if truth and all(type(o) in _COMPARE for o in ops):
            for v in (left, *rest):
                _check(text, v, False)
        case ast.BinOp(left=a, op=op, right=b) if not truth and type(op) in _ARITHMETIC:
            _check(text, a, False)
            _check(text, b, False)
        case ast.Name() if not truth:
            pass
        case ast.Constant(value=int(), kind=None) if not truth and not isinstance(n.value, bool):
            pass
        case _:
            wanted = "comparison" if truth else "integer, knob or sum of such"
            raise _no_condition(text, f"{ast.unparse(n)!r} is no {wanted}")


def _no_condition(text: str, why: str):
    return refuse(f"{text!r} is no condition between knobs: {why}", "constraint", "such as 't1 * t2 <= 64'")


def _value(n: ast.expr, knobs: Mapping[str, int]) -> int:
    match n:
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.And) else any)(_value(v, knobs) for v in values)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            terms = [_value(v, knobs) for v in (left, *rest)]
            return all(_COMPARE[type(o)](a, b) for o, a, b in zip(ops, terms, terms[1:], strict=False))
        case ast.BinOp(left=a, op=op, right=b):
            return _ARITHMETIC[type(op)](_value(a, knobs), _value(b, knobs))
        case ast.Name(id=name):
            return knobs[name]
        case ast.Constant(value=int() as v):
            return v
    raise TypeError(n)


__all__ = ["canonical_constraint", "check_constraint", "holds", "knobs_of"]
