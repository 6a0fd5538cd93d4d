"""Index arithmetic, kept in a canonical form as it is built: sums of multiples of atoms, atoms in a fixed order.

Only type `index` (and comparisons and selections over it) is touched: those expressions live in the integers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import gcd

from tilewright.lang.ir import FALSE, TRUE, Node, integer, is_const, node, postorder, spread, variables
from tilewright.lang.types import DType, bool_, index

Linear = tuple[dict[Node, int], int]


def linear(n: Node) -> Linear:
    """`n` as (coefficients of atoms, constant). Atoms are index nodes that are no sum, difference or multiple."""
    coefs, constant = _linear(n)
    return dict(coefs), constant


def _linear(n: Node) -> Linear:
    """The same, kept with sums and multiples; not to be changed."""
    if n.op not in ("add", "mul"):
        return ({}, n.attr) if n.op == "const" else ({n: 1}, 0)
    found = n._linear
    if found is None:
        found = _added_up(n)
        if n not in found[0]:
            n._linear = found
    return found


def _added_up(n: Node) -> Linear:
    coefs: dict[Node, int] = {}
    constant = 0
    stack = [(n, 1)]
    while stack:
        m, k = stack.pop()
        if m.op == "const":
            constant += k * m.attr
        elif m.op == "add":
            stack += [(m.args[1], k), (m.args[0], k)]
        elif m.op == "mul" and m.args[1].op == "const":
            stack.append((m.args[0], k * m.args[1].attr))
        else:
            c = coefs.get(m, 0) + k
            if c:
                coefs[m] = c
            else:
                del coefs[m]
    return coefs, constant


def _merge(a: Mapping[Node, int], b: Mapping[Node, int], sign: int) -> dict[Node, int]:
    out = dict(a)
    for t, c in b.items():
        c = out.get(t, 0) + sign * c
        if c:
            out[t] = c
        else:
            out.pop(t, None)
    return out


_ORDER = {"size": 0, "scalar": 0, "var": 1, "rvar": 2}


def _rank(n: Node) -> tuple:
    """Where an atom stands in a sum (kept with the node)."""
    found = n._rank
    if found is None:
        name = n.attr if isinstance(n.attr, str) else n.attr[1] if n.op == "rvar" else ""
        found = n._rank = (_ORDER.get(n.op, 3), name, n.digest)
    return found


def from_linear(coefs: Mapping[Node, int], constant: int) -> Node:
    """The canonical node of a linear form: positive terms first, the constant last."""
    terms = [t for t, c in coefs.items() if c]
    if len(terms) > 1:
        terms.sort(key=lambda t: (coefs[t] < 0, _rank(t)))
    out: Node | None = None
    for t in terms:
        c = coefs[t]
        term = t if c == 1 else node("mul", index, (t, integer(c)))
        out = term if out is None else node("add", index, (out, term))
    if out is None:
        return integer(constant)
    return node("add", index, (out, integer(constant))) if constant else out


def add(a: Node, b: Node) -> Node:
    (x, cx), (y, cy) = _linear(a), _linear(b)
    return from_linear(_merge(x, y, 1), cx + cy)


def sub(a: Node, b: Node) -> Node:
    (x, cx), (y, cy) = _linear(a), _linear(b)
    return from_linear(_merge(x, y, -1), cx - cy)


def total(parts: Iterable[tuple[Node | None, int]], constant: int) -> Node | None:
    """The sum of multiples and a constant; None where a part is."""
    out: dict[Node, int] = {}
    for n, k in parts:
        if n is None:
            return None
        coefs, c = _linear(n)
        constant += k * c
        for t, m in coefs.items():
            out[t] = out.get(t, 0) + k * m
    return from_linear(out, constant)


def neg(a: Node) -> Node:
    return mul(a, integer(-1))


def mul(a: Node, b: Node) -> Node:
    if a.op == "const":
        a, b = b, a
    x, cx = _linear(a)
    if b.op == "const":
        return from_linear({t: c * b.attr for t, c in x.items()}, cx * b.attr)
    y, cy = _linear(b)
    if len(x) + bool(cx) > 1 or len(y) + bool(cy) > 1:  # distribute, so that strides of products stay visible
        out, k = {}, 0
        for tx, ax in [*x.items(), (None, cx)]:
            for ty, ay in [*y.items(), (None, cy)]:
                if ax * ay == 0:
                    continue
                if tx is None or ty is None:
                    t = tx if ty is None else ty
                    if t is None:
                        k += ax * ay
                        continue
                else:
                    t = _product(tx, ty)
                out = _merge(out, {t: ax * ay}, 1)
        return from_linear(out, k)
    (tx, ax), (ty, ay) = next(iter(x.items())), next(iter(y.items()))
    return from_linear({_product(tx, ty): ax * ay}, 0)


def _factors(n: Node) -> list[Node]:
    return [*_factors(n.args[0]), *_factors(n.args[1])] if n.op == "mul" else [n]


def _product(a: Node, b: Node) -> Node:
    parts = sorted([*_factors(a), *_factors(b)], key=_rank)
    out = parts[0]
    for p in parts[1:]:
        out = node("mul", index, (out, p))
    return out


def floordiv(a: Node, b: Node) -> Node:
    """`a // b` rounding down; 0 where b is 0."""
    if b.op == "const" and b.attr > 0:
        d = b.attr
        if d == 1:
            return a
        x, c = linear(a)
        inside = {t: k // d for t, k in x.items() if k % d == 0}
        rest = {t: k for t, k in x.items() if k % d}
        if inside or c // d:
            if not rest:
                return from_linear(inside, c // d)
            g = gcd(d, *rest.values())
            if g > 1:
                return add(
                    from_linear(inside, c // d),
                    floordiv(from_linear({t: k // g for t, k in rest.items()}, (c % d) // g), integer(d // g)),
                )
            return add(from_linear(inside, c // d), node("floordiv", index, (from_linear(rest, c % d), b)))
        if not rest:
            return integer(c // d)
        g = gcd(d, *rest.values())
        if g > 1:
            return floordiv(from_linear({t: k // g for t, k in rest.items()}, c // g), integer(d // g))
        if a.op == "floordiv" and is_const(a.args[1]) and a.args[1].attr > 0:
            return floordiv(a.args[0], integer(a.args[1].attr * d))
    if is_const(a) and is_const(b):
        return integer(a.attr // b.attr if b.attr else 0)
    if is_const(a, 0) or is_const(b, 0):
        return integer(0)
    return node("floordiv", index, (a, b))


def mod(a: Node, b: Node) -> Node:
    """`a % b` with the sign of b; 0 where b is 0."""
    if b.op == "const" and b.attr > 0:
        d = b.attr
        x, c = linear(a)
        rest = {t: k % d for t, k in x.items() if k % d}
        if not rest:
            return integer(c % d)
        return node("mod", index, (from_linear(rest, c % d), b))
    if is_const(a) and is_const(b):
        return integer(a.attr % b.attr if b.attr else 0)
    if is_const(a, 0) or is_const(b, 0):
        return integer(0)
    return node("mod", index, (a, b))


def _absorbed(op: str, t: Node, kept: list[Node]) -> bool:
    """max(min(x, y), y + c) is y + c for c >= 0: the minimum is never above y."""
    sign, other = (1, "min") if op == "max" else (-1, "max")
    if t.op != other:
        return False
    gaps = (sub(k, e) for e in spread(t, other) for k in kept if k is not t)
    return any(d.op == "const" and sign * d.attr >= 0 for d in gaps)


@functools.lru_cache(1 << 15)  # regions of one program are worked out many times, under one schedule after the other
def _extreme(op: str, a: Node, b: Node) -> Node:
    terms = list(dict.fromkeys([*spread(a, op), *spread(b, op)]))
    kept = [t for t in terms if not any(k is not t and _decides(op, k, t) for k in terms)]
    kept = sorted((t for t in kept if not _absorbed(op, t, kept)), key=_rank)
    out = kept[0]
    for t in kept[1:]:
        out = node(op, index, (out, t))
    return out


def _decides(op: str, k: Node, t: Node) -> bool:
    """Whether a term of a minimum or maximum never decides beside another one, which is no longer: there are no
    circles, so that what stays does not depend on the order of the terms."""
    (x, cx), (y, cy) = _linear(k), _linear(t)
    sign = 1 if op == "max" else -1
    coefs, c = {t: sign * v for t, v in _merge(x, y, -1).items()}, sign * (cx - cy)
    if not coefs:
        return c >= 0
    made = [t for t in coefs if t.args]
    if not made:
        return c >= 0 and min(coefs.values()) > 0 and all(t.op == "size" for t in coefs) and _length(k) <= _length(t)
    inside = frozenset[Node]().union(*map(variables, made))
    if any(t.op == "var" and t not in inside for t in coefs):
        return False
    return nonnegative(from_linear(coefs, c)) and (_length(k), _rank(k)) <= (_length(t), _rank(t))


def _length(n: Node) -> int:
    return sum(1 for _ in postorder((n,)))


# Signs ------------------------------------------------------------------------------------------------------------

_MOST_STEPS = 40  # in taking one expression apart; beyond, its sign counts as unknown


def nonnegative(n: Node) -> bool:
    """Whether `n` >= 0 whatever its variables are; sizes are never negative. (Kept with the node.)"""
    if n._nonnegative is None:
        n._nonnegative = holds(n, _plainly, _MOST_STEPS)
    return n._nonnegative


def holds(n: Node, certain: Callable[[Node], bool], steps: int) -> bool:
    """Whether `n` >= 0 follows from what is `certain`ly >= 0: quotients, minima and maxima are taken apart."""
    left = [steps]

    def follows(n: Node) -> bool:
        if certain(n):
            return True
        left[0] -= 1
        found = _taken_apart(n) if left[0] >= 0 else None
        return found is not None and found[0](map(follows, found[1]))

    return follows(n)


def _plainly(n: Node) -> bool:
    """A sum of sizes and non-negative numbers."""
    coefs, c = _linear(n)
    return c >= 0 and all(k > 0 and all(f.op == "size" for f in _factors(t)) for t, k in coefs.items())


def _taken_apart(n: Node) -> tuple[Callable[[Iterable[bool]], bool], Iterable[Node]] | None:
    """Expressions: `n` >= 0 if all of them are, or any of them is."""
    coefs, c = _linear(n)

    def without(t: Node) -> Node:
        return from_linear({u: k for u, k in coefs.items() if u is not t}, c)

    def terms(t: Node) -> Iterator[Node]:  # one at a time: the first often decides
        rest, k = without(t), integer(coefs[t])
        return (add(rest, mul(x, k)) for x in spread(t, t.op))

    for t, k in coefs.items():
        if t.op == ("min" if k > 0 else "max"):
            return all, terms(t)
    quotients = [t for t in coefs if t.op == "floordiv" and t.args[1].op == "const" and t.args[1].attr > 0]
    if quotients:
        exact = (t for t in quotients if all(v % coefs[t] == 0 for v in coefs.values()))
        t = next(exact, quotients[0])
        return all, [_undivided(t, coefs[t], without(t))]
    for t, k in coefs.items():
        if t.op == "mod" and t.args[1].op == "const" and t.args[1].attr > 0:
            return all, [add(without(t), integer(min(k, 0) * (t.args[1].attr - 1)))]
    for t, k in coefs.items():
        if t.op == ("max" if k > 0 else "min"):
            return any, terms(t)
    return None


def _undivided(t: Node, k: int, rest: Node) -> Node:
    """What is >= 0 only where k*(e // d) + rest is. For integers that is the same where k divides all of rest but its
    constant: e // d >= -r where e + d*r >= 0, and e // d <= r where d*r + d - 1 - e >= 0. Else it is less."""
    e, d = t.args
    coefs, c = _linear(rest)
    if all(v % k == 0 for v in coefs.values()):
        r = from_linear({u: v // abs(k) for u, v in coefs.items()}, c // abs(k))
        scaled = mul(r, d)
        return add(scaled, e) if k > 0 else sub(add(scaled, integer(d.attr - 1)), e)
    least = sub(e, integer(d.attr - 1)) if k > 0 else e
    return add(mul(rest, d), mul(least, integer(k)))


def minimum(a: Node, b: Node) -> Node:
    return _extreme("min", a, b)


def maximum(a: Node, b: Node) -> Node:
    return _extreme("max", a, b)


_COMPARE = {
    "eq": lambda d: d == 0, "ne": lambda d: d != 0, "lt": lambda d: d < 0,
    "le": lambda d: d <= 0, "gt": lambda d: d > 0, "ge": lambda d: d >= 0,
}  # fmt: skip


def compare(op: str, a: Node, b: Node) -> Node:
    d = sub(a, b)
    if d.op == "const":
        return TRUE if _COMPARE[op](d.attr) else FALSE
    return node(op, bool_, (a, b))


def conjunction(a: Node, b: Node) -> Node:
    """Logical and of two bool nodes with the trivial cases gone."""
    if a is TRUE or a is b:
        return b
    if b is TRUE:
        return a
    if a is FALSE or b is FALSE:
        return FALSE
    return node("and", bool_, (a, b))


def logic(n: Node) -> Node:
    """An and, or or not of bools with the trivial cases gone; any other node as it is."""
    if n.op not in ("and", "or", "not") or not n.dtype.is_bool:
        return n
    if n.op == "and":
        return conjunction(*n.args)
    if n.op == "not":
        return n if n.args[0].op != "const" else FALSE if n.args[0].attr else TRUE
    a, b = n.args
    if a is TRUE or b is TRUE:
        return TRUE
    return b if a is FALSE else a if b is FALSE else n


_BINARY = {
    "add": add, "sub": sub, "mul": mul, "floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum,
}  # fmt: skip


def build(op: str, dtype: DType, args: tuple[Node, ...], attr: object = None) -> Node:
    """A node whose index arithmetic is simplified; anything else is built as it is."""
    if dtype is index:
        if op in _BINARY:
            return _BINARY[op](*args)
        if op == "neg":
            return neg(*args)
        if op == "abs" and args[0].op == "const":
            return integer(abs(args[0].attr))
    elif op in _COMPARE and args[0].dtype is index and args[1].dtype is index:
        return compare(op, *args)
    if op == "likely" and args[0].op == "const":
        return args[0]
    if op == "select":
        c, a, b = args
        if c.op == "const":
            return a if c.attr else b
        if a is b:
            return a
    if dtype is bool_ and op == "and":
        return conjunction(*args)
    return node(op, dtype, args, attr)
