"""Functions of integers and words, translated to LLVM: they give what Python gives, wrapped to 64 bits."""

from __future__ import annotations

import ast
import ctypes
import itertools
import operator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.codegen import target
from tilewright.codegen.jit import Library, load
from tilewright.codegen.skeleton import layout as L
from tilewright.codegen.skeleton.expressions import product
from tilewright.codegen.skeleton.translate import translate
from tilewright.codegen.skeleton.values import Source
from tilewright.lang.errors import CompileError

WORDS = 9
LEAST, MOST = -(2**63), 2**63 - 1
EXTREMES = (LEAST, LEAST + 1, -(2**32), -64, -7, -1, 0, 1, 2, 3, 63, 64, 2**31, 2**62, MOST - 1, MOST)
CONSTANTS = ModuleType("constants")
CONSTANTS.__dict__.update(SEVEN=7, FAR=2**61, LOW=LEAST, TEXT="no number", WIDE=2**63)
NAMES: dict[str, Any] = {"K": CONSTANTS, "THREE": 3}


def compiled(text: str, parameters: int) -> tuple[Any, Library]:
    """The function `f` of a program, to be called with an array and so many integers."""
    ir = translate([Source("program.py", text, NAMES)], "f", "exported")
    library = load(target.optimize_and_emit(ir, "fast"), ("exported",)).pin()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * parameters)
    return kind(library.address("exported")), library


class Word(int):
    """An integer whose operations wrap around, with values where Python has none."""

    def __new__(cls, value: int) -> Word:
        return super().__new__(cls, (int(value) - LEAST) % 2**64 + LEAST)

    def __neg__(self) -> Word:
        return Word(-int(self))

    def __abs__(self) -> Word:
        return Word(abs(int(self)))

    def __invert__(self) -> Word:
        return Word(~int(self))


def _shift_left(a: int, n: int) -> int:
    return a << n if 0 <= n < 64 else 0


def _shift_right(a: int, n: int) -> int:
    return a >> (n if 0 <= n < 64 else 64)


for _name, _what in {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": _shift_left, "rshift": _shift_right,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0,
}.items():  # fmt: skip
    setattr(Word, f"__{_name}__", lambda a, b, what=_what: Word(what(int(a), int(b))))
    setattr(Word, f"__r{_name}__", lambda a, b, what=_what: Word(what(int(b), int(a))))


class Wrapped(ast.NodeTransformer):
    """Makes words of what Python makes plain integers of."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return _word(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return _word(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return _word(self.generic_visit(node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return _word(self.generic_visit(node)) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.target)
        node.body.insert(0, ast.parse(f"{name} = Word({name})").body[0])
        return node


def _word(node: Any) -> ast.AST:
    return ast.Call(ast.Name("Word", ast.Load()), [node], [])


def interpreted(text: str, words: list[int], arguments: tuple[int, ...]) -> tuple[int, list[int]]:
    tree = ast.fix_missing_locations(Wrapped().visit(ast.parse(text)))
    space = {**NAMES, "Word": Word}
    exec(compile(tree, "program.py", "exec"), space)
    m = [Word(w) for w in words]
    return space["f"](m, *map(Word, arguments)), m


def check(text: str, words: list[int], *calls: tuple[int, ...]) -> None:
    f, _library = compiled(text, len(calls[0]))
    for arguments in calls:
        m = np.array(words, np.int64)
        found = f(m.ctypes.data, *arguments)
        assert (found, m.tolist()) == interpreted(text, words, arguments), (text, arguments)


# Random programs ------------------------------------------------------------------------------------------------------

HELPERS = """
def swap(m, a, b):
    if a > b:
        return b, a
    return a, b

def bump(m, a):
    m[a & 7] += a
    return m[a & 7]

def put(m, place, a):
    if a == 0:
        return
    m[place & 7] = a

