"""The schedule as data: knobs, prefixes, copies, equality, text; what `loops()` tells."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import blur, gradient, matmul
from tests.schedule.helpers import good, refused
from tilewright.lang.errors import ParseError, TilewrightError
from tilewright.schedule.directive import Directive, KnobRef
from tilewright.schedule.schedule import Schedule, parse_schedule


def tiled(s: Schedule, t: int | KnobRef = 2) -> Schedule:
    s["C.update"].split("i", "io", "ii", t).reorder("io", "k", "ii", "j").unroll("ii")
    return s


def test_knobs():
    s = Schedule(matmul())
    t = s.knob("t", 2, choices=[2, 3, 4])
    tiled(s, t)
    assert "knob t = 2 of 2 3 4" in str(s)
    assert "split i -> io, ii by $t" in str(s)
    assert s.knobs == {"t": 2}
    other = s.with_knobs(t=4)
    assert s.knobs == {"t": 2}
    assert other.knobs == {"t": 4}
    assert str(other.loops()) == str(tiled(Schedule(matmul()), 4).loops())
    assert str(s.loops()) == str(tiled(Schedule(matmul()), 2).loops())
    good(s)
    good(other)


def test_knob_errors():
    s = Schedule(matmul())
    refused(s, "knob", lambda: s.knob("t", 5, choices=[2, 4]), "choices: 2, 4")
    refused(s, "factor", lambda: s.knob("t", 0))
    refused(s, "unknown-knob", lambda: tiled(s, KnobRef("u")))
    s.knob("t", 2, choices=[2, 4])
    refused(s, "name-twice", lambda: s.knob("t", 4))
    refused(s, "unknown-knob", lambda: s.with_knobs(u=3), "known: t")
    refused(s, "knob", lambda: s.with_knobs(t=3))


def test_prefix_copy_and_equality():
    s = tiled(Schedule(matmul()))
    assert len(s) == 3
    assert [len(s.prefix(n)) for n in range(5)] == [0, 1, 2, 3, 3]
    assert str(s.prefix(0).loops()) == str(Schedule(matmul()).loops())
    c = s.copy()
    assert c == s
    assert c.hash == s.hash
    c["C.update"].serial("ii")
    assert c != s
    assert c.hash != s.hash
    assert c.prefix(3) == s
    assert Schedule(matmul()) != Schedule(blur())
    with pytest.raises(TypeError):
        hash(s)


def test_unscheduled():
    s = Schedule(matmul())
    s["C.init"].unscheduled()
    assert s.state.stages[("C", -1)].scheduled
    assert not s.state.stages[("C", 0)].scheduled
    good(s)


def test_text_is_checked_line_by_line():
    p = matmul()
    with pytest.raises(ParseError):
        parse_schedule("schedule matmul\n  C.update:\n    split i -> io, ii by\n", p)
    with pytest.raises(TilewrightError) as e:
        parse_schedule("schedule matmul\n  C.update:\n    unroll i by 2\n    split q -> io, ii by 4\n", p)
    assert e.value.code == "schedule.unknown-loop"
    assert (e.value.where[0].file, e.value.where[0].line) == ("<text>", 4)
    s = Schedule(p)
    refused(s, "algorithm", lambda: parse_schedule("schedule blur\n", p), "for blur")
    refused(s, "algorithm", lambda: parse_schedule("schedule matmul hash 00\n", p), "another version")
    refused(s, "several", lambda: parse_schedule("schedule matmul\nschedule matmul\n", p))


def test_text_in_short_is_stored_in_full():
    p = matmul()
    short = "schedule matmul\n  C.update[0]:\n    split i -> io, ii by 2 tail guard\n  cache_write C at io\n"
    s = parse_schedule(short, p)
    assert str(s) == ("schedule matmul\n  C.update:\n    split i -> io, ii by 2\n  cache_write C at C.update.io in reg")
    assert s == parse_schedule(str(s), p)


def test_directives_that_make_no_sense():
    s = Schedule(matmul())
    refused(s, "unknown-directive", lambda: s.apply(Directive("frobnicate")), "known: ")
    refused(s, "option", lambda: s.apply(Directive("split", "C.update", ("i",), ("a", "b"), (("by", 2), ("of", 3)))))
    refused(s, "option", lambda: s.apply(Directive("split", "C.update", ("i",), ("a", "b"), (("by", 2), ("by", 3)))))
    refused(s, "option", lambda: s.apply(Directive("split", "C.update", ("i",), ("a", "b"))), "needs 'by'")
    refused(s, "arity", lambda: s.apply(Directive("split", "C.update", ("i", "j"), ("a", "b"), (("by", 2),))))
    refused(s, "arity", lambda: s.apply(Directive("fuse", "C.update", ("i", "j"))))
    refused(s, "misplaced", lambda: s.apply(Directive("compute_root", "C.update", ("C",))))
    refused(s, "foreign-loop", lambda: s.apply(Directive("serial", "C.update", ("C.init.i",))))


def test_what_loops_tells():
    s = Schedule(blur())
    s["blur_y"].split("y", "yo", "yi", 4).parallel("yo")
    s["blur_x"].compute_at("blur_y.yo")
    v = s.loops()
    assert [x.address for x in v.loops] == ["blur_y.yo", "blur_x.y", "blur_x.x", "blur_y.yi", "blur_y.x"]
    assert [x.depth for x in v.loops] == [0, 1, 2, 1, 2]
    assert v.loop("blur_x.x").parent == "blur_x.y"
    assert v.loop("yo").mode == "parallel"
    assert v.loops[1].extent.op != "const"
    assert set(v.regions) == {"blur_x", "blur_y"}
    assert v.uses == {"A": ("blur_x",), "blur_x": ("blur_y",)}
    ((buffer),) = v.buffers
    assert (buffer.storage.name, buffer.at) == ("blur_x", "blur_y.yo")
    assert buffer.storage.extents[0].attr == 6
    with pytest.raises(KeyError):
        v.loop("zz")


def test_handles_chain_and_name_their_place():
    s = Schedule(gradient())
    g = s["gradient"]
    assert g.split("x", "xo", "xi", 2) is g
    assert g.loops == ("y", "xo", "xi")
    e = refused(s, "unknown-loop", lambda: g.unroll("x"))
    assert e.where[0].file == __file__
    d = s.directives[0]
    assert d.location is not None
    assert d.location.file == __file__


def test_capacity():
    from tilewright.hw import CapacityError

    s = Schedule(gradient(1024, 1024), machine="snitch-cluster")
    name = s.machine.memories[1].name
    s["gradient"].store_in(name)
    with pytest.raises(CapacityError):
        s.check()


def test_a_recorded_schedule_is_carried_out_when_it_is_asked_what_it_leads_to(monkeypatch):
    s = tiled(Schedule(matmul()))
    again = Schedule.recorded(s.pipeline, s.directives, s.hash)
    with monkeypatch.context() as m:
        m.setattr(Schedule, "_replayed", lambda *_: pytest.fail("nobody has asked"))
        assert (again.hash, str(again), again == s) == (s.hash, str(s), True)
    assert str(again.loops()) == str(s.loops())
    again["C.init"].reorder("j", "i")
    assert again.hash != s.hash
    assert again == Schedule.recorded(s.pipeline, again.directives, again.hash).copy()
