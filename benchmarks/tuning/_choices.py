"""A plain space of products: tiles, blocks, orders and packed operands, each chosen by itself, whatever goes together."""

from __future__ import annotations

from itertools import permutations

from examples.matmul import matmul
from tilewright.autotune.knobs import FunctionSpace
from tilewright.autotune.space import Choose
from tilewright.schedule.schedule import Schedule


def plain() -> FunctionSpace:
    return FunctionSpace(matmul.pipeline(), _write)


def _write(s: Schedule, choose: Choose) -> None:
    C = s["C.update"]
    lanes, rows = choose("lanes", (16, 8, 32)), choose("rows", (8, 1, 2, 4, 6, 12, 16))
    vectors, unrolled = choose("vectors", (2, 3, 4)), choose("unrolled", (4, 2, 8))
    columns = lanes * vectors
    blocks = {
        "k": choose("block k", (0, 64, 128, 256, 512)), "i": rows * choose("block i", (0, 4, 8, 16)),
        "j": columns * choose("block j", (0, 4, 16)),
    }  # fmt: skip
    inner = {v: v for v in "ijk"}
    for v, size in blocks.items():
        if size:
            C.split(v, f"{v}c", f"{v}1", size)
            inner[v] = f"{v}1"
    outer = [f"{v}c" for v, size in blocks.items() if size]
    orders = list(permutations(outer))
    outer = list(orders[choose("order", tuple(range(6))) % len(orders)])
    C.split(inner["j"], "jr", "jt", columns).split("jt", "jv", "jl", lanes).split(inner["i"], "ir", "ii", rows)
    C.split(inner["k"], "ko", "ki", unrolled)
    tiles = choose("tiles", ("jr ir", "ir jr")).split()
    C.reorder(*outer, *tiles, "ko", "ki", "ii", "jv", "jl").unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    around = f"C.update.{outer[-1]}" if outer else f"C.update.{tiles[0]}"
    if choose("pack B", (True, False)):
        s.cache_read("B", at=around, layout=f"k j -> j//{columns} k j%{columns}").vectorize("j", lanes)
    if choose("pack A", (True, False)):
        s.cache_read("A", at=around, layout=f"i k -> i//{rows} k i%{rows}")
    if choose("tile in registers", (True, False)):
        s.cache_write("C", at=f"C.update.{tiles[1]}", memory="reg")


__all__ = ["plain"]