"""
_numbers = st.sampled_from([*map(str, EXTREMES[1:]), "K.SEVEN", "K.FAR", "K.LOW", "THREE", "True", "False"])
_leaves = st.one_of(st.sampled_from(["a", "b", "c", "x", "y"]), _numbers)


def _larger(e: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(e, st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "and", "or"]), e)
    compared = st.sampled_from(["<", "<=", "==", "!=", ">", ">="])
    return st.one_of(
        binary.map(lambda t: f"({' '.join(t)})"),
        st.tuples(e, compared, e).map(lambda t: f"({' '.join(t)})"),
        st.tuples(e, compared, e, compared, e).map(lambda t: f"({' '.join(t)})"),
        st.tuples(st.sampled_from(["-", "~", "not "]), e).map(lambda t: f"({t[0]}{t[1]})"),
        st.tuples(e, e, e).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), e, e, e).map(lambda t: f"{t[0]}({t[1]}, {t[2]}, {t[3]})"),
        e.map(lambda x: f"abs({x})"),
        e.map(lambda x: f"m[{x} & 7]"),
        e.map(lambda x: f"bump(m, {x})"),
    )


_values = st.recursive(_leaves, _larger, max_leaves=6)
_targets = st.one_of(st.sampled_from(["x", "y", "a"]), _values.map(lambda x: f"m[{x} & 7]"))


@st.composite
def blocks(draw: st.DrawFn, depth: int, inside: bool) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4 if depth else 2))):
        lines += draw(statements(depth, inside))
    return lines


@st.composite
def statements(draw: st.DrawFn, depth: int, inside: bool) -> list[str]:
    e = lambda: draw(_values)  # noqa: E731
    t = lambda: draw(_targets)  # noqa: E731
    nested = lambda loop=False: ["    " + s for s in draw(blocks(depth - 1, inside or loop))]  # noqa: E731
    plain = ["set", "two", "augment", "pair", "either", "put", "move", "return", *["leave"] * inside]
    match draw(st.sampled_from(plain + ["if", "if", "range", "listed", "while"] * (depth > 0))):
        case "set":
            return [f"{t()} = {e()}"]
        case "two":
            return [f"{t()}, {t()} = {e()}, {e()}"]
        case "augment":
            return [f"{t()} {draw(st.sampled_from(['+=', '-=', '*=', '//=', '%=', '^=', '>>=']))} {e()}"]
        case "pair":
            return [f"{t()}, {t()} = swap(m, {e()}, {e()})"]
        case "either":
            return [f"x, {t()} = ({e()}, {e()}) if {e()} else swap(m, {e()}, {e()})"]
        case "put":
            return [f"put(m, {e()}, {e()})"]
        case "move":
            n = draw(st.integers(0, 3))
            return [f"x, y = {e()} & 3, {e()} & 3", f"m[x : x + {n}] = m[y : y + {n}]"]
        case "return":
            return [f"if {e()}:", f"    return {e()}"]
        case "leave":
            return [f"if {e()}:", f"    {draw(st.sampled_from(['break', 'continue']))}"]
        case "if":
            return [f"if {e()}:", *nested(), *draw(st.sampled_from([[], ["else:", *nested()]]))]
        case "range":
            return [f"for {draw(st.sampled_from('xyi'))} in range({e()} & 3):", *nested(True)]
        case "listed":
            return [f"for {draw(st.sampled_from('xyi'))} in ({e()}, {e()}):", *nested(True)]
    turns = f"n{depth}"
    return [f"{turns} = 0", f"while {turns} < {draw(st.integers(0, 3))} and {e()}:", f"    {turns} += 1", *nested(True)]


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_random_programs_give_what_python_gives(data: st.DataObject) -> None:
    body = ["x, y, i = a, b, 0", *data.draw(blocks(2, False)), f"return {data.draw(_values)}"]
    text = HELPERS + "def f(m, a, b, c):\n" + "\n".join("    " + s for s in body)
    words = data.draw(st.lists(st.sampled_from(EXTREMES), min_size=WORDS, max_size=WORDS))
    values = st.one_of(st.sampled_from(EXTREMES), st.integers(LEAST, MOST))
    check(text, words, *data.draw(st.lists(st.tuples(values, values, values), min_size=3, max_size=3)))


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"])
def test_operations_at_the_extremes(op: str) -> None:
    text = f"def f(m, a, b):\n    m[0] = a {op} b\n    m[1] = a {op} 8\n    m[2] = -a {op} -1\n    return a {op} 0"
    check(text, [0] * 3, *itertools.product(EXTREMES, repeat=2))


def test_a_range_to_the_last_number_ends_and_its_body_may_change_the_variable() -> None:
    text = """
