"""Expressions of a document as C, with few parentheses; what C has no exact operator for is a function of tilewright.h.

The text of an expression has a value of its type, whatever wider type C computes it in; only floats are computed in
their own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.codegen.export.expressions import Json, read_number
from tilewright.lang.text.numbers import format_float
from tilewright.lang.types import DTYPES, f32, f64

PRIMARY, UNARY, PRODUCT, SUM, SHIFT, RELATION, EQUALITY, BIT, BOTH, EITHER, CHOICE = range(16, 5, -1)
VALUES = {"bool": "_Bool", "index": "tw_index", "f32": "float", "f64": "double"}
VALUES |= {f"{k}{n}": f"{'u' * (k == 'u')}int{n}_t" for k in "iu" for n in (8, 16, 32, 64)}
STORED = VALUES | {"bool": "uint8_t", "f16": "uint16_t", "bf16": "uint16_t"}
NATURAL = ("u32", "u64")  # C's own arithmetic is that of the language
SUFFIX = {"f32": "f", "f64": ""}

_SUMS = {"add": "+", "sub": "-"}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "abs": "fabs"}

Text = tuple[str, int]


def type_of(e: Json) -> str:
    """The type of an expression's value."""
    return "index" if "var" in e or "size" in e else e["type"]


class Expressions:
    """Writes expressions. `names` are the C names by kind and name ("var C.update.io"), as they stand at this place;
    `natural` those of them that are never negative."""

    def __init__(self, stored: Mapping[str, str], names: Mapping[str, str]):
        self.stored, self.names = stored, names  # element types by buffer
        self.natural: set[str] = set()

    def text(self, e: Json) -> str:
        return self.part(e)[0]

    def within(self, e: Json, least: int) -> str:
        """The text as an operand that must bind at least as tightly as `least`."""
        text, level = self.part(e)
        return text if level >= least else f"({text})"

    def part(self, e: Json) -> Text:
        for kind in ("var", "size", "scalar", "let"):
            if kind in e:
                return self.names[f"{kind} {e[kind]}"], PRIMARY
        if "const" in e:
            return constant(e["const"], e["type"])
        if "load" in e:
            return self.load(e)
        op, t = e["op"], e["type"]
        if op in _COMPARE:
            return self.comparison(e)
        if op == "select":
            return self.choice(e)
        if op in ("cast", "bitcast", "round_to", "call_extern"):
            return self.conversion(e)
        if t == "index":
            return self.index(e)
        if t == "bool":
            return self.logic(e)
        return self.float(e) if t in ("f32", "f64") else self.integer(e)

    def call(self, name: str, *args: Json) -> Text:
        return f"{name}({', '.join(self.text(a) for a in args)})", PRIMARY

    def binary(self, symbol: str, level: int, a: Json, b: Json) -> Text:
        return f"{self.within(a, level)} {symbol} {self.within(b, level + 1)}", level

    def spread(self, symbol: str, level: int, e: Json) -> Text:
        """An associative operator that compilers want parentheses around what is no operand of the same one."""
        least = UNARY if level == BIT else EQUALITY
        same = [x.get("op") == e["op"] and x["type"] == e["type"] for x in e["of"]]
        sides = [self.part(x)[0] if s else self.within(x, least) for x, s in zip(e["of"], same, strict=True)]
        return f" {symbol} ".join(sides), level

    # Memory -----------------------------------------------------------------------------------------------------

    def element(self, buffer: str, at: Json) -> str:
        return f"{self.names['buffer ' + buffer]}[{self.text(at)}]"

    def load(self, e: Json) -> Text:
        t = self.stored[e["load"]]
        text, level = self.element(e["load"], e["at"]), PRIMARY
        if t in ("f16", "bf16"):
            text = f"tw_f32_of_{t}({text})"
        elif t == "bool":
            text, level = f"{text} != 0", EQUALITY
        if "where" not in e:
            return text, level
        return f"{self.within(e['where'], EITHER)} ? {text} : {constant(0, e['type'])[0]}", CHOICE

    # Operations -------------------------------------------------------------------------------------------------

    def index(self, e: Json) -> Text:
        op, of = e["op"], e["of"]
        if op in _SUMS:
            return self.sum(op, *of)
        if op == "mul":
            return self.binary("*", PRODUCT, *of)
        if op in ("floordiv", "mod"):
            if self.positive(of[1]) and self.nonnegative(of[0]):
                return self.binary("/" if op == "floordiv" else "%", PRODUCT, *of)
            return self.call("tw_floor_div" if op == "floordiv" else "tw_floor_mod", *of)
        if op == "neg":
            return f"-{self.within(of[0], PRIMARY)}", UNARY
        return self.call(f"tw_{op}", *of)

    def sum(self, op: str, a: Json, b: Json) -> Text:
        """Sums of indices, with a minus where something negative is added."""
        if op == "add":
            if _minus(a) and not _minus(b):
                a, b = b, a
            if _minus(b):
                op, b = "sub", _negated(b)
        return self.binary(_SUMS[op], SUM, a, b)

    def logic(self, e: Json) -> Text:
        op, of = e["op"], e["of"]
        if op == "not":
            return f"!{self.within(of[0], UNARY)}", UNARY
        if op == "xor":
            return f"({self.within(of[0], RELATION)}) != ({self.within(of[1], RELATION)})", EQUALITY
        return self.spread("&&", BOTH, e) if op == "and" else self.spread("||", EITHER, e)

    def float(self, e: Json) -> Text:
        op, t, of = e["op"], e["type"], e["of"]
        if op in _SUMS:
            return self.binary(_SUMS[op], SUM, *of)
        if op in ("mul", "div"):
            return self.binary("*" if op == "mul" else "/", PRODUCT, *of)
        if op == "neg":
            return f"-{self.within(of[0], PRIMARY)}", UNARY
        if op == "fma":
            return self.call(f"fma{SUFFIX[t]}", *of)
        if op in _FUNCTIONS:
            return self.call(_FUNCTIONS[op] + SUFFIX[t], *of)
        return self.call(f"{_helper(op)}_{t}", *of)

    def integer(self, e: Json) -> Text:
        op, t, of = e["op"], e["type"], e["of"]
        if t in NATURAL:
            if op in _SUMS:
                return self.binary(_SUMS[op], SUM, *of)
            if op == "mul":
                return self.binary("*", PRODUCT, *of)
        if op in _BITS:
            return self.spread(_BITS[op], BIT, e)
        if op == "not" and t not in ("u8", "u16"):
            return f"~{self.within(of[0], UNARY)}", UNARY
        if op == "abs" and t[0] == "u":
            return self.part(of[0])
        count = of[1].get("const") if len(of) > 1 else None
        if isinstance(count, int):
            if (op == "shr" and 0 <= count < DTYPES[t].bits) or (
                op == "shl" and t in NATURAL and 0 <= count < int(t[1:])
            ):
                return f"{self.within(of[0], UNARY)} {'>>' if op == 'shr' else '<<'} {count}", SHIFT
            if op in ("floordiv", "mod") and t[0] == "u" and count > 0:
                return self.binary("/" if op == "floordiv" else "%", PRODUCT, *of)
        return self.call(f"{_helper(op)}_{t}", *of)

    def comparison(self, e: Json) -> Text:
        op, (a, b) = e["op"], e["of"]
        t = type_of(a)
        if t == "index":
            return self.sides(op, a, b)
        if t in DTYPES and DTYPES[t].is_int and op[0] in "lg":
            ends = (DTYPES[t].low, DTYPES[t].high)
            if any(x.get("const") is not None and read_number(x["const"], False) in ends for x in (a, b)):
                # compilers warn of comparisons that one type's range decides
                return self.call(f"tw_l{op[1]}_{t}", *((a, b) if op[0] == "l" else (b, a)))
        least = EQUALITY if op in ("eq", "ne") else RELATION
        return f"{self.within(a, SHIFT + 1)} {_COMPARE[op]} {self.within(b, SHIFT + 1)}", least

    def sides(self, op: str, a: Json, b: Json) -> Text:
        """A comparison of sums, with no minus where that can be: `N > 16 * jo + ji`."""
        terms = [*_terms(a, 1), *_terms(b, -1)]
        number = sum(c for c, x in terms if x is None)
        left, right = ([(abs(c), x) for c, x in terms if x is not None and c * sign > 0] for sign in (1, -1))
        if not left and right:
            left, right, number, op = right, left, -number, _TURNED[op]
        if op == "ge" and number < 0:
            op, number = "gt", number + 1
        elif op == "lt" and number < 0:
            op, number = "le", number + 1
        texts = []
        for some, more in ((left, max(number, 0)), (right, max(-number, 0))):
            parts = [self.within(x, PRODUCT) if c == 1 else f"{self.within(x, PRODUCT)} * {c}" for c, x in some]
            texts.append(" + ".join([*parts, *([str(more)] if more or not parts else [])]))
        return f"{texts[0]} {_COMPARE[op]} {texts[1]}", EQUALITY if op in ("eq", "ne") else RELATION

    def choice(self, e: Json) -> Text:
        c, a, b = e["of"]
        if e["type"] == "index" and "const" in a and "const" in b:
            x, y = f"(tw_index){a['const']}", f"(tw_index){b['const']}"
        else:
            x, y = self.within(a, EITHER), self.within(b, EITHER)
        return f"{self.within(c, EITHER)} ? {x} : {y}", CHOICE

    def conversion(self, e: Json) -> Text:
        op, (a, *_) = e["op"], e["of"] or [{}]
        t, source = _plain(e["type"]), _plain(type_of(a)) if a else ""
        if op == "call_extern":
            return self.call(e["function"], *e["of"])
        if op == "round_to":
            return self.call(f"tw_round_{e['storage']}_{source}", a)
        if t == source:
            return self.part(a)
        if op == "bitcast" and "f" in (t[0], source[0]):
            return self.call(f"tw_{t}_bits_{source}", a)
        if t == "bool":
            return f"{self.within(a, SHIFT + 1)} != {constant(0, source)[0]}", EQUALITY
        if source[0] == "f" and t[0] != "f":
            return self.call(f"tw_{t}_of_{source}", a)
        return f"({VALUES[t]}){self.within(a, UNARY)}", UNARY

    # What is never negative ---------------------------------------------------------------------------------------

    def nonnegative(self, e: Json) -> bool:
        """Whether an index is certainly 0 or more here: C's own division rounds as it should."""
        if "size" in e:
            return True
        if "const" in e:
            return read_number(e["const"], False) >= 0
        for kind in ("var", "let"):
            if kind in e:
                return f"{kind} {e[kind]}" in self.natural
        op, of = e.get("op"), e.get("of", [])
        if op == "mod":
            return self.positive(of[1])
        if op == "max":
            return any(map(self.nonnegative, of))
        if op == "floordiv":
            return self.nonnegative(of[0]) and self.positive(of[1])
        return op in ("add", "mul", "min") and all(map(self.nonnegative, of))

    def positive(self, e: Json) -> bool:
        return "const" in e and read_number(e["const"], False) > 0


_TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _terms(e: Json, sign: int) -> list[tuple[int, Any]]:
    """The terms of a sum of indices with their factors; numbers stand with None."""
    if "const" in e:
        return [(sign * read_number(e["const"], False), None)]
    op, of = e.get("op"), e.get("of", [])
    if op in _SUMS:
        return [*_terms(of[0], sign), *_terms(of[1], sign if op == "add" else -sign)]
    if op == "neg":
        return _terms(of[0], -sign)
    if op == "mul" and "const" in of[1]:
        factor = read_number(of[1]["const"], False)
        return [(c * factor, x) for c, x in _terms(of[0], sign)]
    return [(sign, e)]


def _helper(op: str) -> str:
    return "tw_" + {"floordiv": "floor_div", "mod": "floor_mod"}.get(op, op)


def _plain(t: str) -> str:
    return "i64" if t == "index" else t


def _minus(e: Json) -> bool:
    """Whether an index is a negative number, or a product with one at its right."""
    if "const" in e:
        return read_number(e["const"], False) < 0
    return e.get("op") == "neg" or (e.get("op") == "mul" and "const" in e["of"][1] and _minus(e["of"][1]))


def _negated(e: Json) -> Json:
    if "const" in e:
        return {**e, "const": -read_number(e["const"], False)}
    if e["op"] == "neg":
        return e["of"][0]
    a, b = e["of"]
    b = _negated(b)
    return a if b["const"] == 1 else {**e, "of": [a, b]}


