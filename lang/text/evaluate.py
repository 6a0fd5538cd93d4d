"""Expression trees to expressions: the same rules as in Python, names by what they are bound to here. Iterative."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from lark import Tree

from tilewright.lang import expr, ir
from tilewright.lang.errors import located
from tilewright.lang.expr import Expr, wrap
from tilewright.lang.extern import Extern, wide
from tilewright.lang.extern_stage import ExternStage
from tilewright.lang.func import Func, FuncRef, InoutFunc
from tilewright.lang.symbols import Size, bad
from tilewright.lang.tensors import Tensor
from tilewright.lang.text import rules
from tilewright.lang.text.numbers import nan_from_bits
from tilewright.lang.text.reader import Source

_OPERATORS = {symbol: op for op, symbol in rules.SYMBOLS.items()}
_CONSTANTS: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "true": wrap(ir.TRUE), "false": wrap(ir.FALSE)}


@dataclass
class Scope:
    """What names stand for. The first table that has a name decides; `var.x`, `scalar.x`, `size.x` say which."""

    lets: dict[str, Expr] = field(default_factory=dict)
    vars: dict[str, Expr] = field(default_factory=dict)  # Vars and reduction variables of the definition at hand
    scalars: dict[str, Expr] = field(default_factory=dict)
    sizes: dict[str, Expr] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    open_sizes: bool = False  # an unknown name is a size (extents of parameters)
    externs: dict[str, Extern | ExternStage] = field(default_factory=dict)  # functions of the user's own
    ahead: Callable[[str], None] = lambda name: None  # raises for a name that is defined further down

    def extern(self, name: str) -> Extern:
        found = self.externs.get(name)
        if not isinstance(found, Extern):
            raise bad(f"the function {name} is not given", "extern", f"parse_kernel(text, externs=[{name}]) gives it")
        return found

    def stage(self, name: str, version: str) -> ExternStage:
        found = self.externs.get(name)
        if not isinstance(found, ExternStage):
            raise bad(f"the stage {name} is not given", "stage", f"parse_kernel(text, externs=[{name}]) gives it")
        if found.version != version:
            raise bad(f"the stage {name} has version {found.version!r} and the text wants {version!r}", "stage",
                      "give the stage that the text was written with")  # fmt: skip
        return found

    def find(self, name: str) -> Expr:
        for table in (self.lets, self.vars, self.scalars, self.sizes):
            if name in table:
                return table[name]
        if self.open_sizes:
            return self.sizes.setdefault(name, Size(name))
        known = ", ".join(dict.fromkeys([*self.vars, *self.lets, *self.scalars, *self.sizes]))
        hint = f"known here: {known or 'nothing'}; `size {name}` makes it a size"
        if name in self.tensors:
            hint = f"{name} is indexed: {name}[...]"
        raise bad(f"unknown name {name}", "unknown-name", hint)

    def qualified(self, kind: str, name: str) -> Expr:
        table = {"var": self.vars, "scalar": self.scalars, "size": self.sizes}.get(kind)
        if table is None:
            raise bad(f"unknown kind {kind}", "unknown-name", "var.x, scalar.x or size.x")
        if kind == "size" and self.open_sizes:
            table.setdefault(name, Size(name))
        if name not in table:
            raise bad(f"unknown {kind} {name}", "unknown-name", f"known: {', '.join(table) or 'none'}")
        return table[name]

    def tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            self.ahead(name)
            raise bad(f"unknown array or Func {name}", "unknown-name", known_names(name, self.tensors))
        return self.tensors[name]


def known_names(name: str, known: Iterable[str]) -> str:
    """What may have been meant by a name that nothing has."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return (f"did you mean {near[0]}? " if near else "") + f"known: {shown or 'none'}"


def name_of(tree: Any) -> str:
    """The name in a `name` tree or token, without quotes."""
    token = str(tree.children[0] if isinstance(tree, Tree) else tree)
    return token[1:-1] if token.startswith("`") else token


