"""cache_write without a loop: a tile of all of a Func, computed in a memory as a whole and stored once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.algorithms import ALL, M, N, chain, float_matmul, made, matmul
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.lang.extern_stage import extern_stage
from tilewright.lang.func import func
from tilewright.lang.symbols import vars as variables
from tilewright.lang.types import i32
from tilewright.schedule.schedule import Schedule


def in_three_memories() -> Schedule:
    s = Schedule(matmul())
    s["C"].store_in("spm")
    s.cache_write("C", memory="main", name="near")
    s["C.update"].split("i", "io", "ii", 4)
    s.cache_write("C", at="C.update.io", memory="main", name="tile")
    return s


def test_nest():
    s = in_three_memories()
    nest = good(s)
    assert "  cache_write C in main name near\n" in f"{s}\n"
    order = [
        "buffer C: ",
        "buffer near: ",
        "for io in",
        "buffer tile: ",
        "init tile ",
        "store tile ",
        "store near ",
        "copy C ",
    ]
    assert [nest.index(w) for w in order] == sorted(nest.index(w) for w in order)
    assert "init near" not in nest
    assert "load" not in nest


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_func(name):
    first = Schedule(ALL[name]())
    for f in first.state.funcs:
        for memories in (("main",), ("spm", "main")):
            s = Schedule(ALL[name]())
            for g in s.state.funcs:
                s[g].compute_root()
            if len([k for k in s.state.stages_of(f) if k.key[1] >= 0]) > 1:
                refused(s, "ambiguous-stage", lambda: s.cache_write(f, memory="main"), "hold tiles at loops: ")  # noqa: B023
                continue
            for memory in memories:
                s.cache_write(f, memory=memory)
            good(s)


def test_native():
    natively(in_three_memories(), {"M": 9, "N": 7, "K": 5}, {"M": 8, "N": 6, "K": 0}, {"M": 0, "N": 3, "K": 2})
    s = Schedule(float_matmul())
    C = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 4, 8).reorder("io", "jo", "k", "ii", "ji")
    C.unroll("ii").vectorize("ji").parallel("io")
    s.cache_write("C", memory="main")
    s.cache_write("C", at="C.update.jo", memory="reg")
    natively(s, {"M": 9, "N": 17, "K": 5}, {"M": 3, "N": 6, "K": 2})
    s = Schedule(chain())
    s["d"].split("x", "xo", "xi", 4, tail="shift").vectorize("xi")
    s.cache_write("d", memory="main")
    good(s)
    natively(s, {"N": 13}, {"N": 4})


def test_inside_a_loop_of_a_consumer():
    """The tile is of what the Func is computed for there."""
    s = Schedule(chain())
    s["b"].compute_at("d.x").store_root()
    s.cache_write("b", memory="main", name="near")
    nest = good(s)
    assert nest.index("buffer b: ") < nest.index("for x in") < nest.index("buffer near: ") < nest.index("store near ")


def test_what_is_refused():
    s = Schedule(matmul())
    s.cache_write("C", memory="main")
    refused(s, "tile-twice", lambda: s.cache_write("C", memory="main"), "C.update has the tile C_tile already")
    refused(s, "ring", lambda: s["C"].double_buffer(), "nor has it a tile at one")
    s["C.update"].parallel("i")
    refused(s, "tile-race", lambda: s.cache_write("C"), "i stands inside C.update")
    s = Schedule(matmul())
    s.cache_write("C")
    refused(s, "tile-race", lambda: s["C.update"].parallel("i"), "C.update.i stands inside C.update, whose tile")
    refused(s, "register-size", s.check, "C_tile")


def test_nothing_is_shared_inside_of_one():
    def two(A: i32[M, N]):
        y, x = variables("y x")
        p, q = func("p"), func("q")
        p[y, x] = A[y, x] + 1
        q[y, x] = A[y, x] * 2
        return p[:M, :N], q[:M, :N]

    s = Schedule(made(two))
    s.cache_write("p", memory="main")
    for one, other in (("p", "q"), ("q", "p")):
        refused(s, "compute-with-tile", lambda: s[one].compute_with(f"{other}.y"), "more than one iteration of y")  # noqa: B023


def test_a_stage_of_the_users():
    def stages(A: i32[N]):
        i = variables("i")
        b, c = func("b", i32), func("c")
        b[i] = extern_stage(np.copyto, name="copied")(A.box[i])
        c[i] = b[i] + 1
        return c[:N]

    s = Schedule(made(stages))
    refused(s, "stage-loops", lambda: s.cache_write("b", memory="main"), "b is computed by the stage copied")
