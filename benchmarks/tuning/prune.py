"""`python -m benchmarks.tuning prune [FILE] [--seeds 5] [--real [--plain]]`: what it saves that the model prunes.

How long it takes until a schedule at 0.9 of the best is found, when random schedules are measured as they come, and when
the model predicts several times as many and the best of those are measured; predictions are paid for. On the table that
`rank` wrote, whose schedules cost again what they cost when they were compiled, checked and measured; with --real in the
space itself, by the wall clock, to 0.9 of the best of the table as it is measured then; with --plain in a space
whose choices know nothing of each other, to the same time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.tuning._choices import plain
from benchmarks.tuning.rank import FILE, SIZES, again, space
from examples.matmul import matmul
from tilewright.autotune.measure import LocalMeasurer, Task
from tilewright.autotune.search import strategy
from tilewright.autotune.search.recorded import Table, read_table
from tilewright.autotune.space import Point, Space

SHARE = 0.9
BATCH = 4  # schedules that are asked for at a time
_BEST = 8  # of the table, which are measured again
_MOST = 120.0  # seconds of a search


def replayed(table: Table, seed: int, guided: bool) -> tuple[float, int]:
    """Seconds, and how many schedules were measured."""
    took = {r.hash: s for r, s in zip(table.rows, table.about["seconds"], strict=True)}
    spent = 0.0

    def predict(points: Sequence[Point]) -> list[float | None]:
        nonlocal spent
        spent += table.about["predicting"] * len(points)
        return table.predict(points)

    search = strategy("random", table.space, seed, predict if guided else None)
    search.ask(1)  # the usual point, which is measured in any case
    spent, tried = 0.0, 0
    while asked := search.ask(BATCH):
        for p in asked:
            cost, tried = table.cost(p), tried + 1
            spent += took[p.hash]
            search.tell(p, cost)
            if cost is not None and cost <= table.best / SHARE:
                return spent, tried
    return math.inf, tried


def real(measurer: LocalMeasurer, among: Space, best: float, seed: int, guided: bool) -> tuple[float, int]:
    """The same by the wall clock. The two ways draw other schedules: what one compiled would be there for the other."""
    task = Task.of(matmul, SIZES)

    def predict(points: Sequence[Point]) -> list[float | None]:
        return measurer.predict(task, [str(p.schedule) for p in points])

    search = strategy("random", among, 2 * seed + guided, predict if guided else None)
    search.ask(1)  # the default schedule, which is measured in any case
    start, tried = time.perf_counter(), 0
    while (asked := search.ask(BATCH)) and time.perf_counter() < start + _MOST:
        for o in measurer.run(task, [str(p.schedule) for p in asked]):
            tried += 1
            search.tell(asked[o.index], o.figure)
            if o.ok and o.figure is not None and o.figure <= best / SHARE:
                return time.perf_counter() - start, tried
    return _MOST, tried


def best_now(measurer: LocalMeasurer, table: Table) -> float:
    """The best of the table as it is measured at this time. The workers are there then, and know the model."""
    task = Task.of(matmul, SIZES)
    texts = [
        text
        for _, text in sorted(zip((r.cost or math.inf for r in table.rows), table.about["schedules"], strict=True))[
            :_BEST
        ]
    ]
    measurer.predict(task, texts)
    return min(o.figure for o in measurer.run(task, texts) if o.figure is not None)


def report(run: Callable[[int, bool], tuple[float, int]], seeds: int) -> str:
    lines = ["| seed | as they come | of them | with the model | of them |", "|---|---|---|---|---|"]
    plain, guided = [], []
    for seed in range(seeds):
        plain.append(run(seed, False))
        guided.append(run(seed, True))
        lines.append(f"| {seed} | {plain[-1][0]:.1f} s | {plain[-1][1]} | {guided[-1][0]:.1f} s | {guided[-1][1]} |")
    a, b = (sum(s for s, _ in x) for x in (plain, guided))
    middle = statistics.median(s for s, _ in plain) / statistics.median(s for s, _ in guided)
    return "\n".join(
        [*lines, f"\nall of them: {a:.1f} s and {b:.1f} s, {a / b:.1f} times; the medians {middle:.1f} times"]
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning prune", description=__doc__)
    parser.add_argument("file", nargs="?", default=FILE)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args(arguments)
    if not Path(given.file).exists():
        parser.error(f"{given.file} is not there: python -m benchmarks.tuning rank {given.file} writes it")
    table = again(read_table(given.file))
    if not given.real:
        print(report(lambda seed, guided: replayed(table, seed, guided), given.seeds))
        return 0
    with LocalMeasurer() as measurer:
        best = best_now(measurer, table)
        among = plain() if given.plain else space()
        print(report(lambda seed, guided: real(measurer, among, best, seed, guided), given.seeds))
    return 0
