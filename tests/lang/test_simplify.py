"""Signs of index expressions, and terms of minima and maxima that never decide, against values at many sizes."""

import random
from functools import reduce
from itertools import permutations, product

from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import I, J, N, indices
from tilewright.lang import ir, simplify
from tilewright.lang.expr import maximum, minimum
from tilewright.lang.values import index_values

M = ir.size("M")
SIZES = (0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 1000)
PLACES = list(product((-17, -1, 0, 5, 16), (-3, 0, 1, 40), (0, 1, 7, 16, 65)))


def at(nodes, i, j, n):
    return index_values(list(nodes), {I.node: i, J.node: j, "N": n})


@given(indices([I, J, N]))
def test_signs_hold(e):
    n = e.node
    for d in (n, simplify.neg(n), simplify.add(n, ir.integer(9)), simplify.sub(ir.integer(9), n)):
        if simplify.nonnegative(d):
            assert all(at([d], *p)[0] >= 0 for p in PLACES), d


def rounded(n, k):
    """n rounded up to a multiple of k."""
    return k * ((n + k - 1) // k)


def certain(e):
    return simplify.nonnegative(e.node)


def test_quotients():
    for k in (2, 16, 63):
        assert certain(rounded(N, k) - N) and not certain(rounded(N, k) - N - 1)
        assert certain(N + k - 1 - rounded(N, k)) and not certain(N + k - 2 - rounded(N, k))
        assert certain(N - k * (N // k)) and certain((N + k) // k - 1) and not certain(N // k - 1)
        assert certain(I // k - (I - 1) // k) and certain((I + 1) // k - I // k)
    assert certain(rounded(rounded(N, 4), 16) - N) and certain((rounded(N, 16) + 15) // 16 - (N + 15) // 16)
    assert certain(minimum(I, J) // 4 - (minimum(I, J) - 3) // 4)
    assert certain(1 - (minimum(N - 1, 16 * I + 15) // 16 - I))


@given(
    st.lists(st.tuples(indices([I, J, N]), st.integers(-3, 3)), min_size=2, max_size=4),
    st.lists(st.tuples(st.sampled_from([2, 4, 16]), st.integers(-20, 20)), max_size=3),
)
@example([], [(16, 0), (4, -3), (2, 1)])
def test_what_stays_decides(drawn, rounds):
    """Terms that are left out never change a value, and which these are does not depend on the order."""
    terms = [(e + c).node for e, c in drawn] + [(rounded(N, k) + c).node for k, c in rounds] + [(N - 1).node]
    for op, fn, plain in (("min", simplify.minimum, min), ("max", simplify.maximum, max)):
        found = reduce(fn, terms)
        assert len(ir.spread(found, op)) <= sum(len(ir.spread(t, op)) for t in terms)
        for p in PLACES:
            assert at([found], *p)[0] == plain(at(terms, *p)), (found, terms)


@given(st.integers(0, 2**32))
def test_order_is_the_same(seed):
    rnd = random.Random(seed)
    terms = []
    for _ in range(3):
        k = rnd.choice([2, 4, 8, 16])
        terms.append((rnd.choice([N, rounded(N, k), N // k, I, rounded(I, k)]) + rnd.randrange(-3, 20)).node)
    for fn in (simplify.minimum, simplify.maximum):
        assert len({reduce(fn, order) for order in permutations(terms)}) == 1


def test_ends_of_tiles():
    for k in (4, 64):
        assert minimum(N - 1, rounded(N, k) - 1).node is (N - 1).node
        assert minimum(rounded(N, k) - 1, N - 1).node is (N - 1).node
        assert minimum(N, rounded(N, k) - 1).node.op == "min"
    assert maximum(0, N).node is N.node and minimum(0, N).node is minimum(N, 0).node
