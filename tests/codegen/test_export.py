"""Exported nests as JSON: complete (a reader runs them), what the schema says, and refused where they can't be made."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.codegen.export_support import call_of
from tests.codegen.export_support import reference as reference_of
from tests.codegen.test_export_dma import ring
from tests.fuzz.strategies import trials
from tests.kernels import matmul, same
from tests.schedule.algorithms import ALL, arguments
from tests.schedule.random_schedules import grow
from tests.schedule.test_random import BROKEN
from tilewright.codegen.accounts.footprint import footprints_at
from tilewright.codegen.accounts.prepared import Prepared
from tilewright.codegen.compile import completed
from tilewright.codegen.export import execute, read
from tilewright.codegen.export.export import any_machine, made_document
from tilewright.codegen.export.printing import dumps
from tilewright.codegen.export.touched import statements
from tilewright.codegen.externs import symbol
from tilewright.hw import SimulationError, load_machine, machine_text, parse_machine
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError
from tilewright.lang.extern import externs
from tilewright.lang.types import DTYPES
from tilewright.schedule.schedule import Schedule

SCHEMA = json.loads(files("tilewright.codegen.export").joinpath("nest.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
M, N = tw.sizes("M N")


def double_buffered() -> Schedule:
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", 16, 16).split("k", "ko", "ki", 32)
    C.reorder("io", "jo", "ko", "ii", "ki", "ji")
    s.cache_read("A", at="C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm")
    s.cache_write("C", at="C.update.jo", memory="spm")
    s["A_C"].double_buffer(2)
    s["B_C"].double_buffer(2)
    return s


# Completeness ---------------------------------------------------------------------------------------------------


def agrees(s: Schedule, values: dict, fixed: bool, mode: str = "strict", valid: bool = False) -> None:
    """What the reader makes of the text is what the reference computes; with `valid` it is as the schema says, too (which
    takes long)."""
    p = s.pipeline
    full = completed(p, s, mode)
    call = call_of(p, full.state, values)
    expected = reference_of(p, values)
    made = made_document(p, s, call.sizes if fixed else None, None, mode)
    text = dumps(made)
    assert json.loads(text) == made
    if valid:
        VALIDATOR.validate(made)
    functions = {symbol(e): e.function for e in externs(p.roots())}
    if expected is None or execute(read(text), call.arrays, call.sizes, call.scalars, functions) is not None:
        return  # the schedule asks more of the sizes than they give
    for a, b in zip(expected, call.results(), strict=True):
        assert same(a, b), f"{a}\nis not\n{b}\nwith\n{s}"


@given(st.integers(0, 2**32), st.sampled_from(sorted(ALL)), st.integers(1, 10), st.booleans())
@settings(max_examples=30)
def test_random_schedules(seed: int, name: str, steps: int, fixed: bool) -> None:
    r = random.Random(seed)
    p = ALL[name]()
    s, _ = grow(p, r.randrange, steps)
    sizes = {"M": 3 + r.randrange(5), "N": 3 + r.randrange(6), "K": r.randrange(5)}
    values = dict(
        zip((a.name for a in p.arrays), arguments(p, {k: sizes[k] for k in p.sizes}, seed % 1000), strict=True)
    )
    try:
        agrees(s, values, fixed, valid=seed % 32 == 0)
    except (ScheduleError, BoundsError) as e:
        assert e.code in BROKEN or e.code.startswith("bounds."), e


@given(trials(), st.data(), st.booleans())
@settings(max_examples=15)
def test_trials_of_all_types(t, data, fixed: bool) -> None:
    """Whatever the fuzzer makes of types, tables, externs, scalars and directives."""
    from tests.fuzz.strategies import chosen_by
    from tests.fuzz.trials import data_for, extents_for

    if t.refusal is not None or t.schedule.state.reassociations:
        return
    try:
        arrays, _ = data_for(t, {k: min(v, 6) for k, v in extents_for(t, chosen_by(data)).items()})
        agrees(t.schedule, arrays, fixed)
    except (ScheduleError, BoundsError, ArgumentError, CompileError, SimulationError) as e:
        assert e.code.startswith(("bounds.", "argument.range", "export.stage", "dma.", "schedule.")), e


# What is in it --------------------------------------------------------------------------------------------------


def test_copies_are_descriptors() -> None:
    d = matmul.export(double_buffered(), sizes={"M": 64, "N": 48, "K": 64}).document
    a, b, c = (s for s in statements(d["body"]) if s["do"] == "copy")

    def number(e: dict) -> int:
        return e["const"]

    assert [(s["name"], s["asynchronous"], s["number"]) for s in (a, b, c)] == [
        ("A_C", True, 0), ("B_C", True, 1), ("C_tile.store", False, 2),
    ]  # fmt: skip
    assert list(map(number, a["extents"])) == [16, 32] and list(map(number, b["extents"])) == [32, 16]
    assert list(map(number, a["source"]["strides"])) == [64, 1] and list(map(number, a["target"]["strides"])) == [32, 1]
    assert list(map(number, b["source"]["strides"])) == [48, 1] and c["source"]["element"] == 4
    assert a["target"]["slot"] == {"var": "C.update.ko"} and a["source"]["slot"] == {"const": 0, "type": "index"}


def test_buffers_lie_at_offsets_that_no_other_living_one_has() -> None:
    d = matmul.export(double_buffered(), sizes={"M": 64, "N": 48, "K": 64}).document
    (spm,) = d["memories"]
    assert spm == {"name": "spm", "bytes": 1024 + 2 * (2048 + 2048), "alignment": 64}
    ends = sorted((b["offset"], b["offset"] + b["bytes"]) for b in d["buffers"])
    assert all(one[1] <= other[0] for one, other in pairwise(ends)) and ends[-1][1] == spm["bytes"]
    assert {b["name"]: b["slots"] for b in d["buffers"]} == {"C_tile": 1, "A_C": 2, "B_C": 2}


@given(st.integers(0, 2**32), st.sampled_from(sorted(ALL)), st.booleans())
@settings(max_examples=30)
def test_buffers_lie_where_the_account_has_them(seed: int, name: str, fixed: bool) -> None:
    """On a machine with several cores and hardly aligned memories; at any sizes those whose size is a number."""
    r = random.Random(seed)
    p = ALL[name]()
    s, _ = grow(p, r.randrange, r.randrange(6))
    for k in range(1 + r.randrange(3)):
        ring(s, r.randrange, f"c{k}")
    sizes = {n: 3 + r.randrange(20) for n in p.sizes}
    try:
        full = completed(p, s, "strict")
        on = any_machine(full.state, "strict")
        narrow = tuple(replace(m, alignment=2) for m in on.memories)
        on = replace(on, memories=narrow, compute=replace(on.compute, cores=3))
        d = made_document(p, s, sizes if fixed else None, on, "strict")
        points = Prepared(p, full.state, on, "strict").points(sizes)
    except (ScheduleError, BoundsError, SimulationError) as e:
        assert e.code in BROKEN or e.code.startswith(("bounds.", "dma.", "schedule.")), e
        return
    points = [(where, live) for where, live in points if live[-1].memory != "reg"]
    placed = {b["name"]: b for b in d["buffers"] if b["memory"] != "reg"}
    rooms = {m["name"]: m["bytes"] for m in d["memories"]}
    for _, live in points:
        b = placed.get(live[-1].name, {"offset": None})
        if fixed and "name" in b:
            assert (b["offset"], b["bytes"]) == (live[-1].offset, live[-1].size * live[-1].slots)
        if b["offset"] is not None:
            assert b["offset"] % DTYPES[b["type"]].bytes == 0 and b["offset"] + b["bytes"] <= rooms[b["memory"]]
            assert all(x.memory != b["memory"] or apart(b, placed[x.name]) for x in live[:-1] if x.name in placed)
    if fixed and all(live[-1].name in placed for _, live in points):  # no branch that the sizes decide
        assert rooms == {f.memory: f.arena for f in footprints_at(points, on) if f.memory != "reg"}


def apart(one: dict, other: dict) -> bool:
    """Whether two buffers share no byte, as far as both are placed."""
    if one["offset"] is None or other["offset"] is None:
        return True
    first, second = sorted((one, other), key=lambda b: b["offset"])
    return first["offset"] + first["bytes"] <= second["offset"]


def test_what_only_the_call_bounds_is_not_placed() -> None:
    s = matmul.schedule()
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 8, 8).reorder("io", "jo", "ii", "k", "ji")
    s.cache_read("A", at="C.update.io", name="rows", memory="spm")
    s.cache_write("C", at="C.update.jo", memory="spm")
    placed = {b["name"]: b["offset"] for b in matmul.export(s).document["buffers"]}
    assert placed["rows"] is None and placed["C_tile"] == 0


def test_what_a_scalar_bounds_is_not_placed() -> None:
    """On a machine with sizes, too, where the rest has to fit."""

    @tw.kernel
    def first(A: tw.f32[N], n: tw.i64):
        i, r = tw.vars("i"), tw.rdom(r=n).r
        f = tw.func("f")
        f[i] = 0.0
        f[i] += A[r]
        return f[:N]

    s = first.schedule()
    s["f.init"].unscheduled()
    s["f.update"].unscheduled()
    s.cache_read("A", at="f.update.i", memory="spm")
    d = first.export(s, machine="toy", sizes={"N": 8}, mode="strict").document
    assert d["memories"] == [] and [(b["bytes"], b["offset"]) for b in d["buffers"]] == [(None, None)]


def test_buffers_that_do_not_live_at_once_share_their_place() -> None:
    i = tw.vars("i")
    x = [tw.func(f"x{k}") for k in range(5)]

    @tw.kernel
    def chain(A: tw.f32[N]):
        x[0][i] = A[i] + 1.0
        for a, b in pairwise(x):
            b[i] = a[i] * 2.0
        return x[-1][:N]

    s = chain.schedule()
    for f in x[:-1]:
        s[f.name].compute_root()
    d = chain.export(s, sizes={"N": 100}).document
    assert sorted(b["offset"] for b in d["buffers"])[-1] < 4 * 512
    agrees(s, {"A": np.arange(100, dtype=np.float32)}, True)


def test_sizes_decide_what_they_can() -> None:
    d = matmul.export(double_buffered(), sizes={"M": 64, "N": 48, "K": 64}).document
    text = json.dumps(d["body"])
    assert '"size"' not in text and '"min"' not in text and '"if"' not in text
    assert [s["value"] for s in d["sizes"]] == [64, 64, 48] and d["requirements"] == []
    open_d = matmul.export(double_buffered()).document
    assert '"min"' in json.dumps(open_d["body"]) and all(s["value"] is None for s in open_d["sizes"])


def test_shared_expressions_are_written_once() -> None:
    i = tw.vars("i")

    @tw.kernel
    def doubling(A: tw.f64[N]):
        y = A[i]
        for _ in range(200):
            y = y + y
        f = tw.func("f")
        f[i] = y
        return f[:N]

    made = doubling.export()
    assert len(str(made)) < 100_000
    agrees(doubling.schedule(), {"A": np.ones(3)}, False)
    (a,) = (np.ones(3),)
    out = np.empty(3)
    assert execute(made.document, [a, out], {"N": 3}) is None
    assert (out == 2.0**200).all()


def test_numbers_that_json_has_no_form_for() -> None:
    i = tw.vars("i")

    @tw.kernel
    def odd(A: tw.i64[N], B: tw.f64[N]):
        f, g = tw.func("f"), tw.func("g")
        f[i] = tw.maximum(A[i], -(2**63)) ^ (2**63 - 1)
        g[i] = tw.select(B[i] < 0.0, float("inf"), tw.select(B[i] > 0.0, -0.0, float("nan")))
        return f[:N], g[:N]

    values = {"A": np.array([-(2**63), 2**62 + 1, 5]), "B": np.array([-1.0, 1.0, np.nan])}
    agrees(odd.schedule(), values, False)
    assert '"9223372036854775807"' in str(odd.export())


def test_tables_and_layouts() -> None:
    i, j = tw.vars("i j")
    table = np.linspace(0, 1, 5).astype(np.float16)

    @tw.kernel
    def scaled(A: tw.f32[M, 5]):
        t = tw.const(table, name="weights")
        f = tw.func("f")
        f[i, j] = A[i, j] * t[j]
        return f[:M, :5]

    s = scaled.schedule()
    s.layout("A", "a b -> b a", given=True)
    d = scaled.export(s).document
    a, t, _ = d["arguments"]
    assert (a["layout"], a["shape"]) == ("a b -> b a", [{"const": 5, "type": "index"}, {"size": "M"}])
    assert t["role"] == "const" and t["values"] == [float(x) for x in table]
    agrees(s, {"A": np.arange(15, dtype=np.float32).reshape(3, 5)}, False)


# Refusals -------------------------------------------------------------------------------------------------------


def test_other_texts_are_no_documents() -> None:
    for text in ("", "[]", "{}", '{"format": "tilewright nest", "version": 2}'):
        with pytest.raises(ArgumentError) as e:
            read(text)
        assert e.value.code == "argument.export"


def test_the_schema_refuses_what_is_no_document() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    d = matmul.export(double_buffered()).document
    for damage in ({"version": 2}, {"body": [{"do": "jump"}]}, {"more": 1}, {"sizes": [{"name": "M"}]}):
        assert not VALIDATOR.is_valid({**d, **damage})


def test_a_stage_in_python_is_refused() -> None:
    i = tw.vars("i")

    def copy(out, x):
        out[...] = x

    @tw.kernel
    def copied(A: tw.f32[N]):
        f = tw.func("f", tw.f32)
        f[i] = tw.extern_stage(copy)(A.box[i])
        return f[:N]

    for to in ("json", "c"):
        with pytest.raises(CompileError) as e:
            copied.export(to=to)
        assert e.value.code == "export.stage" and "copy" in str(e.value)


def test_a_huge_table_is_refused() -> None:
    i = tw.vars("i")

    @tw.kernel
    def looked_up(A: tw.f32[N]):
        t = tw.const(np.zeros(1 << 21, np.float32), name="huge")
        f = tw.func("f")
        f[i] = A[i] + t[i]
        return f[:N]

    with pytest.raises(CompileError) as e:
        looked_up.export()
    assert e.value.code == "export.table" and "huge" in str(e.value)


def test_forms_and_sizes_are_checked() -> None:
    with pytest.raises(ArgumentError) as e:
        matmul.export(to="fortran")
    assert e.value.code == "argument.export"
    with pytest.raises(ArgumentError):
        matmul.export(sizes={"M": 3})
    with pytest.raises(ArgumentError):
        matmul.export(sizes={"M": 3, "N": 3, "K": 3, "L": 3})


def test_what_does_not_fit_the_machine_is_refused() -> None:
    s = matmul.schedule()
    s.cache_read("A", at="C.update.i", memory="spm")
    s.cache_read("B", at="C.update.i", memory="spm")
    sizes = {"M": 256, "N": 256, "K": 256}
    assert matmul.export(s, sizes=sizes).document["memories"][0]["bytes"] > 2**16
    with pytest.raises(tw.TilewrightError) as e:
        matmul.export(s, sizes=sizes, machine="toy")
    assert e.value.code == "capacity.exceeded"


def test_spatial_loops_longer_than_the_array_are_refused() -> None:
    s = matmul.schedule()
    s["C.update"].spatial("j", "x")
    assert matmul.export(s, machine="toy", sizes={"M": 3, "N": 4, "K": 3})
    with pytest.raises(ScheduleError) as e:
        matmul.export(s, machine="toy", sizes={"M": 3, "N": 5, "K": 3})
    assert e.value.code == "schedule.array-extent"


def test_a_machine_decides_who_copies() -> None:
    d = matmul.export(double_buffered(), machine="toy").document
    VALIDATOR.validate(d)
    assert d["machine"] == "toy" and {s["engine"] for s in statements(d["body"]) if s["do"] == "copy"} == {"dma"}
    assert d["memories"][0]["alignment"] == 32
    alone = machine_text(load_machine("toy"))
    alone = parse_machine(alone[: alone.index("[[dma]]")], "toy without an engine")
    with pytest.raises(SimulationError):
        matmul.export(double_buffered(), machine=alone)
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 8)
    s.cache_read("A", at="C.update.io", memory="spm")
    by_hand = [x for x in statements(matmul.export(s, machine=alone).document["body"]) if x.get("kind") == "hand"]
    assert by_hand and "no engine joins" in by_hand[0]["reason"]
    VALIDATOR.validate(matmul.export(s, machine=alone).document)
