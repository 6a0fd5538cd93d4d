"""Expressions of the language of `translate`, as LLVM's text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Never

from tilewright.codegen.skeleton.blocks import Blocks
from tilewright.lang.errors import CompileError, Location

POINTERS = ("m", "values")
HINT = "codegen/skeleton/translate.py says what such functions can have"
_OPERATIONS = {
    ast.Add: "add i64", ast.Sub: "sub i64", ast.Mult: "mul i64", ast.BitAnd: "and i64", ast.BitOr: "or i64",
    ast.BitXor: "xor i64",
}  # fmt: skip
_FUNCTIONS = {ast.FloorDiv: "quotient", ast.Mod: "remainder", ast.LShift: "left", ast.RShift: "right"}
_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}


@dataclass(frozen=True)
class Source:
    """Functions as text: its file, and the names that it finds in its module (constants, modules of constants)."""

    file: str
    text: str
    names: Mapping[str, Any]


@dataclass(frozen=True)
class Head:
    """What callers know of a function: its parameters, and how many values it returns."""

    parameters: tuple[str, ...]
    results: int

    @property
    def type(self) -> str:
        return ("void", "i64")[self.results] if self.results < 2 else f"{{ {', '.join(['i64'] * self.results)} }}"


def variable(name: str) -> str:
    """Where a variable is."""
    return f"%v.{name}"


class Values(Blocks):
    """A function on its way: what its names are, and its expressions."""

    def __init__(self, source: Source, node: ast.FunctionDef, heads: Mapping[str, Head]):
        super().__init__()
        self.source, self.node, self.heads = source, node, heads
        self.parameters = tuple(a.arg for a in node.args.args)
        self.pointers = {a for a in self.parameters if a in POINTERS}
        stored = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self.variables = dict.fromkeys((*(a for a in self.parameters if a not in POINTERS), *stored))
        self.calls: list[str] = []

    def refuse(self, node: ast.AST, what: str) -> Never:
        line = getattr(node, "lineno", self.node.lineno)
        where = Location(self.source.file, line)
        raise CompileError(
            f"{what} in the function {self.node.name}, line {line}", code="skeleton", where=where, hint=HINT
        )

    def place(self, node: ast.expr) -> str:
        """Where a variable or a word is."""
        match node:
            case ast.Name(name) if name in self.variables and name not in self.pointers:
                return variable(name)
            case ast.Subscript(ast.Name(base), index) if base in self.pointers:
                return self.op(f"getelementptr i64, ptr %a.{base}, i64 {self.value(index)}")
        self.refuse(node, f"a place that is not known ({ast.unparse(node)})")

    def choose(self, test: ast.expr, one: Callable[[], Any], other: Callable[[], Any]) -> tuple[Any, Any, str, str]:
        """One or the other; what the two gave, and the blocks that they ended in ("" where control does not go on)."""
        yes, no, end = self.labels("yes", "no", "end")
        self.branch(test, yes, no)
        found, blocks = [], []
        for label, part in ((yes, one), (no, other)):
            self.start(label)
            found.append(part())
            blocks.append(self.block if self.open else "")
            self.jump(end)
        self.start(end)
        return found[0], found[1], blocks[0], blocks[1]

    def branch(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one of two blocks."""
        match node:
            case ast.Constant(int() as known):
                self.jump(yes if known else no)
            case ast.UnaryOp(ast.Not(), operand):
                self.branch(operand, no, yes)
            case ast.BoolOp(operator, [*others, last]):
                for other in others:
                    (more,) = self.labels("more")
                    self.branch(other, *((more, no) if isinstance(operator, ast.And) else (yes, more)))
                    self.start(more)
                self.branch(last, yes, no)
            case ast.Compare(left, operators, rights):
                a = self.value(left)
                for operator, right, more in zip(
                    operators, rights, [*self.labels(*["more"] * (len(rights) - 1)), yes], strict=True
                ):
                    b = self.value(right)
                    self.split(self.compare(node, operator, a, b), more, no)
                    if more != yes:
                        self.start(more)
                    a = b
            case _:
                self.split(self.op(f"icmp ne i64 {self.value(node)}, 0"), yes, no)

    def compare(self, node: ast.expr, operator: ast.cmpop, a: str, b: str) -> str:
        if type(operator) not in _COMPARISONS:
            self.refuse(node, f"a comparison that is not known ({ast.unparse(node)})")
        return self.op(f"icmp {_COMPARISONS[type(operator)]} i64 {a}, {b}")

    def several(self, node: ast.expr, n: int) -> list[str]:
        """The values of an expression that has n of them."""
        match node:
            case ast.Tuple(elements) if len(elements) == n:
                return [self.value(e) for e in elements]
            case ast.IfExp(test, one, other):
                a, b, *blocks = self.choose(test, lambda: self.several(one, n), lambda: self.several(other, n))
                return [self.merged(pair, blocks) for pair in zip(a, b, strict=True)]
            case ast.Call(ast.Name(name)) if name in self.heads and self.heads[name].results == n > 1:
                made = self.call(node)
                return [self.op(f"extractvalue {self.heads[name].type} {made}, {i}") for i in range(n)]
        if n == 1:
            return [self.value(node)]
        self.refuse(node, f"not {n} values ({ast.unparse(node)})")

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant() | ast.Attribute():
                return self.constant(node)
            case ast.Name(name) if name not in self.variables and name not in self.pointers:
                return self.constant(node)
            case ast.Name() | ast.Subscript():
                return self.op(f"load i64, ptr {self.place(node)}")
            case ast.BinOp(left, operator, right):
                a = self.value(left)
                return self.binary(node, operator, a, self.value(right))
            case ast.UnaryOp(ast.USub(), operand):
                return self.op(f"sub i64 0, {self.value(operand)}")
            case ast.UnaryOp(ast.Invert(), operand):
                return self.op(f"xor i64 -1, {self.value(operand)}")
            case ast.Compare(left, [operator], [right]):
                a = self.value(left)
                return self.op(f"zext i1 {self.compare(node, operator, a, self.value(right))} to i64")
            case ast.Compare() | ast.UnaryOp(ast.Not()):
                *_, yes, no = self.choose(node, lambda: None, lambda: None)
                return self.merged(("1", "0"), (yes, no))
            case ast.BoolOp(operator, operands):
                return self.logic(operator, operands)
            case ast.IfExp():
                return self.several(node, 1)[0]
            case ast.Call(ast.Name(name)) if name in self.heads:
                if self.heads[name].results != 1:
                    self.refuse(node, f"not one value ({ast.unparse(node)})")
                return self.call(node)
            case ast.Call(ast.Name(name)) if name not in self.variables:
                return self.builtin(node)
        self.refuse(node, f"an expression that is not known ({ast.unparse(node)})")

    def constant(self, node: ast.expr) -> str:
        found: Any = None
        match node:
            case ast.Constant(found):
                pass
            case ast.Name(name):
                found = self.source.names.get(name)
            case ast.Attribute(ast.Name(name), field) if self.is_module(name):
                found = getattr(self.source.names[name], field, None)
        if not isinstance(found, int) or not -(2**63) <= found < 2**63:
            self.refuse(node, f"not an integer of 64 bits ({ast.unparse(node)})")
        return str(int(found))

    def is_module(self, name: str) -> bool:
        return name not in self.variables and isinstance(self.source.names.get(name), ModuleType)

    def binary(self, node: ast.expr, operator: ast.operator, a: str, b: str) -> str:
        kind = type(operator)
        if kind not in _FUNCTIONS and kind not in _OPERATIONS:
            self.refuse(node, f"an operation that is not known ({kind.__name__})")
        if kind in _FUNCTIONS:
            return self.op(f"call i64 @{_FUNCTIONS[kind]}(i64 {a}, i64 {b})")
        return self.op(f"{_OPERATIONS[kind]} {a}, {b}")

    def logic(self, operator: ast.boolop, operands: Sequence[ast.expr]) -> str:
        """The operand that decides."""
        first, *others = operands
        a = self.value(first)
        if not others:
            return a
        more, end = self.labels("more", "end")
        self.split(self.op(f"icmp ne i64 {a}, 0"), *((more, end) if isinstance(operator, ast.And) else (end, more)))
        before = self.block
        self.start(more)
        b = self.logic(operator, others)
        blocks = before, self.block
        self.start(end)
        return self.merged((a, b), blocks)

    def builtin(self, node: ast.Call) -> str:
        match node:
            case ast.Call(ast.Name("abs"), [operand], []):
                return self.op(f"call i64 @llvm.abs.i64(i64 {self.value(operand)}, i1 false)")
            case ast.Call(ast.Name("min" | "max" as name), [first, *others], []) if others:
                found, *values = self.value(first), *map(self.value, others)
                for v in values:
                    found = self.op(f"call i64 @llvm.s{name}.i64(i64 {found}, i64 {v})")
                return found
        self.refuse(node, f"a call that is not known ({ast.unparse(node)})")

    def call(self, node: ast.Call) -> str:
        """Call a function of the program."""
        match node:
            case ast.Call(ast.Name(name), arguments, []) if name in self.heads and name not in self.variables:
                head = self.heads[name]
                self.calls.append(name)
                if len(arguments) == len(head.parameters):
                    given = (self.argument(p, a) for p, a in zip(head.parameters, arguments, strict=True))
                    text = f"call {head.type} @f.{name}({', '.join(given)})"
                    if head.results:
                        return self.op(text)
                    self.do(text)
                    return ""
        self.refuse(node, f"a call that is not known ({ast.unparse(node)})")

    def argument(self, parameter: str, node: ast.expr) -> str:
        if parameter not in POINTERS:
            return f"i64 {self.value(node)}"
        if isinstance(node, ast.Name) and node.id in self.pointers:
            return f"ptr %a.{node.id}"
        self.refuse(node, f"no memory for {parameter} ({ast.unparse(node)})")
