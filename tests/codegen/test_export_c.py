"""Exported C, compiled: the bits of the native kernel and of the reference, under every schedule, with any DMA engine."""

from __future__ import annotations

import ctypes
import platform
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.codegen.export_support import COMPILER, REFUSED, Job, Library, call_of, check, job, of, reference, tiled
from tests.fuzz.trials import data_for, draw, extents_for
from tests.kernels import same
from tests.schedule.algorithms import ALL, arguments, float_matmul
from tests.schedule.random_schedules import grow
from tests.schedule.test_random_rings import SIZES, pick, try_
from tests.strategies import expression_cases, sum_cases
from tilewright.codegen.compile import completed
from tilewright.codegen.export import execute
from tilewright.codegen.export.export import made_document
from tilewright.codegen.export.touched import statements
from tilewright.schedule.schedule import Schedule

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
FMA = ("-mfma",) if platform.machine() in ("x86_64", "AMD64") else ()
M, N, K = tw.sizes("M N K")
RNG = np.random.default_rng(7)


# Kernels and schedules that are chosen ----------------------------------------------------------------------------


def sliding(s: Schedule) -> None:
    s["blur_x"].compute_at("blur_y.y").store_root().fold_storage("y", 4)
    s["blur_y"].split("x", "xo", "xi", 4).vectorize("xi")


def tails(s: Schedule) -> None:
    s["blur_y"].split("y", "yo", "yi", 4, "shift").split("x", "xo", "xi", 4)
    s["blur_x"].compute_root().split("x", "xo", "xi", 4, "round_up").vectorize("xi")


def registers(s: Schedule) -> None:
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", 2, 4).reorder("io", "jo", "k", "ii", "ji").unroll("ii").vectorize("ji")
    s.cache_write("C", at="C.update.jo", memory="reg")
    s.layout("B", "a b -> b//4 a b%4")


def chosen() -> Iterator[Job]:
    yield from of("matmul", tiled)
    yield from of("float_matmul", tiled, "contract")
    yield from of("float_matmul", registers, "contract")
    yield from of("float_matmul", lambda s: s["C.update"].rfactor("k", "k"), "contract")
    yield from of("blur", sliding)
    yield from of("edge_blur", tails)
    yield from of("edge_blur", lambda s: s["blur_y"].peel("y", 1, 1))
    yield from of("running", lambda s: s.online(("m", "l", "o"), "k", 2), "contract")
    yield from of("largest", lambda s: s["arg.update"].vectorize("j", 4))
    yield from of("prefix_sum", lambda s: s["s.update"].reorder("k", "i").parallel("i"))
    yield from of("histogram", lambda s: s["hist"].store_in("spm"))
    yield from of("accumulate", lambda s: s.cache_write("C", at="C.update.i", memory="spm"))
    yield from of("two_outputs", lambda s: s["q"].specialize("N >= 4", "wide"))
    yield from of("matmul", tiled, sizes={"M": 0, "N": 4, "K": 3})
    yield from of("matmul", tiled, sizes={"M": 4, "N": 4, "K": 0})
    yield from of("chain", lambda s: [s[f].compute_at("d.x") for f in "abc"], sizes={"N": 3})


def scaled(t: Any) -> tw.Kernel:
    """A narrow type in memory, a table, a scalar."""
    i, j = tw.vars("i j")

    @tw.kernel
    def scaled(A: tw.f32[M, N], alpha: t, B: t[N]):
        w = tw.const(np.linspace(-2, 2, 13).astype(t.np), name="w")
        f, g = tw.func("f", t), tw.func("g", t)
        f[i, j] = A[i, j] * w[j] + B[j]
        g[i, j] = f[i, j] * alpha - tw.cast(tw.f64, A[i, j]) * 0.1
        return g[:M, :13]

    return scaled


def halves() -> Iterator[Job]:
    ends = [1e-8, 6e-8, 6e-5, 65504, 65519, 65520, -1e5, np.inf, -np.inf, np.nan, 1e-40, 0, -0.0]
    a = np.concatenate([RNG.standard_normal((6, 13)) * 1e4, [ends]]).astype(np.float32)
    for t in (tw.f16, tw.bf16):
        s = scaled(t).schedule()
        s["f"].compute_at("g.i").store_in("spm")
        values = {"A": a, "B": (a[0] / 100).astype(t.np), "alpha": t.np.type(0.37)}
        for mode in ("strict", "contract"):
            yield job(f"scaled {t} {mode}", s, values, mode, mode == "strict")


def called(t: Any, some: Sequence[Callable]) -> tw.Kernel:
    """Mathematical functions are arithmetic and bit casts."""
    i = tw.vars("i")

    @tw.kernel
    def called(x: t[N]):
        out = []
        for k, g in enumerate(some):
            f = tw.func(f"f{k}")
            f[i] = g(x[i])
            out.append(f[:N])
        return out

    return called