def expressions(tree: Any) -> list[Any]:
    """The operands of an expression tree."""
    found = [c for c in tree.children if isinstance(c, Tree) and c.data != "name"]
    return found[1:] if _named_first(tree) else found


def _named_first(tree: Any) -> bool:
    """The first operand is a word: a type, the name of a function."""
    word = str(tree.children[0]) if tree.data in ("call", "exact") else ""
    return (word == "bitcast" and tree.data == "call") or (tree.data == "exact" and word in _NAMED)


def evaluate(tree: Any, scope: Scope, source: Source) -> Any:
    """The value of an expression tree: a Python number where it is a literal, else an Expr."""
    values: list[Any] = []
    stack: list[tuple[Any, bool]] = [(tree, False)]
    while stack:
        t, ready = stack.pop()
        if t.data == "chain":
            t = _grouped(t, source)
        parts = expressions(t)
        if not ready and parts:
            stack.append((t, True))
            stack.extend((p, False) for p in reversed(parts))
            continue
        first = len(values) - len(parts)
        operands = values[first:]
        del values[first:]
        with located(source.location(_anchor(t))):
            values.append(_RULES[t.data](t, operands, scope))
    return values[0]


def _grouped(t: Any, source: Source) -> Any:
    """Operands and operators side by side as a tree of operators: those that bind tighter first, equal ones from the
    left; comparisons are not compared."""
    operands, pending = [t.children[0]], []

    def bound() -> None:
        right, op, left = operands.pop(), pending.pop()[1], operands.pop()
        operands.append(Tree("binary", [left, op, right], left.meta))

    for op, operand in zip(t.children[1::2], t.children[2::2], strict=True):
        level = rules.PRECEDENCE[_OPERATORS[str(op)]]
        while pending and pending[-1][0] >= level:
            if pending[-1][0] == rules.COMPARE:
                source.fail(
                    f"found {str(op)!r} behind a comparison", op, "two of them are joined by &: (a < b) & (b < c)"
                )
            bound()
        pending.append((level, op))
        operands.append(operand)
    while pending:
        bound()
    return operands[0]


def _anchor(t: Any) -> Any:
    """Errors of an operator point at the operator."""
    if t.data == "binary":
        return t.children[1]
    return t


def typed(value: Any) -> Expr:
    """An Expr of a value that may be a bare number or an element of a Func."""
    return wrap(expr.to_node(value))


# One rule a kind of tree ------------------------------------------------------------------------------------------


def integer(text: str) -> int:
    if len(text) > 40:
        raise bad("the number has more than 40 digits", "number")
    return int(text)


def _float(t: Any, operands: list, scope: Scope) -> float:
    value = float(str(t.children[0]))
    if math.isinf(value):
        raise bad(f"{t.children[0]} overflows f64", "number", "write inf for infinity")
    return value


def _leaf(t: Any, operands: list, scope: Scope) -> Any:
    token = str(t.children[0].children[0])
    return _CONSTANTS[token] if token in _CONSTANTS else scope.find(name_of(token))


def _unary(t: Any, operands: list, scope: Scope) -> Any:
    (x,) = operands
    if t.children[0] == "-":
        return -x if expr.is_literal(x) else expr.unary("neg", x)
    return expr.invert(x)


def _load(t: Any, operands: list, scope: Scope) -> Expr:
    tensor = scope.tensor(name_of(t.children[0]))
    ref = tensor[tuple(operands)]  # type: ignore[index]
    if isinstance(tensor, Func):
        if tensor.init is None and not isinstance(tensor, InoutFunc):
            scope.ahead(tensor.name)
        tensor.require_defined()
    return ref


def _span(t: Any, operands: list, scope: Scope) -> Expr:
    raise bad(
        "a slice in an expression", "slice", "index it with one expression an axis; stages take slices: stage!f(A[0:N])"
    )


def _component(t: Any, operands: list, scope: Scope) -> Expr:
    ref = _load(t, operands, scope)
    if not isinstance(ref, FuncRef):
        raise bad(f"{name_of(t.children[0])} is no tuple", "tuple-component")
    return ref.component(integer(str(t.children[-1])))


