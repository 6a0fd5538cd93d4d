"""What is measured and what comes out, as plain data that goes between processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tilewright.autotune.errors import TuneError
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import user_location
from tilewright.lang.extern import externs
from tilewright.lang.extern_stage import signatures
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.text import print_kernel

OBJECTIVES = {"time": "s", "cycles": "cycles", "bytes": "bytes", "energy": "pJ"}  # and their units
CACHES = ("hot", "cold")
STATUSES = ("ok", "illegal", "compile", "wrong", "crash", "timeout", "memory", "instant", "stopped")


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel at sizes, and what its schedules are compared by.

    `kernel` is its text form, `objective` one of `OBJECTIVES` (all but time are those of a simulated `machine`: a preset's
    name or the text of a machine file). With `cache="hot"` a call follows the one before, with `cold` the caches are
    flushed in between. `scalars` are values of scalar arguments; `inputs` names an `.npz` file with arrays for the
    arguments, which are drawn where it has none. Candidates are checked at small sizes, at the `shapes` and at the sizes.
    """

    kernel: str
    digest: str
    name: str
    sizes: Mapping[str, int]
    mode: str = "contract"
    scalars: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    cache: str = "hot"
    objective: str = "time"
    machine: str | None = None
    seed: int = 0
    inputs: str | None = None
    shapes: tuple[Mapping[str, int], ...] = ()

    @staticmethod
    def of(kernel: Any, sizes: Mapping[str, int], **options: Any) -> Task:
        """The task of a kernel or pipeline; `options` are further fields. A kernel's own mode counts unless one is given.

        Raises TuneError (`tune.extern`, `tune.option`) and ArgumentError for sizes that the kernel does not have.
        """
        p = kernel if isinstance(kernel, Pipeline) else kernel.pipeline()
        foreign = [e.name for e in externs(p.roots())] + [s.stage.name for s in signatures(p)]
        if foreign:
            raise TuneError(
                f"{p.name} calls {foreign[0]}, a function of this program", code="tune.extern",
                where=(user_location(), p.location),
                hint="candidates run in processes of their own, which know a kernel by its text alone: tune the stages "
                "beside it in a kernel without it",
            )  # fmt: skip
        check_all_sizes(p, sizes)
        if not isinstance(kernel, Pipeline):
            options.setdefault("mode", kernel.mode)
        made = Task(print_kernel(p), p.digest, p.name, {n: int(v) for n, v in sizes.items()}, **options)
        return replace(made, scalars={n: _plain(v) for n, v in made.scalars.items()})

    def __post_init__(self) -> None:
        _one_of("objective", self.objective, OBJECTIVES)
        _one_of("cache", self.cache, CACHES)
        if type(self.threads) is not int or self.threads < 1:
            raise TuneError(f"threads= is {self.threads!r}", code="tune.option", where=user_location(),
                            hint="it is a positive integer: how many threads a call may use")  # fmt: skip
        if self.inputs is not None and not Path(self.inputs).is_absolute():
            object.__setattr__(self, "inputs", str(Path(self.inputs).absolute()))

    @property
    def unit(self) -> str:
        """That of the figures."""
        return OBJECTIVES[self.objective]

    @property
    def key(self) -> str:
        """Tells tasks apart."""
        return hashlib.blake2b(json.dumps(self.as_json(), sort_keys=True).encode(), digest_size=12).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` makes it again."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Task:
        """From what `as_json` gave."""
        return Task(**{**data, "shapes": tuple(data.get("shapes", ()))})


def _one_of(name: str, value: str, among: Iterable[str]) -> None:
    if value not in tuple(among):
        raise TuneError(f"{name}= is {value!r}", code="tune.option", where=user_location(),
                        hint=f"one of: {', '.join(among)}")  # fmt: skip


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one schedule, the `index`-th of those that were given.

    `status` is one of `STATUSES`; the `figure` (in `unit`) is there where it is `ok`: of times the least of all `samples`,
    beside which are their `median` and their `spread` (the median distance from it). `message` says why there is none.
    `seconds` is what each stage took (compile, check, run), `fingerprint` the machine that it ran on.
    """

    index: int
    schedule: str
    status: str
    figure: float | None = None
    unit: str = "s"
    samples: int = 0
    median: float | None = None
    spread: float | None = None
    message: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def as_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` makes it again."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return made | {"fingerprint": self.fingerprint.as_json() if self.fingerprint else None}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        """From what `as_json` gave."""
        print_ = data.get("fingerprint")
        return Outcome(**{**data, "fingerprint": Fingerprint.from_json(print_) if print_ else None})


@dataclass(frozen=True, slots=True)
class Limits:
    """How long candidates may take, in seconds, and how much memory, in bytes.

    `compile` and `check` are for one candidate; `run` for the runs of one (or `RUNS` times the best so far, where that is
    more); `start` for a worker to be there. `memory` is what a process may take beside the interpreter (None: half of the
    machine's). After `jobs` candidates a worker makes place for a new one.
    """

    compile: float = 30.0
    check: float = 30.0
    run: float = 5.0
    start: float = 60.0
    memory: int | None = None
    jobs: int = 300


RUNS = 3.0  # times the best that a candidate's run may take, where that is more than `Limits.run`


class Measurer(Protocol):
    """What measures schedules: in processes of this machine, or of others. A context manager.

    `run` gives outcomes in the order in which they are there; of a run that is given up what has not begun is dropped.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """The machine whose figures count; of several the first one's."""
        ...

    def run(
        self, task: Task, schedules: Sequence[str], best: float | None = None, until: float | None = None
    ) -> Iterator[Outcome]:
        """Check and measure schedules (text form). `best` is the best figure so far: what is far slower is not measured
        to the end. What is not there at the time `until` (of `time.monotonic`) is given up. It begins when it is called,
        and not when the first outcome is asked for."""
        ...

    def predict(self, task: Task, schedules: Sequence[str]) -> list[float | None]:
        """Their costs by the model, without compiling them; None where it can't say, infinity where they can't be."""
        ...

    def finals(self, task: Task, schedules: Sequence[str]) -> list[Outcome]:
        """Measure a few against each other, run by run in turns; the best comes first."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


__all__ = ["CACHES", "OBJECTIVES", "RUNS", "STATUSES", "Limits", "Measurer", "Outcome", "Task"]