def constant(value: Any, t: str) -> Text:
    """A number as C writes it."""
    if t == "bool":
        return str(int(value)), PRIMARY
    v = read_number(value, t in ("f32", "f64"))
    if t in ("f32", "f64"):
        return _float(v, t)
    if t == "u32":
        return f"{v}u", PRIMARY
    if t == "u64":
        return f"UINT64_C({v})", PRIMARY
    if t == "i64" or (t == "index" and abs(v) >= 1 << 31):
        return (f"INT64_C({v})" if v > DTYPES["i64"].low else "INT64_MIN"), PRIMARY
    if t == "i32" and v == DTYPES["i32"].low:
        return "INT32_MIN", PRIMARY
    return str(v), UNARY if v < 0 else PRIMARY


def _float(v: float, t: str) -> Text:
    if v != v:
        if t == "f32":
            bits = int(np.array([v]).astype(np.float32).view(np.uint32)[0])
            return ("NAN" if bits == 0x7FC00000 else f"tw_f32_bits_u32(0x{bits:08x}u)"), PRIMARY
        (bits,) = struct.unpack("<Q", struct.pack("<d", v))
        return ("NAN" if bits == 0x7FF8 << 48 else f"tw_f64_bits_u64(UINT64_C(0x{bits:016x}))"), PRIMARY
    if v in (float("inf"), float("-inf")):
        return ("INFINITY", PRIMARY) if v > 0 else ("-INFINITY", UNARY)
    text = format_float(v, f32 if t == "f32" else f64) + SUFFIX[t]
    return text, UNARY if text[0] == "-" else PRIMARY


_RESERVED = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while typeof bool true
    false asm main NULL NAN INFINITY linux unix i386 errno math_errhandling
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t size_t
    memcpy memset malloc free aligned_alloc fma fmaf fmod fmodf sqrt sqrtf floor floorf ceil ceilf trunc truncf rint rintf
    fabs fabsf copysign copysignf
"""
RESERVED = frozenset(_RESERVED.split())  # keywords, and what the text and the headers use


def comment(text: str) -> str:
    """Text that may stand in a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def identifier(text: str) -> str:
    """A name of the schedule's as a C identifier (which may be taken, see `fresh`)."""
    made = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "v"
    return made if made[0].isalpha() else f"v{made}"


def fresh(candidates: list[str], taken: set[str]) -> str:
    """The first candidate that is free, else the last one with a number."""
    for c in candidates:
        if c not in taken and c not in RESERVED and not c.startswith("tw_"):
            return c
    k = 2
    while f"{candidates[-1]}_{k}" in taken:
        k += 1
    return f"{candidates[-1]}_{k}"


__all__ = ["STORED", "VALUES", "Expressions", "comment", "constant", "fresh", "identifier", "type_of"]
