"""`python -m benchmarks.tables NAME [FILE] [--rounds N]`: every schedule of a space, measured.

Tests of search strategies run on such tables (tests/autotune/tables), so that they need no clock. All schedules are compiled
first (some hundred, half a second each), then run in turns, several times; what counts is the shortest run. Predictions are
those of autotune/model.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.small import matmul
from examples.blur import blur
from tilewright.autotune.knobs import FunctionSpace, KnobSpace
from tilewright.autotune.model.predict import Model
from tilewright.autotune.search.recorded import Row, Table
from tilewright.autotune.space import Choose, Point, Space, points
from tilewright.codegen.target import host
from tilewright.schedule.schedule import Schedule

VECTOR = tw.host_registers().width // 4  # of f32
FOLDER = "tests/autotune/tables"
LEAST_SECONDS = 0.004  # of the runs of a schedule in one round


@dataclass(frozen=True)
class Case:
    """A space, and what its schedules are run with."""

    kernel: Any
    space: Callable[[], Space]
    arrays: Callable[[], tuple[np.ndarray, ...]]
    sizes: Mapping[str, int]


def products(s: Schedule, choose: Choose) -> None:
    """A product in a tile of registers: what is packed, in which order, in blocks of which depth."""
    rows = choose("rows", (8, 4, 6, 12))
    assert isinstance(rows, int)
    vectors = choose("vectors", tuple(v for v in (2, 1, 3) if rows * v <= 28))
    depth = choose("depth", (256, 64, 1024))
    assert isinstance(vectors, int)
    pack_a = choose("pack A", (False, True))
    pack_b = choose("pack B", (True, False))
    across = choose("order", ("columns first", "rows first")) == "columns first"
    unrolled = choose("unrolled", (4, 1))
    C = s["C.update"]
    columns = vectors * VECTOR
    C.split("k", "kc", "k1", depth).split("k1", "ko", "ki", unrolled)
    C.tile("i", "j", "io", "jo", "ii", "ji", rows, columns).split("ji", "jv", "jl", VECTOR)
    outer = ("jo", "io") if across else ("io", "jo")
    C.reorder("kc", *outer, "ko", "ki", "ii", "jv", "jl").unroll("ki").unroll("ii").unroll("jv").vectorize("jl")
    if pack_b:
        at = "C.update.jo" if across else "C.update.kc"
        s.cache_read("B", at=at, layout=f"k j -> j//{columns} k j%{columns}").vectorize("j", VECTOR)
    if pack_a:
        at = "C.update.kc" if across else "C.update.io"
        A = s.cache_read("A", at=at, layout=f"i k -> i//{rows} k i%{rows}")
        A.tile("i", "k", "io", "ko", "it", "kt", rows, VECTOR).unroll("it").vectorize("kt")
    s.cache_write("C", at=f"C.update.{outer[1]}", memory="reg")


def strips() -> KnobSpace:
    """A blur with sums in registers: rows of a strip, rows computed together, lanes."""
    lanes = tw.host_registers().width // 2
    s = blur.schedule()
    strip = s.knob("strip", 48, (12, 24, 48, 96, 192))
    down = s.knob("down", 6, (1, 2, 3, 4, 6, 8, 12))
    lane = s.knob("lanes", lanes, (lanes // 4, lanes // 2, lanes, 2 * lanes))
    s.constrain("strip % down == 0")
    s.constrain(f"down * lanes <= {8 * 2 * lanes}")
    b = s["blurred"].split("y", "strip", "row", strip).split("row", "block", "down", down)
    b.split("x", "column", "lane", lane).reorder("strip", "block", "column", "down", "lane")
    b.parallel("strip").unroll("down").vectorize("lane")
    across = s["across"].compute_at("blurred.column").store_in("reg").unroll("y")
    across.split("x", "vector", "lane", lane, tail="round_up").vectorize("lane")
    return KnobSpace(s)


def _floats(*shapes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(s, dtype=np.float32) for s in shapes)


CASES = {
    "matmul": Case(
        matmul, lambda: FunctionSpace(matmul.pipeline(), products), lambda: _floats((512, 512), (512, 512)),
        {"M": 512, "N": 512, "K": 512},
    ),
    "blur": Case(
        blur, strips, lambda: (np.random.default_rng(0).integers(0, 256, (1200, 1024), np.uint8),),
        {"H": 1200, "W": 1024},
    ),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=CASES)
    parser.add_argument("file", nargs="?", help=f"default: {FOLDER}/NAME.json.gz")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    args = parser.parse_args()
    case = CASES[args.name]
    found, runs = compiled(case)
    table = recorded(case, found, measured(runs, args.rounds))
    table.write(args.file or f"{FOLDER}/{args.name}.json.gz")
    known = sorted(r.cost for r in table.rows if r.cost is not None)
    print(f"best {known[0] * 1e6:.0f} us, median {known[len(known) // 2] * 1e6:.0f} us, worst {known[-1] * 1e6:.0f} us")
    return 0


def compiled(case: Case) -> tuple[list[Point], list[Callable[[], Any] | None]]:
    """The points of a space, and what runs each."""
    found = list(points(case.space()))
    print(f"{len(found)} schedules", flush=True)
    arrays = case.arrays()
    reference = case.kernel(*arrays, threads=1)
    runs: list[Callable[[], Any] | None] = []
    for n, p in enumerate(found, 1):
        runs.append(_runs(case, p.schedule, arrays, reference))
        if n % 50 == 0:
            print(f"{n} compiled", flush=True)
    return found, runs


def recorded(case: Case, found: list[Point], costs: list[float | None]) -> Table:
    """The table of what was measured, in seconds."""
    about = {"sizes": dict(case.sizes), "threads": 1, "processor": host().cpu, "measured": time.strftime("%Y-%m-%d")}
    rows = zip(found, costs, predicted(case, found), strict=True)
    return Table(str(case.kernel), tuple(Row(p.trace, p.hash, c, q) for p, c, q in rows), "s", about)


def _runs(case: Case, schedule: Schedule, arrays: tuple[np.ndarray, ...], reference: Any) -> Callable[[], Any] | None:
    """A run of a schedule; None where it can't be compiled. Raises where values are wrong."""
    try:
        kernel = case.kernel.compile(schedule)
        out = kernel(*arrays, threads=1)
    except tw.TilewrightError as e:
        print(f"{schedule.hash}: {e.code}", flush=True)
        return None
    np.testing.assert_allclose(out, reference, rtol=1e-3, atol=1e-3)
    return lambda: kernel(*arrays, out=out, threads=1)


def measured(runs: list[Callable[[], Any] | None], rounds: int) -> list[float | None]:
    """The shortest run of each, in seconds."""
    best: list[float | None] = [None] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            if run is None:
                continue
            run()  # its data into the caches
            until = time.perf_counter() + LEAST_SECONDS
            while True:
                begin = time.perf_counter()
                run()
                end = time.perf_counter()
                best[k] = min(best[k] or end - begin, end - begin)
                if end >= until:
                    break
    return best


def predicted(case: Case, found: list[Point]) -> list[float | None]:
    """Seconds as the model has them."""
    model = Model(case.kernel.pipeline(), case.sizes)
    return [model.predict(p.schedule).cost for p in found]


if __name__ == "__main__":
    raise SystemExit(main())
