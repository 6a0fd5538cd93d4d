"""From Python to LLVM's text, for functions of integers and of words in memory: the language that the engine is written in.

Every value is an int64 that wraps around; conditions are 0 or 1. A parameter named as in `POINTERS` leads to words in
memory, and is only indexed or handed on. There are assignments, also augmented and of several values, `if`, `while`, `for`
over a range or over values that are listed, `break`, `continue` and `return` of one value, several or none; integers,
constants of a module, arithmetic, comparisons, `and`, `or`, `not`, conditional expressions, min, max, abs, and calls of
functions of the same program. All means what it means in Python, orders of evaluation included, but for what Python knows
no value for: a // 0 and a % 0 are 0, and so is a variable that has no value yet; a shift by less than 0 is one by 64.
Words are copied as `m[x : x + n] = m[y : y + n]`. Anything else raises CompileError `skeleton`, with the function and line.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Never

from tilewright.lang.errors import CompileError, Location

POINTERS = ("m", "values")
# Lines of LLVM's text up to which a function is put into its callers, and into the only one that it has. The engine is as
# fast with these as with all of LLVM's passes at O3, which take three times as long.
INLINED, INLINED_ONCE = 80, 200

_OPERATIONS = {
    ast.Add: "add i64", ast.Sub: "sub i64", ast.Mult: "mul i64", ast.BitAnd: "and i64", ast.BitOr: "or i64",
    ast.BitXor: "xor i64",
}  # fmt: skip
_FUNCTIONS = {ast.FloorDiv: "quotient", ast.Mod: "remainder", ast.LShift: "left", ast.RShift: "right"}
_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}
_HINT = "codegen/skeleton/translate.py says what such functions can have"
# Division rounds down. Divisors that the processor traps at (0, and -1 of the least number) are not divided by.
_PRELUDE = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define internal i64 @quotient(i64 %a, i64 %b) alwaysinline nounwind {
  %beyond = add i64 %b, 1
  %special = icmp ult i64 %beyond, 2
  %divisor = select i1 %special, i64 1, i64 %b
  %towards0 = sdiv i64 %a, %divisor
  %rest = srem i64 %a, %divisor
  %inexact = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %divisor
  %apart = icmp slt i64 %signs, 0
  %below = and i1 %inexact, %apart
  %step = sext i1 %below to i64
  %down = add i64 %towards0, %step
  %by1 = mul i64 %a, %b
  %result = select i1 %special, i64 %by1, i64 %down
  ret i64 %result
}
define internal i64 @remainder(i64 %a, i64 %b) alwaysinline nounwind {
  %beyond = add i64 %b, 1
  %special = icmp ult i64 %beyond, 2
  %divisor = select i1 %special, i64 1, i64 %b
  %rest = srem i64 %a, %divisor
  %inexact = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %divisor
  %apart = icmp slt i64 %signs, 0
  %below = and i1 %inexact, %apart
  %step = select i1 %below, i64 %divisor, i64 0
  %result = add i64 %rest, %step
  ret i64 %result
}
define internal i64 @left(i64 %a, i64 %n) alwaysinline nounwind {
  %inside = icmp ult i64 %n, 64
  %shifted = shl i64 %a, %n
  %result = select i1 %inside, i64 %shifted, i64 0
  ret i64 %result
}
define internal i64 @right(i64 %a, i64 %n) alwaysinline nounwind {
  %most = call i64 @llvm.umin.i64(i64 %n, i64 63)
  %result = ashr i64 %a, %most
  ret i64 %result
}
"""


@dataclass(frozen=True)
class Source:
    """Functions as text: its file, and the names that it finds in its module (constants, modules of constants)."""

    file: str
    text: str
    names: Mapping[str, Any]


@dataclass(frozen=True)
class _Head:
    """What callers know of a function: its parameters, and how many values it returns."""

    parameters: tuple[str, ...]
    results: int

    @property
    def type(self) -> str:
        return ("void", "i64")[self.results] if self.results < 2 else f"{{ {', '.join(['i64'] * self.results)} }}"


def translate(sources: Iterable[Source], exported: str, symbol: str) -> str:
    """The functions of all sources as one module of LLVM's; from outside `exported` is called as `symbol`.

    No two functions have the same name. Raises CompileError `skeleton`.
    """
    functions: dict[str, _Function] = {}
    heads: dict[str, _Head] = {}
    for source in sources:
        for node in ast.parse(source.text).body:
            if isinstance(node, ast.FunctionDef):
                function = _Function(source, node, heads)
                if node.name in functions:
                    function.refuse(node, "a second function of this name")
                functions[node.name], heads[node.name] = function, function.head()
    for function in functions.values():
        function.translate()
    calls = Counter(name for f in functions.values() for name in f.calls)
    parts = [_PRELUDE]
    for name, f in functions.items():
        small = len(f.lines) <= (INLINED if calls[name] > 1 else INLINED_ONCE)
        parts.append(f.text(f"@{symbol}", "") if name == exported else f.text(f"@f.{name}", " alwaysinline" * small))
    return "\n".join(parts)


