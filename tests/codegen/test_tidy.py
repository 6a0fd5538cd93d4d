"""What the ranges of loops decide is put in, and nothing else: programs do what they did."""

from __future__ import annotations

import numpy as np

from tests.codegen.emit_support import argument, load, loop, program, put
from tests.codegen.loops_oracle import run_program
from tilewright.codegen import loops as L
from tilewright.codegen.tidy import tidy
from tilewright.lang import ir
from tilewright.lang.ir import Node, integer
from tilewright.lang.simplify import add, compare, maximum, minimum, mul, sub
from tilewright.lang.types import i64, index

A, OUT = argument("a", i64, 0), argument("out.x", i64, 1)
N, I, J = ir.size("N"), ir.var("i"), ir.var("j")


def at(i: Node) -> Node:
    """An element as an index."""
    return ir.node("cast", index, (load(A, i),))


def number(n: Node) -> Node:
    return ir.node("cast", i64, (n,))


def ops(s: L.Stmt) -> set[str]:
    found: set[str] = set()

    def see(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        found.update(n.op for n in ir.postorder(roots))
        return roots

    L.map_values(s, see)
    return found


def both(body: L.Stmt, a: list[int], n: int) -> L.Stmt:
    """The tidied body, after it was seen to do what the body does."""
    made = tidy(body)
    results = []
    for b in (body, made):
        out = np.zeros(8, np.int64)
        given = np.array(a, np.int64)
        filled = L.block(*(put(OUT, integer(k), ir.const(0, i64)) for k in range(8)), b)
        assert run_program(program((A, OUT), filled, sizes=("N",), ranks=(1, 1)), [given, out], [n])[0] is None
        results.append((out.tolist(), given.tolist()))
    assert results[0] == results[1]
    return made


def test_tails_that_loops_decide() -> None:
    tile = minimum(sub(integer(8), mul(I, integer(4))), integer(4))
    body = loop(I, 2, loop(J, tile, put(OUT, add(mul(I, integer(4)), J), number(maximum(J, integer(0))))))
    made = both(body, [0] * 8, 3)
    assert not ops(made) & {"min", "max"}


def test_tails_that_a_size_decides_stay() -> None:
    body = loop(I, 2, loop(J, minimum(sub(N, mul(I, integer(4))), integer(4)), put(OUT, J, number(I))))
    assert "min" in ops(both(body, [0] * 8, 7))


def test_loops_from_elsewhere_count_from_zero_where_that_is_shorter() -> None:
    start = mul(I, integer(4))
    body = loop(I, 2, loop(J, add(start, integer(4)), put(OUT, sub(J, start), number(J)), start=start))
    made = both(body, [0] * 8, 3)
    assert isinstance(made, L.For) and isinstance(made.body, L.For) and made.body.start is integer(0)


def test_what_never_runs_is_gone_and_so_are_its_buffers() -> None:
    spare = L.Buffer("spare", i64, integer(4))
    idle = L.Allocate(spare, loop(J, 0, put(spare, J, number(J))))
    never = L.If(compare("ge", I, integer(5)), put(OUT, I, number(I)))
    body = L.block(loop(I, 4, L.block(idle, never)), put(OUT, integer(0), number(N)))
    assert isinstance(both(body, [0] * 8, 3), L.Store)


def test_data_may_change_inside_of_what_it_decides() -> None:
    """A condition on an element, whose body writes that element."""
    positive = compare("gt", at(integer(0)), integer(0))
    inner = L.If(positive, put(OUT, integer(1), number(integer(1))), put(OUT, integer(2), number(integer(2))))
    body = L.If(positive, L.block(put(A, integer(0), number(integer(0))), inner))
    made = both(body, [5] * 8, 3)
    assert isinstance(made, L.If) and any(isinstance(s, L.If) for s in L.walk(made.then))


def test_data_may_change_inside_of_a_loop_that_it_ends() -> None:
    inner = L.If(compare("lt", I, at(integer(0))), put(OUT, I, number(integer(1))), put(OUT, I, number(integer(2))))
    body = loop(I, at(integer(0)), L.block(put(A, integer(0), number(integer(1))), inner))
    both(body, [4] * 8, 3)


def test_the_size_of_a_buffer_keeps_its_variable() -> None:
    b = L.Buffer("b", i64, add(I, integer(1)))
    start = mul(N, integer(2))
    copied = L.block(put(b, sub(I, start), number(I)), put(OUT, sub(I, start), load(b, sub(I, start))))
    body = loop(I, add(start, integer(3)), L.Allocate(b, copied), start=start)
    made = both(body, [0] * 8, 2)
    assert isinstance(made, L.For) and made.start is not integer(0)
