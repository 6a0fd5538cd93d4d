"""Stages that the user computes, under schedules: native, simulated, refused."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw

M, N = tw.sizes("M N")
RNG = np.random.default_rng(3)


class Recorder:
    """A function that records the boxes that it was asked for."""

    def __init__(self, function):
        self.function, self.boxes = function, []

    def __call__(self, out, *given):
        first = out[0] if isinstance(out, tuple) else out
        self.boxes.append(tuple((o, o + n) for o, n in zip(first.origin, first.shape, strict=True)))
        self.function(out, *given)


def three_rows(out, a):
    out[...] = a[:-2] + 2 * a[1:-1] + a[2:]


def stencil(function=three_rows):
    """`b` is computed by a stage from three rows of `a2`; `c` reads two rows of it."""
    stage = Recorder(function)

    @tw.kernel
    def k(A: tw.f32[M + 3, N]):
        i, j = tw.vars("i j")
        a2, b, c = tw.func("a2"), tw.func("b", tw.f32), tw.func("c")
        a2[i, j] = A[i, j] * 2
        b[i, j] = tw.extern_stage(stage, name="three_rows")(a2.box[i : i + 3, j])
        c[i, j] = b[i, j] - b[i + 1, j]
        return c[:M, :N]

    return k, stage


def wanted(a):
    a = a * np.float32(2)
    b = a[:-2] + 2 * a[1:-1] + a[2:]
    return b[:-1] - b[1:]


def data(m, n):
    return RNG.integers(-50, 50, (m + 3, n)).astype(np.float32)


def agree(k, s, a, want, machine="toy"):
    """Native and simulated results are what is wanted."""
    got = k.compile(s)(a)
    assert got.dtype == want.dtype and (got == want).all()
    sizes = {"M": a.shape[0] - 3, "N": a.shape[1]}
    assert (k.simulate(s, machine=machine, sizes=sizes, inputs={"A": a}).result == want).all()


def test_the_default_schedule_puts_it_at_the_root():
    k, stage = stencil()
    a = data(9, 7)
    assert (k(a) == wanted(a)).all()
    assert stage.boxes == [((0, 10), (0, 7))]
    assert "b[0:M + 1, 0:N] = three_rows(a2[0:M + 3, 0:N])" in str(k.schedule().loops())


@pytest.mark.parametrize("m, n", [(0, 4), (4, 0), (1, 1), (13, 5)])
def test_compute_at_a_tile(m, n):
    k, stage = stencil()
    s = k.schedule()
    s["c"].tile("i", "j", "io", "jo", "ii", "ji", 4, 3)
    s["b"].compute_at("c.jo")
    s["a2"].compute_at("c.jo")
    a = data(m, n)
    agree(k, s, a, wanted(a))
    boxes = [((i, min(i + 4, m) + 1), (j, min(j + 3, n))) for i in range(0, m, 4) for j in range(0, n, 3)]
    assert stage.boxes == 2 * boxes


def test_a_window_slides():
    k, stage = stencil()
    s = k.schedule()
    s["b"].compute_at("c.i").store_root()
    a = data(6, 5)
    agree(k, s, a, wanted(a))
    assert stage.boxes == 2 * [((0, 2), (0, 5)), *(((i, i + 1), (0, 5)) for i in range(2, 7))]


def test_store_at_and_hoist():
    k, stage = stencil()
    s = k.schedule()
    s["c"].split("i", "io", "ii", 4)
    s["b"].compute_at("c.ii").store_at("c.io").hoist_storage()
    s["a2"].compute_at("c.io")
    a = data(11, 5)
    agree(k, s, a, wanted(a))
    first = [((io, io + 2), (0, 5)) for io in (0, 4, 8)]
    assert [b for b in stage.boxes if b in first] == 2 * first and len(stage.boxes) == 2 * 11


def test_inside_a_parallel_loop():
    k, stage = stencil()
    s = k.schedule()
    s["c"].parallel("i")
    s["b"].compute_at("c.i")
    a = data(40, 3)
    fast = k.compile(s)
    for how in ({"threads": 1}, {"threads": 4}, {"executor": ThreadPoolExecutor(3)}):
        stage.boxes.clear()
        assert (fast(a, **how) == wanted(a)).all()
        assert sorted(stage.boxes) == [((i, i + 2), (0, 3)) for i in range(40)]


def test_regions_that_bound_and_align_extend():
    k, stage = stencil()
    s = k.schedule()
    s["c"].split("i", "io", "ii", 4)
    s["b"].compute_at("c.io").pad("j", 8)
    a = data(8, 5)
    agree(k, s, a, wanted(a))
    assert stage.boxes[0] == ((0, 5), (0, 5))


@pytest.mark.parametrize("view", [
    lambda a: a, lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, axis=1)[:, ::2], lambda a: a[::-1][::-1],
    lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1], lambda a: np.broadcast_to(a[:1], a.shape),
])  # fmt: skip
def test_strides_of_the_caller(view):
    @tw.kernel
    def k(A: tw.f32[M + 2, N]):
        i, j = tw.vars("i j")
        b = tw.func("b", tw.f32)
        b[i, j] = tw.extern_stage(three_rows)(A.box[i : i + 3, j])
        return b[:M, :N]

    a = view(data(4, 6))
    out = np.zeros((10, 12), np.float32)[::2, ::-2]
    want = a[:-2] + 2 * a[1:-1] + a[2:]
    assert (k(a) == want).all()
    assert k(a, out=out) is out and (out == want).all()


def test_layouts_that_reorder_axes():
    k, _stage = stencil()
    s = k.schedule()
    s.layout("b", "i j -> j i")
    s.layout("a2", "i j -> j i")
    a = data(7, 5)
    agree(k, s, a, wanted(a))


def test_an_output_never_lies_on_what_a_stage_reads():
    @tw.kernel
    def k(A: tw.f32[N]):
        i = tw.vars("i")
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(lambda out, a: np.add(a, 1, out=out), name="g")(A.box[i])
        return f[:N]

    a = np.zeros(4, np.float32)
    with pytest.raises(tw.ArgumentError) as e:
        k(a, out=a)
    assert e.value.code == "argument.alias"


def test_updates_of_what_a_stage_computes():
    @tw.kernel
    def k(A: tw.f32[M, N]):
        i, _j = tw.vars("i j")
        r = tw.rdom(r=N)
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(lambda out, a: np.copyto(out, a[:, 0]), name="first")(A.box[i, 0:1])
        f[i] += A[i, r]
        return f[:M]

    a = RNG.integers(-9, 9, (5, 70)).astype(np.float32)
    want = a[:, 0] + a.sum(axis=1)
    assert (k.reference(a) == want).all() and (k(a) == want).all()
    s = k.schedule()
    s["f.update"].split("i", "io", "ii", 4).reorder("io", "r", "ii").vectorize("ii")
    s.cache_write("f", at="f.update.io")
    assert (k.compile(s)(a) == want).all()
    t = k.schedule()
    t["f.update"].vectorize("r", 8)
    assert (k.compile(t)(a) == want).all()


def test_clones_copies_and_forms():
    k, _stage = stencil()
    s = k.schedule()
    s.cache_read("b", at="c.i")
    small = s["c"].specialize("N <= 4", "small")
    small.parallel("i")
    for n in (3, 9):
        a = data(5, n)
        agree(k, s, a, wanted(a))

    t = k.schedule()
    t["c"].split("i", "io", "ii", 2)
    t.clone("a2", consumers="b")
    t["b"].compute_at("c.io")
    a = data(5, 6)
    agree(k, t, a, wanted(a))


def test_a_stage_may_be_cloned():
    stage = Recorder(three_rows)

    @tw.kernel
    def k(A: tw.f32[M + 2, N]):
        i, j = tw.vars("i j")
        b, c, d = tw.func("b", tw.f32), tw.func("c"), tw.func("d")
        b[i, j] = tw.extern_stage(stage, name="three_rows")(A.box[i : i + 3, j])
        c[i, j] = b[i, j] + 1
        d[i, j] = b[i, j] * c[i, j]
        return c[:M, :N], d[:M, :N]

    s = k.schedule()
    s.clone("b", consumers="d")
    s["b_d"].compute_at("d.i")
    a = data(4, 3)[:-1]
    b = a[:-2] + 2 * a[1:-1] + a[2:]
    c, d = k.compile(s)(a)
    assert (c == b + 1).all() and (d == b * (b + 1)).all()
    assert len(stage.boxes) == 1 + 4


def test_inout_arrays_are_read_as_they_are_at_the_end():
    @tw.kernel
    def k(A: tw.inout(tw.f32[N])):
        i = tw.vars("i")
        A[i] += 1.0
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(lambda out, a: np.copyto(out, np.cumsum(a)[: len(out)]), name="cumsum")(A.box[:])
        return f[:N]

    a = np.arange(5, dtype=np.float32)
    assert k(a).tolist() == np.cumsum(np.arange(5) + 1).tolist() and a.tolist() == [1, 2, 3, 4, 5]


def test_what_it_evaluates_is_counted():
    k, _ = stencil()
    s = k.schedule()
    s["c"].split("i", "io", "ii", 4)
    s["b"].compute_at("c.io")
    run = k.simulate(s, machine="toy", sizes={"M": 8, "N": 5})
    table = {t.tensor: (t.reads, t.writes) for t in run.account.traffic}
    assert table["b"] == (2 * 8 * 5, 2 * 5 * 5)  # two tiles of five rows, each read twice for each element of c
    assert table["a2"] == (2 * 7 * 5, 11 * 5)  # seven rows for each tile


def test_evaluations_are_counted():
    k, _ = stencil()
    s = k.schedule()
    s["b"].compute_at("c.i").store_root()
    counts = k.count(s, sizes={"M": 8, "N": 5})
    assert counts.stages["b"].evaluations == 9 * 5  # the window slides: nothing is computed twice
    assert counts.stages["b"].loads == {"a2": (4 + 7 * 3) * 5}  # two rows at first, then one, of three rows each


# Errors ---------------------------------------------------------------------------------------------------------------


def refused(code, act, kernel=None):
    k = kernel or stencil()[0]
    s = k.schedule()
    before = str(s)
    with pytest.raises(tw.ScheduleError) as e:
        act(s)
    assert e.value.code == code and e.value.where[0].file == __file__
    assert str(s) == before or not before
    return str(e.value)


def test_its_loops_are_its_own():
    for act in (
        lambda s: s["b"].split("i", "io", "ii", 4), lambda s: s["b"].parallel("i"), lambda s: s["b"].vectorize("j", 8),
        lambda s: s["b"].reorder("j", "i"), lambda s: s["b"].unroll("j"), lambda s: s["b"].fuse("i", "j", "f"),
        lambda s: s["a2"].compute_at("b.i"), lambda s: s["b"].peel("i"), lambda s: s.cache_read("a2", at="b.i"),
        lambda s: s.prefetch("a2", at="b.i"), lambda s: s["c"].compute_with("b.i"),
    ):  # fmt: skip
        assert "its loops are its own" in refused("schedule.stage-loops", act)


def test_placement_and_storage():
    assert "can't be inlined" in refused("schedule.stage-inline", lambda s: s["b"].compute_inline())
    assert "read by the stage" in refused("schedule.stage-inline", lambda s: s["a2"].compute_inline())
    refused("schedule.stage-storage", lambda s: s.layout("b", "i j -> j//8 i j%8"))
    refused("schedule.stage-storage", lambda s: s.layout("a2", "i j -> j//8 i j%8"))
    refused("schedule.stage-storage", lambda s: s.store_in("b", "reg"))
    refused("schedule.illegal-place", lambda s: s["b"].compute_at("a2.i"))

    s = stencil()[0].schedule()
    s["b"].compute_at("c.i").store_root()
    with pytest.raises(tw.ScheduleError) as e:
        s["b"].fold_storage("i", 4)
    assert e.value.code == "schedule.stage-storage"
    t = stencil()[0].schedule()
    t["b"].compute_at("c.i")
    with pytest.raises(tw.ScheduleError) as e:
        t["b"].double_buffer()
    assert e.value.code == "schedule.ring"  # it is computed, not copied


def test_not_inside_vectors():
    k = stencil()[0]
    s = k.schedule()
    s["c"].vectorize("j", 8)
    with pytest.raises(tw.ScheduleError) as e:
        s["b"].compute_at("c.j_v")
    assert e.value.code == "schedule.illegal-place"
    s["b"].compute_at("c.j")
    a = data(5, 19)
    agree(k, s, a, wanted(a))


class Wrong(Exception):
    pass


def failing(when):
    calls = []

    def function(out, a):
        calls.append(out.origin)
        if when(out):
            raise Wrong(out.origin)
        three_rows(out, a)

    return function, calls


def test_an_exception_ends_the_kernel():
    function, calls = failing(lambda out: out.origin[0] == 4)
    k, _ = stencil(function)
    s = k.schedule()
    s["b"].compute_at("c.i")
    s["a2"].compute_at("c.i")  # buffers on the heap are held at that time
    fast = k.compile(s)
    before = tw_kept()
    with pytest.raises(tw.ExternStageError) as e:
        fast(data(9, 3000))
    assert isinstance(e.value.__cause__, Wrong) and e.value.code == "extern.failed"
    assert calls[-1] == (4, 0) and len(calls) == 5
    assert tw_kept() >= before  # what was held went back to the allocator
    with pytest.raises(tw.ExternStageError):
        k.simulate(s, machine="generic-avx2", sizes={"M": 9, "N": 3})


def tw_kept():
    from tilewright.codegen import runtime

    return runtime.kept_bytes()


def test_an_exception_in_one_of_several_threads():
    function, calls = failing(lambda out: out.origin[0] >= 20)
    k, _ = stencil(function)
    s = k.schedule()
    s["c"].parallel("i")
    s["b"].compute_at("c.i")
    fast = k.compile(s)
    for threads in (1, 4):
        with pytest.raises(tw.ExternStageError) as e:
            fast(data(400, 3), threads=threads)
        assert isinstance(e.value.__cause__, Wrong)
    assert len(calls) < 400


def test_calls_at_once_have_their_own_exceptions():
    function, _ = failing(lambda out: out.shape[1] == 7)
    k, _ = stencil(function)
    fast = k.compile()
    good, bad = data(5, 6), data(5, 7)
    results = []

    def call(a):
        for _ in range(20):
            try:
                results.append((fast(a) == wanted(a)).all())
            except tw.ExternStageError:
                results.append(a is bad)

    threads = [threading.Thread(target=call, args=(a,)) for a in (good, bad, good, bad)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 80 and all(results)


def test_interrupts_come_through_as_they_are():
    def stop(out, a):
        raise KeyboardInterrupt

    k, _ = stencil(stop)
    with pytest.raises(KeyboardInterrupt):
        k(data(3, 3))


def test_nothing_leaks():
    from tilewright.codegen import stages

    class Note:
        pass

    noted = []

    def function(out, a):
        note = Note()
        noted.append(weakref.ref(note))
        raise Wrong(note)

    k, _ = stencil(function)
    for _ in range(3):
        with pytest.raises(tw.ExternStageError):
            k(data(3, 3))
    gc.collect()
    assert not stages._running and all(r() is None for r in noted)


def test_a_kernel_inside_a_stage():
    inner, _ = stencil()

    def nested(out, a):
        out[...] = inner(np.concatenate([a, a[:1]]))[: len(out)]

    @tw.kernel
    def k(A: tw.f32[M + 2, N]):
        i, j = tw.vars("i j")
        b = tw.func("b", tw.f32)
        b[i, j] = tw.extern_stage(nested)(A.box[i : i + 3, j])
        return b[:M, :N]

    a = data(4, 4)[:-1]
    assert (k(a) == k.reference(a)).all()


SCRIPT = """
import os, sys
import numpy as np
import tilewright as tw
from tilewright.codegen import compile as compiling

