"""`verify`: the values after every directive of a schedule, against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.codegen.compile import Compiled, compile_schedule
from tilewright.commands.targets import Target, check_memory, check_scalars, check_sizes, find_target, too_large
from tilewright.kernels import Kernel, check_mode
from tilewright.lang import exactness, judging, samples
from tilewright.lang.binding import bind
from tilewright.lang.errorbound import ErrorBound
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import run as run_reference
from tilewright.schedule.check import check
from tilewright.schedule.promises import relaxed
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State
from tilewright.schedule.text import format_directive

# Sizes where none are given: primes, so that tiles have tails; smaller ones for kernels with many sizes. The larger
# ones come first, as extents come before the widths of what slides over them.
_DEFAULT_SIZES = ((83, 71, 67), (31, 29, 23, 19), (13, 11, 7, 5, 3))


_COPIES = 8  # of all data that are alive at once: f64 values with bounds, exact and random data, several results


@dataclass(frozen=True, slots=True)
class Step:
    """The schedule's first `number` directives, run. `directive` is the last of them as text.

    `problem` says how the values differ (None: they agree); `unjudged` why there is nothing to say about them;
    `ignored` are promises that a part of a schedule can't keep; `added` marks directives of the default schedule.
    """

    number: int
    directive: str
    problem: str | None = None
    unjudged: str | None = None
    ignored: tuple[str, ...] = ()
    added: bool = False

    def __str__(self) -> str:
        word = "DIFFERS" if self.problem else "unknown" if self.unjudged else "agrees"
        notes = [self.problem or self.unjudged or ""] + [f"left out as yet: {', '.join(self.ignored)}"] * bool(
            self.ignored
        )
        shown = "; ".join(n for n in notes if n)
        return f"{self.number:4}  {word:8} {self.directive}" + (f"\n{' ' * 15}{shown}" if shown else "")


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found. `compared` says what the values were compared with, `limits` where that proves nothing."""

    kernel: str
    schedule: str
    mode: str
    sizes: Mapping[str, int]
    steps: tuple[Step, ...]
    compared: tuple[str, ...]
    limits: tuple[str, ...] = field(default=())

    @property
    def first_wrong(self) -> Step | None:
        """The first step after which values differ."""
        return next((s for s in self.steps if s.problem), None)

    @property
    def ok(self) -> bool:
        """Whether all agree, and the complete schedule was compared at all."""
        return self.first_wrong is None and bool(self.steps) and self.steps[-1].unjudged is None

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"ok": self.ok, "first_wrong": self.first_wrong and self.first_wrong.number}

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        lines = [f"{self.kernel} with {self.schedule}, mode {self.mode}" + (f", at {sizes}" if sizes else "")]
        lines += [f"  compared: {c}" for c in self.compared] + [f"  not compared: {x}" for x in self.limits]
        lines += list(map(str, self.steps))
        wrong = self.first_wrong
        if wrong is not None:
            lines.append(f"the values differ after directive {wrong.number}: {wrong.directive}" if wrong.number
                         else "the values differ before the first directive")  # fmt: skip
        elif not self.ok:
            lines.append("nothing could be compared")
        else:
            judged = sum(s.unjudged is None for s in self.steps)
            lines.append(f"all {judged} schedules that were compared agree with the reference")
        return "\n".join(lines)


def verify(
    target: str | Path | Kernel,
    *,
    schedule: str | Path | Schedule | None = None,
    sizes: Mapping[str, int] | None = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
    seed: int = 0,
) -> Verification:
    """Run a schedule after each of its directives, and compare with the reference.

    On exact data all bits must agree. On random data results must lie within their derived error bound, and as long
    as no directive changes the order of a reduction, have the same bits as the unscheduled nest. In mode `strict`, and
    where there is no exact data and the bound proves nothing, they must have the reference's bits in mode `strict`.
    Promises that a part of a schedule can't keep yet are left out and named. Stages that the schedule leaves alone get
    the default schedule, whose directives come last. Without `sizes` small odd ones are taken. `scalars` gives scalar
    parameters, where random ones make no sense.
    """
    t = find_target(target, schedule, statics, dtypes)
    chosen = check_mode(mode or t.kernel.mode)
    p = t.pipeline
    given = check_scalars(p, scalars or {})
    known = check_sizes(p, _default_sizes(p, given) | dict(sizes)) if sizes else _default_sizes(p, given)
    check_memory(p, known, copies=_COPIES)
    try:
        return _verify(t, known, given, chosen, seed)
    except MemoryError:
        raise too_large(p, known) from None


def _default_sizes(p: Pipeline, scalars: Mapping[str, Any]) -> dict[str, int]:
    """Sizes that the kernel can take; the first try where none of ours are."""
    values = next((v for v in _DEFAULT_SIZES if len(p.sizes) <= len(v)), _DEFAULT_SIZES[-1])
    tries = [
        {name: order[k % len(order)] for k, name in enumerate(p.sizes)}
        for order in (values, values[len(p.sizes) - 1 :: -1], (values[0],))
    ]
    for sizes in tries:
        try:
            bind(p, (), samples.random_inputs(p, sizes) | dict(scalars), sizes)
        except TilewrightError:
            continue
        return sizes
    return tries[0]


