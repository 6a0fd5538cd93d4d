"""`fast.explain()`: what it says of machine code is what the machine code has."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen import target
from tilewright.codegen.emit.builder import loop_label
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
        "fused": 1, "vector": 4, "scalar": 0, "spills": 0, "reloads": 1, "gathers": 1, "inserts": 0, "divisions": 1,
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
