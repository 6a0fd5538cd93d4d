"""A systolic array of 32 x 32 as a unit: the closed forms of SCALE-Sim v3, stall-free, which give its golden traces
(test/general/golden_trace_* and test_calc: 10,176, 11,200, 14,208 and 112,284 cycles).

A pass over the array takes the streamed dimension and the time to fill and to drain rows (R) and columns (C), whatever part
of the array it uses: output stationary K + R + C - 2 for R x C sums; weight stationary M + 2R + C - 2 for R x C weights;
input stationary N + 2R + C - 2 for R x C inputs. Accesses: every pass reads its streamed operand once and writes its sums.
"""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.published.arrays import skeleton, words
from tilewright.hw import parse_machine

MACHINE = """
name = "systolic"
about = "An array of 32 x 32 multiply-accumulates between scratchpads"
clock_ghz = 1
source = "SCALE-Sim's configs/scale.cfg"
confidence = "published"

[compute]
ops = {{ i32 = 1 }}

[[memory]]
name = "dram"
kind = "main"
capacity = "unbounded"
read_bandwidth = 40
write_bandwidth = 40

[[memory]]
name = "sram"
kind = "scratchpad"
capacity = "unbounded"
read_bandwidth = 1048576
write_bandwidth = 1048576

[[memory]]
name = "reg"
kind = "registers"
capacity = "1 KiB"
read_bandwidth = 4
write_bandwidth = 4

[[dma]]
name = "dma"
joins = [["dram", "sram"]]
bandwidth = 40

[[unit]]
name = "array"
shape = {{ {shape} }}
types = {{ a = "i32", b = "i32", c = "i32" }}
memories = {{ a = "sram", b = "sram", c = "sram" }}
interval = "{interval}"
"""
FLOWS = {
    "os": ('m = 32, n = 32, k = "any"', "k + 32 + 32 - 2", {"m": 32, "n": 32}),
    "ws": ('m = "any", n = 32, k = 32', "m + 2*32 + 32 - 2", {"k": 32, "n": 32}),
    "is": ('m = 32, n = "any", k = 32', "n + 2*32 + 32 - 2", {"k": 32, "m": 32}),
}


def gemm(m: int, n: int, k: int):
    def product(A, B):
        i, j = tw.vars("i j")
        d = tw.rdom(k=k)
        C = tw.func("C")
        C[i, j] = 0
        C[i, j] += A[i, d.k] * B[d.k, j]
        return C[:m, :n]

    product.__annotations__ = {"A": tw.i32[m, k], "B": tw.i32[k, n]}
    return tw.kernel(product)


def mapped(flow: str, m: int, n: int, k: int):
    """Folds of the two stationary dimensions outside, the array's pass inside."""
    shape, interval, fixed = FLOWS[flow]
    kernel = gemm(m, n, k)
    s = kernel.schedule(machine=parse_machine(MACHINE.format(shape=shape, interval=interval)))
    s.cache_read("A", memory="sram")
    s.cache_read("B", memory="sram")
    s["C"].store_in("sram")
    u, names = s["C.update"], {"m": "i", "n": "j", "k": "k"}
    inside = []
    for role, loop in names.items():
        if role in fixed:
            u.split(loop, f"{loop}o", f"{loop}i", fixed[role])
        inside.append(f"{loop}i" if role in fixed else loop)
    u.reorder(*(f"{names[r]}o" for r in fixed), *inside).tensorize(inside[0], "array")
    return kernel, s


@pytest.mark.parametrize(("flow", "m", "n", "k", "cycles"), [
    ("os", 256, 128, 256, 10_176), ("ws", 256, 128, 256, 11_200), ("is", 256, 128, 256, 14_208),
    ("ws", 3025, 96, 363, 112_284),
])  # fmt: skip
def test_cycles(flow, m, n, k, cycles):
    kernel, s = mapped(flow, m, n, k)
    account = kernel.account(s, sizes={})
    assert next(u.busy for u in account.time.uses if u.resource == "array") == cycles
    assert account.operations["array"] == 2 * m * n * k


def test_accesses_of_the_golden_traces():
    """GEMM 256 x 128 x 256: operands of the output stationary flow, weights and sums of the weight stationary one; AlexNet's
    first layer. (Sums: every fold of the reduction writes its own.)"""
    kernel, s = mapped("os", 256, 128, 256)
    got = words(skeleton(kernel, s), "sram", "A", "B")
    assert {t: w[0] for t, w in got.items()} == {"A": 262_144, "B": 262_144}
    kernel, s = mapped("ws", 256, 128, 256)
    got = words(skeleton(kernel, s), "sram", "A", "B", "C")
    assert (got["B"][0], got["C"][2]) == (32_768, 262_144)
    kernel, s = mapped("ws", 3025, 96, 363)
    got = words(skeleton(kernel, s), "sram", "A", "B", "C")
    assert (got["A"][0], got["B"][0], got["C"][2]) == (3025 * 363 * 3, 363 * 96, 3025 * 96 * 12)
