"""Layouts of inputs and outputs: converted at the root, or given by the caller; inputs that are packed once."""

from __future__ import annotations

import json
import threading

import ml_dtypes
import numpy as np
import pytest

from tests.schedule.algorithms import M, N, blur, float_matmul, made, matmul
from tests.schedule.helpers import good, refused
from tilewright.codegen.accounts.simulate import simulate
from tilewright.codegen.compile import compile_schedule
from tilewright.codegen.physical import pack, unpack
from tilewright.codegen.prepack import Packed
from tilewright.lang.errors import ArgumentError, ScheduleError
from tilewright.lang.func import func
from tilewright.lang.symbols import vars
from tilewright.lang.types import bf16, f32, i32
from tilewright.schedule.layout import parse_index_map
from tilewright.schedule.schedule import Schedule

PANELS = "k j -> j//4 k j%4"


def operands(m=5, n=7, k=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-9, 9, (m, k)).astype(np.int32), rng.integers(-9, 9, (k, n)).astype(np.int32)


def panels(given: bool = False) -> Schedule:
    s = Schedule(matmul())
    s["C.update"].split("j", "jo", "ji", 4).reorder("jo", "i", "k", "ji").vectorize("ji")
    s.layout("B", PANELS, given=given)
    return s


@pytest.mark.parametrize("text", [PANELS, "k j -> j k", "k j -> k//2 j//4 k%2 j%4", "k j -> k j"])
@pytest.mark.parametrize("shape", [(5, 7), (8, 8), (1, 1), (0, 3), (3, 0)])
def test_packing_and_back(text, shape):
    layout = parse_index_map(text)
    a = np.arange(1, shape[0] * shape[1] + 1).reshape(shape)
    p = pack(a, layout)
    assert np.array_equal(unpack(p, layout, shape), a)
    assert sorted(p[p != 0]) == sorted(a.reshape(-1))


# Converted ------------------------------------------------------------------------------------------------------


def test_conversion_of_an_input(golden):
    s = panels()
    s["B_packed"].vectorize("j", 4)
    golden(f"{s}\n\n{good(s)}")
    a, b = operands(9, 21, 6)
    assert np.array_equal(compile_schedule(s.pipeline, s, "strict")(a, b), a @ b)
    traffic = {t.tensor: t for t in simulate(s.pipeline, s, "generic-avx2", {"M": 8, "N": 8, "K": 4}).account.traffic}
    assert traffic["B"].reads == 32 and traffic["B_packed"].writes == 32


def test_conversion_of_an_output():
    s = Schedule(matmul())
    s.layout("C", "i j -> j i")
    assert "buffer C: i32[M, N] in main, layout i j -> j i" in good(s)


# Given ----------------------------------------------------------------------------------------------------------


def test_given_input(golden):
    s = panels(given=True)
    golden(f"{s}\n\n{good(s)}")
    fast = compile_schedule(s.pipeline, s, "strict")
    for sizes in [(5, 7, 4), (9, 16, 3), (1, 1, 1), (4, 0, 2)]:
        a, b = operands(*sizes)
        got = fast(a, pack(b, parse_index_map(PANELS)), sizes={"N": sizes[1]})
        assert np.array_equal(got, a @ b)
    strided = np.zeros((2, 4, 8), np.int32)[:, :, ::2]
    a, b = operands(5, 7, 4)
    strided[...] = pack(b, parse_index_map(PANELS))
    assert np.array_equal(fast(a, strided, sizes={"N": 7}), a @ b)
    account = simulate(s.pipeline, s, "generic-avx2", {"M": 5, "N": 7, "K": 4})
    assert account.result.shape == (5, 7)
    assert "B_packed" not in {t.tensor for t in account.account.traffic}


def test_given_output():
    s = Schedule(blur())
    s.layout("blur_y", "y x -> x//4 y x%4", given=True)
    s["blur_x"].compute_at("blur_y.y")
    good(s)
    fast = compile_schedule(s.pipeline, s, "strict")
    a = operands(9, 3, 13)[0]
    want = compile_schedule(s.pipeline, None, "strict")(a)
    layout = parse_index_map("y x -> x//4 y x%4")
    got = fast(a)
    assert got.shape == (3, 7, 4)
    assert np.array_equal(unpack(got, layout, want.shape), want)
    out = np.full((3, 7, 4), 99, np.int32)
    assert fast(a, out=out) is out
    assert np.array_equal(unpack(out, layout, want.shape), want)
    assert out[2, 0, 3] == 99  # no element: neither read nor written
    got = simulate(s.pipeline, s, "generic-avx2", {"M": 9, "N": 13}, inputs={"A": a}).result
    assert np.array_equal(got, want)


