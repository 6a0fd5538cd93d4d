"""Where an access goes: flat indices as linear forms, seen as one address or as one address a lane.

An access splits into terms that are the same in all lanes (their sum is one scalar), a constant, and what differs by
lane: constant offsets (contiguous, reversed, strided or any other known pattern), a stride known only at run time,
or anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.codegen.emit.builder import memory_type, shaped, splat
from tilewright.codegen.emit.region import Region
from tilewright.codegen.loops import Buffer
from tilewright.lang.ir import Node, integer, substitute
from tilewright.lang.simplify import Linear, from_linear, linear, mul

Terms = tuple[tuple[Node, int], ...]

_MEMORY_ALIGNMENT = 64  # of temporaries


@dataclass(frozen=True, slots=True)
class Access:
    """A flat index: sum of terms + const + what differs by lane.

    `offsets` are the constant parts by lane (None: the same in all); `strides` are factors of the lane's number,
    `dynamic` any other lane-varying terms. `needs` are the nodes whose values the address is made of.
    """

    terms: Terms
    const: int
    offsets: tuple[int, ...] | None = None
    strides: Terms = ()
    dynamic: Terms = ()
    needs: tuple[Node, ...] = ()

    @property
    def uniform(self) -> bool:
        return self.offsets is None


def constant_step(a: Access) -> int | None:
    """The constant distance from lane to lane, where there is one."""
    if a.offsets is None or a.strides or a.dynamic:
        return None
    d = a.offsets[1] - a.offsets[0]
    return d if all(y - x == d for x, y in zip(a.offsets, a.offsets[1:], strict=False)) else None


_WINDOW = 4  # lanes spread over up to this many vectors' worth of elements are read by whole vectors


def window(a: Access, n: int) -> list[tuple[int, int]] | None:
    """The vectors (first element, length) inside of the window from the first to the last element of `n` lanes that
    read all of them; None where they are too few or too far from each other."""
    if a.offsets is None or a.strides or a.dynamic or n < 4:
        return None
    low, high = min(a.offsets), max(a.offsets)
    if high - low >= _WINDOW * n:
        return None
    if high - low + 1 < n:  # fewer elements than lanes: a shorter vector
        return [(low, high - low + 1)]
    starts = list(range(low, high + 2 - n, n))
    if starts[-1] + n <= high:
        starts.append(high + 1 - n)  # overlaps the one before; never beyond the last element
    left, out = set(a.offsets), []
    for s in starts:
        inside = {o for o in left if s <= o < s + n}
        if inside:
            out.append((s, n))
            left -= inside
    return out


def resolve(r: Region, n: Node) -> Linear:
    """The linear form of an index node with the values of unrolled variables put in."""
    key = r.key(n)
    found = r.shared.linears.get(key)
    if found is None:
        plain = r.shared.linears.get(n)
        if plain is None:
            plain = r.shared.linears[n] = linear(n)
        found = plain if key is n else _with_values(r, plain)
        r.shared.linears[key] = found
    return found


def _with_values(r: Region, plain: Linear) -> Linear:
    coefs, const = plain
    out: dict[Node, int] = {}
    for atom, c in coefs.items():
        bound = r.env_linear.get(atom)
        if bound is None:
            inside = [v for v in r.shared.info(atom).unrolled if v in r.env]
            if not inside:
                out[atom] = out.get(atom, 0) + c
                continue
            values = {v: from_linear(*r.env_linear[v]) for v in inside}
            bound = linear(substitute([atom], values)[0])
        for t, k in bound[0].items():
            out[t] = out.get(t, 0) + k * c
        const += c * bound[1]
    return {t: c for t, c in out.items() if c}, const


def _depth(r: Region, atom: Node) -> int:
    depth = r.depth
    if atom.op == "var":
        return depth.get(atom, 0)
    info = r.shared.info(atom)
    if info.buffers:
        return 1 << 20
    return max((depth.get(v, 0) for v in info.vars), default=0)


def _sorted(r: Region, terms: list[tuple[Node, int]]) -> Terms:
    """Outer loops' terms first, so that partial sums are invariant in inner loops."""
    return tuple(sorted(terms, key=lambda t: (_depth(r, t[0]), str(t[0].attr))))


