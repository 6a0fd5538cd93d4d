"""Random schedules of reductions, and whether those that combine partial results alike give the same bits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
from tests.fuzz import moves, recipes, running, special_stages  # noqa: F401  (registers stages)
from tests.fuzz.random_pipelines import Case, random_pipeline
from tilewright.autotune.order import Order, order_of
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError, TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.samples import random_inputs
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

Draw = Callable[[random.Random, int], Schedule]
STAGES = ("reduction", "contraction", "dependent", "attention", "twins", "exponential_pair", "inline_sum", "moments")


@dataclass
class Seen:
    """What was compared: pairs of schedules with one order, those of them that reassociate, and pairs with different
    orders that gave different bits."""

    same: int = 0
    reassociating: int = 0
    told_apart: int = 0
    orders: set[str] = field(default_factory=set)


@tw.kernel
def row_sum(x: tw.f32[tw.sizes("M"), tw.sizes("K")]):
    M, K = tw.sizes("M K")
    i, k = tw.vars("i"), tw.rdom(k=K)
    s = tw.func("s")
    s[i] = 0.5
    s[i] += x[i, k]
    return s[:M]


@tw.kernel
def box_sum(x: tw.f32[tw.sizes("M"), tw.sizes("N"), tw.sizes("K")]):
    M, N, K = tw.sizes("M N K")
    i, r = tw.vars("i"), tw.rdom(a=N, b=K)
    s = tw.func("s")
    s[i] = 0.0
    s[i] += x[i, r.a, r.b] * x[i, 0, 0]
    return s[:M]


@tw.kernel
def nine_sum(x: tw.f32[tw.sizes("M"), 90]):
    M = tw.sizes("M")
    i, k = tw.vars("i"), tw.rdom(k=90)
    s = tw.func("s")
    s[i] = 0.0
    s[i] += x[i, k]
    return s[:M]


def reducing(p: Pipeline) -> Draw:
    """Schedules of `s.update` (and of what it becomes): splits, partial results, and loops in another order."""

    def draw(rnd: random.Random, n: int) -> Schedule:
        s = Schedule(p)
        for step in range(1 + rnd.randrange(6)):
            keys = [k for k, x in s.state.stages.items() if k[1] == 0 and any(y.reduction for y in x.loops)]
            if not keys:
                break
            stage = s.state.stages[rnd.choice(keys)]
            h = s[s.state.address(stage.key)]
            loop = rnd.choice(stage.loops).name
            try:
                match rnd.randrange(7):
                    case 0 | 1 | 2:
                        h.split(loop, f"o{step}", f"i{step}", rnd.choice((2, 2, 3, 4, 4, 6, 8)))
                    case 3:
                        h.rfactor(loop, f"p{step}")
                    case 4:
                        rnd.choice((h.vectorize, h.parallel))(loop, rnd.choice((2, 4, 8)))
                    case 5:
                        rnd.choice((h.vectorize, h.parallel))(loop)
                    case _:
                        names = [x.name for x in stage.loops]
                        h.reorder(*rnd.sample(names, len(names)))
            except ScheduleError:
                pass
        return s

    return draw


def fuzzed(p: Pipeline) -> Draw:
    """Schedules of any directives, among them some that reassociate."""

    def draw(rnd: random.Random, n: int) -> Schedule:
        s = Schedule(p)
        for step in range(1 + rnd.randrange(3)):
            kind = rnd.choice(("rfactor", "vectorize", "parallel", "online", "reorder", "split", "clone", "specialize"))
            recipes.cook(s, rnd.randrange, 20 * step, kind)
        if rnd.randrange(2):
            moves.grow(s, rnd.randrange, rnd.randrange(4), first=70)
        return complete(s) if rnd.randrange(2) else s

    return draw


def a_case(rnd: random.Random, seed: int) -> Case | None:
    """A random pipeline of floats with a reduction."""
    try:
        return random_pipeline(rnd.randrange, False, 2, seed, (rnd.choice(STAGES),))
    except TilewrightError:
        return None


def compared(
    p: Pipeline, draw: Draw, rnd: random.Random, several: int, sizes: list[dict[str, int]], seen: Seen
) -> None:  # fmt: skip
    """Draw schedules, run them, and compare those of one order. Raises AssertionError where their bits differ."""
    found: dict[Order, tuple[Schedule, list[Any]]] = {}
    inputs = [i for i in (_inputs(p, s, rnd.randrange(1000)) for s in sizes) if i is not None]
    for n in range(several):
        s = draw(rnd, n)
        try:
            s.check()
            kernel = running.kernel(s.state, "contract", running.random_plan(p, lambda m: 0))
            results = [_run(p, s, kernel, i, rnd) for i in inputs]
        except (ScheduleError, CompileError, BoundsError):
            continue
        order = order_of(s, "contract")
        seen.orders.add(str(order))
        before = found.setdefault(order, (s, results))
        for other, (t, theirs) in found.items():
            same = [_same(a, b) for a, b in zip(results, theirs, strict=True) if a is not None and b is not None]
            if other == order:
                if t is not s:
                    seen.same += len(same)
                    seen.reassociating += len(same) * bool(s.state.reassociations)
                assert all(same), f"{order}\n\n{before[0]}\n\n{s}"
            else:
                seen.told_apart += same.count(False)


def _inputs(p: Pipeline, sizes: dict[str, int], seed: int) -> dict[str, Any] | None:
    try:
        return random_inputs(p, sizes, seed)
    except TilewrightError:
        return None


def _run(p: Pipeline, s: Schedule, kernel: Any, inputs: dict[str, Any], rnd: random.Random) -> Any:
    """The result of a guarded run, with tasks in any order; None where the call or the schedule refuses the sizes."""
    plan = running.random_plan(p, lambda m: 0)
    try:
        return running.run_guarded(p, s.state, kernel, plan.classes, running.copied(inputs), rnd.randrange)
    except (BoundsError, ArgumentError):
        return None


def _same(a: Any, b: Any) -> bool:
    return all(x.tobytes() == y.tobytes() or _nans(x, y) for x, y in zip(_leaves(a), _leaves(b), strict=True))


def _nans(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays have the same bits, or both NaN."""
    if x.dtype.kind not in "fV":
        return False
    u, v = x.astype(np.float64), y.astype(np.float64)
    same = (u == v) & (np.signbit(u) == np.signbit(v))
    return bool(np.all(same | (np.isnan(u) & np.isnan(v))))


def _leaves(a: Any) -> Iterator[np.ndarray]:
    if isinstance(a, (list, tuple)):
        for x in a:
            yield from _leaves(x)
    elif isinstance(a, dict):
        yield from _leaves(list(a.values()))
    elif a is not None:
        yield np.asarray(a)
