"""Whether a candidate computes the right values, at small sizes and at its own, before it is timed.

At small sizes the reference says what is right: all bits on exact data, or else the derived error bound. Those sizes are
odd ones, single ones, and such that leave the same rests as the task's own. At the task's sizes, where the reference may
take too long, the default schedule says it, which is judged at the small ones as every candidate is: the same bits, or as
near as errors of sums that much longer can be. There it is about whole blocks that are left out or come twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.autotune.measure.arrays import Guarded, guarded, guarded_copy, same_bits
from tilewright.autotune.measure.task import Task
from tilewright.codegen.judge import default_sizes, takes
from tilewright.lang import exactness, judging, samples
from tilewright.lang.binding import Bound, bind, index_value
from tilewright.lang.errorbound import ErrorBound, error_bound
from tilewright.lang.errors import BoundsError, TilewrightError
from tilewright.lang.judging import MOST_AMBIGUOUS, MismatchError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import run as run_reference
from tilewright.lang.reference import structured
from tilewright.lang.values import index_values

_POINTS = 200_000  # of all small sizes multiplied
_SECONDS = 1.5  # that the reference may take for a small case
_LEAST, _CHANCE = 5e-8, 0.02  # seconds for each point at least; by which times differ by chance
_FAST = 16.0  # times the error bound that mode fast may be off

Judge = Callable[[Sequence[np.ndarray], Mapping[str, np.ndarray]], None]


@dataclass(eq=False)
class Case:
    """Arguments at some sizes (never written to), what the outputs are expected to be, and the judge of results:
    it raises MismatchError. What passed first is kept: most candidates give the same bits."""

    p: Pipeline
    sizes: Mapping[str, int]
    args: Mapping[str, Any]
    expected: Sequence[np.ndarray]
    judge: Judge
    passed: list[np.ndarray] | None = None

    def arena(self) -> Arena:
        return Arena(self.p, self.args, self.expected)


class Arena:
    """What a candidate is called with: private copies of what it writes, its inputs beside."""

    def __init__(self, p: Pipeline, args: Mapping[str, Any], like: Sequence[np.ndarray]):
        self.p, self.pristine = p, args
        self.outputs = [guarded(a.shape, a.dtype) for a in like]
        self.written: dict[str, Guarded] = {f.name: guarded_copy(args[f.name]) for f in p.inouts}
        self.inputs = {
            n: a.copy() for n, a in args.items() if isinstance(a, np.ndarray) and a.ndim and n not in self.written
        }
        scalars = {n: v for n, v in args.items() if n not in self.inputs and n not in self.written}
        self.args = {**scalars, **self.inputs, **{n: g.array for n, g in self.written.items()}}
        self.args = {q.name: self.args[q.name] for q in p.params}
        self.out = structured(p.structure, [g.array for g in self.outputs])

    def reset(self, expected: Sequence[np.ndarray] | None = None) -> None:
        """Poison in the outputs, `inout` arrays as they were."""
        for k, g in enumerate(self.outputs):
            g.poison(None if expected is None else expected[k])
        self.restore()

    def restore(self) -> None:
        """`inout` arrays as they were."""
        for n, g in self.written.items():
            g.array[...] = self.pristine[n]

    def check(self) -> None:
        """Raise MismatchError where something was written that is not its own."""
        named = [(o.name, g) for o, g in zip(self.p.outputs, self.outputs, strict=True)] + list(self.written.items())
        for name, g in named:
            if not g.intact():
                raise MismatchError(f"it writes beyond the bounds of {name}")
        for n, a in self.inputs.items():
            if not same_bits(a, self.pristine[n]):
                raise MismatchError(f"it writes to its input {n}")


def trial(case: Case, kernel: Any, threads: int, arena: Arena | None = None) -> None:
    """Run a candidate once on poisoned outputs and judge it. Raises MismatchError.

    Sizes that a schedule of its own accord does not take are left out: the one thing that it may raise.
    """
    arena = arena or case.arena()
    arena.reset(case.expected)
    try:
        kernel(**arena.args, out=arena.out, sizes=dict(case.sizes), threads=threads)
    except BoundsError as e:
        if e.code != "bounds.schedule":
            raise
        return
    arena.check()
    written = {n: g.array for n, g in arena.written.items()}
    found = [g.array for g in arena.outputs]
    results = [*found, *written.values()]
    if case.passed is not None and all(map(same_bits, results, case.passed)):
        return
    try:
        case.judge(found, written)
    except MismatchError as e:
        raise MismatchError(f"{e.message} (at {shown(case.sizes)})" if case.sizes else e.message) from None
    case.passed = [a.copy() for a in results]


def shown(sizes: Mapping[str, int]) -> str:
    """`M=3, N=5`"""
    return ", ".join(f"{n}={v}" for n, v in sizes.items()) or "its one size"


# Small sizes ----------------------------------------------------------------------------------------------------


def small_sizes(p: Pipeline, task: Task) -> list[dict[str, int]]:
    """Sizes at which the reference takes milliseconds as a rule, none of them larger than the task's, smaller ones first.

    Where sizes hang together, such as one that must be as long as a table, some stay what they are.
    """
    full = task.sizes
    step = 8 if len(p.sizes) > 3 else 16
    few = {n: (5, 3, 7, 2, 4, 6)[k % 6] for k, n in enumerate(p.sizes)}
    tries = [
        dict.fromkeys(p.sizes, 1),
        few,
        dict.fromkeys(p.sizes, 2 * step),
        {n: v % step + 2 * step for n, v in full.items()},
        default_sizes(p, task.scalars),
    ]
    found: list[dict[str, int]] = []

    def take(sizes: Mapping[str, int], shrink: bool = True) -> None:
        clipped = {n: min(v, full[n]) for n, v in sizes.items()}
        clipped = _shrunk(clipped) if shrink else clipped
        if clipped not in found and takes(p, clipped, task.scalars):
            found.append(clipped)

    for sizes in tries:
        take(sizes)
    if len(found) < 2:
        for name in p.sizes:
            take({**few, name: full[name]}, shrink=False)
            take({**full, name: few[name]}, shrink=False)
    return sorted(found, key=_points)


def _points(sizes: Mapping[str, int]) -> float:
    return float(np.prod([max(float(v), 1.0) for v in sizes.values()] or [1.0]))


def _shrunk(sizes: dict[str, int]) -> dict[str, int]:
    while _points(sizes) > _POINTS:
        largest = max(sizes, key=lambda n: sizes[n])
        sizes = {**sizes, largest: (sizes[largest] + 1) // 2}
    return sizes


def case(p: Pipeline, task: Task, sizes: Mapping[str, int], args: Mapping[str, Any]) -> Case:
    """What the reference gives: all bits where the arguments are exact data, else what lies within the error bound."""
    exact = task.mode != "strict" and _exact(p, args, sizes)
    kept = {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in args.items()}
    bound = bind(p, (), kept, sizes)
    limits = None if exact or task.mode == "strict" else error_bound(p, bind(p, (), args, sizes))
    result = [a for _, a in judging.leaves(run_reference(p, bound))]
    written = {f.name: bound.arrays[f.name] for f in p.inouts}
    factor = _FAST if task.mode == "fast" else 1.0

    def judge(outputs: Sequence[np.ndarray], changed: Mapping[str, np.ndarray]) -> None:
        if limits is None:
            _require_bits(_named(p, outputs, changed), _named(p, result, written), exact)
        else:
            for o, x, e in zip(p.outputs, outputs, limits, strict=True):
                require_near(o.name, x, e.value, e.bound * factor, e.ambiguous)

    return Case(p, sizes, args, result, judge)


def _exact(p: Pipeline, args: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    """Whether no rounding takes part where schedules may differ."""
    try:
        exactness.check_exact(p, bind(p, (), args, sizes))
    except exactness.NotExactError:
        return False
    return True


def small_case(p: Pipeline, task: Task, sizes: Mapping[str, int]) -> Case:
    """What the reference gives for exact data, or where there are none for random ones. Raises TilewrightError where there
    is nothing that the kernel takes."""
    try:
        args = exactness.exact_inputs(p, sizes, task.seed, task.scalars, fused=task.mode != "strict")
    except exactness.NotExactError:
        args = samples.random_inputs(p, sizes, task.seed) | dict(task.scalars)
    return case(p, task, sizes, args)


def _named(p: Pipeline, outputs: Sequence[np.ndarray], written: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Results by name."""
    return {**{o.name: a for o, a in zip(p.outputs, outputs, strict=True)}, **written}


