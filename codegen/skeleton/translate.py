"""From Python to LLVM's text, for functions of integers and of words in memory: the language that the engine is written in.

Every value is an int64 that wraps around; conditions are 0 or 1. A parameter named as in `values.POINTERS` leads to words in
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
from collections.abc import Iterable, Mapping, Sequence

from tilewright.codegen.skeleton.blocks import PRELUDE
from tilewright.codegen.skeleton.values import Head, Source, Values, variable

# Lines of LLVM's text up to which a function is put into its callers, and into the only one that it has. The engine is as
# fast with these as with all of LLVM's passes at O3, which take three times as long.
INLINED, INLINED_ONCE = 80, 200


def translate(sources: Iterable[Source], exported: str, symbol: str) -> str:
    """The functions of all sources as one module of LLVM's; from outside `exported` is called as `symbol`.

    No two functions have the same name. Raises CompileError `skeleton`.
    """
    functions: dict[str, _Function] = {}
    heads: dict[str, Head] = {}
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
    parts = [PRELUDE]
    for name, f in functions.items():
        small = len(f.lines) <= (INLINED if calls[name] > 1 else INLINED_ONCE)
        parts.append(f.text(f"@{symbol}", "") if name == exported else f.text(f"@f.{name}", " alwaysinline" * small))
    return "\n".join(parts)


class _Function(Values):
    """A function on its way: its statements."""

    def __init__(self, source: Source, node: ast.FunctionDef, heads: Mapping[str, Head]):
        super().__init__(source, node, heads)
        self.counters: list[str] = []
        self.loops: list[tuple[str, str]] = []  # where `continue` and `break` go to

    def head(self) -> Head:
        a, returns = self.node.args, [n for n in ast.walk(self.node) if isinstance(n, ast.Return)]
        if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults or self.node.decorator_list:
            self.refuse(self.node, "a decorator, or parameters of another kind")
        results = {_results_of(n.value): n for n in returns} or {0: self.node}
        if len(results) > 1:
            self.refuse(returns[-1], "another number of values returned than before")
        return Head(self.parameters, *results)

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
        places = [*map(variable, self.variables), *self.counters]
        first = (f"%a.{v}" if v in self.parameters else "0" for v in self.variables)
        begun = (f"  store i64 {x}, ptr {variable(v)}" for x, v in zip(first, self.variables, strict=True))
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

    def move(self, target: ast.Subscript, source: ast.Subscript) -> None:
        """m[x : x + n] = m[y : y + n]: as if all were read before any is written."""
        places, counts = [], []
        for node in (source, target):
            match node.slice:
                case ast.Slice(ast.expr() as first, ast.BinOp(again, ast.Add(), count), None) if _same(first, again):
                    places.append(ast.copy_location(ast.Subscript(node.value, first), node))
                    counts.append(count)
        called = any(
            isinstance(n, ast.Call) for x in (source, target) for n in ast.walk(x)
        )  # once, or as often as it is there
        if called or len(counts) < 2 or not _same(*counts):
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
        n = _results_of(value)
        if value is None or n == 0:
            self.leave("ret void")
        elif n == 1:
            self.leave(f"ret i64 {self.value(value)}")
        else:
            kind, made = Head((), n).type, "poison"
            for i, v in enumerate(self.several(value, n)):
                made = self.op(f"insertvalue {kind} {made}, i64 {v}, {i}")
            self.leave(f"ret {kind} {made}")

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


def _same(a: ast.expr, b: ast.expr) -> bool:
    return ast.dump(a) == ast.dump(b)


def _results_of(value: ast.expr | None) -> int:
    """How many values a `return` gives."""
    if value is None:
        return 0
    return len(value.elts) if isinstance(value, ast.Tuple) else 1