def _verify(t: Target, sizes: Mapping[str, int], scalars: Mapping[str, Any], mode: str, seed: int) -> Verification:
    p = t.pipeline
    full = t.complete(mode)
    compile_schedule(p, full, mode)  # a schedule that can't be compiled as it stands is misuse, not a difference
    judge = _Judge(p, sizes, scalars, mode, seed)
    own = len(t.schedule) if t.schedule is not None else 0
    steps = []
    for n, prefix in _prefixes(full):
        d = full.directives[n - 1] if n else None
        text = "(nothing scheduled)" if d is None else (f"{d.stage}: " if d.stage else "") + format_directive(d)
        steps.append(judge.step(n, text, prefix, n > own))
    return Verification(
        p.name, t.schedule_name, mode, dict(sizes), tuple(steps), tuple(judge.compared), tuple(judge.limits)
    )


def _prefixes(full: Schedule) -> Iterator[tuple[int, Schedule]]:
    """(n, the schedule of the first n directives), from none to all."""
    s = Schedule(full.pipeline, None)
    yield 0, s
    for n, d in enumerate(full.directives, 1):
        s.apply(d)
        yield n, s


class _Judge:
    """The data, what must come out of it, and the comparison."""

    def __init__(self, p: Pipeline, sizes: Mapping[str, int], scalars: Mapping[str, Any], mode: str, seed: int):
        self.p, self.sizes, self.scalars, self.mode = p, sizes, scalars, mode
        self.compared: list[str] = []
        self.limits: list[str] = []
        self.exact: dict[str, Any] | None = None
        self.exact_result: Any = None
        self.bounds: list[ErrorBound] | None = None
        self.ordered: Any = None  # bits of the algorithm's own order on random data
        self._take_exact(seed)
        self._take_random(seed)

    def _take_exact(self, seed: int) -> None:
        try:
            self.exact = exactness.exact_inputs(self.p, self.sizes, seed, self.scalars, fused=self.mode != "strict")
        except exactness.NotExactError as e:
            self.limits.append(f"exact data ({e.message})")
            return
        self.exact_result = self._reference(self.exact)
        self.compared.append("all bits on exact data, with the reference")

    def _take_random(self, seed: int) -> None:
        self.random = samples.random_inputs(self.p, self.sizes, seed) | dict(self.scalars)
        reference = self._reference(self.random)
        results = [a for _, a in judging.leaves(reference[0])] + list(reference[1].values())
        self.empty = not any(np.size(a) for a in results)
        if self.mode == "fast":
            self.limits.append("random data by error bounds (mode fast promises none)")
        elif self.mode == "contract" and self.p.outputs:
            try:
                bound = bind(self.p, (), _copied(self.random), self.sizes)
                self.bounds = judging.require_within_bound(self.p, bound, reference[0])
                self.compared.append("random data, with the reference, by derived error bounds")
            except judging.ProvesNothingError as e:
                self.limits.append(f"random data by error bounds ({e.message})")
        self.strict = self.mode == "strict" or (self.exact is None and self.bounds is None)
        if self.strict:
            self.ordered = reference
        other = "with the reference, in mode strict," if self.strict else "with the unscheduled nest,"
        self.compared.append(f"all bits on random data, {other} where no order of a sum is changed")

    def _reference(self, data: Mapping[str, Any]) -> Any:
        args = _copied(data)
        value = run_reference(self.p, bind(self.p, (), args, self.sizes))
        return value, _written(self.p, args)

    def step(self, number: int, text: str, prefix: Schedule, added: bool) -> Step:
        """Compile and run one prefix of the schedule on all data."""
        try:
            state, ignored = relaxed(prefix.state)
            check(state)
            unjudged = self._compare(state, f"{prefix.hash} {ignored}")
        except judging.MismatchError as e:
            return Step(number, text, problem=e.message, ignored=ignored, added=added)
        except TilewrightError as e:
            return Step(number, text, unjudged=f"it does not run: {e.message}", added=added)
        return Step(number, text, unjudged=unjudged, ignored=ignored, added=added)

    def _compare(self, state: State, identity: str) -> str | None:
        """Raise MismatchError for values that differ; why there is nothing to compare them with, or None."""
        in_order = not state.reassociations
        if self.empty:
            return "no result has any element at these sizes"
        if self.exact is None and self.bounds is None and not in_order:
            return "it changes the order of a sum, and neither exact data nor error bounds say anything"
        kernel = Compiled(self.p, identity, lambda: state, "strict" if self.strict and in_order else self.mode)
        if self.exact is not None:
            judging.require_bitwise(self._run(kernel, self.exact), self.exact_result, zeros=True)
        result = self._run(kernel, self.random)
        if self.bounds is not None:
            judging.require_near(self.p, self.bounds, result[0])
        if in_order:
            if self.ordered is None:
                self.ordered = result
            judging.require_bitwise(result, self.ordered)
        return None

    def _run(self, kernel: Any, data: Mapping[str, Any]) -> Any:
        args = _copied(data)
        return kernel(**args, sizes=self.sizes), _written(self.p, args)


def _copied(data: Mapping[str, Any]) -> dict[str, Any]:
    """Fresh arrays: kernels write into their `inout` ones."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in data.items()}


def _written(p: Pipeline, args: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: args[f.name] for f in p.inouts}
