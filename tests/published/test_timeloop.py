"""Mappings with published counts, from the exercises of Timeloop and Accelergy (accelergy-project/timeloop-accelergy-
exercises: 00 to 04 of the tutorial of 2020, and example design simple_output_stationary).

Conventions, all as there: words are counted per memory and tensor; a window that moves is filled by its new part, and as
a whole again where an outer loop starts it anew (`store_at` that loop); a tile is filled where the innermost loop moves
that it depends on (`at` that loop); the first touch of a sum is no read and no fill; what leaves a memory for one further
out is counted there, as an update, and not as a read here; elements of an array that want the same word at once read it
once, and sums that they have to one word are updated once.
"""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.published.arrays import WAYS, machine, tiles, total, words

BOTH = pytest.mark.parametrize("account", WAYS, ids=lambda f: f.__name__)
TWO, THREE = machine("main", "buffer"), machine("main", "glb", "rf")
SIXTEEN = machine("main", "glb", "rf", axes={"pe": 16}, elements=("glb", "rf"))


@tw.kernel
def conv(W: tw.i32[3], I: tw.i32[18]):
    p = tw.vars("p")
    r = tw.rdom(r=3)
    O = tw.func("O")
    O[p] = 0
    O[p] += W[r] * I[p + r]
    return O[:16]


@tw.kernel
def conv_oc(W: tw.i32[32, 3], I: tw.i32[18]):
    k, p = tw.vars("k p")
    r = tw.rdom(r=3)
    O = tw.func("O")
    O[k, p] = 0
    O[k, p] += W[k, r] * I[p + r]
    return O[:32, :16]


@tw.kernel
def conv_ic_oc(W: tw.i32[32, 32, 3], I: tw.i32[32, 18]):
    k, p = tw.vars("k p")
    r = tw.rdom(c=32, r=3)
    O = tw.func("O")
    O[k, p] = 0
    O[k, p] += W[k, r.c, r.r] * I[r.c, p + r.r]
    return O[:32, :16]


@BOTH
def test_conv1d_on_one_level(account):
    s = conv.schedule(machine=machine("buffer"))
    s["O.update"].unscheduled()
    got = account(conv, s)
    assert words(got, "buffer", "W", "I", "O") == {"W": (48, 0, 0), "I": (48, 0, 0), "O": (32, 0, 48)}
    assert total(got, "buffer", "W", "I", "O") == 176
    assert sum(got.operations.values()) == 2 * 48


@BOTH
def test_conv1d_output_stationary(account):
    s = conv.schedule(machine=TWO)
    s.cache_read("W", memory="buffer")
    s.cache_read("I", at="O.update.p", memory="buffer", name="window").store_root().fold_storage("x0", 3)
    s.cache_write("O", at="O.update.p", memory="buffer")
    got = account(conv, s)
    assert words(got, "buffer", "W", "I", "O") == {"W": (48, 3, 0), "I": (48, 18, 0), "O": (32, 0, 48)}
    assert total(got, "buffer", "W", "I", "O") == 197
    assert words(got, "main", "W", "I", "O") == {"W": (3, 0, 0), "I": (18, 0, 0), "O": (0, 0, 16)}
    assert sorted(tiles(got, "buffer").values()) == [1, 3, 3]


@BOTH
def test_conv1d_weight_stationary(account):
    s = conv.schedule(machine=TWO)
    s["O.update"].reorder("r", "p")
    s["O"].store_in("buffer")
    s.cache_read("W", at="O.update.r", memory="buffer")
    s.cache_read("I", at="O.update.r", memory="buffer", name="window").store_root().fold_storage("x0", 16)
    got = account(conv, s)
    assert words(got, "buffer", "W", "I", "O") == {"W": (48, 3, 0), "I": (48, 18, 0), "O": (32, 0, 48)}
    assert total(got, "buffer", "W", "I", "O") == 197
    assert total(got, "main", "W", "I", "O") == 37
    assert sorted(tiles(got, "buffer").values()) == [1, 16, 16]


@BOTH
def test_conv1d_with_output_channels_untiled(account):
    s = conv_oc.schedule(machine=TWO)
    s.cache_read("W", at="O.update.k", memory="buffer")
    s.cache_read("I", at="O.update.p", memory="buffer", name="window").store_at("O.update.k").fold_storage("x0", 3)
    s.cache_write("O", at="O.update.p", memory="buffer")
    got = account(conv_oc, s)
    assert words(got, "main", "W", "I", "O") == {"W": (96, 0, 0), "I": (576, 0, 0), "O": (0, 0, 512)}
    assert (total(got, "main", "W", "I", "O"), total(got, "buffer", "W", "I", "O")) == (1184, 6304)


