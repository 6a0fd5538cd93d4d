"""explain, compare and sweep: figures that can be worked out by hand, grouping, fronts, texts, and the command line."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.kernels import matmul
from tilewright import commands
from tilewright.hw import Account, CapacityError, MachineError, SimulationError, Stall, Time, load_machine
from tilewright.hw.variants import changed
from tilewright.schedule.schedule import Schedule
from tilewright.views import sweep as sweeps
from tilewright.views.compare import compare
from tilewright.views.explain import Explanation, Measured, explain
from tilewright.views.sweep import Point, Sweep, sweep

Run = Callable[..., tuple[int, str, str]]
SIZES = {"M": 24, "N": 20, "K": 30}


def staged(tile: int = 8, depth: int = 10, slots: int = 1) -> Schedule:
    """Tiles of all three matrices in the scratchpad; whole tiles at SIZES, but for the columns."""
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", tile, tile).split("k", "ko", "ki", depth)
    C.reorder("io", "jo", "ko", "ii", "ki", "ji")
    a = s.cache_read("A", at="C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm")
    s.cache_write("C", at="C.update.jo", memory="spm")
    if slots > 1:
        a.double_buffer(slots)
    return s


# explain --------------------------------------------------------------------------------------------------------


def test_a_step_for_each_directive_with_what_it_changed() -> None:
    found = explain(staged(), machine="toy", sizes=SIZES)
    assert [s.directives[-1].split()[0] for s in found.steps[1:4]] == ["C.update:", "C.update:", "C.update:"]
    before, after = (found.steps[k].figures for k in (3, 4))
    assert found.steps[4].directives == ("cache_read A at C.update.ko in spm",)
    # Every multiply-add read A from main memory; now each element is fetched once for each of the three blocks of columns.
    assert before.bytes["dram"] - after.bytes["dram"] == 4 * (24 * 20 * 30 - 3 * 24 * 30)
    assert "spm" not in before.bytes and after.peak["spm"] == 8 * 10 * 4
    assert found.before(4) == before and found.before(0) is None
    assert found.ok and found.steps[-1].added


def test_the_last_step_is_the_whole_schedule() -> None:
    s = staged(slots=2)
    whole = matmul.simulate(s, machine="toy", sizes=SIZES).account
    last = explain(s, machine="toy", sizes=SIZES).steps[-1].figures
    assert last.bytes["dram"] == whole.of("dram").bytes_read + whole.of("dram").bytes_written
    assert last.peak == {f.memory: f.peak for f in whole.footprint}


def test_directives_that_are_not_legal_alone_count_with_the_next() -> None:
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 4).reorder("io", "j", "k", "ii")
    s.cache_write("C", at="C.update.io", memory="reg")  # of constant size only after the next directive
    s["C.update"].split("j", "jo", "ji", 8).reorder("jo", "io", "k", "ii", "ji")
    steps = explain(s, machine="toy", sizes=SIZES).steps
    assert steps[3].directives == (
        "cache_write C at C.update.io in reg", "C.update: split j -> jo, ji by 8", "C.update: reorder jo io k ii ji",
    )  # fmt: skip


def test_knobs_alone_are_no_step() -> None:
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", s.knob("t", 4))
    steps = explain(s, machine="toy", sizes=SIZES).steps
    assert steps[1].directives == ("knob t = 4", "C.update: split i -> io, ii by $t")


def test_a_step_that_does_not_fit_is_told_and_passed_over() -> None:
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 10).reorder("ko", "i", "j", "ki")
    a = s.cache_read("A", at="C.update.ko", memory="spm").double_buffer(2)
    s["C.update"].split("i", "io", "ii", 8).reorder("io", "ko", "ii", "j", "ki")
    machine = changed(load_machine("toy"), {"memory.spm.capacity": 1000})
    found = explain(s, machine=machine, sizes=SIZES)
    assert a.func == "A_C"
    problems = [step.problem for step in found.steps]
    at = problems.index("does not fit: 1.88 KiB of 1000 B in spm") + 1  # the ring
    assert problems[at - 2] == ""
    fits = next(n for n in range(at, len(problems)) if not problems[n])
    assert found.before(fits) == found.steps[at - 2].figures if not problems[at - 2] else found.before(fits) is not None
    assert found.ok and "does not fit" in str(found)


def test_a_whole_schedule_that_does_not_fit_is_not_ok() -> None:
    s = matmul.schedule()
    s.cache_read("A", memory="spm")
    found = explain(s, machine=changed(load_machine("toy"), {"memory.spm.capacity": 128}), sizes=SIZES)
    assert not found.ok
    assert json.loads(found.to_json())["steps"][-1]["problem"].startswith("does not fit")


def test_the_text_of_an_explanation(golden) -> None:
    golden(str(explain(staged(slots=2), machine="toy", sizes=SIZES)))


def test_the_text_with_time(golden) -> None:
    def figures(dram: int, cycles: float, busy: float, waits: dict[str, float]) -> Measured:
        return Measured({"dram": dram, "spm": 1 << 20, "reg": 5}, {"spm": 4096}, 1e6 / dram, cycles, busy, waits)

    steps = (
        ((), figures(16 << 20, 4e6, 1e6, {"load": 3e6})),
        (("cache_read A at C.update.ko in spm",), figures(4 << 20, 2e6, 1e6, {"load": 9e5, "store": 1e5})),
        (("double_buffer A_C",), figures(4 << 20, 1.1e6, 1e6, {"load": 1e5})),
    )
    made = (tw.views.explain.Step(*s) for s in steps)  # type: ignore[attr-defined]
    golden(str(Explanation("matmul", "toy", SIZES, "dram", tuple(made))))


def test_what_explain_needs() -> None:
    with pytest.raises(SimulationError) as e:
        explain(staged(), sizes=SIZES)
    assert e.value.code == "simulation.machine"
    with pytest.raises(tw.ScheduleError):
        explain("tiled", machine="toy", sizes=SIZES)  # type: ignore[arg-type]
    with pytest.raises(tw.ArgumentError):
        explain(staged(), machine="toy", sizes={"M": 3})
    assert explain(matmul, machine="toy", sizes=SIZES).steps[-1].added


# compare --------------------------------------------------------------------------------------------------------


def test_two_schedules_beside_each_other(golden) -> None:
    found = compare(staged(), staged(slots=2), machine="toy", sizes=SIZES, names=("one", "ring"))
    assert [(x.a, x.b, x.mark) for x in found.lines if not x.same] == [(None, "double_buffer A_C", ">")]
    assert [(row.name, row.ratio) for row in found.different if row.group == "footprint of spm"] == [
        ("peak", (2 * 320 + 320 + 256) / (320 + 320 + 256)), ("A_C", 2.0),
    ]  # fmt: skip
    assert all(row.name not in ("B_C",) for row in found.different)
    golden(str(found))
    golden(found.text(everything=True), "everything")


def test_what_only_one_side_has_is_no_zero() -> None:
    found = compare(matmul, staged(), machine="toy", sizes=SIZES)
    row = found.row("bytes in spm", "A_C read")
    assert row.a is None and row.b and row.ratio is None
    with pytest.raises(KeyError, match="bytes in spm, A_C read"):
        found.row("bytes in spm", "A_C eaten")


def test_two_machines_under_one_schedule() -> None:
    other = changed(load_machine("toy"), {"memory.spm.capacity": "32 KiB", "dma.dma.issue": 3})
    found = compare("toy", other, schedule=staged(), sizes=SIZES)
    assert found.names == ("toy (a)", "toy (b)")
    assert [(x.a, x.b) for x in found.lines if not x.same] == [
        ('memory.spm.capacity = "64 KiB"', 'memory.spm.capacity = "32 KiB"'), ("dma.dma.issue = 10", "dma.dma.issue = 3"),
    ]  # fmt: skip
    issued = found.row("time", "waits: issue")
    assert issued.a is not None and issued.ratio == pytest.approx(0.3)  # 3 of 10 cycles a descriptor
    assert {row.group for row in found.different} == {"time", "utilisation"}
    assert "the accounts do not differ" in str(compare("toy", "toy", schedule=staged(), sizes=SIZES))
    lines = compare("toy", "zen3", schedule=matmul, sizes=SIZES).lines
    assert {x.a for x in lines if x.b is None} >= {"memory.spm", "dma.dma"}
    assert any(x.b == "cache.L1" for x in lines if x.a is None)


def test_what_the_accounts_note_is_shown() -> None:
    found = compare("toy", "vta", schedule=matmul, sizes=SIZES)
    assert [note.partition(":")[0] for note in found.notes] == ["note (vta)"]
    assert "no rate of operations on f32" in found.notes[0]
    assert found.notes[0] in str(found) and found.notes[0] in found._repr_html_()
    same = compare(matmul, matmul, machine="vta", sizes=SIZES)
    assert same.notes == [found.notes[0].replace(" (vta)", "")]
    swept = sweep(matmul, machine="vta", sizes=SIZES, over={"memory.dram.read_bandwidth": [8, 16]})
    assert str(swept).count(same.notes[0]) == 1


def test_two_accounts_that_are_there() -> None:
    stalls = (Stall("load", "C.update", "A_C", 40.0),)
    a = Account("k", "toy", time=Time(100, 60, "decoupled", 50, stalls))
    b = Account("k", "toy", time=Time(60, 60, "decoupled", 50))
    found = compare(a, b)
    assert found.row("time", "cycles").ratio == 0.6
    assert found.row("time", "waits: load").b is None
    assert json.loads(found.to_json())["figures"][0] == {
        "group": "time", "name": "cycles", "unit": "cycles", "a": 100, "b": 60, "ratio": 0.6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ("toy", "zen3", {"sizes": SIZES}),
        ("toy", "zen3", {"schedule": matmul}),
        (matmul, "toy", {"sizes": SIZES}),
        (Account("k", "toy"), matmul, {"sizes": SIZES}),
    ],
)
def test_pairs_that_are_nothing_to_compare(a: object, b: object, options: dict[str, object]) -> None:
    with pytest.raises(tw.ArgumentError) as e:
        compare(a, b, **options)  # type: ignore[arg-type]
    assert e.value.code == "argument.compare"


# sweep ----------------------------------------------------------------------------------------------------------


def test_every_combination_and_what_does_not_fit() -> None:
    over = {"memory.spm.capacity": ["512 B", "1 KiB", "unbounded"], "dma.dma.bandwidth": [4, 8]}
    found = sweep(staged(), machine="toy", over=over, sizes=SIZES)
    assert [tuple(p.values.values()) for p in found.points] == [
        (512, 4), (512, 8), (1024, 4), (1024, 8), (None, 4), (None, 8),
    ]  # fmt: skip
    assert [bool(p.problem) for p in found.points] == [True, True, False, False, False, False]
    assert found.points[0].account is None and found.points[0].figures.peak == {"spm": 896}
    assert "2 of 6 do not run" in str(found) and "unbounded" in str(found)
    assert len(json.loads(found.to_json())["points"]) == 6
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [r["memory.spm.capacity"] for r in rows] == ["512", "512", "1024", "1024", "", ""]
    assert rows[0]["problem"] == "does not fit: 896 B of 512 B in spm" and rows[2]["problem"] == ""


def test_zipped() -> None:
    found = sweep(
        matmul, machine="toy", over={"compute.cores": [1, 2], "dma.dma.issue": [5, 7]}, sizes=SIZES, zipped=True
    )
    assert [tuple(p.values.values()) for p in found.points] == [(1, 5), (2, 7)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"over": {}}, "argument.sweep"),
        ({"over": {"compute.cores": []}}, "argument.sweep"),
        ({"over": {"compute.cores": [1, 2], "dma.dma.issue": [1]}, "zipped": True}, "argument.sweep"),
        ({"over": {"compute.cores": [1]}, "cost": "dma.dma.issue"}, "argument.sweep"),
        ({"over": {"compute.cores": range(1, 300), "dma.dma.issue": range(100)}}, "argument.sweep"),
        ({"over": {"compute.cores": [0]}}, "machine.bad-value"),
        ({"over": {"compute.core": [1]}}, "machine.unknown-figure"),
    ],
)
def test_sweeps_that_make_no_sense_run_nothing(options: dict, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "account_of", lambda *a: pytest.fail("it ran"))
    with pytest.raises(tw.TilewrightError) as e:
        sweep(staged(), machine="toy", sizes=SIZES, **options)
    assert e.value.code == code


def made(points: list[tuple[int, int, int | None]]) -> Sweep:
    """A sweep over two figures with given cycles (None: it does not run)."""
    return Sweep("k", "toy", {}, "dram", ("x", "y"), tuple(
        Point({"x": x, "y": y}, Measured(cycles=c), None, "" if c is not None else "does not fit") for x, y, c in points
    ))  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.none() | st.integers(0, 9)), max_size=12))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int, int | None]]) -> None:
    runs = [p for p in points if p[2] is not None]
    beaten = [p for p in runs if any(all(a <= b for a, b in zip(q, p, strict=True)) and q != p for q in runs)]  # type: ignore[operator]
    front = [(*p.values.values(), p.figures.cycles) for p in made(points).front]
    assert front == [p for p in runs if p not in beaten]
    weighed = dataclasses.replace(made(points), cost="x").front
    best = {(p.values["x"], p.figures.cycles) for p in weighed}
    assert best == {(x, c) for x, _, c in runs if not any((a < x and b <= c) or (a <= x and b < c) for a, _, b in runs)}  # type: ignore[operator]


def test_words_are_equal_or_not() -> None:
    points = tuple(
        Point({"compute.sync": w, "compute.cores": n}, Measured(cycles=c), None)
        for w, n, c in (("barrier", 1, 9), ("decoupled", 1, 8), ("decoupled", 2, 8))
    )
    found = Sweep("k", "toy", {}, "dram", ("compute.sync", "compute.cores"), points)
    assert found.front == points[:2]


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = made([(1, 1, 9), (2, 1, 5), (4, 1, None), (8, 2, 3)])
    found.plot(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert all(word in text for word in ("Pareto front", "does not run", "cycles", "y 2"))
    found.plot(tmp_path / "a.png")
    with pytest.raises(tw.TilewrightError) as e:
        found.plot(tmp_path / "a.bmp")
    assert e.value.code == "account.plot"


def test_notebooks_show_tables_with_nothing_unescaped() -> None:
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 4)
    for found in (
        explain(s, machine="toy", sizes=SIZES), compare(s, staged(), machine="toy", sizes=SIZES, names=("<a>", "b&c")),
        sweep(s, machine="toy", over={"compute.cores": [1]}, sizes=SIZES),
    ):  # fmt: skip
        text = found._repr_html_()
        assert "<table" in text and "<a>" not in text and "b&c" not in text and "-> io" not in text


# The command line -------------------------------------------------------------------------------------------------

PROGRAM = """\
import tilewright as tw

