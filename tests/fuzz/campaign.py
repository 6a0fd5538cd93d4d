"""The schedule fuzzer: `python -m tests.fuzz.campaign --seeds A:B --store FILE`.

Trials of the seeds A to B-1 (those that the store does not have yet) run one after the other in a worker process with a
time limit a trial; a trial that kills or hangs the worker is a failure like one that gives a wrong value. Every tenth
trial is free; the others have as their focus the directive, or the tail and the directive, with the fewest good trials
so far. Every row goes to the store at once, every failure to `FILE.failures/SEED.txt`.

    python -m tests.fuzz.campaign --seeds 0:20000 --store fuzz.db --minutes 60
    python -m tests.fuzz.campaign --store fuzz.db --summary docs/fuzzing.md
    python -m tests.fuzz.worker SEED FOCUS         repeats a trial
    python -m tests.fuzz.shrink SEED FOCUS         makes it smaller and writes it as a script

Seeds may be cut into ranges that run at different times or places, each with a store of its own or the same one.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.covering import pairs
from tests.fuzz.store import Row, Store
from tests.fuzz.summary import summary
from tests.fuzz.trials import Focus
from tests.fuzz.worker import LIMIT, VERSION
from tilewright.schedule.directives.kinds import KINDS

AGE = 300  # trials of a worker: what LLVM keeps of old code grows
ROOT = Path(__file__).parents[2]


class Worker:
    """A process that runs trials. Where it has died it is started anew; so it is when it is old."""

    def __init__(self, cache: str) -> None:
        self.env = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache}
        self.process: subprocess.Popen[str] | None = None
        self.said: queue.Queue[str | None] = queue.Queue()
        self.age = 0

    def _start(self) -> subprocess.Popen[str]:
        self.stop()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker"], cwd=ROOT, env=self.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.said, self.age = queue.Queue(), 0
        threading.Thread(target=_listen, args=(self.process, self.said), daemon=True).start()
        return self.process

    def run(self, seed: int, focus: Focus) -> Row:
        """One trial; one that kills the process, takes too long or too much memory is a failure."""
        process = self.process
        if process is None or process.poll() is not None or self.age >= AGE:
            process = self._start()
        self.age += 1
        assert process.stdin is not None
        other: list[str] = []
        try:
            print(seed, focus, file=process.stdin, flush=True)
            while True:
                line = self.said.get(timeout=LIMIT + 10)
                if line is None:
                    return _lost(seed, focus, f"the process ended with {process.wait()}", other)
                if line.startswith('{"seed"'):
                    return Row(**json.loads(line))
                other.append(line)
        except queue.Empty:
            self.stop()
            return _lost(seed, focus, f"no end after {LIMIT:.0f} s", other)
        except BrokenPipeError:
            return _lost(seed, focus, f"the process ended with {process.wait()}", other)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _listen(process: subprocess.Popen[str], said: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said.put(line)
    said.put(None)


def _lost(seed: int, focus: Focus, why: str, said: list[str]) -> Row:
    return Row(seed, VERSION, str(focus), "FAILED", message=f"{why}\n{''.join(said[-40:])}")


def rarest(kinds: Counter[str], found: Counter[tuple[str, str]], choose: random.Random) -> Focus:
    """What has been tried least, among a few drawn at random; a directive, or one with a tail."""
    if choose.randrange(10) == 0:
        return Focus()
    if choose.randrange(3) == 0:
        return Focus(min(choose.sample(list(KINDS), 8), key=lambda k: kinds[k]))
    tail, kind = min(choose.sample(pairs(), 12), key=lambda p: found[p])
    return Focus(kind, tail)


def run(seeds: range, store: Store, failures: Path, minutes: float) -> None:
    kinds, found = store.counts()
    done, outcomes, choose = store.seeds(VERSION), Counter[str](), random.Random()
    end, start = time.monotonic() + 60 * minutes, time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        worker = Worker(cache)
        for seed in seeds:
            if seed in done:
                continue
            if time.monotonic() > end:
                break
            row = worker.run(seed, rarest(kinds, found, choose))
            store.add([row])
            outcomes[row.outcome] += 1
            kinds.update(row.kinds)
            found.update((a, b) for a, b in row.pairs)
            if row.outcome == "FAILED":
                failures.mkdir(exist_ok=True)
                (failures / f"{seed}.txt").write_text(f"seed {seed} focus {row.focus}\n{row.message}\n")
            if sum(outcomes.values()) % 200 == 0:
                shown = ", ".join(f"{n} {k}" for k, n in outcomes.most_common())
                print(f"{time.monotonic() - start:6.0f} s, seed {seed}: {shown}", flush=True)
        worker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="random pipelines under random schedules, in all ways that must agree")
    parser.add_argument("--seeds", default="", metavar="A:B")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--summary", type=Path, help="write what the store has, instead of running")
    given = parser.parse_args()
    store = Store(given.store)
    if given.seeds:
        a, b = map(int, given.seeds.split(":"))
        run(range(a, b), store, given.store.with_name(given.store.name + ".failures"), given.minutes)
    if given.summary:
        given.summary.write_text(summary(store), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
