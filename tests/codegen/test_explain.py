"""`fast.explain()`: what it says of machine code is what the machine code has."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen import target
from tilewright.codegen.emit.builder import loop_label
from tilewright.codegen.instructions import kept_in_memory, parsed, waiting
from tilewright.codegen.machine_code import inner_loops
from tilewright.lang.errors import CompileError
from tilewright.schedule.registers import host_registers

M, N, K = tw.sizes("M N K")
LANES = host_registers().width // 4

pytestmark = pytest.mark.skipif(not target.host().triple.startswith("x86_64"), reason="it reads x86-64")

TEXT = """
tw_k.kernel:                            # @tw_k.kernel
# %bb.0:                                # %entry
	vmovups	%ymm0, 32(%rsp)                 # 32-byte Spill
	jmp	.LBB0_1
.LBB0_1:                                # %loop.f.i.4
                                        # =>This Loop Header: Depth=1
                                        #     Child Loop BB0_2 Depth 2
	vaddss	%xmm0, %xmm1, %xmm2
.LBB0_2:                                # %loop.f.j.7.us
                                        #   Parent Loop BB0_1 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	vmovups	(%rsi), %zmm1
	vfmadd231ps	32(%rsp), %zmm1, %zmm2          # 32-byte Folded Reload
	vaddps	%ymm0, %ymm1, %ymm2
	je	.LBB0_4
# %bb.3:                                # %then9
                                        #   in Loop: Header=BB0_2 Depth=2
	vdivps	%zmm0, %zmm1, %zmm2
	movq	%rax, 8(%rsp)                   # 8-byte Spill
	vgatherdps	(%rax,%ymm1,4), %ymm2 {%k1}
.LBB0_4:                                # %end10
                                        #   in Loop: Header=BB0_2 Depth=2
	callq	expf@PLT
	jne	.LBB0_2
# %bb.5:                                # %done8
                                        #   in Loop: Header=BB0_1 Depth=1
	vmulss	%xmm0, %xmm1, %xmm2
	jne	.LBB0_1
.Lfunc_end0:
other:                                  # @other
# %bb.0:
	jmp	.LBB1_1
.LBB1_1:                                # =>This Inner Loop Header: Depth=1
	vmulsd	%xmm0, %xmm1, %xmm2
	jne	.LBB1_1
