"""Deliberate mistakes, each in one function, and the checkers that must find them: tests of the tests.

`python -m tests.fuzz.mutants [NAME...]` makes each mistake in a process of its own (wrong code may kill it, which counts
as found) and says within how many cases each checker finds it:

    fuzzer     trials of tests.fuzz.trials: native, instrumented, interpreted and reference runs must agree
    coverage   the check that loops compute every point once, on the schedules of the same trials
    exact      a few schedules that use what is wrong, on data for which every schedule must give the same bits; of
               `online` also how often it repairs (a repair in vain changes no value)

A case is a seed, drawn with the mistake's focus or family. No file is changed: the function's code is replaced in
memory.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import random
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from tests.fuzz import running, trials
from tests.schedule import algorithms
from tilewright import testing
from tilewright.codegen import instrumented
from tilewright.codegen.interface import CONTIGUOUS
from tilewright.codegen.lower import COVERAGE, Request, lower
from tilewright.lang import reference
from tilewright.lang.binding import bind
from tilewright.lang.errors import CoverageError, TilewrightError
from tilewright.lang.values import index_value
from tilewright.schedule.default import complete
from tilewright.schedule.schedule import Schedule


@dataclass(frozen=True)
class Mutant:
    """A mistake: in a function (`module:name`) the text `old` becomes `new`. `kind` and `tail` are the focus of its
    cases; `fuzzer`, `coverage` and `exact` the number of cases within which that checker finds it (None: it can't)."""

    name: str
    where: str
    old: str
    new: str
    kind: str = ""
    tail: str = ""
    fuzzer: int | None = None
    coverage: int | None = None
    exact: int | None = None

    @property
    def family(self) -> str:
        return self.name.partition(":")[0]

    @property
    def focus(self) -> trials.Focus:
        return trials.Focus(self.kind, self.tail)


MUTANTS = (
    Mutant(
        "tails: a guard lets one more through", "tilewright.schedule.ranges:stage_ranges",
        "nonnegative(simplify.sub(simplify.sub(e, ONE), value))", "nonnegative(simplify.sub(e, value))",
        kind="split", tail="guard", fuzzer=10, coverage=10,
    ),
    Mutant(
        "tails: the last tile moves back too far", "tilewright.schedule.ranges:_made_up",
        "simplify.sub(e, f)", "simplify.sub(simplify.sub(e, f), ONE)",
        kind="split", tail="shift", fuzzer=30, coverage=30, exact=12,
    ),
    Mutant(
        "tails: whole tiles without the room for them", "tilewright.schedule.padding:rounded",
        "return Interval(r.lo, simplify.sub(simplify.add(r.lo, n), integer(1)))", "return r",
        kind="split", tail="round_up", fuzzer=30, coverage=30,
    ),
    Mutant(
        "tails: the part without conditions is one too long", "tilewright.codegen.partition:_middle",
        "simplify.floordiv(rest, integer(-k)), ONE)", "simplify.floordiv(rest, integer(-k)), integer(2))",
        kind="partition", tail="guard", fuzzer=10, coverage=10,
    ),
    Mutant(
        "sliding: the window starts one late", "tilewright.schedule.sliding:_new_part",
        "simplify.add(end, ONE)", "simplify.add(simplify.add(end, ONE), ONE)",
        kind="store_root", fuzzer=20, coverage=20, exact=4,
    ),
    Mutant(
        "sliding: the first window is not whole", "tilewright.schedule.sliding:_new_part",
        "windows.choice(x, later, r.lo)", "later",
        kind="store_root", fuzzer=30, coverage=30, exact=4,
    ),
    Mutant(
        "folding: the modulus is one too small", "tilewright.codegen.flatten:physical_index",
        "integer(extent)", "integer(max(extent - 1, 1))",
        kind="fold_storage", fuzzer=40, exact=4,
    ),
    Mutant(
        "folding: a buffer one too small is accepted", "tilewright.schedule.storage:folded",
        "max(most) > n", "max(most) > n + 1",
        kind="fold_storage", fuzzer=80,
    ),
    Mutant(
        "pipelining: the ring is one short", "tilewright.codegen.flatten:_Flattener.allocate",
        "one_slot(s), integer(s.slots)", "one_slot(s), integer(max(s.slots - 1, 1))",
        kind="double_buffer", fuzzer=20,
    ),
    Mutant(
        "pipelining: a slot is used again too early", "tilewright.schedule.storage:ring",
        "integer(slots)", "integer(slots - 1)",
        kind="double_buffer", coverage=20,
    ),
    Mutant(
        "rfactor: the identity is wrong", "tilewright.schedule.directives.reductions:_partial_func",
        "found.identity", "tuple(ir.const(1, n.dtype) for n in found.identity)",
        kind="rfactor", fuzzer=10, exact=4,
    ),
    Mutant(
        "rfactor: the last partial result is dropped", "tilewright.schedule.directives.reductions:_halvings",
        "integer(n - half)", "integer(n - half - 1)",
        kind="rfactor", fuzzer=10, exact=4,
    ),
    Mutant(
        "online: nothing is repaired", "tilewright.schedule.online:emitted",
        "(n, REPAIR), (n, _UPDATE)", "(n, _UPDATE),",
        exact=4,
    ),
    Mutant(
        "online: repaired where nothing has changed", "tilewright.schedule.online:_with_repair",
        "domain.predicates = (condition,)", "domain.predicates = ()",
        exact=4,
    ),
)  # fmt: skip


def mutate(m: Mutant) -> None:
    """Make the mistake, in this process."""
    module_name, _, path = m.where.partition(":")
    module = importlib.import_module(module_name)
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part)
    source = textwrap.dedent(inspect.getsource(target))
    assert source.count(m.old) == 1, f"{m.where} has {source.count(m.old)} times {m.old!r}: write this mutant anew"
    made: dict[str, Any] = {}
    exec(compile(source.replace(m.old, m.new), m.where, "exec"), module.__dict__, made)
    target.__code__ = made[target.__name__].__code__


