"""Where the default schedule computes a Func: inlined only where no element is computed twice, or where it is cheap."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.schedule.default import complete

H, W = tw.sizes("H W")


def place(kernel: tw.kernels.Kernel, name: str) -> str:
    return complete(kernel.schedule()).state.funcs[name].compute.kind


def costly(x):
    return (x * 37 + 11) // 7 % 256 * 3 // 5


@tw.kernel
def looked_up(picture: tw.u8[H, W]):
    v, y, x = tw.vars("v y x")
    table, out = tw.func("table"), tw.func("out")
    table[v] = costly(tw.cast(tw.i64, v))
    out[y, x] = table[picture[y, x]]
    return out[:H, :W]


READS = {
    "every element": (lambda f, y, x: f[y, x], True),
    "turned and moved": (lambda f, y, x: f[x + 3, 2 - y], True),
    "every other": (lambda f, y, x: f[2 * y + 1, x], True),
    "a row": (lambda f, y, x: f[0, x], False),
    "each twice": (lambda f, y, x: f[y // 2, x], False),
    "along diagonals": (lambda f, y, x: f[0, x + y], False),
    "around and around": (lambda f, y, x: f[y, x % 5], False),
}


def test_a_table_that_data_look_up_is_computed_once():
    assert place(looked_up, "table") == "root"


@pytest.mark.parametrize("what", READS)
def test_what_is_read_more_than_once_is_kept(what):
    read, inlined = READS[what]

    @tw.kernel
    def k(a: tw.i64[H, W]):
        y, x = tw.vars("y x")
        f, out = tw.func("f"), tw.func("out")
        f[y, x] = costly(a[tw.clamp(y, 0, H - 1), tw.clamp(x, 0, W - 1)])
        out[y, x] = read(f, y, x)
        return out[:H, :W]

    assert (place(k, "f") == "inline") == inlined