def _require_bits(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], zeros: bool) -> None:
    """Raise MismatchError, with the output's name, unless all have the same bits (zeros of either sign are equal)."""
    for name, a in found.items():
        try:
            judging.require_bitwise(a, expected[name], zeros)
        except MismatchError as e:
            raise MismatchError(e.message.replace("result", name)) from None


def require_near(name: str, x: np.ndarray, value: np.ndarray, bound: Any, ambiguous: Any) -> None:
    """Raise MismatchError where elements that are not ambiguous lie outside of a bound."""
    if x.dtype.kind in "biu":
        near = np.asarray(x == value)
    else:
        wide, exact = x.astype(np.float64), value.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = (np.abs(wide - exact) <= bound) | (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    wrong = ~near & ~np.asarray(ambiguous)
    if wrong.any():
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        raise MismatchError(
            f"{name}: {int(wrong.sum())} of {wrong.size} elements lie outside their error bound; the first is "
            f"{name}[{', '.join(map(str, first))}]: {x[first]!r} and {value[first]!r}"
        )


# The task's sizes -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Checks:
    """All that a task's candidates are checked by. `skipped` says what can't be checked, and why."""

    p: Pipeline
    task: Task
    skipped: list[str] = field(default_factory=list)
    _fixed: float = np.inf  # seconds of the reference and its error bounds at the smallest sizes,
    _rate: float = 0.0  # and what they take besides, over the product of sizes

    @cached_property
    def small(self) -> list[Case]:
        """At small sizes, as many as the reference does in a few seconds."""
        made: list[Case] = []
        for sizes in small_sizes(self.p, self.task):
            if made and self.case_seconds(sizes) > _SECONDS:
                self.skipped.append(f"values at {shown(sizes)}: the reference takes too long")
                continue
            start = time.perf_counter()
            try:
                made.append(small_case(self.p, self.task, sizes))
            except TilewrightError as e:
                self.skipped.append(f"values at {shown(sizes)}: {e.message}")
                continue
            took = time.perf_counter() - start
            if len(made) == 1:
                self._fixed = took
            self._rate = max((took - self._fixed - _CHANCE) / _points(sizes), _LEAST)
        return made

    def case_seconds(self, sizes: Mapping[str, int]) -> float:
        """About how long the reference takes at these sizes, with error bounds and all, rather more than less."""
        return self._fixed + self._rate * _points(sizes)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """Those that candidates are timed with: the task's own arrays, and drawn ones for what it does not give."""
        return self.arguments_at(self.task.sizes, self._given)

    @cached_property
    def _given(self) -> dict[str, Any]:
        if self.task.inputs is None:
            return {}
        types = {q.name: q.dtype.np for q in self.p.params}
        with np.load(self.task.inputs, allow_pickle=False) as file:
            arrays = {n: file[n] for n in file.files}
        # files say of bf16 nothing but its size
        return {n: a.view(types[n]) if a.dtype.kind == "V" and n in types else a for n, a in arrays.items()}

    def arguments_at(self, sizes: Mapping[str, int], given: Mapping[str, Any]) -> dict[str, Any]:
        """Whole numbers where all elements of those were exact at small sizes, else the standard normal distribution."""
        draw = _whole_numbers if self._whole else samples.random_inputs
        args = {**draw(self.p, sizes, self.task.seed), **_halves(self.p), **self.task.scalars, **given}
        bind(self.p, (), args, sizes)
        return args

    @cached_property
    def _whole(self) -> bool:
        """Whether small whole numbers are exact data: then candidates give the same bits at all but huge sizes."""
        if self.task.inputs is not None or not self.small or self.task.mode == "strict":
            return False
        sizes = self.small[-1].sizes
        args = {**_whole_numbers(self.p, sizes, self.task.seed), **_halves(self.p), **self.task.scalars}
        return _exact(self.p, args, sizes)

    @cached_property
    def tolerances(self) -> list[tuple[float, float]] | None:
        """For each output, how far elements may lie apart at the task's sizes, as a share of the largest one, and how many
        may do so nevertheless (where errors can flip comparisons); None where no error bound says anything.

        The bound of a sum grows with its terms: it is that of a small size, times how much longer the reductions are.
        """
        for case in reversed(self.small):
            args = samples.random_inputs(self.p, case.sizes, self.task.seed) | dict(self.task.scalars)
            try:
                bounds = error_bound(self.p, bind(self.p, (), args, case.sizes))
            except TilewrightError:
                continue
            if all(e.value.size for e in bounds):
                factor = 2 * self._growth(case.sizes) * (_FAST if self.task.mode == "fast" else 1.0)
                return [_tolerance(e, factor) for e in bounds]
        return None

    def _growth(self, small: Mapping[str, int]) -> float:
        """How many times more terms the longest reduction has at the task's sizes than at small ones."""
        ratios = [1.0]
        for d in self.p.definitions():
            if d.rdom is not None:
                terms = [_terms(d.rdom.ranges.values(), {**self.task.scalars, **s}) for s in (self.task.sizes, small)]
                ratios.append(terms[0] / max(terms[1], 1.0))
        return max(ratios)

    def by_reference(self, *, out: Any, sizes: Mapping[str, int], threads: int, **args: Any) -> None:
        """The reference, as if it were a kernel."""
        found = run_reference(self.p, bind(self.p, (), args, sizes))
        for (_, to), (_, value) in zip(judging.leaves(out), judging.leaves(found), strict=True):
            to[...] = value

    def large(self, kernel: Any, args: Mapping[str, Any], sizes: Mapping[str, int]) -> Case:
        """The case of large sizes: `kernel` (the default schedule, or the reference) says what is right."""
        shapes = shapes_of(self.p, args, sizes)
        blank = [np.empty(shape, o.dtype.np) for shape, o in zip(shapes, self.p.outputs, strict=True)]
        arena = Arena(self.p, args, blank)
        arena.reset()
        kernel(**arena.args, out=arena.out, sizes=dict(sizes), threads=self.task.threads)
        arena.check()
        expected = [g.array for g in arena.outputs]
        written = {n: g.array for n, g in arena.written.items()}

        def judge(outputs: Sequence[np.ndarray], changed: Mapping[str, np.ndarray]) -> None:
            both = zip((*(o.name for o in self.p.outputs), *changed), (*outputs, *changed.values()),
                       (*expected, *(written[n] for n in changed)), strict=True)  # fmt: skip
            for k, (name, x, e) in enumerate(both):
                if not np.array_equal(x, e, equal_nan=x.dtype.kind not in "biu"):
                    self._require_about(name, x, e, k)

        return Case(self.p, sizes, args, expected, judge)

    def _require_about(self, name: str, x: np.ndarray, expected: np.ndarray, output: int) -> None:
        """Raise MismatchError where too many elements are further off than their tolerance."""
        known = self.tolerances
        share, flips = known[output] if known is not None and output < len(known) else (np.inf, 1.0)
        if self.task.mode == "strict" or np.isnan(x).sum() != np.isnan(expected).sum():
            _require_bits({name: x}, {name: expected}, False)
        if x.dtype.kind in "biu":
            far = x != expected
        else:
            wide, right = x.astype(np.float64), expected.astype(np.float64)
            scale = float(np.abs(right[np.isfinite(right)]).max(initial=0.0))
            with np.errstate(invalid="ignore"):
                far = np.abs(wide - right) > share * scale
        if float(np.mean(far)) > flips:
            first = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), far.shape))
            raise MismatchError(
                f"{name}: {int(far.sum())} of {far.size} elements are not what they should be; the first is "
                f"{name}[{', '.join(map(str, first))}]: {x[first]!r} and {expected[first]!r}"
            )