def functions() -> Iterator[Job]:
    every = (tw.exp, tw.log, tw.sin, tw.cos, tw.tanh, tw.erf, tw.exp2, tw.log1p, tw.sigmoid, tw.rsqrt)
    ends = [0, -0.0, 1, -1, 88, 710, -750, np.inf, -np.inf, np.nan, 1e-40]
    x = np.concatenate([RNG.standard_normal(40) * 9, ends])
    for t, some in ((tw.f32, every), (tw.f64, every[:2])):
        yield job(f"functions {t}", called(t, some).schedule(), {"x": x.astype(t.np)}, "contract", False)


def test_chosen_schedules(tmp_path: Path) -> None:
    check([*chosen(), *halves(), *functions()], tmp_path)


def test_compilers_may_be_told_to_fuse(tmp_path: Path) -> None:
    """Optimised, and with the flags under which compilers contract products and sums by themselves."""
    s = Schedule(float_matmul())
    tiled(s)
    values = {n: RNG.standard_normal(shape).astype(np.float32) for n, shape in (("A", (9, 40)), ("B", (40, 9)))}
    jobs = [job(f"product {mode}", s, values, mode, True) for mode in ("strict", "contract")]
    check(jobs, tmp_path, flags=("-std=gnu11", "-O2", "-ffp-contract=fast", *FMA))


def test_indices_of_32_bits_and_iterations_at_once(tmp_path: Path) -> None:
    """What the header lets a program choose; the bits stay."""

    def spread(s: Schedule) -> None:
        tiled(s)
        s["C.update"].parallel("ii")

    flags = ("-DTW_INDEX=int32_t", "-fopenmp", '-DTW_PARALLEL=_Pragma("omp parallel for")')
    probe = subprocess.run(
        [str(COMPILER), "-fopenmp", "-shared", "-x", "c", "-o", tmp_path / "x", "/dev/null"], check=False
    )
    jobs = [*of("matmul", spread), *of("blur", sliding), *of("largest", lambda s: s["best"].parallel("i"))]
    fixed = [j for j in jobs if "fixed" in j.name]  # sizes are int32_t as well
    check(fixed, tmp_path, flags=flags if probe.returncode == 0 else flags[:1])


# Any types, any schedules -----------------------------------------------------------------------------------------


def test_values_of_all_types_at_their_ends(tmp_path: Path) -> None:
    jobs: list[Job] = []

    @given(st.one_of(expression_cases(), sum_cases()))
    @settings(max_examples=40)
    def collect(c: Any) -> None:
        s = Schedule(c.pipeline)
        if len(jobs) % 2:
            stage = next(iter(s.state.stages.values()))
            try_(lambda: s[s.state.address(stage.key)].vectorize(stage.loops[-1].name, 4))
        jobs.append(job(repr(c), s, c.arrays, "strict", len(jobs) % 3 == 0))

    collect()
    check(jobs, tmp_path)


def drawn(seed: int) -> Job | None:
    """A trial of the fuzzer, or a random schedule of an algorithm."""
    r = random.Random(seed)

    def choose(n: int) -> int:
        return r.randrange(n) if n > 1 else 0

    try:
        if seed % 3:
            p = ALL[pick(choose, sorted(ALL))]()
            s, _ = grow(p, choose, 1 + choose(9))
            z = {k: v for k, v in pick(choose, SIZES).items() if k in p.sizes}
            values = dict(zip((a.name for a in p.arrays), arguments(p, z, seed), strict=True))
            return job(f"seed {seed}\n{s}", s, values, "strict", seed % 2 == 0)
        t = draw(choose, seed)
        if t is None or t.refusal is not None:
            return None
        values, _ = data_for(t, extents_for(t, choose))
        made = job(f"seed {seed}\n{t}", t.schedule, values, t.mode, seed % 2 == 0)
        return None if made.document["functions"] else made
    except REFUSED as e:
        assert e.code.startswith(("bounds.", "argument.range", "schedule.", "dma.", "export.stage")), e
        return None


def test_random_schedules(tmp_path: Path) -> None:
    jobs = [j for j in map(drawn, range(45)) if j is not None]
    assert len(jobs) > 25
    check(jobs, tmp_path)


# What the program around provides ------------------------------------------------------------------------------------


def test_memory_that_runs_out_is_said(tmp_path: Path) -> None:
    """Buffers whose size the call decides come from a hook; without memory all are given back and the code is 1."""
    s = Schedule(ALL["chain"]())
    for f in "abc":
        s[f].compute_root()
    p = s.pipeline
    made = made_document(p, s, None, None, "strict")
    hooks = """
        #include <stdlib.h>
        #include "tilewright.h"
        int64_t held, budget = 1 << 30;
        void *tw_allocate(const char *memory, int64_t bytes)
        {
            (void)memory; (void)bytes;
            return budget-- > 0 ? (held++, malloc(4096)) : 0;
        }
        void tw_release(void *block) { held--; free(block); }
    """
    library = Library([made], tmp_path, sources=[hooks])
    held, budget = (ctypes.c_int64.in_dll(library.library, n) for n in ("held", "budget"))
    values = {"A": np.arange(9, dtype=np.int32)}
    call = call_of(p, completed(p, s, "strict").state, values)
    for most in (0, 1, 2):
        budget.value = most
        assert library.call(0, call.arrays, call.sizes, {}) == 1 and held.value == 0
    budget.value = 3
    assert library.call(0, call.arrays, call.sizes, {}) == 0 and held.value == 0
    expected = reference(p, values)
    assert expected is not None and same(call.results()[0], expected[0])


