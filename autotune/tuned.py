"""What a tuner has found: a schedule for each bucket, with the figures that speak for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.errors import TuneError
from tilewright.autotune.tasks import Found, Job, Subject, winner
from tilewright.hw.humane import share
from tilewright.hw.render.tables import Table, columns, table

if TYPE_CHECKING:
    from tilewright.autotune.dispatch import Dispatch
    from tilewright.autotune.frozen import Frozen, Measured
    from tilewright.autotune.regret import Regret
    from tilewright.schedule.schedule import Schedule

REASONS = 3  # of failures that a report tells


@dataclass(frozen=True, slots=True)
class Step:
    """A candidate as it was judged: seconds since the start, its figure (None: it failed), and what was predicted."""

    at: float
    figure: float | None
    predicted: float | None
    origin: str
    status: str


@dataclass(frozen=True)
class Result:
    """One bucket of one kernel.

    `figure` is that of `schedule`, `default` that of the default schedule (None where it could not be measured), `bound` the
    least that is physically possible (None: not known), all in `unit`. `origin` says where the schedule comes from. `finals`
    says whether it was compared with the default schedule side by side; `complete` whether the search had its time.
    """

    kernel: str
    bucket: str
    sizes: Mapping[str, int]
    schedule: Schedule
    origin: str
    figure: float | None
    default: float | None
    bound: float | None
    unit: str
    spread: float
    tried: int
    reused: int
    pruned: int
    failed: Mapping[str, int]
    reasons: Sequence[str]
    finals: bool
    complete: bool
    weight: float = 1.0
    steps: Sequence[Step] = ()
    subject: Subject | None = field(default=None, repr=False, compare=False)

    @property
    def box(self) -> Bucket:
        """The bucket itself."""
        found = Bucket.read(self.bucket)
        return replace(found, at=tuple(self.sizes[a.name] for a in found.ranges), weight=self.weight)

    @property
    def gain(self) -> float | None:
        """How many times better than the default schedule: 1 where it is the default schedule."""
        return self.default / self.figure if self.default and self.figure else None

    @property
    def reached(self) -> float | None:
        """The share of what is physically possible."""
        return self.bound / self.figure if self.bound and self.figure else None

    def as_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel, "bucket": self.bucket, "sizes": dict(self.sizes), "schedule": str(self.schedule),
            "hash": self.schedule.hash, "origin": self.origin, "figure": self.figure, "default": self.default,
            "bound": self.bound, "unit": self.unit, "gain": self.gain, "reached": self.reached, "spread": self.spread,
            "tried": self.tried, "reused": self.reused, "pruned": self.pruned, "failed": dict(self.failed),
            "reasons": list(self.reasons), "finals": self.finals, "complete": self.complete, "weight": self.weight,
            "steps": [[s.at, s.figure, s.predicted, s.origin, s.status] for s in self.steps],
        }  # fmt: skip


def result_of(job: Job, unit: str, complete: bool) -> Result:
    """What came out for a job: its winner, or the default schedule where nothing could be measured."""
    best = winner(job)
    chosen = best.candidate if best is not None else job.default
    default = next((f for f in (*job.finals, *job.found.values()) if f.candidate.hash == job.default.hash), None)
    if best is not None and default is not None and best.candidate.hash == default.candidate.hash:
        default = best
    return Result(
        job.subject.name, job.bucket.text, dict(job.sizes), chosen.schedule, chosen.origin,
        best.figure if best else None, default.figure if default else None, job.bound, unit, best.spread if best else 0.0,
        job.tried, job.reused, job.pruned, dict(job.failed), reasons(job), bool(job.finals), complete and best is not None,
        job.weight, tuple(map(_step, job.found.values())), job.subject,
    )  # fmt: skip


def _step(f: Found) -> Step:
    return Step(f.at, f.figure if f.ok else None, f.predicted, f.candidate.origin, f.status)


def reasons(job: Job) -> tuple[str, ...]:
    """What candidates failed of, the commonest first, with the number of them."""
    said = Counter(f"{f.status}: {f.message.strip().splitlines()[0]}" if f.message.strip() else f.status
                   for f in job.found.values() if not f.ok)  # fmt: skip
    return tuple(f"{n} x {text:.200}" for text, n in said.most_common(REASONS))


@dataclass(frozen=True)
class Tuned:
    """What `tw.tune` gives. `stopped` says why it ended: time, trials, exhausted (every schedule was judged), bound (nothing
    is left to gain), error (of a search, see `words`) or interrupted. `machine` is the simulated one, or what the times are
    of. `words` is what else one should know."""

    results: tuple[Result, ...]
    objective: str
    unit: str
    machine: str
    strategy: str
    seconds: float
    budget: float
    stopped: str
    threads: int | None = None
    words: tuple[str, ...] = ()
    regrets: Mapping[str, Regret] = field(default_factory=dict)

    @property
    def best(self) -> Schedule:
        """The schedule, where there is one bucket."""
        if len(self.results) != 1:
            raise _several(self.results)
        return self.results[0].schedule

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Schedules by bucket, where there is one kernel."""
        if len({r.kernel for r in self.results}) != 1:
            raise _several(self.results)
        return {r.bucket: r.schedule for r in self.results}

    @property
    def complete(self) -> bool:
        """Whether every bucket was searched and compared with its default schedule, and nothing cut it short."""
        return self.stopped != "interrupted" and all(r.complete for r in self.results)

    @property
    def tried(self) -> int:
        return sum(r.tried for r in self.results)

    @property
    def failed(self) -> Counter[str]:
        return sum((Counter(r.failed) for r in self.results), Counter())

    def of(self, kernel: str) -> Tuned:
        """What was found for one of several kernels."""
        kept = tuple(r for r in self.results if r.kernel == kernel)
        if not kept:
            names = ", ".join(dict.fromkeys(r.kernel for r in self.results))
            raise TuneError(f"nothing was tuned for {kernel!r}", code="tune.kernel", hint=f"there are {names}")
        return replace(self, results=kept, regrets={k: r for k, r in self.regrets.items() if k == kernel})

    @property
    def figures(self) -> dict[str, dict[str, float | None]]:
        """By bucket: the figures of the default schedule, of the best one, of the bound, and how many times better the best
        one is than the default one."""
        return {
            r.bucket: {"default": r.default, "best": r.figure, "bound": r.bound, "gain": r.gain} for r in self.results
        }

    def kernel(self, name: str | None = None) -> Dispatch:
        """The kernel with these schedules: it takes for each call the one for its sizes. `name`: which of several."""
        from tilewright.autotune.dispatch import Dispatch, Entry

        found = self.of(name) if name is not None else self
        subject = found.results[0].subject
        if subject is None or len({r.kernel for r in found.results}) != 1:
            raise _several(found.results)
        entries = [Entry(r.box, r.schedule, r.figure, r.unit, "tuned") for r in found.results]
        return Dispatch(subject.pipeline, entries, mode=subject.mode, keyword_only=subject.keyword_only)

    def frozen(self) -> Frozen:
        """The schedules as a file has them, with their figures (see `tilewright schedules`)."""
        from tilewright.autotune.frozen import entry_of, frozen
        from tilewright.autotune.frozen.freezing import case_remarks

        entries = [entry_of(r.bucket, r.schedule, _measured(r)) for r in self.results]
        kernels = {r.kernel: r.schedule.pipeline for r in self.results}
        modes = dict.fromkeys(r.subject.mode for r in self.results if r.subject is not None)
        remarks = case_remarks(self.objective, " and ".join(modes) or "contract", self.machine)
        return frozen(entries, remarks, list(kernels.values()))

    def save(self, path: str | Path) -> None:
        """Write the kernels with their schedules as a `.tw` file. Raises OSError where it can't be written."""
        self.frozen().write(path)

    def as_json(self) -> dict[str, Any]:
        return {
            "objective": self.objective, "unit": self.unit, "machine": self.machine, "strategy": self.strategy,
            "threads": self.threads, "seconds": self.seconds, "budget": self.budget, "stopped": self.stopped,
            "complete": self.complete, "words": list(self.words), "results": [r.as_json() for r in self.results],
            "regrets": {k: r.as_json() for k, r in self.regrets.items()},
        }  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(self.as_json(), indent=2)

    # The report ---------------------------------------------------------------------------------------------------

    def title(self) -> str:
        names = ", ".join(dict.fromkeys(r.kernel for r in self.results))
        on = f" on {self.machine}" if self.machine else ""
        buckets = f"{len(self.results)} buckets, " if len(self.results) > 1 else ""
        tried = f"{self.tried} schedule{'s' * (self.tried != 1)}"
        return (
            f"{names} tuned for {self.objective}{on}: {buckets}{tried} in {self.seconds:.0f} of {self.budget:.0f} s, "
            f"ended by {ENDED[self.stopped]}"
        )

    def table(self) -> Table:
        """A row for each bucket."""
        head = ("", "sizes", "default", "best", "gain", "of possible", "from", "tried", "known", "pruned", "failed")
        rows = [
            (r.kernel, r.bucket or _sizes(r.sizes), quantity(r.default, r.unit), quantity(r.figure, r.unit),
             f"x{r.gain:.2f}" if r.gain else "", share(r.reached) if r.reached else "", r.origin,
             str(r.tried), str(r.reused or ""), str(r.pruned or ""), str(sum(r.failed.values()) or ""))
            for r in self.results
        ]  # fmt: skip
        return table("", head, rows, left=2)

    def notes(self) -> list[str]:
        """What one should know before one trusts the figures."""
        several = len(self.regrets) > 1
        regrets = [f"{k}: {r}" if several else str(r) for k, r in self.regrets.items()]
        return [*regrets, *self.words, *_failures(self), *_incomplete(self)]

    def __str__(self) -> str:
        t = self.table()
        parts = [self.title(), columns([t.head, *t.rows], t.left)]
        notes = self.notes()
        parts += ["\n".join("note: " + n.replace("\n", "\n      ") for n in notes)] if notes else []
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        from tilewright.hw.render.html import page

        return page(self.title(), [self.table()], [f"note: {n}" for n in self.notes()])

    def picture(self, path: str | Path) -> None:
        """Draw the search: the best over time, predicted and measured figures, buckets. Needs Matplotlib (extra `tune`)."""
        from tilewright.autotune.picture import draw_search

        draw_search(replace(self), Path(path))


