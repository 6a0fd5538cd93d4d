"""A matrix product with few to many rows, tuned by buckets: M = 1..4096 at N = K = 1024, against NumPy at 40 sizes and
against tuning some of them by themselves.

One run of the tuner has the time for all buckets. Then, at every size, the dispatch, NumPy, the default schedule and,
where a size was tuned alone, its own schedule run in turns in one process; the best times count, so that what else the
machine does counts less. A ratio is above 1 where the dispatch is faster. `--picture` draws all of it, `--data` keeps the
figures, `--from` draws kept ones again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SIZE = 1024  # N and K
SIZES = (
    1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 23, 24, 29, 32, 37, 41, 53, 64, 71, 96, 101, 128, 151, 192, 211, 256, 307, 384,
    431, 512, 613, 768, 1000, 1024, 1447, 2048, 3001, 4096,
)  # fmt: skip
ALONE = (1, 5, 17, 41, 151, 613, 3001)  # of them, those that are tuned by themselves
ROUNDS, SECONDS = 41, 1.2  # at one size


def tuned(threads: int, budget: float, alone: float, seed: int, progress: str) -> dict[str, Any]:
    """Tune the buckets, then the sizes of ALONE; what was found, and the kernels."""
    import tilewright as tw
    from benchmarks.cases.data import example

    kernel = example("matmul").matmul
    options = {"threads": threads, "seed": seed, "records": False, "progress": progress}
    whole = tw.tune(kernel, {"M": (1, max(SIZES)), "N": SIZE, "K": SIZE}, budget_s=budget, **options)
    print(whole, file=sys.stderr, flush=True)
    single = {}
    for m in ALONE if alone else ():
        found = tw.tune(kernel, {"M": m, "N": SIZE, "K": SIZE}, budget_s=alone, **options)
        print(found, file=sys.stderr, flush=True)
        single[m] = found
    return {"whole": whole, "alone": single, "kernel": kernel}


def measured(found: dict[str, Any], threads: int) -> list[dict[str, Any]]:
    """A row for each size: GFLOP/s and ratios to the dispatch."""
    import numpy as np

    dispatch, default = found["whole"].kernel(), found["kernel"].compile()
    singles = {m: found["kernel"].compile(t.best) for m, t in found["alone"].items()}
    dispatch.warm()
    rng = np.random.default_rng(0)
    b = rng.standard_normal((SIZE, SIZE), np.float32)
    rows = []
    for m in SIZES:
        a, out = rng.standard_normal((m, SIZE), np.float32), np.empty((m, SIZE), np.float32)
        runs: dict[str, Callable[[], Any]] = {
            "dispatch": lambda a=a, out=out: dispatch(a, b, out=out, threads=threads),
            "numpy": lambda a=a, out=out: np.matmul(a, b, out=out),
            "default": lambda a=a, out=out: default(a, b, out=out, threads=threads),
        }
        if m in singles:
            runs["alone"] = lambda a=a, out=out, k=singles[m]: k(a, b, out=out, threads=threads)
        times = in_turns(runs)
        row: dict[str, Any] = {"M": m, "bucket": str(dispatch.bucket({"M": m, "N": SIZE, "K": SIZE})[0])}
        for name, taken in times.items():
            row[name] = 2e-9 * m * SIZE * SIZE / min(taken)
            row[f"{name}/dispatch"] = min(taken) / min(times["dispatch"])
        rows.append(row)
    return rows


def in_turns(runs: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of calls by name, round by round, the order turned from round to round."""
    from benchmarks.harness import repetitions, sample

    counts = {n: repetitions(run) for n, run in runs.items()}
    taken: dict[str, list[float]] = {n: [] for n in runs}
    start, order = time.perf_counter(), list(runs)
    while len(taken[order[0]]) < ROUNDS and (len(taken[order[0]]) < 5 or time.perf_counter() - start < SECONDS):
        for n in order:
            taken[n].append(sample(runs[n], counts[n]))
        order = [*order[1:], order[0]]
    return taken


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def summary(data: dict[str, Any]) -> str:
    rows = data["rows"]
    lines = ["| M | bucket | GFLOP/s | NumPy | default | alone | numpy/dispatch | alone/dispatch |", "|---" * 8 + "|"]
    for r in rows:
        alone = (f"{r['alone']:.1f}", f"{r['alone/dispatch']:.2f}") if "alone" in r else ("", "")
        rates = [f"{r[n]:.1f}" for n in ("dispatch", "numpy", "default")]
        cells = (str(r["M"]), r["bucket"], *rates, alone[0], f"{r['numpy/dispatch']:.2f}", alone[1])
        lines.append(f"| {' | '.join(cells)} |")
    for name, what in (("numpy", "NumPy"), ("default", "the default schedule"), ("alone", "sizes tuned alone")):
        ratios = [r[f"{name}/dispatch"] for r in rows if name in r]
        if ratios:
            lines.append(f"\nagainst {what}: {mean(ratios):.3f} (least {min(ratios):.2f}) over {len(ratios)} sizes")
    return "\n".join([*lines, "", data["regret"]])