def _whole_numbers(p: Pipeline, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Arguments of small whole numbers."""
    rng = np.random.default_rng(seed)
    return samples.draw_inputs(p, sizes, rng, lambda t, shape: rng.integers(-3, 4, shape, np.int8), 3)


def _halves(p: Pipeline) -> dict[str, Any]:
    """Scalars of floats: factors and the like, of which none should be 0."""
    return {s.name: s.dtype.np.type(0.5) for s in p.scalars if s.dtype.is_float}


def _tolerance(e: ErrorBound, factor: float) -> tuple[float, float]:
    value, ambiguous = np.asarray(e.value, np.float64), np.asarray(e.ambiguous)
    counts = np.isfinite(value) & ~ambiguous
    flips = MOST_AMBIGUOUS if ambiguous.any() else 0.0
    if not counts.any():
        return np.inf, 1.0
    if e.value.dtype.kind in "biu":
        return 0.0, flips
    largest = float(np.abs(value[counts]).max())
    bound = float(np.asarray(e.bound)[counts].max())
    return (factor * bound / largest if largest else np.inf), flips


def _terms(ranges: Any, env: Mapping[str, Any]) -> float:
    try:
        return float(np.prod([max(index_value(b, env) - index_value(a, env), 0) for a, b in ranges]))
    except (KeyError, TypeError, TilewrightError):  # the range depends on data
        return 1.0


def shapes_of(p: Pipeline, args: Mapping[str, Any], sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shapes of the outputs."""
    bound: Bound = bind(p, (), args, sizes)
    return [tuple(index_values(o.extents, bound.env)) for o in p.outputs]


__all__ = [
    "Arena",
    "Case",
    "Checks",
    "case",
    "require_near",
    "shapes_of",
    "shown",
    "small_case",
    "small_sizes",
    "trial",
]
