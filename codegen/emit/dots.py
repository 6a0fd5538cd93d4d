"""Sums of products of narrow integers: the processor's dot-product instructions instead of widened multiplications.

The pattern is an unrolled loop inside a vectorize loop, whose only statement adds a product to an element that stays:

    for v in 0..n vectorize
      for u in 0..4 unroll
        acc[.. + v] = acc[.. + v] + i32(x[.. + u]) * i32(y[.. + 4*v + u])

or a single factor. All u together take four neighbours of either operand, the same ones in all lanes or those of each
lane. They are loaded at once and multiplied and added by one instruction. Products of 8 bits come in fours, of 16 bits
in pairs. All of it is exact: nothing saturates, and sums wrap as those of i32 do, whose order does not matter.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilewright.codegen.emit import memory
from tilewright.codegen.emit.builder import Function, shaped, splat
from tilewright.codegen.emit.index import access, address, alignment, constant_step, resolve
from tilewright.codegen.emit.region import Region, bind, unbind
from tilewright.codegen.emit.values import prepare, value
from tilewright.codegen.loops import For, Store
from tilewright.lang.ir import Node
from tilewright.lang.types import i32
from tilewright.schedule.processor import host_features, is_x86

_MULTIPLY = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
# Of every byte the bit that makes a u8 of an i8, which is then larger by 128, and the other way round.
_FLIP = 0x80808080 - (1 << 32)


@dataclass(frozen=True, slots=True)
class Host:
    """What the processor has: instructions by lanes of i32."""

    multiplies: frozenset[int]  # pairs of i16 multiplied and added
    dots: frozenset[int]  # the same added to an i32, and fours of u8 and i8


@functools.cache
def _host() -> Host:
    if not is_x86():
        return Host(frozenset(), frozenset())
    has = host_features()
    wide = has.get("avx512bw", False)
    multiplies = {4} | ({8} if has.get("avx2") else set()) | ({16} if wide else set())
    short = {4, 8} if has.get("avxvnni") or (has.get("avx512vnni") and has.get("avx512vl")) else set()
    return Host(frozenset(multiplies), frozenset(short | ({16} if wide and has.get("avx512vnni") else set())))


@dataclass(frozen=True, slots=True)
class Dot:
    """A pattern that was found: the store, what it adds to, and the loads of the product (or of a sum without one)."""

    store: Store
    sum: Node
    factors: tuple[Node, ...]


def find_dot(r: Region, s: For, trips: int | None) -> Dot | None:
    """The pattern in an unrolled loop, if it is one. Instrumented kernels count as the program says."""
    t = s.body
    if r.lanes is None or r.mask is not None or r.shared.instrument or r.lanes.n not in _host().multiplies:
        return None
    if not isinstance(t, Store) or len(t.targets) != 1 or t.stream:
        return None
    (b, i), (v,) = t.targets[0], t.values
    if b.dtype is not i32 or v.op != "add" or s.var in r.shared.info(i).vars or not constant_step(access(r, i)):
        return None
    acc, term = v.args if v.args[1].op in ("mul", "cast") else v.args[::-1]
    if acc.op != "load" or acc.attr[0] is not b or acc.args[0] is not i or term.op not in ("mul", "cast"):
        return None
    factors = tuple(n.args[0] for n in (term.args if term.op == "mul" else (term,)) if _narrow(n, trips))
    near = r.shared.related[b]
    if len(factors) != len(term.args) or any(n.attr[0] in near or not _neighbours(r, n, s.var, trips) for n in factors):
        return None
    return Dot(t, acc, factors)


def _narrow(n: Node, trips: int | None) -> bool:
    """Whether it is a load of 8 or 16 bits that is widened to i32, and 32 bits hold as many of them."""
    if n.op != "cast" or n.dtype is not i32 or n.args[0].op != "load":
        return False
    t = n.args[0].attr[0].dtype
    return t.is_int and t.name != "u16" and t.bytes <= 2 and trips == 4 // t.bytes


def _neighbours(r: Region, n: Node, u: Node, trips: int | None) -> bool:
    """Whether u runs along neighbours, the same in all lanes, or those of one lane behind those of the one before."""
    coefs, _ = resolve(r, n.args[0])
    if coefs.get(u) != 1 or any(u in r.shared.info(a).vars for a in coefs if a is not u):
        return False
    a = access(r, n.args[0])
    return a.uniform or constant_step(a) == trips


def emit_dot(r: Region, s: For, dot: Dot) -> None:
    """The statement for all u at once."""
    assert r.lanes is not None
    f, n = r.f, r.lanes.n
    bind(r, s.var, resolve(r, s.start), 0)
    acc, varying = value(r, dot.sum)
    if not varying:
        acc = f.broadcast("i32", acc, n)
    factors = [_Factor(_load(r, x), x.attr[0].dtype.kind == "i", access(r, x.args[0]).uniform) for x in dot.factors]
    pairs = dot.factors[0].attr[0].dtype.bytes == 2
    if len(factors) == 1:  # a sum: the other factor is 1, of the other sign than the first where it can be
        ones = splat("i32", str(0x00010001 if pairs else 0x01010101), n)
        factors.append(_Factor(ones, not factors[0].signed, True))
    if pairs:
        out = _add_pairs(f, n, acc, factors[0].x, factors[1].x)
    elif n in _host().dots:
        out = _add_fours(f, n, acc, factors)
    else:
        out = acc
        for x, y in zip(*(_halves(f, n, a) for a in factors), strict=True):
            out = _add_pairs(f, n, out, x, y)
    b, i = dot.store.targets[0]
    place = access(r, i)
    prepare(r, place.needs)
    memory.store(r, b, place, (out, True))
    unbind(r, s.var)
    r.touch(r.shared.related[b])


@dataclass(frozen=True, slots=True)
class _Factor:
    """The neighbours of every lane in its 32 bits."""

    x: str
    signed: bool
    uniform: bool


def _load(r: Region, n: Node) -> str:
    assert r.lanes is not None
    f, lanes, b, a = r.f, r.lanes.n, n.attr[0], access(r, n.args[0])
    prepare(r, a.needs)
    first = a.const if a.offsets is None else a.offsets[0]
    p, align = address(r, b, a.terms, first), alignment(r, b, a.terms, first)
    if a.uniform:
        return f.broadcast("i32", f.op(f"load i32, ptr {p}, align {align}"), lanes)
    return f.op(f"load {shaped('i32', lanes)}, ptr {p}, align {align}")


def _add_pairs(f: Function, n: int, acc: str, x: str, y: str) -> str:
    """acc + x0*y0 + x1*y1 of the two i16 in every lane."""
    if n in _host().dots:
        return _dot(f, n, "vpdpwssd", acc, x, y)
    wide, pair = shaped("i32", n), shaped("i16", 2 * n)
    f.declare(_MULTIPLY[n], wide, f"{pair}, {pair}")
    x, y = (f.op(f"bitcast {wide} {z} to {pair}") for z in (x, y))
    return f.op(f"add {wide} {acc}, {f.op(f'call {wide} @{_MULTIPLY[n]}({pair} {x}, {pair} {y})')}")


def _add_fours(f: Function, n: int, acc: str, factors: list[_Factor]) -> str:
    """acc + x0*y0 + .. + x3*y3 of the four bytes in every lane: one of them has to be unsigned, the other one signed.

    Where both are alike, the one that is the same in all lanes is moved by 128, and what is too much then, 128 times
    the sum of the other one's bytes, is taken off; rows that share the other one share that as well.
    """
    wide, flip = shaped("i32", n), splat("i32", str(_FLIP), n)
    x, y = sorted(factors, key=lambda z: z.signed)
    if x.signed != y.signed:
        return _dot(f, n, "vpdpbusd", acc, x.x, y.x)
    if y.uniform:
        x, y = y, x
    moved = f.op(f"xor {wide} {x.x}, {flip}")
    if x.signed:
        out, excess = _dot(f, n, "vpdpbusd", acc, moved, y.x), _dot(f, n, "vpdpbusd", "zeroinitializer", flip, y.x)
    else:
        out, excess = _dot(f, n, "vpdpbusd", acc, y.x, moved), _dot(f, n, "vpdpbusd", "zeroinitializer", y.x, flip)
    return f.op(f"sub {wide} {out}, {excess}")


def _dot(f: Function, n: int, name: str, acc: str, x: str, y: str) -> str:
    wide = shaped("i32", n)
    full = f"llvm.x86.avx512.{name}.{32 * n}"
    f.declare(full, wide, ", ".join([wide] * 3))
    return f.op(f"call {wide} @{full}({wide} {acc}, {wide} {x}, {wide} {y})")


def _halves(f: Function, n: int, a: _Factor) -> tuple[str, str]:
    """The even and the odd bytes as i16."""
    wide, half = shaped("i32", n), shaped("i16", 2 * n)
    x, eight = f.op(f"bitcast {wide} {a.x} to {half}"), splat("i16", "8", 2 * n)
    if a.signed:
        odd = f.op(f"ashr {half} {x}, {eight}")
        even = f.op(f"ashr {half} {f.op(f'shl {half} {x}, {eight}')}, {eight}")
    else:
        odd = f.op(f"lshr {half} {x}, {eight}")
        even = f.op(f"and {half} {x}, {splat('i16', '255', 2 * n)}")
    return f.op(f"bitcast {half} {even} to {wide}"), f.op(f"bitcast {half} {odd} to {wide}")
