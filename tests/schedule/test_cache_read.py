"""cache_read: copies of funcs, arrays, tuples and copies, with layouts; what is refused."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.schedule.algorithms import ALL, blur, convolution, edge_blur, largest, matmul, triangle
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4)
    copy = s.cache_read("B", at="C.update.jo", layout="k j -> j//4 k j%4")
    copy.vectorize("j", 4)
    s.cache_read("A", at="C.update.io", layout="i k -> k i", name="columns")
    golden(f"{s}\n\n{good(s)}")


def test_of_funcs():
    s = Schedule(blur())
    s.cache_read("blur_x", at="blur_y.y", layout="y x -> x y")
    good(s)
    s["blur_x"].compute_root()
    good(s)
    s.cache_read("A", at="blur_x.y")
    good(s)


def test_of_tuples():
    s = Schedule(largest())
    s["best"].split("i", "io", "ii", 2)
    s.cache_read("arg", at="best.io")
    good(s)


def test_of_a_copy():
    s = Schedule(matmul())
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 4, 4)
    s.cache_read("A", at="C.update.io", name="A1")
    s["A1"].split("x0", "a", "b", 2)
    s.cache_read("A", at="A1.a", name="A0")
    s.cache_read("A1", at="C.update.jo", name="A2")
    good(s)


@pytest.mark.parametrize("name", sorted(ALL))
def test_everything_that_is_read(name):
    s = Schedule(ALL[name]())
    for f in s.state.funcs:
        s[f].compute_root()
    for key, stage in list(s.state.stages.items()):
        for t in sorted({n.attr[0].name for n in _loads(stage)}):
            if t != key[0]:
                s.cache_read(t, at=s.state.loop_address(key, stage.loops[0].name))
    good(s)


def _loads(stage):
    from tilewright.lang import ir

    return ir.leaves((*stage.definition.lhs, *stage.definition.values), "load")


def test_errors():
    s = Schedule(matmul())
    refused(s, "not-read", lambda: s.cache_read("A", at="C.init.i"), "A is not read by C.init", "it reads nothing")
    refused(s, "not-read", lambda: s.cache_read("D", at="C.update.i"), "it reads A, B")
    refused(s, "not-read", lambda: s.cache_read("C", at="C.update.i"), "cache_write holds that")
    refused(s, "layout", lambda: s.cache_read("B", at="C.update.j", layout="j -> j"), "1 axes and B has 2")
    refused(s, "layout", lambda: s.cache_read("B", at="C.update.j", layout="k j -> j//16 k"), "two values of j")
    refused(s, "layout", lambda: s.cache_read("B", at="C.update.j", layout="k j"), "no `->`")
    refused(s, "name-twice", lambda: s.cache_read("B", at="C.update.j", name="A"), "the name A is taken")
    refused(s, "unknown-loop", lambda: s.cache_read("B", at="C.update.q"))
    s["C.update"].vectorize("j", 4)
    refused(s, "illegal-place", lambda: s.cache_read("B", at="C.update.j_v"), "vector loop")
    good(s)


def test_behind_an_inlined_func():
    s = Schedule(edge_blur())
    refused(s, "not-read", lambda: s.cache_read("A", at="blur_y.y"), "blur_x reads it and is inlined here")
    refused(s, "inlined", lambda: s.cache_read("A_edge", at="blur_x.y"))
    t = Schedule(convolution())
    refused(t, "not-read", lambda: t.cache_read("A", at="conv.update.y"), "reads it and is inlined here")


def test_names_are_made_unique():
    s = Schedule(matmul())
    s["C.update"].split("i", "io", "ii", 2)
    first = s.cache_read("A", at="C.update.io")
    assert first.func == "A_C"
    second = s.cache_read("A_C", at="C.update.ii")
    assert second.func == "A_C_C"
    good(s)


def test_predicates_read_the_original():
    s = Schedule(triangle())
    s.cache_read("A", at="t.update.y")
    good(s)


def test_what_only_a_condition_reads_is_named():
    B, N = tw.sizes("B N")

    @tw.kernel
    def ragged(x: tw.f32[B, N], n: tw.i64[B]):
        b, f = tw.vars("b"), tw.func("f")
        d = tw.rdom(k=N)
        d.where(d.k < n[b])
        f[b] = 0.0
        f[b] += x[b, d.k]
        return f[:B]

    for stage in ({}, {"at": "f.update.b"}, {"consumers": "f.update"}):
        with pytest.raises(tw.ScheduleError, match=r"f\.update reads n only in its where\(\)") as caught:
            ragged.schedule().cache_read("n", **stage)
        assert caught.value.code == "schedule.not-read"