ENDED = {
    "time": "the time", "trials": "the number of trials", "exhausted": "having judged all there are",
    "bound": "nothing being left to gain", "error": "an error of a search", "interrupted": "an interruption",
}  # fmt: skip


def _failures(t: Tuned) -> Iterator[str]:
    for r in t.results:
        failures = sum(r.failed.values())
        if r.figure is None and failures:
            yield (f"{_named(r)}: nothing could be measured, so it has the default schedule"
                   + (f"; {'; '.join(r.reasons)}" if r.reasons else ""))  # fmt: skip
        elif failures and r.reasons:
            yield f"{_named(r)}: {failures} failed, {'; '.join(r.reasons)}"
    late = [r for r in t.results if r.figure is None and not r.failed]
    if late:
        have = "it has the default schedule" if len(late) == 1 else f"these {len(late)} have the default schedule"
        yield f"{_names(late)}: ended by {ENDED[t.stopped]} before anything was measured, so {have}"


def _incomplete(t: Tuned) -> Iterator[str]:
    if t.stopped == "interrupted" and any(r.figure is not None for r in t.results):
        yield "interrupted: the best so far, by single runs"
    short = [r for r in t.results if not r.complete and r.figure is not None]
    if short and t.stopped != "interrupted":
        few = "there were few trials" if t.stopped == "trials" else "the time was short"
        yield f"{few}: the search of {_names(short)} had hardly begun"