N = tw.sizes("N")
def scale(out, a):
    np.multiply(a, float(sys.argv[1]), out=out)

@tw.kernel
def k(A: tw.f32[N]):
    i = tw.vars("i")
    f = tw.func("f", tw.f32)
    f[i] = tw.extern_stage(scale)(A.box[i])
    return f[:N]

built = []
real = compiling.Compiled.build
compiling.Compiled.build = lambda self, *a, **k: built.append(1) or real(self, *a, **k)
print(k(np.arange(4, dtype=np.float32)).tolist(), len(built))
"""


def test_a_kept_kernel_calls_the_function_of_its_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "k.py"
    path.write_text(SCRIPT)

    def run(factor):
        return subprocess.run([sys.executable, str(path), factor], capture_output=True, text=True, check=True).stdout

    assert run("2") == "[0.0, 2.0, 4.0, 6.0] 1\n"
    assert run("3") == "[0.0, 3.0, 6.0, 9.0] 0\n"  # not built again, and another function


# Random boxes ---------------------------------------------------------------------------------------------------------


@st.composite
def cases(draw):
    """A stage that sums a window of its input, in a random place of a random schedule."""
    return {
        "m": draw(st.integers(0, 17)), "n": draw(st.integers(0, 9)), "before": draw(st.integers(-3, 3)),
        "width": draw(st.integers(1, 4)), "whole": draw(st.booleans()), "step": draw(st.sampled_from([1, 2, -1])),
        "tile": draw(st.tuples(st.integers(1, 6), st.integers(1, 6))),
        "at": draw(st.sampled_from(["root", "io", "jo", "ii"])),
        "store": draw(st.sampled_from([None, "root", "io"])), "source": draw(st.booleans()),
        "mode": draw(st.sampled_from(["serial", "parallel"])),
    }  # fmt: skip


@given(cases())
@settings(max_examples=12, deadline=None)
def test_random_boxes(c):
    before, width, step, whole = c["before"], c["width"], c["step"], c["whole"]

    def window(out, a):
        for r in range(out.shape[0]):
            i = step * (out.origin[0] + r) + before
            rows = a[i - a.origin[0] : i - a.origin[0] + width]
            assert rows.shape[0] == width
            cut = out.origin[1] - a.origin[1]
            out[r] = rows.sum(axis=0)[cut : cut + out.shape[1]] + (rows.sum() if whole else 0)

    @tw.kernel
    def k(A: tw.f64[M, N]):
        i, j = tw.vars("i j")
        edge = tw.repeat_edge(A)
        p, b, c_ = tw.func("p"), tw.func("b", tw.f64), tw.func("c")
        p[i, j] = edge[i, j] + 1
        first = step * i + before
        b[i, j] = tw.extern_stage(window)(p.box[first : first + width, slice(0, N) if whole else j])
        c_[i, j] = b[i, j] + b[i + 1, j]
        return c_[:M, :N]

    m, n = c["m"], c["n"]
    if 0 in (m, n):
        m, n = max(m, 1), max(n, 1)
    a = RNG.integers(-9, 9, (m, n)).astype(np.float64)
    s = k.schedule()
    s["c"].tile("i", "j", "io", "jo", "ii", "ji", *c["tile"])
    if c["mode"] == "parallel":
        s["c"].parallel("io")
    if c["at"] != "root":
        s["b"].compute_at(f"c.{c['at']}")
        if c["store"] == "root" and c["mode"] == "serial":
            s["b"].store_root()
        elif c["store"] == "io":
            s["b"].store_at("c.io")
        if c["source"]:
            s["p"].compute_at(f"c.{c['at']}")
    p = np.pad(a, ((60, 60), (0, 0)), mode="edge") + 1
    rows = np.array([[p[60 + step * i + before : 60 + step * i + before + width]] for i in range(m + 1)])[:, 0]
    b = rows.sum(axis=1) + (rows.sum(axis=(1, 2))[:, None] if whole else 0)
    want = b[:-1] + b[1:]
    assert (k.reference(a) == want).all()
    assert (k.compile(s)(a) == want).all()
    assert (k.simulate(s, machine="toy", sizes={"M": m, "N": n}, inputs={"A": a}).result == want).all()


def test_kernels_alike_but_for_their_function_are_simulated_apart():
    def twice(out, a):
        out[...] = 2 * three(a)

    def three(a):
        return a[:-2] + 2 * a[1:-1] + a[2:]

    a = data(5, 4)
    for function, factor in ((three_rows, 1), (twice, 2)):
        k, _ = stencil(function)
        run = k.simulate(machine="toy", sizes={"M": 5, "N": 4}, inputs={"A": a})
        assert (run.result == np.float32(factor) * wanted(a)).all()
