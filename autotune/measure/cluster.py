"""Measuring on the machines of a Dask cluster: each has a measurer of its own, Dask spreads the candidates over them."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.fingerprint import Fingerprint, versions
from tilewright.autotune.measure import remote
from tilewright.autotune.measure.local import ranked
from tilewright.autotune.measure.task import Limits, Outcome, Task
from tilewright.lang.errors import user_location

if TYPE_CHECKING:
    from distributed import Client

_LOOK = 0.5  # seconds between looks at who is still there
_PATIENCE = 60.0  # seconds without any worker
_CONNECT = 10.0  # seconds until a scheduler answers
_LOST = 10  # workers that may die of one job, or with it
_CHUNK = 4  # candidates of one job at most


@dataclass(eq=False)
class Chunk:
    """Candidates that go to one worker together, and the workers that may take them."""

    kind: str
    indices: tuple[int, ...]
    future: Any
    workers: frozenset[str]
    lost: int = 0


@dataclass(eq=False)
class Cluster:
    """Who is there: the machine of each worker. Workers with another version of this library or its compiler are not
    counted: code that they make is not ours."""

    client: Any  # its methods are typed for use with and without `await`
    known: dict[str, Fingerprint | None] = field(default_factory=dict)

    def look(self) -> dict[str, Fingerprint]:
        """The workers that are alive, by address."""
        alive = self.client.nthreads()
        new = [address for address in alive if address not in self.known]
        if new:
            for address, said in self.client.run(remote.about, workers=new, on_error="return").items():
                good = isinstance(said, Mapping) and said["versions"] == versions()
                self.known[address] = Fingerprint.from_json(said["fingerprint"]) if good else None
        found = ((address, self.known.get(address)) for address in alive)
        return {address: machine for address, machine in found if machine is not None}


class DaskMeasurer:
    """Measures through a Dask `Client`, or the address of a scheduler (see `Measurer`).

    Candidates are spread over the workers, each of which measures as `LocalMeasurer` does, one at a time on a machine. A
    worker that dies loses nothing: what it had is done by another. Figures of different machines are never compared: what
    is timed is timed on machines of one `fingerprint` (the given one, or that of most workers); `fingerprints` are all
    that there are, and with one measurer for each, each can be tuned for. What needs no clock is done by all.

    Raises TuneError: `tune.extra` without the package `distributed`, `tune.workers` without a scheduler or workers, or
    where all workers have other versions of the library.
    """

    def __init__(self, client: Client | str, fingerprint: Fingerprint | None = None, limits: Limits | None = None):
        self._own = isinstance(client, str)
        self.client: Any = _connect(client) if isinstance(client, str) else client
        self._cluster = Cluster(self.client)
        self._limits = asdict(limits or Limits())
        self._closed = False
        self._under_way: set[Jobs] = set()
        try:
            self.fingerprint = fingerprint or self._usual()
        except BaseException:
            self._leave()
            raise

    def _usual(self) -> Fingerprint:
        """That of most workers; of the first one where several have as many."""
        found = Counter(self._workers().values())
        return max(found, key=lambda f: found[f])

    @property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """The machines that there are, each once."""
        return tuple(dict.fromkeys(self._cluster.look().values()))

    def _workers(self, machine: Fingerprint | None = None) -> dict[str, Fingerprint]:
        """Those that are alive (of one machine), as soon as there are some. Raises TuneError `tune.workers`."""
        end = time.monotonic() + _PATIENCE
        while True:
            everybody = self._cluster.look()
            found = {a: m for a, m in everybody.items() if machine in (None, m)}
            if found:
                return found
            strangers = len(self._cluster.known) - len(everybody)
            if time.monotonic() > end or (strangers and not everybody and set(self._cluster.known.values()) == {None}):
                why = (
                    "no worker has this version of tilewright and its compiler" if strangers else "there are no workers"
                )
                which = f" like {machine}" if machine is not None and everybody else ""
                raise TuneError(
                    f"{why}{which}", code="tune.workers", where=user_location(),
                    hint="start some with `dask worker ADDRESS`, in an environment with the same packages as here",
                )  # fmt: skip
            time.sleep(_LOOK)

    # Measurer -------------------------------------------------------------------------------------------------

    def run(
        self, task: Task, schedules: Sequence[str], best: float | None = None, until: float | None = None
    ) -> Iterator[Outcome]:
        """See `Measurer.run`."""
        chunks = self._begin("run", task, schedules, best, task.objective == "time")
        return self._outcomes(task, schedules, chunks, until)

    def _outcomes(self, task: Task, schedules: Sequence[str], chunks: Jobs, until: float | None) -> Iterator[Outcome]:
        for chunk, answer in chunks.answers(until):
            for index, data in zip(chunk.indices, _by_index(answer["outcomes"]), strict=True):
                yield replace(Outcome.from_json(data), index=index)

    def predict(self, task: Task, schedules: Sequence[str]) -> list[float | None]:
        """See `Measurer.predict`."""
        found: list[float | None] = [None] * len(schedules)
        timed = task.objective == "time"  # what the model foresees is of a machine too
        for chunk, answer in self._begin("predict", task, schedules, None, timed).answers(None):
            for index, cost in zip(chunk.indices, answer["costs"], strict=True):
                found[index] = cost
        return found

    def finals(self, task: Task, schedules: Sequence[str]) -> list[Outcome]:
        """See `Measurer.finals`: all on one machine."""
        if task.objective != "time":
            return ranked(list(self.run(task, schedules)))
        if not schedules:
            return []
        jobs = self._begin("finals", task, schedules, None, True, chunk=len(schedules))
        (found,) = (answer["outcomes"] for _, answer in jobs.answers(None))
        return [Outcome.from_json(data) for data in found]

    def _begin(
        self, kind: str, task: Task, schedules: Sequence[str], best: float | None, timed: bool, chunk: int | None = None
    ) -> Jobs:
        """Hand out jobs; of what is `timed` to machines of one kind."""
        if self._closed:
            raise _closed()
        threads = self.client.nthreads()
        workers = self._workers(self.fingerprint if timed else None)
        each = chunk or max(1, min(_CHUNK, len(schedules) // max(1, len(workers))))
        jobs = Jobs(self, kind, task, tuple(schedules), best, timed, min(threads.values(), default=1))
        for start in range(0, len(schedules), each):
            jobs.submit(tuple(range(start, min(start + each, len(schedules)))), frozenset(workers))
        self._under_way.add(jobs)
        return jobs

    def close(self) -> None:
        """End the workers' processes that measure, not the cluster. What is under way is given up."""
        self._closed = True
        for jobs in tuple(self._under_way):
            jobs.cancel()
        with contextlib.suppress(Exception):
            self.client.run(remote.close, on_error="ignore")
        self._leave()

    def _leave(self) -> None:
        if self._own:
            self.client.close()

    def __enter__(self) -> DaskMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_numbers = itertools.count()


