"""Points of generated spaces over random pipelines, as trials of the schedule fuzzer: run in all ways, judged by bits."""

from __future__ import annotations

import random
from typing import Any

import tilewright as tw
from tests.fuzz.random_pipelines import Case, random_pipeline
from tests.fuzz.trials import Choose, Outcome, Trial, run
from tilewright.autotune import space
from tilewright.autotune.generate import GeneratedSpace
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule

M, N, K, B = tw.sizes("M N K B")
FINE = frozenset({"good", "empty", "vague", "no call", "no pipeline"})  # what a legal point may come to


def random_trial(seed: int, most: int = 4) -> Trial | None:
    """A random point of the space of a random pipeline of at most so many stages; None where there is none."""
    choose = random.Random(seed).randrange
    exact = choose(2) == 0
    try:
        case = random_pipeline(choose, exact, 1 + choose(most), seed)
        complete(Schedule(case.pipeline)).check()  # indices may be unbounded, whatever the schedule
    except TilewrightError:
        return None
    data = "integers" if exact else ("strict", "exact", "contract")[choose(3)]
    return point_trial(case, seed, data, random_sizes(choose, case.pipeline))


def random_sizes(choose: Choose, p: Pipeline) -> dict[str, int]:
    """Sizes that a space is made for."""
    return {n: (1, 3, 17, 40, 64, 100, 256, 1000)[choose(8)] for n in p.sizes}


def product_trial(seed: int, p: Pipeline) -> Trial | None:
    """A random point of the space of a product."""
    choose = random.Random(seed).randrange
    floats = any(a.dtype.is_float for a in p.arrays)
    data = ("strict", "exact", "contract")[choose(3)] if floats else "integers"
    return point_trial(Case(p, {}, not floats, {}), seed, data, random_sizes(choose, p))


def product_extents(choose: Choose, p: Pipeline) -> dict[str, int]:
    """Sizes to run a product at: tails of tiles, single rows, nothing at all."""
    return {n: (0, 1, 2, 5, 8, 15, 16, 17, 33, 40, 67)[choose(11) or choose(11)] for n in p.sizes}


def point_trial(case: Case, seed: int, data: str, sizes: dict[str, int]) -> Trial | None:
    """A random point of the space of a pipeline for these sizes; it must be right at all others as well."""
    mode = "strict" if data == "strict" else "contract"
    sizes = {n: max(1, sizes.get(n, 1)) for n in case.pipeline.sizes}
    made = GeneratedSpace(case.pipeline, sizes, threads=1 + seed % 2, mode=mode)
    p = space.draw(made, space.at_random(random.Random(seed)))
    return None if p is None else Trial(seed, case, p.schedule, data, filled=False)


def outcome(t: Trial | None, choose: Choose, extents: dict[str, int] | None = None) -> Outcome:
    """What becomes of a trial in all ways; raises AssertionError where it is not what a legal point may come to."""
    found = run(t, choose, interpret=False, extents=extents)
    why = found.trial.refusal if found.trial is not None else None
    assert found.name in FINE, f"{found.name}: {why}\n{found.trial}"
    return found


# Products by name -------------------------------------------------------------------------------------------------


def product(
    types: str = "f32 f32 f32", a: str = "i k", b: str = "k j", batch: bool = False, after: bool = False
) -> Pipeline:
    """A matrix product of operands with axes in these orders, of types of A, B and the sums; `after`: something is done
    with it; `batch`: one product for each of B."""
    of_a, of_b, of_c = (getattr(tw, t) for t in types.split())
    ends = {"i": M, "j": N, "k": K}

    def shape(axes: str) -> tuple:
        return (*((B,) if batch else ()), *(ends[x] for x in axes.split()))

    def define(A: Any, Bm: Any) -> Any:
        n, i, j = tw.vars("n i j")
        k = tw.rdom(k=K)
        at = {"i": i, "j": j, "k": k.k if hasattr(k, "k") else k}
        outer = (n,) if batch else ()
        C = tw.func("C")
        C[(*outer, i, j)] = tw.cast(of_c, 0)
        left, right = A[(*outer, *(at[x] for x in a.split()))], Bm[(*outer, *(at[x] for x in b.split()))]
        C[(*outer, i, j)] += tw.cast(of_c, left) * tw.cast(of_c, right)
        end = (slice(None, B), slice(None, M), slice(None, N))[0 if batch else 1 :]
        if not after:
            return C[end]
        out = tw.func("out")
        out[(*outer, i, j)] = tw.maximum(C[(*outer, i, j)], tw.cast(of_c, 0))
        return out[end]

    define.__annotations__ = {"A": of_a[shape(a)], "Bm": of_b[shape(b)]}
    define.__name__ = "product"
    return tw.kernel(define).pipeline()


PRODUCTS = {
    "plain": product(),
    "across": product(b="j k"),
    "turned": product(a="k i"),
    "both": product(a="k i", b="j k"),
    "double": product("f64 f64 f64"),
    "half": product("bf16 bf16 f32"),
    "bytes": product("i8 i8 i32"),
    "mixed": product("u8 i8 i32", b="j k"),
    "batched": product(batch=True, after=True),
    "after": product(after=True),
}