# Checkers -------------------------------------------------------------------------------------------------------


def by_fuzzer(seed: int, m: Mutant) -> str:
    """What the fuzzer finds in a case ("" for nothing)."""
    rnd = random.Random(f"{seed} {m.focus}")
    data = ""
    try:
        t = trials.draw(rnd.randrange, seed, m.focus)
        data = "" if t is None else f"{t.data} data: "
        trials.run(t, rnd.randrange)
    except Exception as e:
        return f"{data}{type(e).__name__}: {str(e).splitlines()[0]}"
    return ""


def by_coverage(seed: int, m: Mutant) -> str:
    """What the check of coverage finds in the schedule of a case."""
    rnd = random.Random(f"{seed} {m.focus}")
    try:
        t = trials.draw(rnd.randrange, seed, m.focus)
        if t is None:
            return ""
        full: Schedule = complete(t.schedule, t.mode) if t.filled else t.schedule
        full.check()
        p = t.case.pipeline
        classes = (CONTIGUOUS,) * (len(p.arrays) + len(p.tables) + len(p.outputs))
        lower(Request(full.state, t.mode, "tw_mutant", classes, covered=True))
    except CoverageError as e:
        return f"{e.code}: {e.message}"
    except TilewrightError:
        pass
    return ""


def by_exact(seed: int, m: Mutant) -> str:
    """What exact data, or the exact count of repairs, find in a schedule that uses what is wrong."""
    rnd = random.Random(f"{seed} {m.family}")
    s = DIRECTED[m.family](rnd, m.tail)
    sizes = {n: rnd.choice((3, 5, 8, 13, 17)) for n in s.pipeline.sizes}
    arrays = exact_data(s, sizes, rnd)
    try:
        s.check()
        run = instrumented.run(s.pipeline, s.state, sizes, "contract", arrays)
        testing.assert_bitwise(run.result, reference.run(s.pipeline, bind(s.pipeline, (), arrays)), zeros=True)
        if m.family == "online":
            (block,) = (int(str(v)) for d in s.directives for k, v in d.options if k == "by")
            done, needed = run.tally.evaluations["l.repair"], _changes(arrays["X"], block)
            assert done == needed, f"{done} repairs where {needed} are needed"
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0]}"
    return ""


def exact_data(s: Schedule, sizes: dict[str, int], rnd: random.Random) -> dict[str, np.ndarray]:
    """Small integers; a third of the scores of a softmax is masked, and whole blocks of the first row."""
    rng = np.random.default_rng(rnd.randrange(1 << 30))
    out = {}
    for a in s.pipeline.arrays:
        shape = tuple(index_value(e, sizes) for e in a.extents)
        out[a.name] = rng.integers(-4, 5, shape).astype(a.dtype.np)
        if s.pipeline.name == "sums":
            out[a.name][rng.random(shape) < 0.3] = -np.inf
            out[a.name][0, : max(1, shape[1] - 2)] = -np.inf
    return out


