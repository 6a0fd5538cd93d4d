"""Native code against the reference path: random expressions, random schedules, every number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.algorithms import ALL, arguments
from tests.schedule.random_schedules import grow
from tests.strategies import Case, expression_cases, pipeline_cases, sum_cases
from tilewright.codegen.compile import compile_schedule
from tilewright.lang import reference
from tilewright.lang.binding import bind
from tilewright.lang.errors import BoundsError, CompileError, ScheduleError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule
from tilewright.testing import assert_bitwise

SHAPES = [
    {"M": 1, "N": 1, "K": 1},
    {"M": 7, "N": 5, "K": 3},
    {"M": 16, "N": 8, "K": 4},
    {"M": 13, "N": 33, "K": 9},
    {"M": 0, "N": 6, "K": 0},
    {"M": 5, "N": 0, "K": 2},
]


def flat(result: Any) -> list[np.ndarray]:
    if isinstance(result, dict):
        return [a for v in result.values() for a in flat(v)]
    if isinstance(result, (tuple, list)):
        return [a for v in result for a in flat(v)]
    return [] if result is None else [result]


def assert_same(ours: Any, theirs: Any) -> None:
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        assert_bitwise(a, b)


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


@given(expression_cases() | sum_cases())
def test_expressions(case: Case) -> None:
    """Bit for bit in strict, whatever the types and the special values."""
    assert_same(natively(case.pipeline, None, "strict", case.arrays), by_reference(case.pipeline, case.arrays))


@given(pipeline_cases())
def test_pipelines_with_default_schedules(case: Case) -> None:
    """Scatters, recursions, folds and predicates through the default schedule."""
    assert_same(natively(case.pipeline, None, "contract", case.arrays), by_reference(case.pipeline, case.arrays))


def scheduled(p: Pipeline, data: Any, steps: int = 8) -> Schedule:
    return grow(p, lambda n: data.draw(st.integers(0, n - 1)), steps)[0]


def runs(p: Pipeline, s: Schedule | None, mode: str, arrays: dict[str, np.ndarray], threads: int | None = None) -> Any:
    """The native result, or None where the schedule turns out to be illegal as a whole (which must be a clear error)."""
    try:
        return natively(p, s, mode, arrays, threads)
    except (ScheduleError, CompileError) as e:
        assert e.code.startswith(("schedule.", "compile.")), e
        return None
    except BoundsError:
        assert s is not None and "round_up" in str(s)
        return None


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
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
        assert_same(got, expected)


@given(data=st.data())
def test_random_pipelines_under_random_schedules(data: Any) -> None:
    case = data.draw(pipeline_cases())
    s = scheduled(case.pipeline, data, 6)
    got = runs(case.pipeline, s, "contract", case.arrays)
    if got is not None:
        assert_same(got, by_reference(case.pipeline, case.arrays))


@given(data=st.data())
def test_two_schedules_that_keep_the_order_agree_in_contract(data: Any) -> None:
    """Products fuse by the algorithm alone: tiles, placement, vectors and threads don't show in the bits."""
    p = ALL["float_matmul" if "float_matmul" in ALL else "matmul"]()
    s = scheduled(p, data)
    if s.state.reassociations:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    sizes = data.draw(st.sampled_from(SHAPES))
    arrays = {
        a.name: rng.standard_normal(v.shape).astype(v.dtype) for a, v in zip(p.arrays, arguments(p, sizes), strict=True)
    }
    plain = Schedule(p)
    for stage in plain.state.stages.values():
        plain[plain.state.address(stage.key)].serial(stage.loops[0].name)
    expected = natively(p, plain, "contract", arrays)
    for threads in (1, 2, 3):
        got = runs(p, s, "contract", arrays, threads)
        if got is None:
            return
        assert_same(got, expected)
