"""What report says against what a run counts: sliding, folding, skipped stages, tails, vectors. And what can't be had."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.schedule.helpers import refused

M, N, K = tw.sizes("M N K")
H, W = 11, 7


def chain(index):
    """A consumer of M x N elements that reads the producer at `index(y, x)`, an element or several."""

    @tw.kernel
    def chained(A: tw.i32[4 * M + 8, 4 * N + 8]):
        y, x = tw.vars("y x")
        P, C = tw.func("P"), tw.func("C")
        P[y, x] = A[y, x] * 2
        C[y, x] = sum(P[at] for at in index(y, x))
        return C[:M, :N]

    return chained


READS = {
    "rows": lambda y, x: [(y, x), (y + 1, x), (y + 2, x)],
    "corners": lambda y, x: [(y, x), (y + 1, x + 1)],
    "every other row": lambda y, x: [(2 * y + k, x) for k in range(3)],
    "halves": lambda y, x: [(y // 2 + k, x) for k in range(2)],
    "downwards": lambda y, x: [(M - y + k, x) for k in range(3)],
    "no overlap": lambda y, x: [(3 * y + k, x) for k in range(3)],
    "back and forth": lambda y, x: [(tw.abs(y - 5) + k, x) for k in range(2)],
    "a diagonal": lambda y, x: [(y + x, x), (y + x + 1, x)],
    "turned": lambda y, x: [(x, y), (x, y + 1)],
}
PLACES = [("C.y", None), ("C.x", None), ("C.x", "C.y")]


@pytest.mark.parametrize("reads", READS)
def test_sliding(reads):
    """Where report says that all that moves slides, no element is computed twice while the buffer lives; where not,
    some are (or nothing overlaps)."""
    kernel = chain(READS[reads])
    for compute, store in PLACES:
        s = kernel.schedule()
        s["P"].compute_at(compute)
        s["P"].store_at(store) if store else s["P"].store_root()
        notes = s.report().of("sliding")
        assert notes and all(n.what.startswith("P.") and n.how for n in notes)
        lives, done = [], 0  # (life of the buffer, element), and how much of the consumer is done
        for t in kernel.trace(s, sizes={"M": H, "N": W}):
            done += t.stage == "C"
            if t.stage == "P":
                lives.append((done // W if store else 0, t.element))
        again = len(lives) - len(set(lives))
        if all(n.done for n in notes):
            assert again == 0, (notes, again)
        elif reads != "no overlap" and (reads, store) != ("a diagonal", "C.y"):
            assert again > 0, (notes, again)


def test_folding():
    kernel = chain(READS["rows"])
    s = kernel.schedule()
    s["P"].compute_at("C.y").store_root()
    (hint,) = (n for n in s.report().of("folding") if n.what == "P.y")
    assert not hint.done and "fold_storage('y', 3)" in hint.how
    whole = kernel.count(s, sizes={"M": H, "N": W}).allocations["P"].bytes
    s["P"].fold_storage("y", 3)
    assert [(n.what, n.done) for n in s.report().of("folding")] == [("P.y", True)]
    assert kernel.count(s, sizes={"M": H, "N": W}).allocations["P"].bytes * (H + 2) == 3 * whole
    for place, code, says in [("C.y", "fold", "fold_storage('y', 3)"), (None, "fold", "the root")]:
        t = kernel.schedule()
        t["P"].compute_root() if place is None else t["P"].compute_at(place).store_root()
        t["P"].fold_storage("y", 2)
        refused(t, code, t.check, says)
        refused(t, code, t.loops)
        refused(t, code, lambda t=t: kernel.compile(t).source)


@tw.kernel
def product(A: tw.i32[M, K], B: tw.i32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 1
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def triangular(A: tw.i32[M, K], B: tw.i32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    k.where(k.k <= i)
    C[i, j] = 1
    C[i, j] += A[i, k.k] * B[k.k, j]
    return C[:M, :N]


@pytest.mark.parametrize("kernel", [product, triangular], ids=lambda k: k.__name__)
def test_skipped_definitions(kernel):
    """The initial values have no pass of their own, or have one and the tiles are loaded: as it is said."""
    s = kernel.schedule()
    s["C.update"].split("i", "io", "ii", 4).reorder("io", "j", "k", "ii")
    s.cache_write("C", at="C.update.j", memory="main")
    (note,) = (n for n in s.report().of("skipping") if n.what == "C.init")
    counts = kernel.count(s, sizes={"M": 8, "N": 5, "K": 3})
    loads = counts.stages["C_tile.load"].evaluations if "C_tile.load" in counts.stages else 0
    assert note.done == (loads == 0) == (kernel is product)
    assert counts.evaluations["C.init"] == 8 * 5  # in tiles or by itself, once


def test_skipped_stages():
    """What nothing reads at some sizes is left out there, and only what could do harm has a condition."""

    @tw.kernel
    def edges(A: tw.i32[N]):
        i = tw.vars("i")
        e, f = tw.func("e"), tw.func("f")
        edge = tw.repeat_edge(A)
        e[i] = edge[i] * 2
        f[i] = e[i - 1] + e[i + 1]
        return f[:N]

    s = edges.schedule()
    s["e"].compute_root()
    (note,) = s.report().of("skipping")
    assert note.done and note.what == "e" and "runs over nothing" in note.how
    assert edges.count(s, sizes={"N": 0}).evaluations["e"] == 0
    assert edges.count(s, sizes={"N": 3}).evaluations["e"] == 5
    t = chain(READS["rows"]).schedule()
    t["P"].compute_root()
    assert not t.report().of("skipping")


TAILS = {  # (extent, factor, tail) -> what report says, evaluations, spare ones
    (12, 4, "guard"): ("exact", 12, 0),
    (11, 4, "guard"): ("guard", 11, 0),
    (11, 4, "shift"): ("shift", 12, 1),
    (3, 4, "shift"): ("shift", 3, 0),
    (11, 4, "round_up"): ("round_up", 12, 1),
}


@pytest.mark.parametrize("case", TAILS, ids=lambda c: "-".join(map(str, c)))
def test_tails(case):
    extent, factor, tail = case
    says, evaluations, spare = TAILS[case]

    @tw.kernel
    def doubled(A: tw.i32[32]):
        i = tw.vars("i")
        P, C = tw.func("P"), tw.func("C")
        P[i] = A[i] * 2
        C[i] = P[i] + 1
        return C[:extent]

    s = doubled.schedule()
    s["P"].compute_root().split("i", "io", "ii", factor, tail=tail)
    (note,) = s.report().of("tails")
    assert note.done and note.how.startswith(says)
    counts = doubled.count(s, sizes={})
    assert (counts.stages["P"].evaluations, counts.stages["P"].spare) == (evaluations, spare)


def test_tails_that_can_not_be_had():
    s = product.schedule()
    refused(s, "tail", lambda: s["C.init"].split("i", "io", "ii", 4, tail="round_up"), "use tail guard")
    refused(s, "tail", lambda: s["C.update"].split("i", "io", "ii", 4, tail="shift"), "use tail guard")
    t = chain(READS["rows"]).schedule()
    t["P"].compute_root().split("x", "xo", "xi", 4)
    refused(t, "tail", lambda: t["P"].split("xi", "a", "b", 3, tail="round_up"), "the first split")


def soften(x):
    return x if x < 10.0 else 10.0


def test_vectors():
    """Every vector loop is vectors in the code; what takes its lanes one by one is said."""
    soft = tw.extern(soften, result=tw.f64, args=(tw.f64,))

    @tw.kernel
    def softened(A: tw.f64[N, N]):
        i, j = tw.vars("i j")
        f = tw.func("f")
        f[i, j] = soft(A[j, i])
        return f[:N, :N]

    s = softened.schedule()
    s["f"].vectorize("j", 4)
    notes = s.report().of("vectors")
    assert [(n.done, n.how.partition(":")[0]) for n in notes] == [
        (True, "4 lanes"), (False, "the function soften is called lane by lane"), (False, "A is gathered")
    ]  # fmt: skip
    t = product.schedule()
    t["C.update"].vectorize("j", 8)
    assert all(n.done for n in t.report().of("vectors"))
    assert "<8 x i32>" in product.compile(t).llvm
    u = product.schedule()
    refused(u, "extent", lambda: u["C.update"].vectorize("j"), "vectorize('j', 8)")
    refused(u, "extent", lambda: u["C.update"].vectorize("k"), "split")
