"""`python -m benchmarks.tuning rank [FILE] [--points 200] [--rounds 3] [--picture PNG]`: how the model ranks products.

Schedules of the generated space of a product of 1024 x 1024 matrices in f32, drawn at random, are predicted, compiled,
checked and measured, in several rounds, of which the least counts; FILE gets the table (autotune/search/recorded), which
`prune` reads. Of a FILE that is there the predictions are made again, and `--rounds` are measured on top of its own.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.cache_ranks import spearman
from examples.matmul import expert, matmul
from tilewright.autotune.generate import GeneratedSpace
from tilewright.autotune.measure import LocalMeasurer, Task
from tilewright.autotune.model import Model
from tilewright.autotune.search.recorded import Row, Table, read_table
from tilewright.autotune.space import Point, sample
from tilewright.codegen.data_caches import processor_name
from tilewright.schedule.schedule import parse_schedule

SIZES = {"M": 1024, "N": 1024, "K": 1024}
FILE = "build/tuning-rank.json.gz"


def space() -> GeneratedSpace:
    return GeneratedSpace(matmul.pipeline(), SIZES)


def predictions(texts: Sequence[str]) -> tuple[list[float | None], float]:
    """The costs that the model foresees, and the seconds of CPU that one takes."""
    model = Model(matmul.pipeline(), SIZES)
    schedules = [parse_schedule(text, matmul.pipeline()) for text in texts]
    start = time.process_time()
    found = [model.predict(s).cost for s in schedules]
    return found, (time.process_time() - start) / max(1, len(texts))


def drawn(count: int, seed: int) -> Table:
    """So many schedules at random that are not measured yet."""
    rng, found = random.Random(seed), dict[str, Point]()
    while len(found) < count and (p := sample(space(), rng)) is not None:
        found.setdefault(p.hash, p)
    rows = tuple(Row(p.trace, p.hash, None) for p in found.values())
    about = {
        "processor": processor_name(), "sizes": SIZES, "schedules": [str(p.schedule) for p in found.values()], "seconds": [],
        "expert": math.inf, "default": math.inf,
    }  # fmt: skip
    return Table(Task.of(matmul, SIZES).kernel, rows, about=about)


def measured(table: Table) -> Table:
    """The table after another round, each schedule with its least time; those with which it begins count with what it took
    to compile, check and measure them then."""
    task, about = Task.of(matmul, SIZES), dict(table.about)
    texts = about["schedules"]
    costs = [r.cost for r in table.rows]
    seconds = list(about["seconds"]) or [0.0] * len(texts)
    with LocalMeasurer() as measurer:
        for o in measurer.run(task, texts):
            if o.ok and o.figure is not None:
                costs[o.index] = min(o.figure, costs[o.index] or math.inf)
            if not about["seconds"]:
                seconds[o.index] = sum(o.seconds.values())
        for name, s in (("expert", expert()), ("default", matmul.schedule())):
            about[name] = min([about[name], *(o.figure for o in measurer.run(task, [str(s)]) if o.figure is not None)])
    rows = tuple(replace(r, cost=c) for r, c in zip(table.rows, costs, strict=True))
    return replace(table, rows=rows, about={**about, "seconds": seconds})


def again(table: Table) -> Table:
    """The table with what the model foresees now."""
    foreseen, each = predictions(table.about["schedules"])
    rows = tuple(replace(r, predicted=f) for r, f in zip(table.rows, foreseen, strict=True))
    return replace(table, rows=rows, about={**table.about, "predicting": each})


def report(table: Table) -> str:
    pairs = [(r.predicted, r.cost) for r in table.rows if r.predicted is not None and r.cost is not None]
    guess, truth = (np.array(x) for x in zip(*pairs, strict=True))
    order = truth[np.argsort(guess)]
    firsts = ", ".join(f"{truth.min() / order[:n].min():.2f} of {n}" for n in (1, 5, 10, 20))
    good = float(np.mean(truth <= truth.min() / 0.9))
    seconds = statistics.median(table.about["seconds"])
    return "\n".join((
        f"{len(pairs)} schedules of a product, {1e3 * truth.min():.1f} to {1e3 * truth.max():.1f} ms, "
        f"half of them below {1e3 * float(np.median(truth)):.1f} ms (expert {1e3 * table.about['expert']:.1f} ms, "
        f"default {1e3 * table.about['default']:.1f} ms)",
        f"rank correlation of predicted and measured times: {spearman(guess, truth):.2f}; "
        f"of times, their logarithms: {np.corrcoef(np.log(guess), np.log(truth))[0, 1]:.2f}",
        f"the best of the first as predicted, of the best of all: {firsts}",
        f"schedules at 0.9 of the best at least: {good:.0%}; a prediction takes {1e3 * table.about['predicting']:.0f} ms, "
        f"to compile, check and measure {seconds:.2f} s",
    ))  # fmt: skip


def picture(table: Table, path: str) -> None:
    """Predicted against measured times."""
    from matplotlib.figure import Figure

    pairs = [(r.predicted, r.cost) for r in table.rows if r.predicted is not None and r.cost is not None]
    guess, truth = (1e3 * np.array(x) for x in zip(*pairs, strict=True))
    figure = Figure(figsize=(6.4, 4.8), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.loglog(guess, truth, "o", markersize=4, alpha=0.6, color="tab:blue", label="a schedule")
    ends = [min(guess.min(), truth.min()) * 0.95, max(guess.max(), truth.max()) * 1.05]
    axes.plot(ends, ends, color="0.6", linewidth=1, label="as predicted")
    axes.axhline(1e3 * table.about["expert"], color="tab:green", linewidth=1, linestyle="--", label="expert")
    axes.set(xlim=ends, ylim=ends)
    axes.set_xlabel("predicted (ms)")
    axes.set_ylabel("measured (ms)")
    axes.set_title(f"{len(pairs)} random schedules of a 1024³ product: rank correlation {spearman(guess, truth):.2f}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    axes.legend(loc="upper left", frameon=False)
    axes.grid(which="both", color="0.92")
    figure.savefig(path)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning rank", description=__doc__)
    parser.add_argument("file", nargs="?", default=FILE)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--picture")
    given = parser.parse_args(arguments)
    there = Path(given.file).exists()
    table = read_table(given.file) if there else drawn(given.points, given.seed)
    for _ in range(given.rounds or (0 if there else 3)):
        table = measured(table)
        Path(given.file).parent.mkdir(parents=True, exist_ok=True)
        table.write(given.file)
    table = again(table)
    table.write(given.file)
    print(report(table))
    if given.picture:
        picture(table, given.picture)
    return 0