def test_given_arrays_are_the_shape_that_was_asked_for():
    fast = compile_schedule(matmul(), panels(given=True), "strict")
    a, b = operands(5, 7, 4)
    with pytest.raises(ArgumentError) as caught:
        fast(a, b)
    assert "B must have 3 axes" in str(caught.value)
    assert "B is [K, N] and is given as k j -> j//4 k j%4" in str(caught.value)
    with pytest.raises(ArgumentError, match="B is \\[K, N\\]"):
        fast(a, np.zeros((1, 4, 4), np.int32), sizes={"N": 7})
    t = Schedule(blur())
    t.layout("blur_y", "y x -> x//4 y x%4", given=True)
    with pytest.raises(ArgumentError, match="blur_y is"):
        compile_schedule(t.pipeline, t, "strict")(a, out=np.zeros((3, 2), np.int32))


def test_refused():
    s = Schedule(blur())
    t = Schedule(blur())
    t.layout("A", "y x -> x y")
    refused(t, "layout-given", lambda: t.layout("A", "y x -> y x"), "is converted to another layout already")
    refused(s, "unknown-func", lambda: s.layout("Q", "y x -> x y", given=True))
    refused(s, "layout", lambda: s.layout("A", "y -> y", given=True), "1 axes and A has 2")
    refused(s, "layout", lambda: s.layout("A", "y x -> x//2 y", given=True), "two values of x")
    s["blur_x"].compute_root()
    refused(s, "layout-given", lambda: s.layout("blur_x", "y x -> x y", given=True), "is no argument")
    s.layout("A", "y x -> x y", given=True)
    refused(s, "layout-given", lambda: s.layout("A", "y x -> x y", given=True), "already")
    s.layout("blur_y", "y x -> x y", given=True)
    refused(s, "layout-given", lambda: s.layout("blur_y", "y x -> x y"), "is given in the layout")
    good(s)


def test_both_together_and_aliases():
    def twice(A: i32[M, N]):
        i, j = vars("i j")
        C = func("C")
        C[i, j] = A[i, j] * 2
        return C[:M, :N]

    p = made(twice)
    s = Schedule(p)
    s.layout("A", "i j -> j i", given=True).layout("C", "a b -> b a", given=True)
    good(s)
    a = operands(4, 4, 6)[0]
    flipped = np.ascontiguousarray(a.T)
    fast = compile_schedule(p, s, "strict")
    assert np.array_equal(fast(flipped), 2 * a.T)
    t = Schedule(p)
    t.layout("A", "i j -> j i", given=True)
    square = np.arange(16, dtype=np.int32).reshape(4, 4)
    with pytest.raises(ArgumentError, match="shares memory"):
        compile_schedule(p, t, "strict")(square, out=square)


# Packed once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [False, True])
def test_prepack(given):
    s = panels(given)
    fast = compile_schedule(s.pipeline, s, "strict")
    a, b = operands(9, 21, 6)
    packed = fast.prepack("B", b)
    assert packed.data.shape == (6, 6, 4) and packed.shape == (6, 21)
    assert np.array_equal(fast(a, packed), a @ b)
    assert np.array_equal(fast(A=a, B=packed, threads=2), a @ b)
    out = np.zeros((9, 21), np.int32)
    assert fast(a, packed, out=out) is out and np.array_equal(out, a @ b)
    assert not packed.data.flags.writeable
    assert packed.holds(b) and not packed.holds(b + 1)
    with pytest.raises(ArgumentError, match=r"K is 6 by axis 0 of B|size K"):
        fast(operands(9, 21, 5)[0], packed)


def test_the_packed_form_has_no_conversion():
    s = panels()
    s["B_packed"].vectorize("j", 4)
    s.cache_read("B_packed", at="C.update.jo", name="near")
    good(s)
    fast = compile_schedule(s.pipeline, s, "strict")
    form = fast.taking(frozenset(["B"]))
    assert "B_packed" in fast.source and "B_packed" not in form.source and "near" in form.source
    a, b = operands(3, 9, 5)
    assert np.array_equal(fast(a, fast.prepack("B", b)), a @ b)


def test_a_schedule_that_needs_its_conversion():
    s = panels()
    s["B_packed"].split("k", "ko", "ki", 2)
    s.cache_read("B", at="B_packed.ko")
    fast = compile_schedule(s.pipeline, s, "strict")
    a, b = operands(3, 9, 5)
    assert np.array_equal(fast(a, b), a @ b)
    with pytest.raises(ScheduleError, match="can't do without the conversion of B"):
        fast(a, fast.prepack("B", b))


