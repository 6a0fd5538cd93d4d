"""The algorithms and schedules of the demonstration."""

from __future__ import annotations

import tilewright as tw
from tilewright.schedule.registers import Registers
from tilewright.schedule.schedule import Schedule

C, H, W = tw.sizes("C H W")
M, N, K = tw.sizes("M N K")
TAPS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)  # binomial weights: nearly a Gaussian with a standard deviation of 1


@tw.kernel
def sharpen(photo: tw.u8[C, H, W], amount: tw.f32):
    """Blur along x, then along y; what the blur takes away is added `amount` times: an unsharp mask.

    Gives the blurred and the sharpened picture in 0..255, channel by channel.
    """
    c, y, x = tw.vars("c y x")
    edge = tw.repeat_edge(photo)
    pixel, across, blurred, out = (tw.func(n) for n in ("pixel", "across", "blurred", "out"))
    pixel[c, y, x] = tw.cast(tw.f32, edge[c, y, x])
    across[c, y, x] = sum(w * pixel[c, y, x + d - 2] for d, w in enumerate(TAPS))
    blurred[c, y, x] = sum(w * across[c, y + d - 2, x] for d, w in enumerate(TAPS))
    detail = pixel[c, y, x] - blurred[c, y, x]
    out[c, y, x] = (blurred[c, y, x], tw.clamp(pixel[c, y, x] + amount * detail, 0.0, 255.0))
    return out[:C, :H, :W]


def stage_by_stage(registers: Registers, memory: str = "main") -> Schedule:
    """Every stage over the whole picture, one after the other, each in vectors and on all threads."""
    s = sharpen.schedule()
    for name in ("across", "blurred", "out"):
        if name != "out":
            s[name].compute_root()
        s[name].fuse("c", "y", "line").parallel("line", 16).vectorize("x", registers.width // 4)
    return s


def in_strips(registers: Registers, memory: str = "main") -> Schedule:
    """Strips of lines: what a strip needs of the pixels and of the first blur is computed just before it."""
    s = sharpen.schedule()
    lines = 16 if memory == "main" else 8
    s["out"].split("y", "strip", "line", lines).parallel("strip").vectorize("x", registers.width // 4)
    for name in ("pixel", "across"):
        s[name].compute_at("out.strip").vectorize("x", registers.width // 4)
        if memory != "main":
            s.store_in(name, memory)
    return s


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    """The matrix product of A and B."""
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    P = tw.func("P")
    P[i, j] = 0.0
    P[i, j] += A[i, k] * B[k, j]
    return P[:M, :N]


def tiled(registers: Registers, memory: str = "main") -> Schedule:
    """A tile of the product stays in registers while k runs."""
    rows, columns, lanes = _tile(registers)
    s = matmul.schedule()
    P = s["P.update"]
    P.tile("i", "j", "io", "jo", "ii", "ji", rows, columns).split("ji", "jv", "jl", lanes)
    P.reorder("io", "jo", "k", "ii", "jv", "jl").unroll("ii").unroll("jv").vectorize("jl").parallel("io")
    s.cache_write("P", at="P.update.jo", memory="reg")
    return s


def packed(registers: Registers, memory: str = "main") -> Schedule:
    """Besides, blocks of both matrices are copied into the order they are read in, sized for the nearest memories."""
    rows, columns, lanes = _tile(registers)
    wide, deep, tall = (1024, 256, 24) if memory == "main" else (8 * columns, 32, 4)
    s = matmul.schedule()
    P = s["P.update"]
    P.split("j", "jc", "j1", wide).split("k", "kc", "k1", deep).split("i", "ic", "i1", tall * rows)
    P.split("j1", "jr", "jt", columns).split("i1", "ir", "ii", rows).split("k1", "ko", "ki", 4).split(
        "jt", "jv", "jl", lanes
    )
    P.reorder("jc", "kc", "ic", "jr", "ir", "ko", "ki", "ii", "jv", "jl")
    P.unroll("ki").unroll("ii").unroll("jv").vectorize("jl").parallel("ic")
    s.cache_read("B", at="P.update.kc", memory=memory, layout=f"k j -> j//{columns} k j%{columns}").vectorize(
        "j", lanes
    )
    s.cache_read("A", at="P.update.ic", memory=memory, layout=f"i k -> i//{rows} k i%{rows}")
    s.cache_write("P", at="P.update.ir", memory="reg")
    return s


def _tile(registers: Registers) -> tuple[int, int, int]:
    """Rows, columns and lanes of the largest tile that leaves room for two vectors of B and one of A."""
    lanes = registers.width // 4
    return (registers.count - 4) // 2, 2 * lanes, lanes
