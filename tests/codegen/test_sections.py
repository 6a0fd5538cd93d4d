"""Programs for a machine in sections: copies by engines with their boxes, what lies between as one computation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.codegen.machine_runs import roomy
from tests.codegen.test_simulate import matmul, staged
from tilewright.codegen import loops as L
from tilewright.codegen.accounts.prepared import prepare
from tilewright.codegen.interface import CONTIGUOUS, argument_roles
from tilewright.codegen.lower import Request, lower
from tilewright.hw import Machine, SimulationError, load_machine
from tilewright.lang.values import index_value

M, N = tw.sizes("M N")


def sections_of(kernel, schedule, machine: Machine | str = "toy") -> list[L.Section]:
    body = prepare(kernel.pipeline(), schedule, machine, "contract").program.body
    return [s for s in L.walk(body) if isinstance(s, L.Section)]


def ringed():
    s = staged()
    s["A_C"].double_buffer()
    s["B_C"].double_buffer(3)
    return s


def test_sections_of_a_staged_product() -> None:
    found = sections_of(matmul, ringed())
    assert [(s.number, s.kind, s.name) for s in found] == [
        (0, "compute", "C.init"), (1, "copy", "A_C"), (2, "copy", "B_C"), (3, "compute", "C.update"),
        (4, "copy", "C_tile.store"),
    ]  # fmt: skip
    assert [s.engine for s in found if s.kind == "copy"] == ["dma"] * 3
    assert [s.transfer.asynchronous for s in found if s.transfer is not None] == [True, True, False]
    assert {b.name: b.slots for b, _ in found[3].turns} == {"A_C": 2, "B_C": 3}
    assert not found[0].turns


def test_a_transfer_is_the_box_that_its_loops_copy() -> None:
    """In a tail: what is left of it, at its place, in the slot of its iteration."""
    (a,) = (s for s in sections_of(matmul, ringed()) if s.name == "A_C")
    t = a.transfer
    assert t is not None
    outer = {v.attr: v for n in t.nodes for v in _variables(n)}
    env = {"M": 20, "N": 5, "K": 70, outer["C.update.io"]: 1, outer["C.update.ko"]: 2, "C.update.jo": 0}
    values = [index_value(n, env) for n in t.source.extents]
    assert values == [4, 6]  # rows 16..20, columns 64..70
    assert index_value(t.source.first, env) == 16 * 70 + 64
    assert [index_value(n, env) for n in t.source.steps] == [70, 1]
    assert index_value(t.target_slot, env) == 0 and index_value(t.target.first, env) == 0
    assert [index_value(n, env) for n in t.target.steps] == [32, 1]


def _variables(n):
    from tilewright.lang import ir

    return ir.leaves((n,), "var")


def test_every_store_is_in_one_section() -> None:
    def walk(s: L.Stmt, around: int) -> None:
        if isinstance(s, L.Store):
            assert around == 1
        inner = around + (isinstance(s, L.Section) and s.kind in (L.COPY, L.COMPUTE))
        for t in L.children(s):
            walk(t, inner)

    for schedule in (None, staged(), ringed()):
        walk(prepare(matmul.pipeline(), schedule, "toy", "contract").program.body, 0)


def test_native_programs_have_none() -> None:
    p = matmul.pipeline()
    classes = (CONTIGUOUS,) * len(argument_roles(p))
    program = lower(Request(ringed().state, "contract", "symbol", classes)).program
    assert not any(isinstance(s, (L.Section, L.Turn)) for s in L.walk(program.body))


@tw.kernel
def shifted(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    row, out = tw.func("row"), tw.func("out")
    row[i, j] = A[i, j] * 2.0
    out[i, j] = row[i, j] + row[i + 1, j]
    return out[: M - 1, :N]


def test_a_copy_into_a_folded_buffer_is_cut_where_it_wraps() -> None:
    s = shifted.schedule()
    s["row"].compute_root()
    s.cache_read("row", at="out.i", memory="spm", name="lines")
    s["lines"].store_root().fold_storage("i", 2)
    found = [x for x in sections_of(shifted, s) if x.kind == "copy"]
    assert {x.name for x in found} == {"lines"} and all(x.transfer is not None for x in found)
    x = np.arange(7 * 5, dtype=np.float32).reshape(7, 5)
    got = shifted.simulate(s, machine="toy", sizes={"M": 7, "N": 5}, inputs={"A": x})
    assert np.array_equal(got.result, 2 * x[:-1] + 2 * x[1:])
    assert got.account.of("spm", "lines").fills == 7 * 5  # each row once, for the window slides


@tw.kernel
def widened(A: tw.i16[M]):
    i = tw.vars("i")
    half, out = tw.func("half"), tw.func("out")
    half[i] = tw.cast(tw.f32, A[i])
    out[i] = half[i] + 1.0
    return out[:M]


def test_an_engine_that_converts_does_what_cores_do_else() -> None:
    s = widened.schedule()
    s["half"].compute_root().store_in("spm")
    toy = load_machine("toy")
    able = replace(toy, dmas=tuple(replace(d, convert=True) for d in toy.dmas))
    assert [x.kind for x in sections_of(widened, s)] == ["compute", "hand"]
    assert [x.kind for x in sections_of(widened, s, able)] == ["copy", "compute"]
    runs = [widened.simulate(s, machine=m, sizes={"M": 37}) for m in (toy, able)]
    assert runs[0].result.tobytes() == runs[1].result.tobytes() == widened.compile(s)(_inputs(37)).tobytes()
    assert [r.account.of("spm", "half").fills for r in runs] == [37, 37]
    assert "does not convert" in runs[0].account.notes[0]


def _inputs(n: int) -> np.ndarray:
    from tilewright.lang.samples import random_inputs

    return random_inputs(widened.pipeline(), {"M": n}, seed=0)["A"]


def test_a_synchronous_copy_without_an_engine_is_by_hand_and_the_account_says_why() -> None:
    lonely = replace(roomy(), dmas=())
    got = matmul.simulate(staged(), machine=lonely, sizes={"M": 20, "N": 20, "K": 40}).account
    (a,) = (c for c in got.copies if c.name == "A_C")
    assert not a.engine and a.reason == "no engine joins dram and spm"
    assert a.bytes == 20 * 40 * 4 * 2  # every row block of A, once a column block of C
    assert any("A_C is copied by the cores" in n for n in got.notes)
    assert got.of("spm", "A_C").fills == 20 * 40 * 2


def test_an_asynchronous_copy_needs_an_engine() -> None:
    with pytest.raises(SimulationError) as e:
        matmul.simulate(ringed(), machine=replace(roomy(), dmas=()), sizes={"M": 4, "N": 4, "K": 4})
    assert e.value.code == "dma.none" and "A_C" in str(e.value)
    with pytest.raises(SimulationError) as e:
        s = shifted.schedule()
        s["row"].compute_root()
        s.cache_read("row", at="out.i", memory="spm", layout="a b -> a b//4 b%4")
        s["row_out"].double_buffer()
        shifted.account(s, machine="toy", sizes={"M": 9, "N": 8})
    assert e.value.code == "dma.by-hand" and "layout" in str(e.value)
