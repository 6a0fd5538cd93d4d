"""report: what was done, and what not and why."""

from __future__ import annotations

from tests.schedule.algorithms import ALL, blur, edge_blur, histogram, matmul, triangle
from tilewright.codegen.compile import compile_schedule
from tilewright.schedule.report import KINDS, Note
from tilewright.schedule.schedule import Schedule


def test_a_window(golden):
    s = Schedule(edge_blur())
    s["blur_y"].split("y", "yo", "yi", 8).vectorize("x", 8).parallel("yo")
    s["blur_x"].compute_at("blur_y.yi").store_at("blur_y.yo")
    s["blur_x"].vectorize("x", 8)
    golden(str(s.report()))
    (slide,) = s.report().of("sliding")
    assert slide.done
    (fold,) = s.report().of("folding")
    assert fold == Note(
        "folding", "blur_x.y", False, "3 points are needed at once: fold_storage('y', 3) would keep just these"
    )
    assert fold in s.report().not_done
    s["blur_x"].fold_storage("y", 3)
    assert [n.done for n in s.report().of("folding")] == [True]


def test_what_does_not_slide():
    s = Schedule(blur())
    s["blur_x"].compute_at("blur_y.x").store_root()
    notes = s.report().of("sliding")
    assert [n.what for n in notes] == ["blur_x.y", "blur_x.x"]
    assert any(n.done for n in notes) or all(n.how for n in notes)


def test_a_register_tile(golden):
    s = Schedule(matmul())
    s["C.update"].split("i", "io", "ii", 4).split("j", "jo", "ji", 8).reorder("io", "jo", "k", "ii", "ji")
    s["C.update"].vectorize("ji").unroll("ii")
    s.cache_write("C", at="C.update.jo")
    golden(str(s.report()))
    even = s.specialize("C.update", "N % 8 == 0", "even")
    assert Note("tails", f"{even.stage} j -> jo, ji by 8", True, "exact") in s.report().notes


def test_gathers():
    s = Schedule(matmul())
    s["C.update"].vectorize("i", 4)
    said = [n.how for n in s.report().of("vectors") if not n.done]
    assert any(h.startswith("A is gathered") for h in said)
    assert any(h.startswith("C is scattered") for h in said)
    h = Schedule(histogram())
    h["cum"].vectorize("b", 8)
    assert all(n.done for n in h.report().of("vectors"))


def test_tiles_that_are_loaded():
    s = Schedule(triangle())
    s.cache_write("t", at="t.update.i") if "i" in s["t.update"].loops else s.cache_write(
        "t", at=f"t.update.{s['t.update'].loops[0]}"
    )
    (note,) = s.report().of("skipping")
    assert not note.done


def test_every_algorithm():
    for make in ALL.values():
        assert all(n.kind in KINDS and n.how for n in Schedule(make()).report().notes)


def test_compiled():
    s = Schedule(edge_blur())
    s["blur_x"].compute_at("blur_y.y").vectorize("x", 8)
    notes = compile_schedule(s.pipeline, s, "strict").report()
    assert set(s.report().of("vectors")) <= set(notes.notes)
    assert any(n.what == "blur_x.x" and "loops for 1" in n.how for n in notes.of("parts"))
    t = Schedule(matmul())
    t["C.update"].vectorize("i", 4)
    said = [n.how for n in compile_schedule(t.pipeline, t, "strict").report().of("lanes")]
    assert any(h.startswith("A is read lane by lane") for h in said)
    assert any(h.startswith("out.C is written lane by lane") for h in said)
