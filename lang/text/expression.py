"""Expressions as infix text with few parentheses, shared parts named by `let`. Iterative throughout: depth is no limit.

Every form that is written is one that the reader's rules turn into the very same node; where no short form does
(a node that was built past the simplifier, say), the exact form `op!type(operands)` stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tilewright.lang import expr, ir, simplify
from tilewright.lang.errors import TilewrightError
from tilewright.lang.expr import wrap
from tilewright.lang.ir import Node
from tilewright.lang.text import rules
from tilewright.lang.text.numbers import format_const
from tilewright.lang.text.rules import ATOM, COMPARE, PRECEDENCE, SYMBOLS, UNARY
from tilewright.lang.types import index

Pair = tuple[Any, Any, Node, Node]
Rope = str | tuple["Rope", ...]  # text in pieces: joined once at the end, so that depth costs no copies

SMALL = 6  # nodes: what is this small is repeated rather than named
LARGE = 48  # nodes: what is this large is cut, so that lines stay readable


def join(rope: Rope) -> str:
    """The text of a rope."""
    out: list[str] = []
    stack = [rope]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
        else:
            stack.extend(reversed(piece))
    return "".join(out)


def comma(parts: Iterable[Rope]) -> Rope:
    out: list[Rope] = []
    for p in parts:
        out.extend((", ", p) if out else (p,))
    return tuple(out)


def plain_name(n: Node) -> str:
    """The name of a leaf without regard to what else has that name."""
    return n.attr[1] if n.op == "rvar" else str(n.attr)


class Writer:
    """Writes nodes. `name` gives the text of leaves and of tensors' names; `lets` the names of shared nodes."""

    def __init__(
        self,
        name: Callable[[Node], str] = plain_name,
        tensor: Callable[[str], str] = str,
        lets: Mapping[Node, str] | None = None,
    ):
        self.name, self.tensor = name, tensor
        self.lets: Mapping[Node, str] = {} if lets is None else lets
        self.memo: dict[Node, tuple[Rope, int]] = {}

    def write(self, n: Node, like: Any = None) -> Rope:
        """The text of `n` where a bare number would take the type `like` (None: its own)."""
        if n.op == "const" and n not in self.lets:
            return self.const(n, like)
        return self.part(n)[0]

    def part(self, n: Node) -> tuple[Rope, int]:
        """Text and precedence of `n` as it stands inside something else."""
        if n in self.lets:
            return self.lets[n], ATOM
        found = self.memo.get(n)
        if found is None:
            self._fill(n)
            found = self.memo[n]
        return found

    def _fill(self, root: Node) -> None:
        stack = [root]
        while stack:
            n = stack[-1]
            missing = [a for a in n.args if a not in self.memo and a not in self.lets]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if n not in self.memo:
                self.memo[n] = self._one(n)

    # one node -----------------------------------------------------------------------------------------------

    def _one(self, n: Node) -> tuple[Rope, int]:
        if n.op == "const":
            return self.const(n, None), ATOM
        if n.op in ir.LEAVES:
            return self.name(n), ATOM
        form = _FORMS.get(n.op)
        found = form(self, n) if form else None
        return found or self._exact(n)

    def const(self, n: Node, like: Any) -> Rope:
        """A number: bare where it has the type that a literal takes here, else as `type(number)`."""
        text = format_const(n.attr, n.dtype)
        if n.dtype is index or n.dtype.is_bool:
            return text
        bare = like is not None and _reads_as(lambda: expr.literal(n.attr, like), n)
        return text if bare else f"{n.dtype.name}({text})"

    def child(self, n: Node, least: int, like: Any = None) -> Rope:
        """`n` as an operand that must bind at least as tightly as `least`."""
        if n.op == "const" and n not in self.lets:
            return self.const(n, like)
        text, level = self.part(n)
        return ("(", text, ")") if level < least else text

    def pair(self, build: Callable[[Any, Any], expr.Expr], n: Node, a: Node, b: Node) -> Pair | None:
        """How to write operands `a`, `b` of a binary rule so that it gives `n` again: (type of a bare a, of a bare b,
        the operands without conversions that the rule makes by itself)."""
        for first in (b, a):  # a number on the right is bare if it can be, else one on the left
            for x, y in _without_conversions(a, b):
                like_x, like_y = (None, x.dtype) if first is b else (y.dtype, None)
                if first.op == "const" and self._fits(build, n, x, y, like_x, like_y):
                    return like_x, like_y, x, y
        for x, y in _without_conversions(a, b):
            if self._fits(build, n, x, y, None, None):
                return None, None, x, y
        return None

    @staticmethod
    def _fits(build: Callable[[Any, Any], expr.Expr], n: Node, x: Node, y: Node, like_x: Any, like_y: Any) -> bool:
        left, right = _operand(x, like_x), _operand(y, like_y)
        return left is not None and right is not None and _reads_as(lambda: build(left, right).node, n)

    def _exact(self, n: Node) -> tuple[Rope, int]:
        attr = [] if n.attr is None else [getattr(n.attr, "name", None) or str(n.attr)]
        return (f"{n.op}!{n.dtype.name}(", comma([*attr, *(self.write(a) for a in n.args)]), ")"), ATOM