def access(r: Region, index: Node) -> Access:
    """The access at a flat index in the region's present lane context."""
    key = r.key(index)
    found = r.accesses.get(key)
    if found is None:
        found = r.accesses[key] = _access(r, index)
    return found


def _access(r: Region, index: Node) -> Access:
    coefs, const = resolve(r, index)
    if r.lanes is None or not any(r.lanes.var in r.shared.info(a).vars for a in coefs):
        terms = _sorted(r, list(coefs.items()))
        return Access(terms, const, needs=tuple(a for a, _ in terms))
    lane, n = r.lanes.var, r.lanes.n
    offsets = [const] * n
    terms, strides, dynamic = [], [], []
    for atom, c in coefs.items():
        if atom is lane:
            offsets = [o + c * i for i, o in enumerate(offsets)]
        elif lane not in r.shared.info(atom).vars:
            terms.append((atom, c))
        elif (known := _by_lane(r, atom)) is not None:
            offsets = [o + c * k for o, k in zip(offsets, known, strict=True)]
        elif (factor := _cofactor(r, atom)) is not None:
            strides.append((factor, c))
        else:
            dynamic.append((atom, c))
    ordered = _sorted(r, terms)
    needs = tuple(a for a, _ in (*ordered, *strides, *dynamic))
    return Access(ordered, const, tuple(offsets), tuple(strides), tuple(dynamic), needs)


def _by_lane(r: Region, atom: Node) -> tuple[int, ...] | None:
    """The atom's value in every lane where it is a constant in each."""
    assert r.lanes is not None
    info = r.shared.info(atom)
    if len(info.vars) != 1 or info.buffers:
        return None
    key = (atom, r.lanes)
    if key not in r.shared.by_lane:
        values = [substitute([atom], {r.lanes.var: integer(i)})[0] for i in range(r.lanes.n)]
        constant = all(v.op == "const" for v in values)
        r.shared.by_lane[key] = tuple(v.attr for v in values) if constant else None
    return r.shared.by_lane[key]


def _cofactor(r: Region, atom: Node) -> Node | None:
    """s where the atom is lane * s with the same s in all lanes."""
    assert r.lanes is not None
    if atom.op != "mul":
        return None
    factors: list[Node] = []
    stack = [atom]
    while stack:
        m = stack.pop()
        if m.op == "mul":
            stack.extend(m.args)
        else:
            factors.append(m)
    lane = r.lanes.var
    rest = [m for m in factors if m is not lane]
    if len(rest) != len(factors) - 1 or any(lane in r.shared.info(m).vars for m in rest):
        return None
    out = rest[0]
    for m in rest[1:]:
        out = mul(out, m)
    return out


# emission -------------------------------------------------------------------------------------------------------


def scaled(r: Region, atom: Node, c: int) -> str:
    """A uniform term as an operand."""
    x = r.value(atom)[0]
    if c == 1:
        return x
    return r.shared_op(f"mul nsw i64 {x}, {c}", x)


def uniform_sum(r: Region, terms: Terms) -> str | None:
    """The scalar sum of uniform terms (None if there are none); partial sums are shared."""
    if not terms:
        return None
    done = len(terms)
    acc: str | None = None
    while done > 1:
        found = r.find(terms[:done])
        if found is not None:
            acc = found[0]
            break
        done -= 1
    if acc is None:
        acc = scaled(r, *terms[0])
        done = 1
    for i in range(done, len(terms)):
        x = scaled(r, *terms[i])
        acc = r.shared_op(f"add nsw i64 {acc}, {x}", acc, x)
        r.put(terms[: i + 1], acc, False, r.buffers(a for a, _ in terms[: i + 1]))
    return acc