def test_saved_and_mapped(tmp_path):
    s = panels()
    fast = compile_schedule(s.pipeline, s, "strict")
    a, b = operands(3, 9, 5)
    fast.prepack("B", b).save(tmp_path / "weights")
    for mmap in (True, False):
        back = Packed.load(tmp_path / "weights", mmap=mmap, verify=True)
        assert isinstance(back.data, np.memmap) == mmap
        assert np.array_equal(fast(a, back), a @ b)
    header = json.loads((tmp_path / "weights.json").read_text())
    header["shape"] = [5, 90]
    (tmp_path / "weights.json").write_text(json.dumps(header))
    with pytest.raises(ArgumentError, match="holds no packed array"):
        Packed.load(tmp_path / "weights")
    header["shape"] = [5, 9]
    (tmp_path / "weights.json").write_text(json.dumps(header))
    np.save(tmp_path / "weights.npy", np.zeros((3, 5, 4), np.int32))
    Packed.load(tmp_path / "weights")
    with pytest.raises(ArgumentError, match="not those of the header"):
        Packed.load(tmp_path / "weights", verify=True)
    with pytest.raises(ArgumentError, match="holds no packed array"):
        Packed.load(tmp_path / "nothing")
    for broken in (b"", b"\x93NUMPY", b"nothing of the kind"):
        (tmp_path / "weights.npy").write_bytes(broken)
        with pytest.raises(ArgumentError, match="holds no packed array"):
            Packed.load(tmp_path / "weights")
    for path in (None, 3):
        with pytest.raises(ArgumentError, match="is no path"):
            Packed.load(path)
    header["layout"] = "k j ->"
    (tmp_path / "weights.json").write_text(json.dumps(header))
    with pytest.raises(ArgumentError, match="holds no packed array"):
        Packed.load(tmp_path / "weights")


def test_bfloat16_survives_the_file(tmp_path):
    def scaled(A: bf16[M, N]):
        i, j = vars("i j")
        C = func("C", f32)
        C[i, j] = A[i, j] * 2.0
        return C[:M, :N]

    s = Schedule(made(scaled))
    s.layout("A", "i j -> j i")
    fast = compile_schedule(s.pipeline, s, "strict")
    a = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    fast.prepack("A", a).save(tmp_path / "a")
    assert np.array_equal(fast(Packed.load(tmp_path / "a", verify=True)), a.astype(np.float32) * 2)


def test_foreign_handles():
    s = panels()
    fast = compile_schedule(s.pipeline, s, "strict")
    a, b = operands(3, 9, 5)
    packed = fast.prepack("B", b)
    other = Schedule(s.pipeline)
    other.layout("B", "k j -> j//8 k j%8")
    with pytest.raises(ArgumentError, match="packed as k j -> j//4 k j%4, this schedule asks for k j -> j//8 k j%8"):
        compile_schedule(s.pipeline, other, "strict")(a, packed)
    with pytest.raises(ArgumentError, match="has no layout of B"):
        compile_schedule(s.pipeline, Schedule(s.pipeline), "strict")(a, packed)
    with pytest.raises(ArgumentError, match="another kernel"):
        fast(packed, b)
    f = Schedule(float_matmul())
    f.layout("B", PANELS)
    with pytest.raises(ArgumentError, match="another kernel, or of another version"):
        compile_schedule(f.pipeline, f, "strict")(a.astype(np.float32), packed)
    with pytest.raises(ArgumentError, match="the schedule has no layout of A"):
        fast.prepack("A", a)
    with pytest.raises(ArgumentError, match="what is to be packed is float32"):
        fast.prepack("B", b.astype(np.float32))


def test_handles_belong_to_a_layout_and_not_to_a_schedule():
    """What one schedule has packed, every other one with that layout takes."""
    s = panels()
    a, b = operands(7, 9, 5)
    packed = compile_schedule(s.pipeline, s, "strict").prepack("B", b)
    other = Schedule(s.pipeline)
    other.layout("B", PANELS)
    other["C.update"].split("i", "io", "ii", 4).reorder("io", "k", "ii")
    assert np.array_equal(compile_schedule(s.pipeline, other, "strict")(a, packed), a @ b)
    assert packed.holds(b) and not packed.holds(b + 1)


def test_shared_by_threads():
    s = panels()
    fast = compile_schedule(s.pipeline, s, "strict")
    a, b = operands(33, 40, 16)
    packed, wrong = fast.prepack("B", b), []

    def work():
        for _ in range(20):
            if not np.array_equal(fast(a, packed), a @ b):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
