"""Formulas over the extents of a unit's roles, such as `k + m + n - 2`: what a machine file may say instead of a number.

Whole numbers, names, `+ - *`, `//` (rounds down), brackets, `min(a, b)` and `max(a, b)`. They are read by a parser of our
own; nothing of them is ever evaluated as Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|//|[-+*(),])")
_LONGEST = 200  # characters
_LARGEST = 1 << 40
LEGAL = "a formula of whole numbers, roles, + - * //, brackets, min and max"

# ("number", n) | ("name", text) | (operator, left, right) with + - * // min max
Tree = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula; equal to others with the same tree. `str()` gives its text."""

    tree: Tree

    @property
    def names(self) -> frozenset[str]:
        """The roles that it speaks of."""
        return frozenset(_names(self.tree))

    def value(self, extents: Mapping[str, int]) -> int:
        """Its value; ZeroDivisionError where it divides by 0."""
        return _value(self.tree, extents)

    def __str__(self) -> str:
        return _text(self.tree, 0)


def parse_formula(text: str) -> Formula:
    """The formula that a text says. Raises ValueError with what the text has that it should not: `'(' where ...`."""
    if len(text) > _LONGEST:
        raise ValueError(f"more than {_LONGEST} characters")
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:].strip()[0]!r}, which is no part of a formula")
        tokens.append(found[1])
        at = found.end()
    reader = _Reader(tokens)
    tree = reader.sum()
    if reader.at < len(tokens):
        raise ValueError(f"{tokens[reader.at]!r} where an operator or its end should stand")
    return Formula(tree)


class _Reader:
    def __init__(self, tokens: list[str]):
        self.tokens, self.at = tokens, 0

    def take(self, *legal: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at] in legal:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def expect(self, token: str) -> None:
        if self.take(token) is None:
            raise ValueError(f"no {token!r} where one should stand")

    def sum(self) -> Tree:
        left = self.product()
        while (op := self.take("+", "-")) is not None:
            left = (op, left, self.product())
        return left

    def product(self) -> Tree:
        left = self.factor()
        while (op := self.take("*", "//")) is not None:
            left = (op, left, self.factor())
        return left

    def factor(self) -> Tree:
        if self.take("-"):
            return ("-", ("number", 0), self.factor())
        if self.take("("):
            inner = self.sum()
            self.expect(")")
            return inner
        if self.at >= len(self.tokens):
            raise ValueError("no value at its end")
        token = self.tokens[self.at]
        self.at += 1
        if token.isdigit():
            if int(token) > _LARGEST:
                raise ValueError(f"{token}, which is beyond 2**40")
            return ("number", int(token))
        if token in ("min", "max"):
            self.expect("(")
            left = self.sum()
            self.expect(",")
            right = self.sum()
            self.expect(")")
            return (token, left, right)
        if not (token[0].isalpha() or token[0] == "_"):
            raise ValueError(f"{token!r} where a value should stand")
        return ("name", token)


def _names(t: Tree) -> list[str]:
    if t[0] == "number":
        return []
    return [t[1]] if t[0] == "name" else _names(t[1]) + _names(t[2])


def _value(t: Tree, extents: Mapping[str, int]) -> int:
    match t[0]:
        case "number":
            return t[1]
        case "name":
            return extents[t[1]]
    a, b = _value(t[1], extents), _value(t[2], extents)
    match t[0]:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "min":
            return min(a, b)
    return max(a, b)


_STRENGTH = {"+": 1, "-": 1, "*": 2, "//": 2}


def _text(t: Tree, outer: int) -> str:
    if t[0] in ("number", "name"):
        return str(t[1])
    if t[0] in ("min", "max"):
        return f"{t[0]}({_text(t[1], 0)}, {_text(t[2], 0)})"
    if t[0] == "-" and t[1] == ("number", 0):
        made, mine = f"-{_text(t[2], 3)}", 1
    else:
        mine = _STRENGTH[t[0]]
        made = f"{_text(t[1], mine)} {t[0]} {_text(t[2], mine + 1)}"
    return f"({made})" if mine < outer else made