def _reads_as(build: Callable[[], Node], n: Node) -> bool:
    try:
        return build() is n
    except TilewrightError:
        return False


def _operand(n: Node, like: Any = None) -> Any:
    """What the reader makes of an operand's text: a Python number if it is written bare, else the node."""
    if n.op != "const" or n.dtype.is_bool or (like is None and n.dtype is not index):
        return wrap(n)
    return n.attr if n.dtype is index or _reads_as(lambda: expr.literal(n.attr, like), n) else None


def _without_conversions(a: Node, b: Node) -> list[tuple[Node, Node]]:
    """The operands with conversions from index left out (they go without saying), then as they are."""
    short = [n.args[0] if n.op == "cast" and n.args[0].dtype is index and n.dtype is not index else n for n in (a, b)]
    return [(short[0], short[1])] if short == [a, b] else [(short[0], short[1]), (short[0], b), (a, short[1]), (a, b)]


# Forms by operation -----------------------------------------------------------------------------------------------


def _binary(w: Writer, n: Node) -> tuple[Rope, int] | None:
    if n.dtype is index and n.op in ("add", "mul"):
        short = _negative(w, n)
        if short:
            return short
    level = PRECEDENCE[n.op]
    found = w.pair(lambda x, y: rules.binary(n.op, x, y), n, *n.args)
    if found is None:
        return None
    like_a, like_b, a, b = found
    left = w.child(a, level + (level == COMPARE), like_a)
    right = w.child(b, level + 1, like_b)
    return (left, f" {SYMBOLS[n.op]} ", right), level


def _negative(w: Writer, n: Node) -> tuple[Rope, int] | None:
    """Index arithmetic knows no subtraction: `a + b * -1` is written `a - b`."""
    a, b = n.args
    if simplify.build(n.op, index, n.args) is not n:
        return None
    if n.op == "mul":
        if ir.is_const(b, -1):
            return ("-", w.child(a, UNARY)), UNARY
        return None
    if b.op == "const" and b.attr < 0:
        less: Rope = str(-b.attr)
    elif b.op == "mul" and b.args[1].op == "const" and b.args[1].attr < 0 and b not in w.lets:
        k, t = -b.args[1].attr, b.args[0]
        less = w.child(t, PRECEDENCE["mul"] + (k == 1 and t.op != "mul"))
        less = less if k == 1 else (less, f" * {k}")
    else:
        return None
    return (w.child(a, PRECEDENCE["add"]), " - ", less), PRECEDENCE["add"]


def _unary(symbol: str, build: Callable[[Any], expr.Expr]) -> Callable[[Writer, Node], tuple[Rope, int] | None]:
    def form(w: Writer, n: Node) -> tuple[Rope, int] | None:
        a = n.args[0]
        if a.dtype is index or not _reads_as(lambda: build(wrap(a)).node, n):
            return None
        return (symbol, w.child(a, UNARY)), UNARY

    return form


def _function(w: Writer, n: Node) -> tuple[Rope, int] | None:
    name = rules.OP_NAMES.get(n.op, n.op)
    rule = rules.FUNCTIONS[name][2]
    if len(n.args) == 2:
        found = w.pair(rule, n, *n.args)
        if found:
            like_a, like_b, a, b = found
            return (name, "(", w.write(a, like_a), ", ", w.write(b, like_b), ")"), ATOM
        return None
    if not _reads_as(lambda: rule(*map(_operand, n.args)).node, n):
        return None
    return (name, "(", comma(w.write(a) for a in n.args), ")"), ATOM


def _select(w: Writer, n: Node) -> tuple[Rope, int] | None:
    c, a, b = n.args
    found = w.pair(lambda x, y: expr.select(wrap(c), x, y), n, a, b)
    if found is None:
        return None
    like_a, like_b, a, b = found
    return ("select(", w.write(c), ", ", w.write(a, like_a), ", ", w.write(b, like_b), ")"), ATOM


def _likely(w: Writer, n: Node) -> tuple[Rope, int] | None:
    both = n.args[0]
    if both.op == "and" and [a.op for a in both.args] == ["ge", "lt"]:
        low, high = both.args
        x = low.args[0]
        if high.args[0] is x and x.dtype is index and not {both, low, high} & w.lets.keys():
            lo, hi = low.args[1], high.args[1]
            if _reads_as(lambda: expr.inside(wrap(x), wrap(lo), wrap(hi)).node, n):
                return ("inside(", comma(w.write(a, index) for a in (x, lo, hi)), ")"), ATOM
    return _function(w, n)


