"""Accounts of spatial loops with tails and overlapping windows: against sets, step by step; run and not run alike."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.published.arrays import machine, of

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.i32[M, K], B: tw.i32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def conv(W: tw.i32[K], I: tw.i32[N + K - 1]):
    p = tw.vars("p")
    r = tw.rdom(r=K)
    O = tw.func("O")
    O[p] = 0
    O[p] += W[r] * I[p + r]
    return O[:N]


ARRAY = machine("dram", "glb", "rf", axes={"x": 4, "y": 3}, elements=("rf",))


def both(kernel, s, sizes):
    run, account = kernel.simulate(s, sizes=sizes).account, kernel.account(s, sizes=sizes)
    assert run.traffic == account.traffic
    return account


def pieces(n: int, by: int) -> list[range]:
    return [range(x, min(x + by, n)) for x in range(0, n, by)]


@pytest.mark.parametrize("sizes", [(8, 6, 4), (7, 5, 5), (3, 2, 9), (1, 1, 1)])
def test_what_elements_read_at_once(sizes):
    m, n, k = sizes
    s = matmul.schedule(machine=ARRAY)
    C = s["C.update"].split("i", "io", "ii", 4).split("k", "ko", "ki", 3)
    C.reorder("io", "ko", "ii", "ki", "j").spatial("ii", "x").spatial("ki", "y")
    s.cache_write("C", at="C.update.io", memory="glb")
    got = both(matmul, s, dict(zip("MNK", sizes, strict=True)))
    steps = [(r, c, j) for r in pieces(m, 4) for c in pieces(k, 3) for j in range(n)]
    assert of(got, "dram", "A").served == sum(len({(i, q) for i in r for q in c}) for r, c, _ in steps)
    assert of(got, "dram", "B").served == sum(len({(q, j) for i in r for q in c}) for r, c, j in steps)
    assert of(got, "dram", "B").requests == m * n * k
    sums = sum(len({(i, j) for i in r for q in c}) for r, c, j in steps)
    tile = of(got, "glb", "C")
    assert tile.updates == sums and tile.served == sums - tile.first


@pytest.mark.parametrize(("n", "k"), [(8, 3), (7, 3), (10, 2), (5, 4), (1, 1)])
@pytest.mark.parametrize("copied", [False, True])
def test_windows_that_overlap(n, k, copied):
    s = conv.schedule(machine=ARRAY)
    s["O.update"].split("p", "po", "pi", 8).split("pi", "ps", "pt", 2).spatial("ps", "x")
    if copied:
        s.cache_read("I", at="O.update.ps", memory="rf")
    got = both(conv, s, {"N": n, "K": k})
    reads = 0
    for block in pieces(n, 8):
        own = [range(x, min(x + 2, block.stop)) for x in range(block.start, block.stop, 2)]
        if copied:
            reads += len({p + r for x in own for p in x for r in range(k)})
        else:
            reads += sum(len({x[t] + r for x in own if t < len(x)}) for t in range(2) for r in range(k))
    assert of(got, "dram", "I").served == reads


def test_what_does_not_move_is_kept_by_every_element():
    """Weights stay in the elements while inputs around them change: a part for each, copies along the other axis."""
    s = matmul.schedule(machine=ARRAY)
    C = s["C.update"].split("i", "io", "ii", 4).split("k", "ko", "ki", 3)
    C.reorder("ko", "io", "ii", "ki", "j").spatial("ii", "x").spatial("ki", "y")
    s.cache_read("B", at="C.update.ko", memory="rf")
    got = both(matmul, s, {"M": 12, "N": 5, "K": 6})
    rows = of(got, "rf", "B")
    assert rows.fills == 6 * 5 * 4 and rows.served == 12 * 5 * 6
    assert of(got, "dram", "B").served == 6 * 5
    (buffer,) = next(f for f in got.footprint if f.memory == "rf").buffers
    assert buffer.size == 5 * 4


@pytest.mark.parametrize("first", [True, False])
def test_who_does_not_run_does_not_ask(first):
    """Elements whose loops inside begin later or end earlier than others': a word is read once for those that are there."""

    def ragged(A):
        y = tw.vars("y")
        d = tw.rdom(t=6)
        d.where(d.t <= y + 1 if first else d.t >= y)
        S = tw.func("S")
        S[y] = 0
        S[y] += A[d.t]
        return S[:4]

    ragged.__annotations__ = {"A": tw.i32[6]}
    k = tw.kernel(ragged)
    s = k.schedule(machine=machine("main", "rf", axes={"x": 4}, elements=("rf",)))
    s["S.update"].spatial("y", "x")
    asked = [t for y in range(4) for t in range(6) if (t <= y + 1 if first else t >= y)]
    row = of(both(k, s, {}), "main", "A")
    assert (row.reads, row.requests) == (len(set(asked)), len(asked))


@pytest.mark.parametrize(
    "within", [lambda y, t: t <= y + 1, lambda y, t: t * t >= 5 - y, lambda y, t: t * t * t <= 8 - y]
)
@pytest.mark.parametrize("order", [("t", "y"), ("y", "t")])
@pytest.mark.parametrize("tile", [None, 3])
def test_who_is_kept_from_it_by_a_condition_does_not_ask(within, order, tile):
    """Also where the loop of the condition is outside, and where the last elements have nothing."""

    def ragged(A):
        y = tw.vars("y")
        d = tw.rdom(t=5)
        d.where(within(y, d.t))
        S = tw.func("S")
        S[y] = 0
        S[y] += A[d.t]
        return S[:4]

    ragged.__annotations__ = {"A": tw.i32[5]}
    k = tw.kernel(ragged)
    s = k.schedule(machine=machine("main", "rf", axes={"x": 4}, elements=("rf",)))
    s["S.update"].reorder(*order)
    if tile:
        s["S.update"].split("y", "yo", "yi", tile).spatial("yi", "x")
    else:
        s["S.update"].spatial("y", "x")
    steps: dict[tuple, list[int]] = {}
    for y, t in ((y, t) for y in range(4) for t in range(5) if within(y, t)):
        steps.setdefault((t, y // (tile or 4)), []).append(t)
    row = of(both(k, s, {}), "main", "A")
    assert (row.reads, row.requests) == (sum(len(set(x)) for x in steps.values()), sum(map(len, steps.values())))