def _call(t: Any, operands: list, scope: Scope) -> Expr:
    name = str(t.children[0])
    if name in rules.TYPES:
        _arity(name, operands, 1, 1)
        return rules.convert(rules.TYPES[name], operands[0])
    if name == "bitcast":
        _arity(name, operands, 1, 1)
        return expr.bitcast(_type(_word(t.children[1])), operands[0])
    if name in rules.FUNCTIONS:
        least, most, rule = rules.FUNCTIONS[name]
        _arity(name, operands, least, most)
        return rule(*operands)
    rule = rules.math_function(name)
    if rule is None:
        raise bad(f"unknown function {name}", "unknown-name", "known: " + ", ".join(rules.function_names()))
    n = len(inspect.signature(rule).parameters)
    _arity(name, operands, n, n)
    return rule(*operands)


def _arity(name: str, operands: list, least: int, most: int) -> None:
    if not least <= len(operands) <= most:
        want = str(least) if least == most else f"{least} or more"
        raise bad(f"{name} is given {len(operands)} operands", "arity", f"it takes {want}")


def _word(tree: Any) -> str:
    if isinstance(tree, Tree) and tree.data == "leaf":
        return name_of(tree.children[0])
    raise bad("a type or a function's name is expected as the first operand", "word")


def _type(name: str) -> Any:
    found = rules.TYPES.get(name)
    if found is None:
        raise bad(f"unknown type {name}", "unknown-name", "known: " + ", ".join(rules.TYPES))
    return found


def _bits(t: Any, operands: list, scope: Scope) -> float:
    value = nan_from_bits(int(str(t.children[1]), 16) & (2**64 - 1))
    if t.children[0] != "nan" or value == value:
        raise bad(f"{t.children[0]}({t.children[1]})", "number", "nan(0x...) gives the 64 bits of a NaN")
    return value


def _exact(t: Any, operands: list, scope: Scope) -> Expr:
    """`op!type(operands)`: the node as it stands, past typing and simplification."""
    op, dtype = str(t.children[0]), _type(str(t.children[1]))
    if op not in EXACT:
        raise bad(f"unknown operation {op}", "unknown-name", "known: " + ", ".join(sorted(EXACT)))
    attr: Any = None
    if _named_first(t):
        word = _word(t.children[2])
        attr = _type(word) if op == "round_to" else scope.extern(word) if op == "call_extern" else word
    args = tuple(expr.to_node(v) for v in operands)
    if op == "call_extern" and [a.dtype for a in args] + [dtype] != [wide(x) for x in (*attr.args, attr.result)]:
        raise bad(f"{attr!r} is called with other types", "extern", "give the function that the text was written with")
    if len(args) != EXACT[op] and op not in ("call", "call_extern"):
        raise bad(f"{op} is given {len(args)} operands", "arity", f"it takes {EXACT[op]}")
    return Expr(ir.node(op, dtype, args, attr))


EXACT: dict[str, int] = {
    **dict.fromkeys(rules.SYMBOLS, 2), "min": 2, "max": 2, "fma": 3, "select": 3,
    **dict.fromkeys(["neg", "abs", "not", "likely", "cast", "bitcast", "round_to"], 1),
    **dict.fromkeys(["sqrt", "floor", "ceil", "round", "trunc"], 1), "call": 0,
    "call_extern": 0,
}  # fmt: skip
_NAMED = ("round_to", "call", "call_extern")

_RULES: dict[str, Callable[[Any, list, Scope], Any]] = {
    "int": lambda t, operands, scope: integer(str(t.children[0])),
    "float": _float, "leaf": _leaf, "load": _load, "span": _span, "component": _component, "call": _call, "bits": _bits,
    "exact": _exact, "unary": _unary,
    "qualified": lambda t, operands, scope: scope.qualified(str(t.children[0]), name_of(t.children[1])),
    "binary": lambda t, operands, scope: rules.binary(_OPERATORS[str(t.children[1])], *operands),
    "power": lambda t, operands, scope: expr.power(*operands),
}  # fmt: skip
