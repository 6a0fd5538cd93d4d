"""stream_stores."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from tests.schedule.algorithms import accumulate, blur, matmul
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tests.schedule.test_parts import loop_ir
from tilewright.codegen import loops as L
from tilewright.codegen.compile import compile_schedule
from tilewright.schedule.promises import relaxed
from tilewright.schedule.schedule import Schedule

SIZES = [{"M": m, "N": n, "K": k} for m, n, k in [(8, 40, 3), (3, 7, 1), (2, 67, 2), (2, 2, 0), (33, 18, 5)]]


def streamed() -> Schedule:
    s = Schedule(blur())
    s["blur_y"].vectorize("x", 8).stream_stores()
    return s


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 6])
def test_values(lanes):
    s = Schedule(blur())
    s["blur_y"].vectorize("x", lanes).parallel("y").stream_stores()
    good(s)
    natively(s, *SIZES)


def test_every_place_of_a_row():
    """Rows begin at any address; what is before and after them is left alone."""
    compiled = compile_schedule(streamed().pipeline, streamed(), "strict")
    for offset in range(9):
        a = np.arange(3 * 26, dtype=np.int32).reshape(3, 26)
        room = np.full(64, -7, np.int32)
        out = room[offset : offset + 24].reshape(1, 24)
        compiled(a, out=out)
        assert np.array_equal(out, compiled(a))
        assert (room[:offset] == -7).all()
        assert (room[offset + 24 :] == -7).all()


def test_code():
    s = streamed()
    body = loop_ir(s)
    assert any(isinstance(t, L.Store) and t.stream for t in L.walk(body))
    assert sum(isinstance(t, L.Fence) for t in L.walk(body)) == 1
    compiled = compile_schedule(s.pipeline, s, "strict")
    compiled(np.zeros((8, 40), np.int32))
    assert "!nontemporal" in compiled.llvm
    if platform.machine() == "x86_64":
        assert "movnt" in compiled.asm
    s["blur_y"].parallel("y")
    assert sum(isinstance(t, L.Fence) for t in L.walk(loop_ir(s))) == 2


def test_a_tile_is_streamed():
    s = Schedule(matmul())
    s["C.update"].split("j", "jo", "ji", 8).reorder("i", "jo", "k", "ji").vectorize("ji")
    s.cache_write("C", at="C.update.jo")
    s.stream_stores("C")
    good(s)
    natively(s, *SIZES)
    assert any(isinstance(t, L.Store) and t.stream for t in L.walk(loop_ir(s)))


def test_it_is_refused():
    s = Schedule(matmul())
    refused(s, "stream", lambda: s.stream_stores("C"), "updates C in place", "cache_write")
    t = Schedule(accumulate())
    refused(t, "stream", lambda: t.stream_stores("C"))
    b = Schedule(blur())
    refused(b, "inlined", lambda: b.stream_stores("blur_x"))
    b["blur_y"].stream_stores()
    refused(b, "stream", lambda: b["blur_y"].stream_stores(), "already")
    refused(b, "stream", b.check, "no loop stores vectors", "vectorize")
    assert relaxed(b.state)[1] == ("stream_stores blur_y",)
    b["blur_y"].vectorize("x", 8)
    assert relaxed(b.state)[1] == ()
    good(b)