def f(m, a, b):
    i = 5
    for i in range(a, b):
        m[0] += 1
        i *= 2
        m[1] = i
    return i
"""
    check(text, [0, 0], (MOST - 2, MOST), (LEAST, LEAST + 2), (MOST, LEAST), (3, 3), (-2, 2))


def test_orders_of_evaluation() -> None:
    text = """
def next_of(m):
    m[0] += 1
    return m[0]

def f(m, a):
    m[next_of(m)] += 10 * next_of(m)
    m[next_of(m)], m[next_of(m)] = next_of(m), next_of(m)
    m[0] += next_of(m)
    m[8] = min(3 * next_of(m), 2 * next_of(m))
    i, m[i_of(m)] = 3, 4
    return next_of(m) - next_of(m) * (next_of(m) - a if next_of(m) > a > next_of(m) or next_of(m) else next_of(m))

def i_of(m):
    m[7] += 1
    return m[7]
"""
    check(text, [0] * 12, (0,), (8,), (9,), (100,))


def test_words_are_copied_as_if_all_were_read_first() -> None:
    text = "def f(m, a, b, n):\n    m[a : a + n] = m[b : b + n]\n    return 0"
    check(text, [1, 2, 3, 4, 5, 6], (0, 2, 4), (2, 0, 4), (3, 3, 2), (1, 4, 0))


def test_a_product_beyond_is_noted_also_at_the_least_number() -> None:
    m = [0] * L.HEADER_SIZE
    for a, b in itertools.product(EXTREMES, repeat=2):
        m[L.BEYOND] = 0
        product(m, Word(a), Word(b))
        noted = m[L.BEYOND]
        assert noted or abs(a * b) <= L.LARGEST
        assert not noted or abs(a * b) > L.LARGEST or b == LEAST


# What is refused ------------------------------------------------------------------------------------------------------


def refused(body: str, head: str = "def f(m, a, b):") -> str:
    text = "def pair(m, a):\n    return a, a\n\ndef none(m):\n    return\n\n" + head + "\n    b = a\n"
    text += "\n".join("    " + line for line in body.split("\n"))
    with pytest.raises(CompileError) as caught:
        translate([Source("program.py", text, NAMES)], "f", "exported")
    assert caught.value.code == "skeleton"
    assert caught.value.where[0].file == "program.py"
    return str(caught.value)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("b = a / 2", "an operation that is not known (Div)"),
        ("b **= 2", "an operation that is not known (Pow)"),
        ("b = 1.5", "not an integer of 64 bits (1.5)"),
        ("b = 9223372036854775808", "not an integer of 64 bits (9223372036854775808)"),
        ("b = K.WIDE", "not an integer of 64 bits (K.WIDE)"),
        ("b = K.TEXT", "not an integer of 64 bits (K.TEXT)"),
        ("b = K.MISSING", "not an integer of 64 bits (K.MISSING)"),
        ("b = a.real", "not an integer of 64 bits (a.real)"),
        ("b = unknown", "not an integer of 64 bits (unknown)"),
        ("b = None", "not an integer of 64 bits (None)"),
        ("b = a is b", "a comparison that is not known (a is b)"),
        ("b = [a]", "an expression that is not known ([a])"),
        ("b = {a}", "an expression that is not known ({a})"),
        ("b = (x := a)", "an expression that is not known ((x := a))"),
        ("b = lambda: a", "an expression that is not known (lambda: a)"),
        ("b = sum(i for i in range(a))", "a call that is not known"),
        ("b = len(m)", "a call that is not known (len(m))"),
        ("b = max(a)", "a call that is not known (max(a))"),
        ("b = max(a, b, key=abs)", "a call that is not known"),
        ("b = a.bit_length()", "an expression that is not known (a.bit_length())"),
        ("print(a)", "a call that is not known (print(a))"),
        ("b = none(m)", "not one value (none(m))"),
        ("b = pair(m, a)", "not one value (pair(m, a))"),
        ("a, b = none(m)", "not 2 values (none(m))"),
        ("a, b, a = pair(m, a)", "not 3 values (pair(m, a))"),
        ("a, b = a", "not 2 values (a)"),
        ("pair, b = a, pair(m, a)", "not one value (pair(m, a))"),
        ("none = none(m)", "not one value (none(m))"),
        ("max = max(a, b)", "an expression that is not known (max(a, b))"),
        ("K, b = a, K.SEVEN", "not an integer of 64 bits (K.SEVEN)"),
        ("pair(m)", "a call that is not known (pair(m))"),
        ("pair(m, a=a)", "a call that is not known (pair(m, a=a))"),
        ("pair(a, a)", "no memory for m (a)"),
        ("pair(m, m)", "a place that is not known (m)"),
        ("b = m", "a place that is not known (m)"),
        ("m = a", "a place that is not known (m)"),
        ("b = a[0]", "a place that is not known (a[0])"),
        ("a.x = b", "a place that is not known (a.x)"),
        ("a, *b = a, b", "a place that is not known (*b)"),
        ("m[a:b] = m[b:a]", "not a copy of as many words"),
        ("m[a : a + 2] = m[b : b + 3]", "not a copy of as many words"),
        ("m[max(a, b) : max(a, b) + 2] = m[b : b + 2]", "not a copy of as many words"),
        ("b = m[a:b]", "an expression that is not known (a:b)"),
        ("a = b = 1", "a statement that is not known (Assign)"),
        ("b: int = a", "a statement that is not known (AnnAssign)"),
        ("del b", "a statement that is not known (Delete)"),
        ("assert a", "a statement that is not known (Assert)"),
        ("raise a", "a statement that is not known (Raise)"),
        ("global b", "a statement that is not known (Global)"),
        ("import os", "a statement that is not known (Import)"),
        ("a + b", "a statement that is not known (Expr)"),
        ("break", "a statement that is not known (Break)"),
        ("def g():\n    pass", "a statement that is not known (FunctionDef)"),
        ("with a:\n    pass", "a statement that is not known (With)"),
        ("try:\n    pass\nfinally:\n    pass", "a statement that is not known (Try)"),
        ("match a:\n    case 1:\n        pass", "a statement that is not known (Match)"),
        ("for b in m:\n    pass", "a statement that is not known (For)"),
        ("for b in range(0, a, 2):\n    pass", "a statement that is not known (For)"),
        ("for b in range(a):\n    pass\nelse:\n    pass", "a statement that is not known (For)"),
        ("while a:\n    pass\nelse:\n    pass", "a statement that is not known (While)"),
    ],
)  # fmt: skip
def test_what_is_no_part_of_the_language_is_refused_with_its_line(statement: str, says: str) -> None:
    message = refused(statement)
    assert says in message
    assert "in the function f, line 9" in message


@pytest.mark.parametrize(
    "head", ["def f(m, a, b=1):", "def f(m, a, *b):", "def f(m, a, *, b):", "@abs\ndef f(m, a, b):"]
)
def test_other_parameters_are_refused(head: str) -> None:
    assert "a decorator, or parameters of another kind in the function f" in refused("pass", head)


def test_a_function_returns_as_many_values_everywhere_and_has_an_end() -> None:
    assert "another number of values" in refused("if a:\n    return 1\nreturn 1, 2")
    assert "an end without a value in the function f" in refused("while a:\n    return 1")
    assert "an end without a value in the function f" in refused("if a:\n    return 1\nelif b:\n    return 2")
    with pytest.raises(CompileError, match="a second function of this name in the function f, line 3"):
        translate([Source("program.py", "def f(m):\n    pass\ndef f(m):\n    pass\n", NAMES)], "f", "exported")