"""


def test_reading_a_text() -> None:
    names = {loop_label(n): n for n in ("f.i", "f.j", "f")}
    inner, other = inner_loops(TEXT, names)
    assert (inner.function, inner.loop, inner.depth, inner.bits) == ("tw_k.kernel", "f.j", 2, 512)
    assert inner.instructions == 9 and inner.calls == ("expf",)
    assert inner.counts == {
        "fused": 1, "vector": 4, "scalar": 0, "spills": 0, "reloads": 1, "gathers": 1, "scatters": 0, "inserts": 0,
        "extracts": 0, "divisions": 1, "whole_divisions": 0, "loads": 2, "stores": 0, "in_memory": 0,
    }  # fmt: skip
    assert (other.function, other.loop, other.bits, other.scalar) == ("other", None, 0, True)


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def tile(rows: int):
    s = matmul.schedule()
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", rows, 2 * LANES).split("ji", "jv", "jl", LANES)
    C.reorder("jo", "io", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl")
    s.cache_write("C", at="C.update.io", memory="reg")
    return matmul.compile(s)


def whole_tiles(fast):
    """The longest of the loops over k: that of tiles without an edge."""
    return max((x for x in fast.explain().loops if x.loop == "C.update.k"), key=lambda x: x.counts["fused"])


def test_a_register_tile_fits_and_one_that_is_too_large_does_not() -> None:
    fits, large = (host_registers().count // n for n in (4, 2))
    small = whole_tiles(tile(fits))
    assert small.bits == 8 * host_registers().width
    assert small.counts["fused"] == 2 * fits and small.counts["spills"] + small.counts["reloads"] == 0
    too_large = tile(large)
    spilling = whole_tiles(too_large)
    assert spilling.counts["fused"] == 2 * large and spilling.counts["reloads"] > 0
    assert "smaller register tile" in str(too_large.explain())


@tw.kernel
def polynomial(x: tw.f32[N]):
    i = tw.vars("i")
    f = tw.func("f")
    f[i] = (x[i] * 0.5 + 1.0) * x[i] / (x[i] * x[i] + 3.0)
    return f[:N]


@pytest.mark.parametrize("lanes", [None, LANES // 2, LANES])
def test_width_of_vectors(lanes) -> None:
    s = polynomial.schedule()
    if lanes:
        s["f"].vectorize("i", lanes)
    else:
        s["f"].reorder("i")
    found = polynomial.compile(s).explain()
    loop = max(found.loops, key=lambda x: x.counts["vector"] + x.counts["scalar"])
    assert loop.loop == "f.i"
    if lanes is None:
        return  # LLVM may vectorise what is left scalar, or may not
    assert loop.bits == 32 * lanes
    assert any("vectors of" in r.text for r in found.remarks(loop)) == (lanes < LANES)
    assert any("division" in r.text for r in found.remarks(loop))


def test_the_distance_to_the_limit() -> None:
    a = np.ones((65, 70), np.float32)
    b = np.ones((70, 40), np.float32)
    found = tile(4).explain(a, b)
    assert found.distance is not None and found.distance.operations is not None
    assert found.distance.operations["f32"] >= 2 * 65 * 70 * 40
    assert found.distance.bytes == a.nbytes + b.nbytes + 4 * 65 * 40
    assert set(found.distance.limits) >= {"peak f32", "copy"}
    assert "of the limit by" in str(found)


def test_what_is_slow_by_itself_does_not_raise_the_limit() -> None:
    """A bound of the time must not count what a division takes, nor integers at the rate of their products."""

    @tw.kernel
    def rooted(a: tw.f32[N], n: tw.i32[N]):
        i = tw.vars("i")
        f, g = tw.func("f"), tw.func("g")
        f[i] = tw.sqrt(a[i]) / 3.0
        g[i] = n[i] + (n[i] ^ 5)
        return f[:N], g[:N]

    found = rooted.compile().explain(np.ones(100, np.float32), np.ones(100, np.int32)).distance
    assert found is not None and found.operations == {"f32": 200, "i32": 200}
    assert "peak f32" in found.limits and "peak i32" not in found.limits


@tw.kernel
def scale(a: tw.f32[N], by: tw.f32, total: tw.inout(tw.f32[N])):
    i = tw.vars("i")
    total[i] += a[i] * by
    return total[:N]


def test_arrays_are_left_as_by_one_call() -> None:
    a, total = np.ones(50, np.float32), np.zeros(50, np.float32)
    found = scale.compile().explain(a, 3.0, total)
    assert found.distance is not None and found.distance.operations == {"f32": 100}
    assert found.distance.bytes == 3 * a.nbytes  # its own and the result's
    assert np.array_equal(total, np.full(50, 3, np.float32))


def test_other_processors_are_refused(monkeypatch) -> None:
    fast = tile(4)
    other = target.Target("aarch64-unknown-linux-gnu", "generic", "")
    monkeypatch.setattr(target, "host", lambda: other)
    with pytest.raises(CompileError, match=r"x86-64 only"):
        fast.explain()


# Bad schedules, each by its name ----------------------------------------------------------------------------------


@tw.kernel
def turned(A: tw.f32[M, N]):
    i, j = tw.vars("i j")
    out = tw.func("out")
    out[i, j] = A[j, i] * 2.0
    return out[:N, :M]


@tw.kernel
def rows(A: tw.f32[M, N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = A[i // N, i % N] * 2.0
    return out[: M * N]


@tw.kernel
def squares(a: tw.i32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = a[i] * a[i] + 3
    return out[:N]


def remarks(kernel, stage: str, direct) -> str:
    """All that is said of the loops of a stage."""
    s = kernel.schedule()
    direct(s)
    found = kernel.compile(s).explain()
    return "\n".join(f"{r.text}: {r.hint}" for x in found.loops if x.loop and x.loop.startswith(stage)
                     for r in found.remarks(x))  # fmt: skip


def in_columns(s) -> None:
    C = s["C.update"]
    C.split("j", "jo", "ji", LANES).reorder("i", "jo", "k", "ji").vectorize("ji")
    s.cache_write("C", at="C.update.jo", memory="reg")


BAD = {
    "strided reads": (
        turned,
        "out",
        lambda s: s["out"].vectorize("j", LANES),
        ("gathers|put together", "side by side"),
    ),
    "strided stores": (turned, "out", lambda s: s["out"].vectorize("i", LANES), ("stores", "lies side by side")),
    "scalar floats": (
        matmul,
        "C.update",
        lambda s: s["C.update"].reorder("i", "j", "k"),
        ("scalar", "vectorize a loop"),
    ),
    "scalar whole numbers": (squares, "out", lambda s: s["out"].reorder("i"), ("scalar", "vectorize a loop")),
    "a chain of sums": (matmul, "C.update", in_columns, ("waits 4 cycles", "more sums side by side")),
    "a small tile": (matmul, "C.update", in_columns, ("2 loads for 1 multiply-adds", "larger register tile")),
    "a division of indices": (rows, "out", lambda s: s["out"].reorder("i"), ("divisions of whole numbers", "split")),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_schedules_are_told_what_is_bad(kind: str) -> None:
    kernel, stage, direct, (what, hint) = BAD[kind]
    said = remarks(kernel, stage, direct)
    assert re.search(f"({what}).*{hint}", said), said


def test_a_good_schedule_has_nothing_to_be_told_of() -> None:
    found = tile(host_registers().count // 4).explain()
    (best, *_) = found.forms["C.update.k"]
    assert best.counts["fused"] == host_registers().count // 2
    assert found.remarks(best) == ()


def test_forms_of_one_loop_are_listed_as_one() -> None:
    text = str(tile(4).explain())
    assert text.count("C.update.k: ") == 1 and "more for edges and tails" in text


def test_chains_and_places_in_memory_of_a_text() -> None:
    loop = """
