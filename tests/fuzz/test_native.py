"""Native code against the reference path: random expressions, random schedules, every number of threads."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import moves
from tests.schedule.algorithms import ALL, M, N, arguments, float_matmul, made
from tests.schedule.random_schedules import grow
from tests.strategies import Case, expression_cases, pipeline_cases, sum_cases
from tilewright.codegen.compile import compile_schedule
from tilewright.lang import reduce, reference
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError
from tilewright.lang.func import func
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.symbols import rdom
from tilewright.lang.symbols import vars as variables
from tilewright.lang.types import f32, f64
from tilewright.schedule.schedule import Schedule
from tilewright.testing import assert_bitwise, exact_inputs

FUZZ = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))
SHAPES = [{"M": m, "N": n, "K": k} for m, n, k in ((1, 1, 1), (7, 5, 3), (16, 8, 4), (13, 33, 9), (0, 6, 0), (5, 0, 2))]


def by_reference(p: Pipeline, arrays: dict[str, np.ndarray]) -> Any:
    copies = {k: v.copy() for k, v in arrays.items()}
    result = reference.run(p, bind(p, (), copies))
    return [result, [copies[f.name] for f in p.inouts]]


def natively(
    p: Pipeline, s: Schedule | None, mode: str, arrays: dict[str, np.ndarray], threads: int | None = None
) -> Any:
    copies = {k: v.copy() for k, v in arrays.items()}
    result = compile_schedule(p, s, mode)(**copies, threads=threads)
    return [result, [copies[f.name] for f in p.inouts]]


def runs(p: Pipeline, s: Schedule, mode: str, arrays: dict[str, np.ndarray], threads: int | None = None) -> Any:
    """The native result, or None where the schedule is illegal as a whole (which must be a clear error)."""
    try:
        return natively(p, s, mode, arrays, threads)
    except (ScheduleError, CompileError) as e:
        assert e.code.startswith(("schedule.", "compile.", "vectorize.", "unroll.", "reg.")), e
    except BoundsError:
        assert "round_up" in str(s) or any(d.kind in ("bound", "align", "pad") for d in s.directives)
    return None


@given(expression_cases() | sum_cases())
@settings(max_examples=30 * FUZZ)
def test_expressions(case: Case) -> None:
    """Bit for bit in strict, whatever the types and the special values."""
    assert_bitwise(natively(case.pipeline, None, "strict", case.arrays), by_reference(case.pipeline, case.arrays))


@given(pipeline_cases())
@settings(max_examples=15 * FUZZ)
def test_pipelines_with_default_schedules(case: Case) -> None:
    """Scatters, recursions, folds and predicates through the default schedule."""
    assert_bitwise(natively(case.pipeline, None, "contract", case.arrays), by_reference(case.pipeline, case.arrays))


def scheduled(p: Pipeline, data: Any, steps: int = 8) -> Schedule:
    return grow(p, lambda n: data.draw(st.integers(0, n - 1)), steps)[0]


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=4 * FUZZ)
def test_schedules(name: str, data: Any) -> None:
    """Random splits, tails, orders, placements, staging and reductions on pipelines of several stages: integers, so
    every schedule gives the bits of the reference."""
    p = ALL[name]()
    s = scheduled(p, data)
    sizes = data.draw(st.sampled_from(SHAPES))
    arrays = dict(zip((a.name for a in p.arrays), arguments(p, sizes), strict=True))
    try:
        expected = by_reference(p, arrays)
    except BoundsError:
        return
    got = runs(p, s, "contract", arrays, data.draw(st.sampled_from([1, 2, 3])))
    if got is not None:
        assert_bitwise(got, expected)


def row_sums() -> Pipeline:
    """Sums of sums, a largest element and its place: what is reassociated in several ways."""

    def row_sums(A: f64[M, N]):
        i = variables("i")
        k = rdom(k=N).k
        s, t = func("s"), func("t")
        s[i] = 0.0
        s[i] += A[i, k]
        r = rdom(r=M).r
        t[()] = 1.0
        t[()] += s[r]
        big = func("big")
        big[i] = reduce.max_(A[i, k], name="top") * 2.0 + s[i]
        return s[:M], big[:M], t[()]

    return made(row_sums)


def weighted() -> Pipeline:
    def weighted(A: f32[M, N], w: f32[N]):
        i, j = variables("i j")
        d = rdom(y=3, x=N)
        c = func("c")
        c[i, j] = A[i, j]
        c[i, j] += A[i, d.x] * w[d.x]
        return c[:M, :N]

    return made(weighted)


@pytest.mark.parametrize("seed", range(6 * FUZZ))
@pytest.mark.parametrize("make", [float_matmul, row_sums, weighted])
def test_reassociating_schedules_are_exact_on_exact_data(make: Any, seed: int) -> None:
    """Not a point is dropped or doubled, whatever partial results there are and however they combine."""
    p, rnd = make(), random.Random(seed)
    sizes = {k: v for k, v in SHAPES[rnd.randrange(4)].items() if k in p.sizes}
    arrays = exact_inputs(p, sizes, seed)
    expected = by_reference(p, arrays)
    assert_bitwise(natively(p, None, "contract", arrays), expected, zeros=True)
    s = Schedule(p)
    moves.grow(s, rnd.randrange, 10)
    got = runs(p, s, "contract", arrays, 1 + rnd.randrange(3))
    if got is not None:
        assert_bitwise(got, expected, zeros=True)