def _assume(w: Writer, n: Node) -> tuple[Rope, int] | None:
    return ("assume(", comma((w.write(n.args[0]), *(w.write(e, index) for e in n.args[1:]))), ")"), ATOM


def _load(w: Writer, n: Node) -> tuple[Rope, int] | None:
    tensor, component = n.attr
    places = [place(w, a) for a in n.args]
    tail = f"[{component}]" if len(getattr(tensor, "dtypes", ())) > 1 else ""
    return (w.tensor(tensor.name), "[", comma(places), "]", tail), ATOM


def place(w: Writer, n: Node) -> Rope:
    """An index, `start:stop` for a span."""
    if n.op == "span":
        return w.write(implied(n.args[0]), index), ":", w.write(implied(n.args[1]), index)
    return w.write(implied(n), index)


def implied(n: Node) -> Node:
    """An index without the conversion to index, which goes without saying."""
    if n.op != "cast" or n.dtype is not index:
        return n
    inner = n.args[0]
    return inner if inner.op != "const" and inner.dtype.is_int and inner.dtype is not index else n


def _cast(w: Writer, n: Node) -> tuple[Rope, int] | None:
    t, a = n.attr or n.dtype, n.args[0]
    if not _reads_as(lambda: rules.convert(t, wrap(a)).node, n):
        return None
    inner = f"index({a.attr})" if a.op == "const" and a.dtype is index else w.write(a, index)
    if a.op == "const" and a.dtype is not index:
        inner = f"{a.dtype.name}({format_const(a.attr, a.dtype)})"  # else it would be a typed number
    return (t.name, "(", inner, ")"), ATOM


def _bitcast(w: Writer, n: Node) -> tuple[Rope, int] | None:
    a = n.args[0]
    if not _reads_as(lambda: expr.bitcast(n.dtype, wrap(a)).node, n):
        return None
    return (f"bitcast({n.dtype.name}, ", w.write(a), ")"), ATOM


def _call(w: Writer, n: Node) -> tuple[Rope, int] | None:
    rule = rules.math_function(n.attr)
    if rule is None:
        return None
    if len(n.args) == 2:
        found = w.pair(rule, n, *n.args)
        if found:
            like_a, like_b, a, b = found
            return (n.attr, "(", w.write(a, like_a), ", ", w.write(b, like_b), ")"), ATOM
        return None
    if not _reads_as(lambda: rule(*map(_operand, n.args)).node, n):
        return None
    return (n.attr, "(", comma(w.write(a) for a in n.args), ")"), ATOM


_FORMS: dict[str, Callable[[Writer, Node], tuple[Rope, int] | None]] = {
    **dict.fromkeys(SYMBOLS, _binary),
    "neg": _unary("-", lambda x: expr.unary("neg", x)), "not": _unary("~", expr.invert),
    **dict.fromkeys(["min", "max", "abs", "fma", "sqrt", "floor", "ceil", "round", "trunc"], _function),
    "select": _select, "likely": _likely, "assume": _assume, "load": _load, "cast": _cast, "round_to": _cast,
    "bitcast": _bitcast, "call": _call,
}  # fmt: skip


# Sharing ----------------------------------------------------------------------------------------------------------


def shared(roots: Sequence[Node], cut: bool = True) -> list[Node]:
    """The nodes that deserve a name, arguments before users: used more than once and not small, or (with `cut`) so
    large that a line would be hard to read."""
    order = list(ir.postorder(roots))
    uses: dict[Node, int] = dict.fromkeys(order, 0)
    for n in order:
        if not _silent(n):
            for a in n.args:
                uses[_loud(a)] += 1
    for r in roots:
        uses[_loud(r)] += 1
    size: dict[Node, int] = {}
    named = []
    for n in order:
        size[n] = 1 + sum(size[a] for a in n.args)
        if not n.args or _silent(n):
            continue
        often, long = size[n] > SMALL and uses[n] > 1, cut and size[n] > LARGE and n not in roots
        if often or long:
            named.append(n)
            size[n] = 1
    return named


def _silent(n: Node) -> bool:
    """A conversion from or to index, which often goes without saying: never named, so that it can be left out."""
    return n.op == "cast" and (n.dtype is index) != (n.args[0].dtype is index) and n.attr is None


def _loud(n: Node) -> Node:
    while _silent(n):
        n = n.args[0]
    return n


def format_node(n: Node) -> str:
    """One expression as text; shared parts come first: `let t1 = a * b + c; t1 * t1`."""
    lets: dict[Node, str] = {}
    taken = {plain_name(m) for m in ir.postorder([n]) if m.op in ir.LEAVES}
    out: list[Rope] = []
    w = Writer(lets=lets)
    k = 0
    for m in shared([n], cut=False):
        if m is n:
            continue
        k += 1
        while f"t{k}" in taken:
            k += 1
        out.append((f"let t{k} = ", w.write(m), "; "))
        lets[m] = f"t{k}"
    return join((*out, w.write(n)))