def tiled(on):
    s = conv_oc.schedule(machine=on)
    s["O.update"].split("k", "ko", "ki", 2).reorder("ko", "p", "ki", "r")
    return s


@BOTH
def test_conv1d_with_output_channels_tiled(account):
    s = tiled(TWO)
    s.cache_read("W", at="O.update.ko", memory="buffer")
    s.cache_read("I", at="O.update.p", memory="buffer", name="window").store_at("O.update.ko").fold_storage("x0", 3)
    s.cache_write("O", at="O.update.p", memory="buffer")
    got = account(conv_oc, s)
    assert words(got, "main", "W", "I", "O") == {"W": (96, 0, 0), "I": (288, 0, 0), "O": (0, 0, 512)}
    assert (total(got, "main", "W", "I", "O"), total(got, "buffer", "W", "I", "O")) == (896, 6016)
    assert tiles(got, "buffer") == {"W_O": 6, "window": 3, "O_tile": 2}


@BOTH
def test_three_levels(account):
    s = tiled(THREE)
    s["O"].store_in("glb")
    s.cache_read("W", memory="glb", name="Wg")
    s.cache_read("I", memory="glb", name="Ig")
    s.cache_read("Wg", at="O.update.ko", memory="rf")
    s.cache_read("Ig", at="O.update.p", memory="rf", name="window").store_at("O.update.ko").fold_storage("x0", 3)
    s.cache_write("O", at="O.update.p", memory="rf")
    got = account(conv_oc, s)
    assert words(got, "glb", "W", "I", "O") == {"W": (96, 96, 0), "I": (288, 18, 0), "O": (0, 0, 512)}
    assert [total(got, m, "W", "I", "O") for m in ("rf", "glb", "main")] == [6016, 1010, 626]


@BOTH
def test_three_levels_with_bypass(account):
    """W and I skip the registers, O the global buffer: what is not staged there is read from further out."""
    s = tiled(THREE)
    s.cache_read("W", memory="glb")
    s.cache_read("I", memory="glb")
    s.cache_write("O", at="O.update.p", memory="rf")
    got = account(conv_oc, s)
    assert words(got, "glb", "W", "I", "O") == {"W": (1536, 96, 0), "I": (1536, 18, 0), "O": (0, 0, 0)}
    assert [total(got, m, "W", "I", "O") for m in ("rf", "glb", "main")] == [2560, 3186, 626]


def over_sixteen(outer: str, *inner: str):
    """Sixteen elements, each with two channels of one kind: the loop `outer` over elements, then the channels of each."""
    s = conv_ic_oc.schedule(machine=SIXTEEN)
    s["O.update"].split(outer[0], outer, f"{outer[0]}i", 2).reorder(outer, *inner, "r", "p").spatial(outer, "pe")
    s.cache_write("O", at=f"O.update.{outer}", memory="glb")
    s.cache_read("W", at=f"O.update.{outer}", memory="glb", name="Wg")
    s.cache_read("I", at=f"O.update.{outer}", memory="glb", name="Ig")
    s.cache_write("O", at=f"O.update.{inner[-1]}", memory="rf")
    s.cache_read("Wg", at="O.update.r", memory="rf")
    window = s.cache_read("Ig", at="O.update.r", memory="rf", name="window")
    window.store_at(f"O.update.{inner[-1]}").fold_storage("x1", 16)
    return s