def _changes(x: np.ndarray, block: int) -> int:
    """How often the largest element of a row changes from one block to the next."""
    before, found = np.full(len(x), -np.inf), 0
    for k in range(0, x.shape[1], block):
        now = np.maximum(before, x[:, k : k + block].max(axis=1))
        found += int((now != before).sum())
        before = now
    return found


M, N = tw.sizes("M N")


@tw.kernel
def sums(X: tw.f32[M, N]):
    """The sums of a softmax, with powers of two."""
    i = tw.vars("i")
    k = tw.rdom(k=N)
    m, l = tw.func("m"), tw.func("l")
    m[i] = -np.float32(np.inf)
    m[i] = tw.maximum(m[i], X[i, k])
    l[i] = 0.0
    l[i] += tw.exp2(X[i, k] - m[i])
    return m[:M], l[:M]


def _tails(rnd: random.Random, tail: str) -> Schedule:
    s = Schedule(algorithms.blur())
    s["blur_x"].compute_root()
    name = "blur_x" if tail == "round_up" else "blur_y"
    s[name].split("x", "xo", "xi", rnd.choice((2, 4, 8)), tail=tail or "guard")
    return s if rnd.randrange(2) else (s[name].vectorize("xi"), s)[1]


def _sliding(rnd: random.Random, tail: str) -> Schedule:
    s = Schedule(algorithms.blur())
    s["blur_x"].compute_at("blur_y.y").store_root()
    return s


def _folding(rnd: random.Random, tail: str) -> Schedule:
    s = _sliding(rnd, tail)
    s["blur_x"].fold_storage("y", 3)
    return s


def _rfactor(rnd: random.Random, tail: str) -> Schedule:
    s = Schedule(algorithms.matmul())
    s["C.update"].split("k", "ko", "ki", rnd.choice((2, 3, 4))).rfactor("ki", "P")
    return s


def _online(rnd: random.Random, tail: str) -> Schedule:
    s = sums.schedule()
    s.online(["m", "l"], over="k", block=rnd.choice((1, 2, 4)))
    return s


DIRECTED: dict[str, Callable[[random.Random, str], Schedule]] = {
    "tails": _tails, "sliding": _sliding, "folding": _folding, "rfactor": _rfactor, "online": _online,
}  # fmt: skip
CHECKERS: dict[str, Callable[[int, Mutant], str]] = {"fuzzer": by_fuzzer, "coverage": by_coverage, "exact": by_exact}


@dataclass(frozen=True)
class Result:
    """The number of the case in which a checker found a mistake (None: not in the cases that it was given)."""

    mutant: str
    checker: str
    case: int | None
    what: str


def hunt(m: Mutant, checker: str, cases: int, mistaken: bool = True) -> tuple[int | None, str]:
    """Look at cases in a child process, with the mistake made there (or not: then nothing may be found)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            running.check_coverage = lambda *_: None  # type: ignore[assignment]  # the fuzzer finds it by itself
            if mistaken:
                mutate(m)
            for seed in range(cases):
                os.write(write, f"{seed}\n".encode())
                found = CHECKERS[checker](seed, m)
                if found:
                    os.write(write, (found.replace("\n", " ") + "\n").encode())
                    break
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as f:
        lines = f.read().splitlines()
    _, status = os.waitpid(child, 0)
    seeds = [int(x) for x in lines if x.isdigit()]
    if os.WIFSIGNALED(status):
        return seeds[-1] + 1, f"signal {os.WTERMSIG(status)}"
    if status:
        return None, "the hunt failed, see the output"
    return (seeds[-1] + 1, lines[-1]) if lines and not lines[-1].isdigit() else (None, "")


def results(mutants: tuple[Mutant, ...]) -> Iterator[Result]:
    for m in mutants:
        for checker in CHECKERS:
            cases = getattr(m, checker)
            if cases is not None:
                yield Result(m.name, checker, *hunt(m, checker, cases))


def main(names: list[str]) -> None:
    os.environ[COVERAGE] = "0"
    chosen = tuple(m for m in MUTANTS if not names or any(n in m.name for n in names))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE_DIR"] = folder  # wrong code must not be found again by anybody
        for r in results(chosen):
            print(json.dumps(r.__dict__), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