def picture(data: dict[str, Any], path: Path) -> None:
    """GFLOP/s over the rows, and below it how many times as fast as the others the dispatch is."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, NullLocator

    rows = data["rows"]
    ms = [r["M"] for r in rows]
    figure, (top, low) = plt.subplots(2, 1, figsize=(9, 6.6), sharex=True, height_ratios=(2, 1.2), layout="constrained")
    looks = {
        "dispatch": ("tuned by buckets", "#1f4e9c", "-", "o"), "numpy": ("NumPy (OpenBLAS)", "#d0762b", "-", "s"),
        "default": ("default schedule", "#8a8f98", "--", ""), "alone": ("size tuned alone", "#2f8f4e", "", "D"),
    }  # fmt: skip
    for name, (label, color, line, mark) in looks.items():
        have = [r for r in rows if name in r]
        style = {"color": color, "linestyle": line, "marker": mark, "markersize": 4.5 if mark != "D" else 6}
        if mark == "D":
            style |= {"markerfacecolor": "none", "markeredgewidth": 1.5}
        top.plot([r["M"] for r in have], [r[name] for r in have], label=label, **style)
        if name != "dispatch":
            low.plot([r["M"] for r in have], [r[f"{name}/dispatch"] for r in have], **style)
    low.axhline(1, color="black", linewidth=0.8)
    for axis in (top, low):
        axis.set_xscale("log", base=2)
        axis.grid(True, color="#e4e6ea", linewidth=0.7)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        for end in data["ends"]:
            axis.axvline(end + 0.5, color="#eef1f7", linewidth=1, zorder=0)
    top.set_ylim(bottom=0)
    top.set_ylabel("GFLOP/s")
    low.set_ylabel("times as fast as")
    low.set_xlabel(f"rows M (A is M x {SIZE}, B is {SIZE} x {SIZE}, f32; {data['about']})")
    low.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]))
    low.xaxis.set_minor_locator(NullLocator())
    low.xaxis.set_major_formatter(lambda x, _: f"{x:.0f}")
    low.set_ylim(0, max(2.0, min(4.0, max(r["numpy/dispatch"] for r in rows) * 1.05)))
    against = {n: mean([r[f"{n}/dispatch"] for r in rows if n in r]) for n in ("numpy", "alone")}
    title = f"Matrix product by buckets: {against['numpy']:.2f} times as fast as NumPy over {len(ms)} sizes"
    if not math.isnan(against["alone"]):
        title += f", {against['alone']:.2f} of what {sum('alone' in r for r in rows)} sizes reach alone"
    top.set_title(title, fontsize=11, loc="left")
    top.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning buckets", description=__doc__)
    parser.add_argument("--budget", type=float, default=600, help="seconds for all buckets (default: 600)")
    parser.add_argument("--alone", type=float, default=40, help="seconds for each size that is tuned alone, 0: none is")
    parser.add_argument("--threads", type=int, default=1, help="of each call (default: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--progress", default="lines", help="what the tuner shows: live, lines or none (default: lines)"
    )
    parser.add_argument("--picture", type=Path, help="a file to draw")
    parser.add_argument("--data", type=Path, help="a file of JSON for the figures")
    parser.add_argument("--from", dest="kept", type=Path, help="figures that were kept: nothing is measured")
    args = parser.parse_args(arguments)
    if args.kept is not None:
        data = json.loads(args.kept.read_text(encoding="utf-8"))
    else:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is there
            os.environ[name] = str(args.threads)
        data = figures(args)
    if args.data is not None:
        args.data.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(summary(data))
    if args.picture is not None:
        picture(data, args.picture)
    return 0


def figures(args: argparse.Namespace) -> dict[str, Any]:
    """Tune and measure."""
    found = tuned(args.threads, args.budget, args.alone, args.seed, args.progress)
    rows = measured(found, args.threads)
    whole = found["whole"]
    ends = sorted({r.box.ranges[0].high for r in whole.results})[:-1]
    about = f"{args.threads} thread{'s' * (args.threads != 1)}, {args.budget:.0f} s of tuning"
    return {
        "rows": rows, "ends": ends, "about": about, "regret": "\n".join(map(str, whole.regrets.values())),
        "tried": whole.tried, "seconds": whole.seconds,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