def uniform_value(r: Region, terms: Terms, const: int) -> str:
    """The scalar sum of terms and a constant."""
    acc = uniform_sum(r, terms)
    if acc is None:
        return str(const)
    return r.shared_op(f"add nsw i64 {acc}, {const}", acc) if const else acc


def lane_vector(r: Region, a: Access) -> str:
    """A lane-varying index as a vector of i64."""
    assert r.lanes is not None and a.offsets is not None
    n, f = r.lanes.n, r.f
    ty = shaped("i64", n)
    base = uniform_sum(r, a.terms)
    out = lane_offsets(r, a)
    return out if base is None else f.op(f"add nsw {ty} {f.broadcast('i64', base, n)}, {out}")


def lane_offsets(r: Region, a: Access) -> str:
    """What differs by lane (with the constant) as a vector of i64."""
    assert r.lanes is not None and a.offsets is not None
    n, f = r.lanes.n, r.f
    ty = shaped("i64", n)
    out = "<" + ", ".join(f"i64 {o}" for o in a.offsets) + ">"
    if a.strides:
        s = f.broadcast("i64", stride_sum(r, a.strides), n)
        numbers = "<" + ", ".join(f"i64 {i}" for i in range(n)) + ">"
        out = f.op(f"add nsw {ty} {f.op(f'mul nsw {ty} {s}, {numbers}')}, {out}")
    for atom, c in a.dynamic:
        x = r.value(atom)[0]
        if c != 1:
            x = f.op(f"mul nsw {ty} {x}, {splat('i64', str(c), n)}")
        out = f.op(f"add nsw {ty} {x}, {out}")
    return out


def stride_sum(r: Region, strides: Terms) -> str:
    acc: str | None = None
    for s in strides:
        x = scaled(r, *s)
        acc = x if acc is None else r.f.op(f"add nsw i64 {acc}, {x}")
    assert acc is not None
    return acc


def address(r: Region, b: Buffer, terms: Terms, const: int) -> str:
    """The pointer to element `sum of terms + const`; shared among accesses that differ in the constant only."""
    key: Any = (b, terms)
    found = r.find(key)
    element = memory_type(b.dtype)
    if found is None:
        base, offset = r.pointer(b), uniform_sum(r, terms)
        if offset is not None:
            base = r.shared_op(f"getelementptr {element}, ptr {base}, i64 {offset}", base, offset)
        found = r.put(key, base, False, r.buffers(a for a, _ in terms))
    if not const:
        return found[0]
    return r.shared_op(f"getelementptr {element}, ptr {found[0]}, i64 {const}", found[0])


def lane_addresses(r: Region, b: Buffer, a: Access) -> list[str]:
    """One pointer a lane."""
    assert r.lanes is not None and a.offsets is not None
    f, element = r.f, memory_type(b.dtype)
    if a.dynamic:
        base = address(r, b, a.terms, 0)
        v = lane_offsets(r, a)
        lanes = [f.extract("i64", r.lanes.n, v, i) for i in range(r.lanes.n)]
        return [f.op(f"getelementptr {element}, ptr {base}, i64 {x}") for x in lanes]
    if not a.strides:
        return [address(r, b, a.terms, o) for o in a.offsets]
    base, s = address(r, b, a.terms, 0), stride_sum(r, a.strides)
    out = []
    for i, o in enumerate(a.offsets):
        p = base
        if i:
            p = f.op(f"getelementptr {element}, ptr {p}, i64 {s if i == 1 else f.op(f'mul nsw i64 {s}, {i}')}")
        out.append(f.op(f"getelementptr {element}, ptr {p}, i64 {o}") if o else p)
    return out


def alignment(r: Region, b: Buffer, terms: Terms, const: int) -> int:
    """What alignment of an access is certain (bytes). Only temporaries are known to start at a multiple of 64; those in
    arenas start where a machine wants them."""
    size = b.dtype.bytes
    if b.argument is not None or b in r.arenas:
        return size
    bits = _MEMORY_ALIGNMENT | (const * size)
    for _, c in terms:
        bits |= c * size
    return bits & -bits
