"""A measurer without a clock, workers or kernels: figures follow from the schedules by a rule, time is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.measure.task import Outcome, Task

HERE = Fingerprint("Imagined CPU", ("avx2",), (32768, 1 << 20), 2)
Rule = Callable[[Task, str], float | str]  # the figure of a schedule, or the status of one that fails


@dataclass
class FakeMeasurer:
    """`rule` gives figures or statuses; `seconds` passes for each candidate on its clock, a fifth of that in finals. `log`
    has what was asked of it."""

    rule: Rule
    seconds: float = 0.5
    model: Callable[[Task, str], float | None] | None = None
    before: Callable[[int], None] = lambda n: None  # called before the n-th candidate: may raise
    spread: float = 0.0
    now: float = 0.0
    log: list[tuple[str, str, str]] = field(default_factory=list)  # run or final, sizes, the schedule
    predicted: int = 0
    closed: int = 0
    fingerprint: Fingerprint = HERE

    def clock(self) -> float:
        return self.now

    def run(
        self, task: Task, schedules: Sequence[str], best: float | None = None, until: float | None = None
    ) -> Iterator[Outcome]:
        for index, text in enumerate(schedules):
            if until is not None and self.now >= until:
                return
            self.before(len(self.log))
            yield self._judged("run", task, index, text)

    def finals(self, task: Task, schedules: Sequence[str]) -> list[Outcome]:
        made = [self._judged("final", task, index, text) for index, text in enumerate(schedules)]
        return sorted(made, key=lambda o: math.inf if o.figure is None else o.figure)

    def _judged(self, kind: str, task: Task, index: int, text: str) -> Outcome:
        self.now += self.seconds if kind == "run" else self.seconds / 5
        self.log.append((kind, ",".join(f"{n}={v}" for n, v in task.sizes.items()), text))
        said = self.rule(task, text)
        if isinstance(said, str):
            return Outcome(index, text, said, message=f"it was {said}", fingerprint=self.fingerprint)
        return Outcome(index, text, "ok", said, task.unit, 5, said, self.spread * said, fingerprint=self.fingerprint)

    def predict(self, task: Task, schedules: Sequence[str]) -> list[float | None]:
        self.predicted += len(schedules)
        return [self.model(task, s) if self.model else None for s in schedules]

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> FakeMeasurer:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.close()


__all__ = ["HERE", "FakeMeasurer", "Rule"]
