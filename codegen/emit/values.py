"""From expression nodes to operands: every node once, without recursion, uniform parts as scalars.

A node is uniform where it is the same in all lanes; only what differs by lane becomes a vector. Index arithmetic is
added up in linear form, and the indices of contiguous accesses never exist as vectors.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.emit import lookup, memory, ops, scaling
from tilewright.codegen.emit.builder import constant, lane_constant, shaped, splat, value_type
from tilewright.codegen.emit.conditions import both, means, same
from tilewright.codegen.emit.index import Access, access, lane_vector, resolve, uniform_value
from tilewright.codegen.emit.region import Region, Value
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import COMPARISONS, Node
from tilewright.lang.simplify import from_linear, sub
from tilewright.lang.types import index

_LEAVES = frozenset(("var", "size", "scalar", "stride"))


def value(r: Region, n: Node) -> Value:
    """The operand of an expression at this point of the text."""
    found = r.find(r.key(n))
    if found is None:
        prepare(r, (n,))
        found = r.value(n)
    return found


def scalar(r: Region, n: Node) -> str:
    """The operand of an expression that must be the same in all lanes."""
    x, varying = value(r, n)
    if varying:
        raise CompileError(
            "a loop bound or size inside a vectorized loop differs from lane to lane",
            code="vectorize.bounds",
            hint="vectorize a loop on which the bounds of the loops inside do not depend",
        )
    return x


def lanes_of(r: Region, n: Node) -> str:
    """The operand of an expression as a vector."""
    x, varying = value(r, n)
    assert r.lanes is not None
    return x if varying else r.f.broadcast(value_type(n.dtype), x, r.lanes.n)


def prepare(r: Region, nodes: Iterable[Node]) -> None:
    """Emit nodes and all that they need, so that `r.value` knows them."""
    stack = list(nodes)
    stack.reverse()
    find, key = r.find, r.key
    while stack:
        n = stack[-1]
        if find(key(n)) is not None:
            stack.pop()
            continue
        a, needs = _needs(r, n)
        missing = [m for m in needs if find(key(m)) is None]
        if missing:
            missing.reverse()
            stack.extend(missing)
            continue
        stack.pop()
        _emit(r, n, a)


def _needs(r: Region, n: Node) -> tuple[Access | None, tuple[Node, ...]]:
    """What a node is made of: its arguments; for an address or a sum of indices the atoms of its linear form."""
    op = n.op
    if op == "load":
        a = access(r, n.args[0])
        return a, lookup.needs(r, n.attr[0], a)
    if op == "load_if":
        a = access(r, n.args[1])
        return a, (n.args[0], *lookup.needs(r, n.attr[0], a))
    if n.dtype is index:
        if op == "add" or (op == "mul" and n.args[1].op == "const") or (op == "var" and n in r.env):
            a = access(r, n)
            return a, a.needs
    elif op in COMPARISONS and n.args[0].dtype is index and r.lanes is not None:
        d = sub(*n.args)
        coefs, _ = resolve(r, d)
        if abs(coefs.get(r.lanes.var, 0)) == 1:
            rest = {t: c for t, c in coefs.items() if t is not r.lanes.var}
            if not any(r.lanes.var in r.shared.info(t).vars for t in rest):
                a = access(r, d)
                return a, a.needs
    return None, scaling.parts(n) or n.args


def _emit(r: Region, n: Node, a: Access | None) -> None:
    op = n.op
    buffers = r.shared.info(n).buffers
    if op == "const":
        found: Value = constant(n.attr, n.dtype), False
    elif op in ("load", "load_if"):
        assert a is not None
        own = means(r, r.value(n.args[0]), n.args[0]) if op == "load_if" else None
        same = memory.same_place(a) and (own is None or not own[1])  # then the lanes that are off have the same value
        found = memory.load(r, n.attr[0], a, own if same else _mask(r, own))
    elif a is not None:
        if n.dtype is index:
            found = (uniform_value(r, a.terms, a.const), False) if a.uniform else (lane_vector(r, a), True)
        else:
            found = _compare_lane(r, n), True
    elif op in _LEAVES:
        if r.lanes is not None and n is r.lanes.var:
            found = lane_constant("i64", list(range(r.lanes.n))), True
        else:
            found = r.leaf(n), False
    else:
        found = _operation(r, n)
    r.put(r.key(n), *found, buffers)


def _mask(r: Region, own: Value | None) -> Value | None:
    """A load's own condition together with the statement's mask."""
    if r.mask is None:
        return own
    assert r.lanes is not None
    if own is None:
        return r.mask, True
    n = r.lanes.n
    x = own[0] if own[1] else same(r, r.f.broadcast("i1", own[0], n), own[0])
    return both(r, r.f.op(f"and <{n} x i1> {x}, {r.mask}"), x, r.mask), True


def _operation(r: Region, m: Node) -> Value:
    scaled = scaling.parts(m)
    if scaled is not None:
        return _scaled(r, scaled)
    args = [r.value(a) for a in m.args]
    last = _integer(args[-1][0]) if m.op in ("floordiv", "mod", "shl", "shr") else None
    if not any(v for _, v in args):
        xs = [x for x, _ in args]
        if m.dtype is index or (m.op in COMPARISONS and m.args[0].dtype is index):
            return r.invariant((m.op, *xs), xs, lambda: ops.operation(r.f, m, 0, xs, last)), False
        return ops.operation(r.f, m, 0, xs, last), False
    assert r.lanes is not None
    n = r.lanes.n
    if m.op == "select" and not args[0][1]:  # one condition for all lanes
        ty = shaped(value_type(m.dtype), n)
        a, b = (_wide(r, m.args[i], args[i]) for i in (1, 2))
        return r.f.select(0, args[0][0], ty, a, b), True
    xs = [_wide(r, a, x) for a, x in zip(m.args, args, strict=True)]
    return ops.operation(r.f, m, n, xs, last), True


def _scaled(r: Region, parts: tuple[Node, Node]) -> Value:
    xs = [r.value(a) for a in parts]
    if not any(v for _, v in xs):
        return scaling.scale(r.f, parts[0].dtype, 0, [x for x, _ in xs]), False
    assert r.lanes is not None
    wide = [_wide(r, a, x) for a, x in zip(parts, xs, strict=True)]
    return scaling.scale(r.f, parts[0].dtype, r.lanes.n, wide), True


def _wide(r: Region, m: Node, x: Value) -> str:
    """A value in every lane; broadcasts are shared like any value."""
    if x[1]:
        return x[0]
    assert r.lanes is not None
    s = value_type(m.dtype)
    if x[0][0] != "%":
        return splat(s, x[0], r.lanes.n)
    key = ("wide", x[0], s)
    found = r.find(key)
    if found is None:
        found = r.put(key, r.f.broadcast(s, x[0], r.lanes.n), True)
    return found[0]


def _integer(operand: str) -> int | None:
    return int(operand) if operand.lstrip("-").isdigit() else None


def _compare_lane(r: Region, m: Node) -> str:
    """A comparison of lane + uniform with uniform: the lanes against one scalar, in narrow integers."""
    assert r.lanes is not None
    n, f = r.lanes.n, r.f
    coefs, const = resolve(r, sub(*m.args))
    sign = coefs[r.lanes.var]
    # sign * lane + rest OP 0, so lane OP' bound with bound = -sign * rest
    rest = {t: -sign * c for t, c in coefs.items() if t is not r.lanes.var}
    a = access(r, from_linear(rest, -sign * const))
    prepare(r, a.needs)
    bound = uniform_value(r, a.terms, a.const)
    op = m.op if sign > 0 else {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(m.op, m.op)
    s = "i32" if n <= 16 else "i16" if n <= 32 else "i8" if n < 127 else "i32"
    low = f.intrinsic("llvm.smax", "i64", 0, [bound, "-1"])
    inside = f.intrinsic("llvm.smin", "i64", 0, [low, str(n)])  # comparisons with lanes 0..n-1 come out the same
    wide = f.broadcast(s, f.op(f"trunc i64 {inside} to {s}"), n)
    kind = op if op in ("eq", "ne") else "s" + op
    return f.op(f"icmp {kind} {shaped(s, n)} {lane_constant(s, list(range(n)))}, {wide}")
