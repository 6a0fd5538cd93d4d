"""`verify`: the values after every directive of a schedule, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tilewright.codegen.compile import compile_schedule
from tilewright.codegen.judge import Judge, default_sizes, prefixes
from tilewright.commands.targets import Target, check_memory, check_scalars, check_sizes, find_target, too_large
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.text import format_directive

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
    t = find_target(target, schedule, statics, dtypes, sizes)
    chosen = check_mode(mode or t.kernel.mode)
    p = t.pipeline
    given = check_scalars(p, scalars or {})
    known = check_sizes(p, default_sizes(p, given) | dict(sizes)) if sizes else default_sizes(p, given)
    check_memory(p, known, copies=_COPIES)
    try:
        return _verify(t, known, given, chosen, seed)
    except MemoryError:
        raise too_large(p, known) from None


def _verify(t: Target, sizes: Mapping[str, int], scalars: Mapping[str, Any], mode: str, seed: int) -> Verification:
    p = t.pipeline
    full = t.complete(mode)
    compile_schedule(p, full, mode)  # a schedule that can't be compiled as it stands is misuse, not a difference
    judge = Judge(p, sizes, scalars, mode, seed)
    own = len(t.schedule) if t.schedule is not None else 0
    steps = []
    for n, prefix in prefixes(full):
        d = full.directives[n - 1] if n else None
        text = "(nothing scheduled)" if d is None else (f"{d.stage}: " if d.stage else "") + format_directive(d)
        v = judge.verdict(prefix)
        steps.append(Step(n, text, v.problem, v.unjudged, v.ignored, added=n > own))
    return Verification(
        p.name, t.schedule_name, mode, dict(sizes), tuple(steps), tuple(judge.compared), tuple(judge.limits)
    )