def each(got, memory):
    """What one of sixteen elements does."""
    return {t: tuple(n // 16 for n in w) for t, w in words(got, memory, "W", "I", "O").items()}


@BOTH
def test_spatial_input_channels(account):
    """Their sums are added on the way to the main memory."""
    got = account(conv_ic_oc, over_sixteen("cs", "ci", "k"))
    assert each(got, "rf") == {"W": (3072, 192, 0), "I": (3072, 1152, 0), "O": (2560, 512, 3072)}
    assert each(got, "glb") == {"W": (192, 192, 0), "I": (1152, 36, 0), "O": (512, 0, 1024)}
    assert words(got, "main", "W", "I", "O") == {"W": (3072, 0, 0), "I": (576, 0, 0), "O": (0, 0, 512)}
    assert [total(got, m, "W", "I", "O") for m in ("rf", "glb", "main")] == [218_112, 49_728, 4160]


@BOTH
def test_spatial_output_channels(account):
    """An input is read once for all of them."""
    got = account(conv_ic_oc, over_sixteen("ks", "c", "ki"))
    assert each(got, "rf") == {"W": (3072, 192, 0), "I": (3072, 1152, 0), "O": (3040, 992, 3072)}
    assert each(got, "glb") == {"W": (192, 192, 0), "I": (1152, 576, 0), "O": (992, 0, 1024)}
    assert words(got, "main", "W", "I", "O") == {"W": (3072, 0, 0), "I": (576, 0, 0), "O": (0, 0, 512)}
    assert [total(got, m, "W", "I", "O") for m in ("rf", "glb", "main")] == [233_472, 66_048, 4160]


@tw.kernel
def strided(W: tw.i32[32, 3, 3, 3], I: tw.i32[3, 225, 225]):
    m, p, q = tw.vars("m p q")
    d = tw.rdom(c=3, r=3, s=3)
    O = tw.func("O")
    O[m, p, q] = 0
    O[m, p, q] += W[m, d.c, d.r, d.s] * I[d.c, 2 * p + d.r, 2 * q + d.s]
    return O[:32, :112, :112]


@BOTH
def test_simple_output_stationary(account):
    """The mapping that the mapper has found: main P2 Q8 M2, global buffer Q14 R3, elements M16, sums C3 P4 S3, weight
    register P14. Windows are loaded whole: none of two tiles that follow each other has a part of the other."""
    s = strided.schedule(machine=machine("dram", "glb", "spad", "rf", axes={"pe": 16}, elements=("spad", "rf")))
    u = s["O.update"]
    u.split("p", "po", "pt", 56).split("pt", "pm", "pi", 14).split("q", "qo", "qi", 14).split("m", "mo", "ms", 16)
    u.reorder("po", "qo", "mo", "qi", "ms", "r", "c", "pm", "s", "pi").spatial("ms", "pe")
    s.cache_read("I", at="O.update.qo", memory="glb", name="Ig")
    s.cache_read("W", at="O.update.mo", memory="glb", name="Wg")
    s.cache_write("O", at="O.update.ms", memory="spad")
    s.cache_read("Wg", at="O.update.s", memory="rf")
    s.cache_read("Ig", at="O.update.pi", memory="rf")
    got = account(strided, s)
    assert words(got, "dram", "W", "I", "O") == {"W": (13_824, 0, 0), "I": (157_296, 0, 0), "O": (0, 0, 401_408)}
    assert total(got, "dram", "W", "I", "O") == 572_528
    assert words(got, "glb", "W", "I") == {"W": (774_144, 13_824, 0), "I": (677_376, 157_296, 0)}
    assert tiles(got, "glb") == {"Ig": 9831, "Wg": 432}
    assert tiles(got, "spad") == {"O_tile": 56}


@BOTH
def test_a_window_that_is_revisited(account):
    """Unit test of Timeloop's temporal reuse: a window of three slides over d by one step; it is filled by {0..2} and {3},
    and in the next iteration of an outer loop, which starts it anew, by {0..2} and {3} again."""

    def windows(A, B):
        o, d = tw.vars("o d")
        t = tw.rdom(t=3)
        S = tw.func("S")
        S[o, d] = 0
        S[o, d] += A[d + t.t] * B[o]
        return S[:2, :2]

    windows.__annotations__ = {"A": tw.i32[4], "B": tw.i32[2]}
    k = tw.kernel(windows)
    s = k.schedule(machine=TWO)
    s.cache_read("A", at="S.update.d", memory="buffer", name="window").store_at("S.update.o").fold_storage("x0", 3)
    got = account(k, s)
    assert words(got, "buffer", "A") == {"A": (12, 8, 0)}
    assert words(got, "main", "A") == {"A": (8, 0, 0)}


@BOTH
@pytest.mark.parametrize(("columns", "rows"), [(4, 2), (2, 2)])
def test_a_window_over_an_array_is_multicast(account, columns, rows):
    """Elements of an array that read windows of three, one apart along x, of a row of their own: each word once for all
    that want it (Timeloop's unit test of multicast counts hops besides, which we do not)."""

    def windows(A):
        y, x = tw.vars("y x")
        t = tw.rdom(t=3)
        S = tw.func("S")
        S[y, x] = 0
        S[y, x] += A[y, x + t.t]
        return S[:rows, :columns]

    windows.__annotations__ = {"A": tw.i32[rows, columns + 2]}
    k = tw.kernel(windows)
    s = k.schedule(machine=machine("main", "rf", axes={"x": columns, "y": rows}, elements=("rf",)))
    s["S.update"].spatial("y", "y").spatial("x", "x")
    s.cache_read("A", at="S.update.x", memory="rf")
    got = account(k, s)
    assert words(got, "rf", "A") == {"A": (3 * columns * rows, 3 * columns * rows, 0)}
    assert words(got, "main", "A") == {"A": (rows * (columns + 2), 0, 0)}
