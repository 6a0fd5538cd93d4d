"""Sums of products of narrow integers: the exact values, with the processor's dot products where it has them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.codegen.emit_support import argument, load, loop, program, put, run
from tilewright.codegen import target
from tilewright.codegen.emit import dots, emit
from tilewright.codegen.loops import UNROLL, VECTORIZE, Program
from tilewright.lang import ir
from tilewright.lang.ir import Node
from tilewright.lang.simplify import add, mul
from tilewright.lang.types import DType, i8, i16, i32, i64, u8, u16

U, V, K = ir.var("u"), ir.var("v"), ir.var("k")
STEPS = 5
BYTES = [(a, b) for a in (u8, i8) for b in (u8, i8)]
PLAIN = dots.Host(frozenset(), frozenset())


def widened(b, i: Node, to: DType = i32) -> Node:
    return ir.node("cast", to, (load(b, i),))


def wide(n: int, step: int, u: Node = U) -> Node:
    """Where a lane's neighbours lie."""
    return add(add(mul(K, ir.integer(n * step)), mul(V, ir.integer(step))), u)


def summed(
    types: tuple[DType, ...], n: int, group: int, *, lanes: bool = False, step: int = 0, to: DType = i32
) -> Program:
    """acc[v] += x[k, u] * y[k, v, u], or x[k, v, u] where all `lanes` have their own, or y alone."""
    acc, *given = (argument(name, t, p) for p, (name, t) in enumerate(zip("axy", (to, *types), strict=False)))
    at = [wide(n, step or group)]
    if len(types) == 2:
        at.insert(0, wide(n, group) if lanes else add(mul(K, ir.integer(group)), U))
    term, *others = (widened(b, i, to) for b, i in zip(given, at, strict=True))
    for other in others:
        term = ir.node("mul", to, (term, other))
    body = put(acc, V, ir.node("add", to, (load(acc, V), term)))
    return program([acc, *given], loop(K, STEPS, loop(V, n, loop(U, group, body, UNROLL), VECTORIZE)))


def data(types: tuple[DType, ...], n: int, group: int, lanes: bool, step: int = 0) -> list[np.ndarray]:
    """Random numbers, a few of them at the ends of their types; sums near the end of theirs, so that they wrap."""
    rng = np.random.default_rng(n + group)
    sizes = [STEPS * n * (step or group)] * len(types)
    if len(types) == 2 and not lanes:
        sizes[0] = STEPS * group
    out = [rng.integers(2**31 - 70_000, 2**31, n).astype(np.int32)]
    for t, size in zip(types, sizes, strict=True):
        x = rng.integers(t.low, t.high + 1, size)
        x[rng.random(size) < 0.5] = t.low if t.kind == "i" else t.high
        out.append(x.astype(t.np))
    return out


def expected(arrays: list[np.ndarray], n: int, group: int, lanes: bool, step: int = 0) -> np.ndarray:
    acc, *given = arrays
    y = given[-1].astype(np.int64).reshape(STEPS, n, step or group)[:, :, :group]
    x = 1 if len(given) == 1 else given[0].astype(np.int64).reshape(STEPS, n if lanes else 1, group)
    return (acc + (x * y).sum((0, 2))).astype(acc.dtype)


def check(p: Program, arrays: list[np.ndarray], right: np.ndarray) -> None:
    given = [a.copy() for a in arrays]
    assert run(p, given) == 0
    np.testing.assert_array_equal(given[0], right)
    for a, b in zip(arrays[1:], given[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def instructions(p: Program) -> list[str]:
    return re.findall(r"\b(vpdpbusd|vpdpwssd|v?pmaddwd|v?pmulld|v?pmullw)\b", target.assembly(emit(p)))


def hosts() -> list[dots.Host]:
    """What this processor has, and less of it."""
    full = dots._host()
    return [full, dots.Host(full.multiplies, frozenset()), PLAIN]


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("n", [4, 8, 16])
@pytest.mark.parametrize("types", [*BYTES, (i16, i16), (i8,), (u8,), (i16,)], ids=lambda t: "-".join(x.name for x in t))
def test_sums_are_exact_and_wrap(monkeypatch, types, n, lanes):
    group = 4 // types[0].bytes
    p, arrays = summed(types, n, group, lanes=lanes), data(types, n, group, lanes)
    right = expected(arrays, n, group, lanes)
    for host in hosts():
        monkeypatch.setattr(dots, "_host", lambda host=host: host)
        check(p, arrays, right)


@pytest.mark.parametrize("types", [*BYTES, (i16, i16), (i8,), (u8,)], ids=lambda t: "-".join(x.name for x in t))
def test_the_processor_multiplies_and_adds_at_once(monkeypatch, types):
    group = 4 // types[0].bytes
    n = max(dots._host().multiplies, default=0)
    if not n:
        pytest.skip("no x86 processor")
    p = summed(types, n, group)
    if n in dots._host().dots:
        both_alike = len(types) == 2 and types[0] is types[1] and group == 4
        found = instructions(p)
        assert set(found) == {"vpdpbusd" if group == 4 else "vpdpwssd"} and len(found) % (2 if both_alike else 1) == 0
    monkeypatch.setattr(dots, "_host", lambda: dots.Host(frozenset((n,)), frozenset()))
    found = instructions(p)
    assert found and not any("mull" in x for x in found)


@pytest.mark.parametrize("case", ["u16", "gaps", "three", "i64", "mixed"])
def test_other_sums_are_as_they_were(monkeypatch, case):
    n, group, step, to = 8, 4, 0, i32
    types: tuple[DType, ...] = (i8, i8)
    if case == "u16":
        types, group = (u16, u16), 2
    elif case == "gaps":
        step = 5
    elif case == "three":
        group = 3
    elif case == "i64":
        to = i64
    else:
        types = (i8, i16)
    p, arrays = summed(types, n, group, step=step, to=to), data(types, n, group, False, step)
    arrays[0] = arrays[0].astype(to.np)
    check(p, arrays, expected(arrays, n, group, False, step))
    text = emit(p)
    monkeypatch.setattr(dots, "_host", lambda: PLAIN)
    assert text == emit(p)


def test_what_may_be_written_is_not_read_at_once():
    """acc and a factor may share memory: then every product sees the sums before it."""
    acc = argument("acc", i32, 0)
    given = argument("x", i8, 1)
    body = put(acc, V, ir.node("add", i32, (load(acc, V), widened(given, wide(8, 4)))))
    p = program([acc, given], loop(K, STEPS, loop(V, 8, loop(U, 4, body, UNROLL), VECTORIZE)))
    aliased = emit(p, aliases=frozenset([frozenset(("acc", "x"))]))
    assert "vpdp" not in aliased and "pmadd" not in aliased
    assert "vpdp" in emit(p) or "pmadd" in emit(p) or not dots._host().multiplies