class Jobs:
    """The jobs of one call, and their answers as they come."""

    def __init__(
        self, measurer: DaskMeasurer, kind: str, task: Task, schedules: tuple[str, ...], best: float | None, timed: bool,
        compilers: int,
    ):  # fmt: skip
        self.measurer, self.kind, self.task, self.schedules = measurer, kind, task, schedules
        self.best, self.timed, self.compilers = best, timed, compilers
        self.done: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
        self.open: set[Chunk] = set()

    def submit(self, indices: tuple[int, ...], workers: frozenset[str], lost: int = 0) -> None:
        future = self.measurer.client.submit(
            remote.work, self.kind, self.task.as_json(), [self.schedules[k] for k in indices], self.best, self.compilers,
            self.measurer._limits, workers=sorted(workers), allow_other_workers=False, pure=False,
            key=f"tilewright-{self.kind}-{id(self):x}-{next(_numbers)}",
        )  # fmt: skip
        chunk = Chunk(self.kind, indices, future, workers, lost)
        self.open.add(chunk)
        future.add_done_callback(lambda _: self.done.put(chunk))

    def answers(self, until: float | None) -> Iterator[tuple[Chunk, dict[str, Any]]]:
        """Until all are there, or the time (of the monotonic clock) is over."""
        looked = time.monotonic()
        try:
            while self.open:
                if self.measurer._closed:
                    raise _closed()
                now = time.monotonic()
                if until is not None and now >= until:
                    return
                wait = _LOOK if until is None else min(_LOOK, until - now)
                try:
                    chunk = self.done.get(timeout=max(wait, 0.001))
                except queue.Empty:
                    chunk = None
                if chunk is not None and chunk in self.open:
                    answer = self._answer(chunk)
                    if answer is not None:
                        yield chunk, answer
                if time.monotonic() - looked > _LOOK:
                    self._orphans()
                    looked = time.monotonic()
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Give up what is not done."""
        self.measurer._under_way.discard(self)
        left, self.open = self.open, set()
        if left:
            self.measurer.client.cancel([chunk.future for chunk in left], force=True)

    def _answer(self, chunk: Chunk) -> dict[str, Any] | None:
        """What a job gave; None where it is to be done again."""
        self.open.discard(chunk)
        problem = chunk.future.exception() if chunk.future.status == "error" else None
        if chunk.future.status != "finished":
            self._again(chunk, problem)
            return None
        answer = chunk.future.result()
        if "error" in answer:
            error = answer["error"]
            raise TuneError(error["message"], code=error["code"], where=user_location(), hint=error["hint"])
        if self.timed and "outcomes" in answer:
            machines = {Fingerprint.from_json(o["fingerprint"]) for o in answer["outcomes"] if o["fingerprint"]}
            if machines - {self.measurer.fingerprint}:  # an address that another machine has now
                self._again(chunk, None)
                return None
        return answer

    def _again(self, chunk: Chunk, problem: BaseException | None) -> None:
        """Workers died, or the job failed outside of what its worker watches over: another one does it."""
        if chunk.lost >= _LOST:
            raise TuneError(
                f"workers of the cluster fail again and again: {problem or 'they are lost'}", code="tune.workers",
                where=user_location(), hint="look at their logs",
            )  # fmt: skip
        workers = self.measurer._workers(self.measurer.fingerprint if self.timed else None)
        self.submit(chunk.indices, frozenset(workers), chunk.lost + 1)

    def _orphans(self) -> None:
        """Do again what only workers could do that are gone."""
        alive = set(self.measurer.client.nthreads())
        for chunk in [c for c in self.open if not c.workers & alive]:
            self.open.discard(chunk)
            self.measurer.client.cancel([chunk.future], force=True)
            self._again(chunk, None)


def _closed() -> TuneError:
    return TuneError("this measurer is closed", code="tune.closed", where=user_location(), hint="make a new one")


def _by_index(outcomes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(outcomes, key=lambda o: o["index"])


def _connect(address: str) -> Client:
    """A client of a scheduler at `host:port`. Raises TuneError."""
    try:
        from distributed import Client
    except ImportError:
        raise TuneError(
            "measuring on a cluster needs the package distributed", code="tune.extra", where=user_location(),
            hint="pip install 'tilewright[dask]'",
        ) from None  # fmt: skip
    place = address.removeprefix("dask://")
    try:
        return Client(place if "://" in place else f"tcp://{place}", timeout=_CONNECT)
    except (OSError, ValueError, TimeoutError) as e:
        raise TuneError(
            f"there is no Dask scheduler at {place}: {e}", code="tune.workers", where=user_location(),
            hint="start one with `dask scheduler`, and workers with `dask worker HOST:PORT`",
        ) from None  # fmt: skip


__all__ = ["DaskMeasurer"]
