"""Expression nodes: immutable, typed, interned; equality is identity. Every pass shares them.

Operations (arguments in brackets; `attr` carries what is not a node):

    leaves      const(attr=value)  var(attr=name)  rvar(attr=(RDom, name))  size(attr=name)  scalar(attr=name)
    memory      load[indices](attr=(tensor, component))
    arithmetic  add sub mul div floordiv mod min max fma[3] neg abs
    bits        and or xor shl shr not                      (and, or, xor, not also on bool)
    compare     eq ne lt le gt ge                           (the result is bool)
    choice      select[c, a, b]   likely[c]                 (likely: partition loops so that c holds inside)
    promise     assume[x, low, high](attr=place)            (x, which is promised to lie in low..high - 1)
    convert     cast (attr=None, to .dtype)   bitcast   round_to(attr=storage type; rounds, yields its compute type)
    primitive   sqrt floor ceil round trunc
    functions   call[args](attr=name)                       (a definition of our own, see lang.math)
                call_extern[args](attr=Extern)              (a function of the user's, see lang.extern)
                stage[args](attr=(ExternStage, component))  (a Func that the user computes, see lang.extern_stage: the
                                                            whole value; its arguments are loads and scalars)
                span[start, stop]                           (an index of such a load: all of start..stop - 1)
                param(attr=position)                        (leaf: a parameter inside such a definition)

Types are compute types (never f16 or bf16, which `load` widens and `round_to` rounds to) or `index`.
Nothing here promotes or simplifies but the index arithmetic, which lives in the integers.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.lang.types import DType, bool_, index

ARITHMETIC = frozenset(["add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "fma", "neg", "abs"])
COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
LEAVES = frozenset(["const", "var", "rvar", "size", "scalar"])


class Node:
    """One interned operation. Build it with `node(...)`; compare it with `is`."""

    __slots__ = (
        "__weakref__", "_digest", "_linear", "_marks", "_nonnegative", "_plain", "_rank", "_variables",
        "args", "attr", "dtype", "op",
    )  # fmt: skip

    op: str
    dtype: DType
    args: tuple[Node, ...]
    attr: Any

    def __repr__(self) -> str:
        from tilewright.lang.text import format_node  # the printer sits above the nodes

        return format_node(self)

    def __reduce__(self):
        raise TypeError("nodes are not pickled; use the text form")

    @property
    def digest(self) -> bytes:
        """A hash of the structure that is the same in every process (for order and cache keys)."""
        found = self._digest
        if found is None:
            for n in postorder([self]):
                if n._digest is None:
                    n._digest = _digest(n)
            found = self._digest
        return found  # type: ignore[return-value]


_table: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()
_making = threading.RLock()  # a collection of garbage may come in between
# asked directly, which is several times as fast: most of a compilation's nodes are there already
_references: dict[tuple, weakref.ref[Node]] = vars(_table)["data"]


def node(op: str, dtype: DType, args: tuple[Node, ...] = (), attr: Any = None) -> Node:
    """The interned node; two calls with the same parts give the same object."""
    if op == "const" and isinstance(attr, float):
        key = (op, dtype, args, struct.pack("<d", attr), float)  # keeps -0.0 apart from 0.0 and finds NaN again
    else:
        key = (op, dtype, args, attr, attr.__class__)
    reference = _references.get(key)
    found = None if reference is None else reference()
    return _new(key, op, dtype, args, attr) if found is None else found


def _new(key: tuple, op: str, dtype: DType, args: tuple[Node, ...], attr: Any) -> Node:
    made = Node()
    made.op, made.dtype, made.args, made.attr = op, dtype, args, attr
    made._digest = made._linear = made._variables = made._nonnegative = made._rank = None
    made._marks = made._plain = None
    with _making:  # threads that make one node at once must get one
        reference = _references.get(key)
        found = None if reference is None else reference()
        if found is None:
            _table[key] = found = made
    return found


def _attr_bytes(n: Node) -> bytes:
    a = n.attr
    if n.op == "const":
        return repr(struct.pack("<d", a)).encode() if isinstance(a, float) else repr(a).encode()
    if n.op == "load":
        return f"{a[0].name}.{a[1]}".encode()
    if n.op == "rvar":
        return a[1].encode()
    if n.op == "stage":
        return f"{a[0]}.{a[1]}".encode()
    if n.op == "assume":
        return b""  # where a promise was written is no part of the algorithm
    return b"" if a is None else str(a).encode()


def _digest(n: Node) -> bytes:
    h = hashlib.blake2b(digest_size=16)
    h.update(f"{n.op}:{n.dtype.name}:{len(n.args)}:".encode())
    h.update(_attr_bytes(n))
    for a in n.args:
        h.update(a._digest)  # type: ignore[arg-type]
    return h.digest()


# Walking ------------------------------------------------------------------------------------------------------


def postorder(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below `roots` once, arguments before users. Iterative: depth is not limited by Python's stack."""
    seen: set[Node] = set()
    stack: list[Node | None] = [*roots]
    stack.reverse()
    while stack:
        n = stack.pop()
        if n is None:  # the arguments of the next one are done
            yield stack.pop()  # type: ignore[misc]
        elif n not in seen:
            seen.add(n)
            if n.args:
                stack += (n, None)
                stack += [a for a in n.args[::-1] if a not in seen]
            else:
                yield n


