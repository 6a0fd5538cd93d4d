"""peel, partition."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import ALL, blur, edge_blur, gradient, matmul, prefix_sum
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.codegen import loops as L
from tilewright.codegen.interface import CONTIGUOUS, argument_roles
from tilewright.codegen.lower import Request, lower
from tilewright.lang import ir
from tilewright.lang.errors import ScheduleError
from tilewright.schedule.nest import Guard, LoopNode, walk
from tilewright.schedule.schedule import Schedule

SIZES = [{"M": m, "N": n, "K": k} for m, n, k in [(8, 6, 3), (1, 1, 1), (0, 6, 2), (2, 0, 1), (2, 3, 0), (13, 16, 5)]]


def loop_ir(s: Schedule) -> L.Stmt:
    p = s.pipeline
    return lower(Request(s.state, "strict", "k", (CONTIGUOUS,) * len(argument_roles(p)))).program.body


def test_ends_of_a_window(golden):
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y").store_root()
    s["blur_y"].peel("y", 1, 0).peel("x")
    golden(f"{s}\n\n{good(s)}")
    natively(s, *SIZES)


def tiled() -> Schedule:
    s = Schedule(matmul())
    s["C.update"].split("i", "io", "ii", 4).split("j", "jo", "ji", 4).reorder("io", "jo", "k", "ii", "ji")
    s["C.update"].vectorize("ji").unroll("ii")
    s.cache_write("C", at="C.update.jo")
    return s


def test_tails_are_left_to_the_last_iteration(golden):
    s = tiled()
    s["C.update"].peel("jo", 0, 1).peel("io", 0, 1)
    golden(f"{s}\n\n{good(s)}")
    natively(s, *SIZES)
    middle = next(n for n in walk(s.loops().nest.body) if isinstance(n, LoopNode) and n.address == "C.update.io")
    inner = next(n for n in walk(middle) if isinstance(n, LoopNode) and n.address == "C.update.jo")
    assert not any(isinstance(n, Guard) for n in walk(inner))


def test_the_first_step_of_a_reduction(golden):
    s = Schedule(matmul())
    s["C.update"].split("k", "ko", "ki", 2).reorder("i", "ko", "j", "ki")
    s.cache_write("C", at="C.update.ko", memory="main")
    s["C.update"].peel("ko", 1, 0)
    golden(f"{s}\n\n{good(s)}")
    natively(s, *SIZES)


@pytest.mark.parametrize(("first", "last"), [(2, 0), (0, 3), (2, 2), (9, 9), (1, 2)])
def test_several(first, last):
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y").store_root()
    s["blur_y"].peel("y", first, last).peel("x", last, first)
    good(s)
    natively(s, *SIZES)


def test_threads():
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y")
    s["blur_y"].parallel("y").peel("y")
    good(s)
    natively(s, *SIZES)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_loop(name):
    s = Schedule(ALL[name]())
    for x in list(s.state.stages.values()):
        if s.state.funcs[x.key[0]].compute.kind != "inline":
            for y in x.loops[:3]:
                s[s.state.address(x.key)].peel(y.name)
    good(s)


def test_peel_is_refused():
    s = Schedule(matmul())
    C = s["C.update"]
    refused(s, "factor", lambda: C.peel("i", 0, 0))
    refused(s, "factor", lambda: C.peel("i", -1, 0))
    C.peel("i")
    refused(s, "peeled", lambda: C.peel("i"))
    refused(s, "loop-mode", lambda: C.split("i", "io", "ii", 4), "is peeled already")
    refused(s, "loop-mode", lambda: C.fuse("i", "j", "f"))
    g = Schedule(gradient())
    g["gradient"].peel("x")
    refused(g, "loop-mode", lambda: g["gradient"].unroll("x"))
    C.vectorize("j", 4)
    refused(s, "loop-mode", lambda: C.peel("j_v"), "vectorized")


def test_copies_have_a_limit():
    s = Schedule(matmul())
    C = s["C.update"].peel("i").peel("j").peel("k")
    C_init = s["C.init"].peel("i").peel("j")
    assert C_init.loops == ("i", "j")
    refused(s, "loop-mode", lambda: C.split("k", "ko", "ki", 2))
    t = Schedule(matmul())
    t["C.update"].split("k", "ko", "ki", 2).peel("i").peel("j").peel("ko")
    refused(t, "peel-copies", lambda: t["C.update"].peel("ki"), "81 copies of C.update")


def test_never():
    s = Schedule(edge_blur())
    parted = sum(isinstance(t, L.For) for t in L.walk(loop_ir(s)))
    s["blur_y"].partition("x", "never").partition("y", "never")
    whole = sum(isinstance(t, L.For) for t in L.walk(loop_ir(s)))
    assert whole == 2 < parted
    good(s)
    natively(s, *SIZES)


def test_always():
    s = Schedule(edge_blur())
    s["blur_y"].partition("x", "always").partition("y")
    good(s)
    natively(s, *SIZES)
    (middle,) = [
        t for t in L.walk(loop_ir(s))
        if isinstance(t, L.Store) and not ir.leaves((*t.values, *(i for _, i in t.targets)), "select")
    ]  # fmt: skip
    assert middle.values


def test_always_that_cannot_be():
    s = Schedule(prefix_sum())
    s["s.update"].partition("i", "always")
    good(s)
    with pytest.raises(ScheduleError, match="can't be parted") as e:
        loop_ir(s)
    assert e.value.code == "schedule.partition"


def test_partition_is_refused():
    s = Schedule(blur())
    refused(s, "partition", lambda: s["blur_y"].partition("x", "sometimes"), "auto, always, never")
    s["blur_y"].partition("x", "auto")
    s["blur_y"].vectorize("x", 4)
    refused(s, "loop-mode", lambda: s["blur_y"].partition("x_v", "never"))