M, N, K = tw.sizes("M N K")


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def staged(s, tile=8):
    s["C.update"].split("k", "ko", "ki", tile).reorder("ko", "i", "j", "ki")
    s.cache_read("A", at="C.update.ko", memory="spm")


def large():
    s = matmul.schedule(machine="toy")
    s.cache_read("A", memory="spm")
    return s

def elsewhere():
    return matmul.schedule(machine="zen3")
"""
SMALL = ("--size", "M=9,N=11,K=7")


@pytest.fixture
def views(run: Run, tmp_path: Path) -> Run:
    (tmp_path / "views.py").write_text(PROGRAM, encoding="utf-8")
    return lambda command, *options: run(command, str(tmp_path / "views.py"), *options)


def test_explain_on_the_command_line(views: Run) -> None:
    code, out, _ = views("explain", "--schedule", "staged", "--machine", "toy", *SMALL)
    assert code == 0 and "cache_read A at C.update.ko in spm" in out and "dram bytes" in out
    code, out, _ = views("explain", "--schedule", "large", *SMALL, "--json")  # bound to a machine
    assert code == 0 and json.loads(out)["machine"] == "toy"
    code, out, _ = views("explain", "--schedule", "large", "--size", "M=200,N=1,K=200")
    assert code == 1 and "does not fit" in out


def test_show_on_a_machine_is_the_annotated_nest(views: Run) -> None:
    code, out, _ = views("show", "--schedule", "staged", "--machine", "toy", *SMALL)
    assert code == 0 and "cycles (decoupled)" in out and "for ko in 0..(K + 7)//8" in out and "\x1b" not in out
    assert "kernel matmul" not in out and "waits for" in out
    code, out, _ = views("show", "--schedule", "staged", "--machine", "toy", *SMALL, "--json")
    lines = json.loads(out)["account"]["time"]["lines"]
    assert code == 0 and [x["trips"] for x in lines if x["name"] == "C.update.ko"] == [1]


def test_compare_on_the_command_line(views: Run) -> None:
    code, out, _ = views("compare", "--schedule", "staged", "--schedule", "large", "--machine", "toy", *SMALL)
    assert code == 0 and "staged" in out and "large" in out and "bytes in spm" in out
    code, out, _ = views("compare", "--schedule", "staged", "--machine", "toy", *SMALL, "--all")
    assert code == 0 and "default" in out and "written" in out
    # Where no machine is said, schedules run on those that they are bound to.
    code, out, _ = views("compare", "--schedule", "staged", "--schedule", "large", *SMALL)
    assert code == 0 and "matmul on toy, " in out
    code, out, _ = views("compare", "--schedule", "large", "--schedule", "elsewhere", *SMALL)
    assert code == 0 and "matmul on toy and zen3, " in out
    code, out, _ = views("compare", "--machine", "toy", "--machine", "zen3", *SMALL, "--json")
    assert code == 0 and json.loads(out)["names"] == ["toy", "zen3"]


def test_sweep_on_the_command_line(views: Run, tmp_path: Path) -> None:
    over = ("--over", "memory.spm.capacity=128B,1KiB", "--over", "dma.dma.bandwidth=2.5,8")
    code, out, _ = views("sweep", "--schedule", "staged", "--machine", "toy", *SMALL, *over)
    assert code == 0 and "2 of 4 do not run" in out
    code, out, _ = views("sweep", "--schedule", "staged", "--machine", "toy", *SMALL, *over, "--zip", "--csv")
    assert code == 0 and len(out.splitlines()) == 3
    code, out, _ = views("sweep", "--machine", "toy", *SMALL, "--over", "compute.sync=barrier,decoupled", "--json")
    assert code == 0 and [p["compute.sync"] for p in json.loads(out)["points"]] == ["barrier", "decoupled"]
    pytest.importorskip("matplotlib")
    assert views("sweep", "--machine", "toy", *SMALL, *over, "--plot", str(tmp_path / "p.svg"))[0] == 0
    assert (tmp_path / "p.svg").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("show", "--machine", "toy"), "needs the sizes"),
        (("show", "--machine", "toi", *SMALL), "did you mean toy"),
        (("explain", *SMALL), "on which machine?"),
        (("compare", "--schedule", "staged", *SMALL), "on which machine?"),
        (("sweep", *SMALL, "--over", "compute.cores=1"), "on which machine?"),
        (("explain", "--machine", "toy"), "needs the sizes"),
        (("explain", "--machine", "toi", *SMALL), "did you mean toy"),
        (("compare", *SMALL), "there is nothing to compare"),
        (("compare", "--machine", "toy", *SMALL), "there is nothing to compare"),
        (("compare", *("--machine", "toy", "--schedule", "staged") * 2, *SMALL), "2 schedules and 2 machines"),
        (("compare", *("--schedule", "staged") * 3, *SMALL), "3 schedules"),
        (("compare", "--schedule", "staged", "--schedule", "none", "--machine", "toy", *SMALL), "no schedule function"),
        (("sweep", "--machine", "toy", *SMALL), "--over"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.cores"), "FIGURE=VALUE"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.cores=1,"), "FIGURE=VALUE"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.cores=zero"), "legal"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.sores=1"), "did you mean compute.cores"),
        (("sweep", "--machine", "toy", *SMALL, *("--over", "compute.cores=1") * 2), "given twice"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.cores=1", "--cost", "x"), "the cost x"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.cores=1", "--plot", "/none/x.png"), "can't write"),
        (("sweep", "--machine", "toy", *SMALL, "--over", "compute.cores=1", "--plot", "x.bmp"), "no name of a picture"),
    ],
)
def test_misuse(views: Run, command: tuple[str, ...], said: str) -> None:
    code, out, err = views(*command)
    assert code == 2 and said in err and "Traceback" not in err and not out


def test_functions_are_there_under_their_names() -> None:
    assert (tw.explain, tw.compare, tw.sweep) == (explain, compare, sweep)
    with pytest.raises(AttributeError):
        tw.explian  # type: ignore[attr-defined]  # noqa: B018
    assert commands.explain(matmul, machine="toy", sizes=SIZES).ok
    with pytest.raises(CapacityError):
        compare(staged(128), staged(128), machine="toy", sizes={"M": 300, "N": 300, "K": 300})
    with pytest.raises(MachineError):
        sweep(matmul, machine="toy", over={"x": [1]}, sizes=SIZES)