_NONE: frozenset[Node] = frozenset()


def variables(n: Node) -> frozenset[Node]:
    """The `var` nodes below `n` (kept with the nodes)."""
    if n._variables is None and n.args:
        for m in postorder((n,)):
            if m._variables is None and m.args:
                out = _NONE
                for a in m.args:
                    below = variables(a)
                    out = out if below <= out else below if out <= below else out | below
                m._variables = out
    return n._variables or (frozenset((n,)) if n.op == "var" else _NONE)


def marks(n: Node) -> tuple[Node, ...]:
    """The `likely` nodes below `n`, each once, in first-use order (kept with the nodes)."""
    if n._marks is None:
        for m in postorder((n,)):
            if m._marks is None:
                below = [b for a in m.args if (b := a._marks)]
                found = below[0] if len(below) == 1 else tuple(dict.fromkeys(x for b in below for x in b))
                m._marks = (*found, m) if m.op == "likely" else found
    return n._marks  # type: ignore[return-value]


_PLAIN = frozenset(["const", "var", "size", "rvar", "scalar", "add", "mul", "floordiv", "mod", "min", "max"])


def plain(n: Node) -> bool:
    """Whether `n` is index arithmetic on variables and sizes alone (kept with the nodes)."""
    if n._plain is None:
        for m in postorder((n,)):
            if m._plain is None:
                m._plain = m.dtype is index and m.op in _PLAIN and all(a._plain for a in m.args)
    return n._plain  # type: ignore[return-value]


def rebuild(n: Node, args: tuple[Node, ...]) -> Node:
    """`n` with other arguments; index arithmetic is simplified again."""
    if args == n.args:
        return n
    if n.dtype is index or (n.op in COMPARISONS and args[0].dtype is index) or n.op in ("select", "likely"):
        from tilewright.lang import simplify

        return simplify.build(n.op, n.dtype, args, n.attr)
    return node(n.op, n.dtype, args, n.attr)


def transform(
    roots: Sequence[Node], fn: Callable[[Node, tuple[Node, ...]], Node], memo: dict[Node, Node] | None = None
) -> tuple[Node, ...]:
    """Bottom-up rewriting, once per node: `fn(node, new_args)` gives the replacement."""
    memo = {} if memo is None else memo
    todo = [r for r in roots if r not in memo]
    for n in postorder(todo):
        if n not in memo:
            memo[n] = fn(n, tuple(memo[a] for a in n.args))
    return tuple(memo[r] for r in roots)


def substitute(
    roots: Sequence[Node], env: Mapping[Node, Node], memo: dict[Node, Node] | None = None
) -> tuple[Node, ...]:
    """Replace nodes (leaves as a rule) by others, rebuilding and simplifying what is above."""
    return transform(roots, lambda n, args: env[n] if n in env else rebuild(n, args), memo)


def spread(n: Node, op: str) -> list[Node]:
    """The operands of nested operations `op` (and, or, min, max) in order, `likely` marks around them removed."""
    out: list[Node] = []
    stack = [n]
    while stack:
        m = stack.pop()
        if m.op == op or m.op == "likely":
            stack.extend(reversed(m.args))
        else:
            out.append(m)
    return out


def leaves(roots: Iterable[Node], op: str) -> list[Node]:
    """The nodes of one operation below `roots`, each once, in first-use order."""
    if op == "var":  # what is below is known; its order is where there are several
        roots = list(roots)
        found = _NONE.union(*map(variables, roots))
        if len(found) < 2:
            return list(found)
    return [n for n in postorder(roots) if n.op == op]


# Leaves -------------------------------------------------------------------------------------------------------


def const(value: int | float | bool, dtype: DType) -> Node:
    """A typed constant. Integers must fit (index excepted), floats are stored exactly as f64 values of the type."""
    if dtype.is_float:
        return node("const", dtype, (), float(value))
    if dtype.is_bool:
        return node("const", dtype, (), bool(value))
    return node("const", dtype, (), int(value))


def integer(value: int) -> Node:
    """A constant of type index."""
    found = _SMALL.get(value)
    return node("const", index, (), int(value)) if found is None else found


def var(name: str) -> Node:
    """A Var or loop variable (type index)."""
    return node("var", index, (), name)


def size(name: str) -> Node:
    """A size symbol (type index, never negative)."""
    return node("size", index, (), name)


_SMALL = {k: node("const", index, (), k) for k in range(-64, 1025)}  # those that index arithmetic is full of
TRUE = node("const", bool_, (), True)
FALSE = node("const", bool_, (), False)


def is_const(n: Node, value: Any = None) -> bool:
    return n.op == "const" and (value is None or n.attr == value)
