"""Sums of products in index notation."""

from __future__ import annotations

import re
from functools import reduce as fold

from tilewright.lang.expr import Expr
from tilewright.lang.func import automatic
from tilewright.lang.operators.value import Operand, Value, same, value
from tilewright.lang.symbols import Var, bad, rdom

_FORM = re.compile(r"[a-zA-Z]*(,[a-zA-Z]*)*->[a-zA-Z]*\Z")


def einsum(form: str, *operands: Operand, name: str = "einsum") -> Value:
    """Sums of products, by index letters: `einsum("bthd,hdo->bto", x, w)` sums over what is not in the result.

    An index that occurs once in an operand and not in the result is summed over as well; repeated ones in an operand
    walk along its diagonal, as in NumPy. The result has to be written.
    """
    plain = form.replace(" ", "")
    if not _FORM.match(plain):
        raise bad(f"einsum of {form!r}", "einsum", 'write indices and the result: "ik,kj->ij"')
    given, result = plain.split("->")
    terms, values = given.split(","), [value(x) for x in operands]
    if len(terms) != len(values):
        raise bad(f"einsum {form!r} of {len(values)} operands", "einsum", "one term an operand")
    extents = _extents(form, terms, values)
    unknown = [c for c in result if c not in extents or result.count(c) > 1]
    if unknown:
        raise bad(
            f"einsum {form!r} gives {unknown[0]!r}", "einsum", "indices of the result occur in operands, once in it"
        )
    summed = [c for c in extents if c not in result]
    domain = rdom(**{c: extents[c] for c in summed}) if summed else None
    at: dict[str, Expr] = {c: Var(c) for c in result}
    at.update({c: getattr(domain, c) for c in summed})
    factors = [v[tuple(at[c] for c in term)] for term, v in zip(terms, values, strict=True)]
    out, left = automatic(name), tuple(at[c] for c in result)
    if domain is None:
        out[left] = fold(lambda a, b: a * b, factors)
    else:
        out[left] += fold(lambda a, b: a * b, factors)
    return Value(out, [extents[c] for c in result])


def _extents(form: str, terms: list[str], values: list[Value]) -> dict[str, Expr]:
    """The extent of every index, in the order in which they occur."""
    found: dict[str, Expr] = {}
    for term, v in zip(terms, values, strict=True):
        if len(term) != v.ndim:
            raise bad(f"einsum {form!r}: {term!r} stands for {v!r}", "einsum", "one letter an axis")
        for c, n in zip(term, v.shape, strict=True):
            if not same(found.setdefault(c, n), n):
                raise bad(f"einsum {form!r}: {c} is {found[c]!r} and {n!r}", "einsum",
                          "an index has one extent: name one size, or squeeze an axis of 1")  # fmt: skip
    return found


__all__ = ["einsum"]
