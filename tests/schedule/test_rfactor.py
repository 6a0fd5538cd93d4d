"""rfactor: partial results of every kind of reduction; what is refused."""

from __future__ import annotations

from tests.schedule.algorithms import convolution, histogram, largest, matmul, prefix_sum, triangle
from tests.schedule.helpers import good, refused
from tilewright.schedule.schedule import Schedule


def test_nest(golden):
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2).rfactor("ki", "part")
    golden(f"{s}\n\n{good(s)}")


def test_every_reduction():
    for make, stage, loop in (
        (matmul, "C.update", "k"), (histogram, "hist.update", "y"), (histogram, "hist.update", "x"),
        (largest, "arg.update", "j"), (convolution, "conv.update", "dy"), (convolution, "conv.update", "dx"),
        (triangle, "t.update", "x"),
    ):  # fmt: skip
        s = Schedule(make())
        s[stage].rfactor(loop, "part")
        good(s)


def test_partials_can_be_scheduled():
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2).rfactor("ki", "part")
    s["part"].compute_root()
    s["part.update[0]"].parallel("i")
    good(s)


def test_errors():
    s = Schedule(matmul())
    refused(s, "rfactor-pure", lambda: s["C.update"].rfactor("i", "part"))
    refused(s, "name-twice", lambda: s["C.update"].rfactor("k", "C"))
    u = Schedule(triangle())
    refused(
        u, "rfactor-scatter", lambda: u["t.update"].rfactor("y", "part"), "elements of its own", "parallel it as it is"
    )
    t = Schedule(prefix_sum())
    refused(t, "not-associative", lambda: t["s.update"].rfactor("k", "part"))


def test_prefetches_go_with_their_loops():
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2)
    s.prefetch("A", at="C.update.ko")
    s["C.update"].rfactor("ki", "P")
    assert [(m.tensor, m.loop) for m in s.state.stages[("P", 0)].prefetches] == [("A", "ko")]
    good(s)
    s = Schedule(matmul())
    s.prefetch("C", at="C.update.k")
    refused(s, "prefetch-lost", lambda: s["C.update"].parallel("k"), "the loop k, which goes")


def test_several_parts_of_a_variable_inside():
    """A variable of which one part stays outside runs whole in the partials, by one loop."""
    s = Schedule(matmul())
    C = s["C.update"].split("j", "j", "t", 4).split("j", "jo", "ji", 2).split("t", "to", "ti", 2)
    C.reorder("i", "jo", "to", "k", "ji", "ti").split("k", "ko", "ki", 2).vectorize("ki")
    good(s)