def _names(results: Sequence[Result]) -> str:
    return ", ".join(map(_named, results[:4])) + (" ..." if len(results) > 4 else "")


def _named(r: Result) -> str:
    return f"{r.kernel} at {r.bucket or _sizes(r.sizes)}"


def _sizes(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{n}={v}" for n, v in sizes.items())


def quantity(figure: float | None, unit: str) -> str:
    """A figure in its unit, as people read it: `12.3 ms`, `4.56 M cycles`, `1.50 MiB`."""
    from tilewright.hw import humane

    if figure is None:
        return ""
    if unit == "bytes":
        return humane.size(figure)
    if unit == "s":
        scale, name = next(((s, n) for s, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if figure >= s), (1e-9, "ns"))
        return f"{figure / scale:.3g} {name}" if figure / scale < 999.5 else f"{figure / scale:.0f} {name}"
    text = humane.count(figure)
    return f"{text} {unit}" if text[-1].isdigit() else f"{text}{unit}" if unit == "J" else f"{text} {unit}"


def _measured(r: Result) -> Measured | None:
    """What a file says of a result."""
    from tilewright.autotune.frozen import Measured
    from tilewright.autotune.records.record import now

    if r.figure is None:
        return None
    return Measured(
        r.figure, r.unit, r.sizes, spread=r.spread / r.figure if r.spread and r.figure else None, day=now()[:10]
    )


def _several(results: Sequence[Result]) -> TuneError:
    return TuneError(
        f"{len(results)} buckets were tuned, and there is no one schedule for all of them", code="tune.several",
        hint="tuned.results has them; tuned.of(kernel) those of one kernel",
    )  # fmt: skip


__all__ = ["Result", "Step", "Tuned", "quantity", "result_of"]