def test_the_users_own_functions_are_theirs_to_define(tmp_path: Path) -> None:
    def damp(x: float) -> float:
        return x * 0.5

    own = tw.extern(damp, result=tw.f64, args=(tw.f64,))
    i = tw.vars("i")

    @tw.kernel
    def damped(A: tw.f64[N]):
        f = tw.func("f")
        f[i] = own(A[i]) + 1.0
        return f[:N]

    made = damped.export().document
    (f,) = made["functions"]
    assert (f["type"], f["arguments"]) == ("f64", ["f64"])
    library = Library(
        [made], tmp_path, sources=[f"double {f['name']}(double x);\ndouble {f['name']}(double x) {{ return x / 2; }}"]
    )
    a, out = np.arange(5.0), np.empty(5)
    assert library.call(0, [a, out], {"N": 5}, {}) == 0
    assert (out == a / 2 + 1).all()


def test_requirements_are_checked_first(tmp_path: Path) -> None:
    i = tw.vars("i")

    @tw.kernel
    def shifted(A: tw.f32[N]):
        f = tw.func("f")
        f[i] = A[i + 2]
        return f[:M]

    made = shifted.export().document
    out = np.full(8, 5.0, np.float32)
    library = Library([made], tmp_path)
    assert library.call(0, [np.ones(8, np.float32), out], {"N": 8, "M": 7}, {}) >= 100 and (out == 5).all()
    assert library.call(0, [np.ones(8, np.float32), out], {"N": 8, "M": 6}, {}) == 0 and (out[:6] == 1).all()


def test_names_that_mean_something_in_c(tmp_path: Path) -> None:
    """Keywords, library functions and each other's names."""
    int_, x, tw_min = tw.vars("int x tw_min")

    @tw.kernel
    def main(A: tw.f32[M, N], int64_t: tw.f32, fmaf: tw.f32[N]):
        k = tw.rdom(restrict=N)
        double, sqrt = tw.func("double"), tw.func("sqrt")
        double[int_, tw_min] = A[int_, tw_min] * int64_t + fmaf[tw_min]
        sqrt[x] = 0.0
        sqrt[x] += tw.sqrt(tw.abs(double[x, k.restrict]))
        return sqrt[:M]

    s = main.schedule()
    s["double"].compute_root()
    values = {"A": RNG.standard_normal((3, 5)).astype(np.float32), "int64_t": np.float32(0.3),
              "fmaf": RNG.standard_normal(5).astype(np.float32)}  # fmt: skip
    check([job("names", s, values, "contract", False)], tmp_path)


UNIT = """
    #include "tilewright.h"
    int64_t calls;
    int tw_unit_mma(const tw_unit_call *u)
    {
        calls++;
        for (tw_index m = 0; m < u->m; m++)
            for (tw_index n = 0; n < u->n; n++)
                for (tw_index k = 0; k < u->k; k++) {
                    uint32_t *c = (uint32_t *)((char *)u->c.first + m * u->c.strides[0] + n * u->c.strides[1]);
                    *c += *(uint32_t *)((char *)u->a.first + m * u->a.strides[0] + k * u->a.strides[1])
                        * *(uint32_t *)((char *)u->b.first + k * u->b.strides[0] + n * u->b.strides[1]);
                }
        return 1;
    }
"""


@pytest.mark.parametrize("by_unit", [False, True])
def test_units_are_hooks_with_the_loops_behind_them(tmp_path: Path, by_unit: bool) -> None:
    def unit(s: Schedule) -> None:
        C = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 4, 8).split("k", "ko", "ki", 3)
        C.reorder("io", "jo", "ko", "ii", "ji", "ki").tensorize("ii", "mma")
        s.cache_read("A", at="C.update.ko", memory="spm")
        s.cache_write("C", at="C.update.jo", memory="spm")

    jobs = list(of("matmul", unit))
    for j in jobs:
        (found,) = {s["unit"] for s in statements(j.document["body"]) if s.get("kind") == "unit"}
        assert found == "mma"
        copy = j.call.copied()
        assert execute(j.document, copy.arrays, copy.sizes) is None and j.expected is not None
        assert same(copy.results()[0], j.expected[0])
    library = check(jobs, tmp_path, sources=[UNIT] if by_unit else ())
    if by_unit:  # M 9, N 13, K 7, for each of the two
        assert ctypes.c_int64.in_dll(library.library, "calls").value == 2 * 3 * 2 * 3
