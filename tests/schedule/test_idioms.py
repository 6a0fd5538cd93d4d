"""The idioms: ordinary directives, the values of the reference."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright.schedule import idioms
from tilewright.testing import assert_bitwise

H, W, K = tw.sizes("H W K")


@tw.kernel(mode="strict")
def matmul(A: tw.f32[H, K], B: tw.f32[K, W]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:H, :W]


@tw.kernel(mode="strict")
def blur(A: tw.f32[H, W]):
    y, x = tw.vars("y x")
    edge = tw.repeat_edge(A)
    across, out = tw.func("across"), tw.func("out")
    across[y, x] = (edge[y, x - 1] + edge[y, x] + edge[y, x + 1]) / 3.0
    out[y, x] = (across[y - 1, x] + across[y, x] + across[y + 1, x]) / 3.0
    return out[:H, :W]


def arrays(*shapes: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


def check(kernel, s, inputs) -> None:
    assert tw.parse_schedule(str(s), kernel) == s
    assert_bitwise(kernel.compile(s)(*inputs), kernel.reference(*inputs))


def test_register_tile_and_packed_panel() -> None:
    s = matmul.schedule()
    holder = idioms.register_tile(s, "C.update", "i", "j", ["k"], 4, 2, 8)
    assert holder == "C.update.i_o"
    assert idioms.packed_panel(s, "B", "C.update.j_o", "k j", "j", 16) == "B_C"
    check(matmul, s, arrays((13, 21), (21, 37)))


def test_two_level_tile_in_strips() -> None:
    s = matmul.schedule()
    idioms.two_level_tile(s, "C.init", ["i", "j"], [16, 32], [4, 8])
    idioms.parallel_strips(s, "C.update", "i", 5)
    assert s["C.init"].loops == ("i_o", "j_o", "i_m", "j_m", "i_i", "j_i")
    check(matmul, s, arrays((33, 9), (9, 41)))


def test_line_buffer_keeps_three_lines_and_computes_each_once() -> None:
    s = blur.schedule()
    idioms.line_buffer(s, "across", "out.y", "y", 3)
    check(blur, s, arrays((19, 31)))
    account = blur.simulate(s, machine="toy", sizes={"H": 19, "W": 31}).account
    assert account.of("dram", "across").writes == (19 + 2) * 31
    (main,) = (f for f in account.footprint if f.memory == "dram")
    assert {b.name: b.size for b in main.buffers} == {"across": 3 * 31 * 4}


def test_line_buffer_within_strips_starts_anew_in_each() -> None:
    s = blur.schedule()
    idioms.parallel_strips(s, "out", "y", 5)
    idioms.line_buffer(s, "across", "out.y_p", "y", 3, within="out.y")
    check(blur, s, arrays((19, 31)))
    account = blur.simulate(s, machine="toy", sizes={"H": 19, "W": 31}).account
    assert account.of("dram", "across").writes == (19 + 4 * 2) * 31