vmovups	(%rdi,%rcx,4), %zmm1
vfmadd213ps	(%rsi), %zmm1, %zmm0
vmovups	%zmm0, (%rsi)
vaddps	%zmm1, %zmm2, %zmm2
vmulps	%zmm2, %zmm3, %zmm2
vaddps	%zmm4, %zmm1, %zmm5
vxorps	%xmm6, %xmm6, %xmm6
vaddps	%zmm6, %zmm6, %zmm6
vmovups	%zmm5, 64(%rdx)
vmovups	64(%rdx), %zmm7
addq	$16, %rcx
leaq	64(%rdx), %rdx
cmpq	%rcx, %rax
"""
    read = [parsed(line) for line in loop.strip().splitlines()]
    assert waiting(read) == 8  # zmm2; zmm0 waits 4, zmm5 and zmm6 for nothing
    assert kept_in_memory(read) == 1  # (%rsi); rdx moves
    assert [i.loads for i in read[:3]] == [True, True, False] and [i.stores for i in read[:3]] == [False, False, True]
    assert parsed("vfmadd231ps	8(%rax,%rbx,4){1to16}, %zmm1, %zmm2").sources == ("8(%rax,%rbx,4){1to16}", "%zmm1")


def test_as_json() -> None:
    found = tile(4).explain(np.ones((8, 8), np.float32), np.ones((8, 32), np.float32))
    data = json.loads(json.dumps(found.as_json()))
    assert data["kernel"] == "matmul" and len(data["loops"]) == len(found.loops)
    assert data["distance"]["bytes"] == 4 * (64 + 8 * 32 * 2)