def _variable(name: str) -> str:
    return f"%v.{name}"


class _Function:
    """One function on its way: the lines so far, and the block that they are in."""

    def __init__(self, source: Source, node: ast.FunctionDef, heads: Mapping[str, _Head]):
        self.source, self.node, self.heads = source, node, heads
        self.parameters = tuple(a.arg for a in node.args.args)
        self.pointers = {a for a in self.parameters if a in POINTERS}
        stored = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self.variables = dict.fromkeys((*(a for a in self.parameters if a not in POINTERS), *stored))
        self.lines: list[str] = []
        self.counters: list[str] = []
        self.calls: list[str] = []
        self.names = 0
        self.block, self.open = "entry", True  # the block under way, and whether control comes to where it is now
        self.reached: set[str] = set()
        self.loops: list[tuple[str, str]] = []  # where `continue` and `break` go to

    def refuse(self, node: ast.AST, what: str) -> Never:
        line = getattr(node, "lineno", self.node.lineno)
        where = Location(self.source.file, line)
        raise CompileError(
            f"{what} in the function {self.node.name}, line {line}", code="skeleton", where=where, hint=_HINT
        )

    # Lines and blocks

    def do(self, line: str) -> None:
        if self.open:
            self.lines.append("  " + line)

    def op(self, text: str) -> str:
        self.names += 1
        name = f"%t{self.names}"
        self.do(f"{name} = {text}")
        return name

    def labels(self, *names: str) -> list[str]:
        first = self.names + 1
        self.names += len(names)
        return [f"{n}{k}" for k, n in enumerate(names, first)]

    def leave(self, line: str, *labels: str) -> None:
        """End the block with a jump or a return."""
        if self.open:
            self.do(line)
            self.reached.update(labels)
        self.open = False

    def jump(self, label: str) -> None:
        self.leave(f"br label %{label}", label)

    def split(self, condition: str, yes: str, no: str) -> None:
        self.leave(f"br i1 {condition}, label %{yes}, label %{no}", yes, no)

    def start(self, label: str) -> None:
        """Begin a block, after the one before it if that goes on."""
        self.jump(label)
        self.block, self.open = label, label in self.reached
        if self.open:
            self.lines.append(f"{label}:")

    # The function

    def head(self) -> _Head:
        a, returns = self.node.args, [n for n in ast.walk(self.node) if isinstance(n, ast.Return)]
        if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults or self.node.decorator_list:
            self.refuse(self.node, "a decorator, or parameters of another kind")
        results = {_results(n.value): n for n in returns} or {0: self.node}
        if len(results) > 1:
            self.refuse(returns[-1], "another number of values returned than before")
        return _Head(self.parameters, *results)

    def translate(self) -> None:
        self.body(self.node.body)
        if self.heads[self.node.name].results and self.open:
            self.refuse(self.node, "an end without a value")
        self.leave("ret void")

    def text(self, name: str, attributes: str) -> str:
        """The whole function, to be called from outside or not."""
        linkage = "internal " if name.startswith("@f.") else ""
        parameters = (f"{'ptr' if a in self.pointers else 'i64'} %a.{a}" for a in self.parameters)
        head = (
            f"define {linkage}{self.heads[self.node.name].type} {name}({', '.join(parameters)}){attributes} nounwind {{"
        )
        places = [*map(_variable, self.variables), *self.counters]
        first = (f"%a.{v}" if v in self.parameters else "0" for v in self.variables)
        begun = (f"  store i64 {x}, ptr {_variable(v)}" for x, v in zip(first, self.variables, strict=True))
        return "\n".join((head, "entry:", *(f"  {p} = alloca i64" for p in places), *begun, *self.lines, "}"))

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass() | ast.Expr(ast.Constant(str())):
                pass
            case ast.Expr(ast.Call() as call):
                self.call(call)
            case ast.Assign([ast.Subscript(_, ast.Slice()) as target], ast.Subscript(_, ast.Slice()) as value):
                self.move(target, value)
            case ast.Assign([ast.Tuple(targets)], value):
                for target, v in zip(targets, self.several(value, len(targets)), strict=True):
                    self.store(target, v)
            case ast.Assign([target], value):
                self.store(target, self.value(value))
            case ast.AugAssign(target, operator, value):
                self.augment(target, operator, value)
            case ast.If(test, body, orelse):
                self.choose(test, lambda: self.body(body), lambda: self.body(orelse))
            case ast.While(test, body, []):
                self.repeat(test, body)
            case ast.For(target, ast.Call(ast.Name("range"), [*limits], []), body, []) if len(limits) in (1, 2):
                self.count(target, limits, body)
            case ast.For(target, ast.Tuple(listed), body, []):
                self.unroll(target, [self.value(v) for v in listed], body)
            case ast.Return(value):
                self.give(value)
            case ast.Continue() | ast.Break() if self.loops:
                self.jump(self.loops[-1][isinstance(node, ast.Break)])
            case _:
                self.refuse(node, f"a statement that is not known ({type(node).__name__})")

    def store(self, target: ast.expr, value: str) -> None:
        self.do(f"store i64 {value}, ptr {self.place(target)}")

    def place(self, node: ast.expr) -> str:
        """Where a variable or a word is."""
        match node:
            case ast.Name(name) if name in self.variables and name not in self.pointers:
                return _variable(name)
            case ast.Subscript(ast.Name(base), index) if base in self.pointers:
                return self.op(f"getelementptr i64, ptr %a.{base}, i64 {self.value(index)}")
        self.refuse(node, f"a place that is not known ({ast.unparse(node)})")

    def move(self, target: ast.Subscript, source: ast.Subscript) -> None:
        """m[x : x + n] = m[y : y + n]: as if all were read before any is written."""
        places, counts = [], []
        for node in (source, target):
            match node.slice:
                case ast.Slice(ast.expr() as first, ast.BinOp(again, ast.Add(), count), None) if _same(first, again):
                    places.append(ast.copy_location(ast.Subscript(node.value, first), node))
                    counts.append(count)
        if len(counts) < 2 or not _same(*counts):
            self.refuse(target, "not a copy of as many words as there is room for")
        source_at, target_at = map(self.place, places)
        words = self.op(f"call i64 @llvm.smax.i64(i64 0, i64 {self.value(counts[0])})")
        size = self.op(f"shl i64 {words}, 3")
        self.do(f"call void @llvm.memmove.p0.p0.i64(ptr {target_at}, ptr {source_at}, i64 {size}, i1 false)")

    def augment(self, target: ast.expr, operator: ast.operator, value: ast.expr) -> None:
        place = self.place(target)
        before = self.op(f"load i64, ptr {place}")
        self.do(f"store i64 {self.binary(target, operator, before, self.value(value))}, ptr {place}")

    def give(self, value: ast.expr | None) -> None:
        n = _results(value)
        if value is None or n == 0:
            self.leave("ret void")
        elif n == 1:
            self.leave(f"ret i64 {self.value(value)}")
        else:
            kind, made = _Head((), n).type, "poison"
            for i, v in enumerate(self.several(value, n)):
                made = self.op(f"insertvalue {kind} {made}, i64 {v}, {i}")
            self.leave(f"ret {kind} {made}")

    # Control

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

    def repeat(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        head, inside, end = self.labels("while", "do", "done")
        self.start(head)
        self.branch(test, inside, end)
        self.start(inside)
        self.loop(body, head, end)
        self.jump(head)
        self.start(end)

    def count(self, target: ast.expr, limits: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        first, stop = ["0", *(self.value(x) for x in limits)][-2:]
        head, inside, following, end, counter = self.labels("for", "do", "next", "done", "%i")
        self.counters.append(counter)
        self.do(f"store i64 {first}, ptr {counter}")
        self.start(head)
        i = self.op(f"load i64, ptr {counter}")
        self.split(self.op(f"icmp slt i64 {i}, {stop}"), inside, end)
        self.start(inside)
        self.store(target, i)
        self.loop(body, following, end)
        self.start(following)
        self.do(f"store i64 {self.op(f'add nsw i64 {i}, 1')}, ptr {counter}")
        self.jump(head)
        self.start(end)

    def unroll(self, target: ast.expr, listed: Sequence[str], body: Sequence[ast.stmt]) -> None:
        (end,) = self.labels("done")
        for value in listed:
            (following,) = self.labels("next")
            self.store(target, value)
            self.loop(body, following, end)
            self.start(following)
        self.start(end)

    def loop(self, body: Sequence[ast.stmt], following: str, end: str) -> None:
        self.loops.append((following, end))
        self.body(body)
        self.loops.pop()

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

    # Values

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

    def merged(self, values: Sequence[str], blocks: Sequence[str]) -> str:
        """One of two values, by the block that control comes from."""
        return self.op("phi i64 " + ", ".join(f"[{v}, %{b}]" for v, b in zip(values, blocks, strict=True) if b))

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
            case ast.Attribute(ast.Name(name), field) if isinstance(self.source.names.get(name), ModuleType):
                found = getattr(self.source.names[name], field, None)
        if not isinstance(found, int) or not -(2**63) <= found < 2**63:
            self.refuse(node, f"not an integer of 64 bits ({ast.unparse(node)})")
        return str(int(found))

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


def _same(a: ast.expr, b: ast.expr) -> bool:
    return ast.dump(a) == ast.dump(b)


def _results(value: ast.expr | None) -> int:
    """How many values a `return` gives."""
    if value is None:
        return 0
    return len(value.elts) if isinstance(value, ast.Tuple) else 1
