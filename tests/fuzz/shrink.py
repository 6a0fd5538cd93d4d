"""A failing trial made smaller: `python -m tests.fuzz.shrink SEED FOCUS [--out FILE]`.

Directives, options of the draw (the default schedule, the second size), outputs and sizes are left out one after the
other as long as the trial fails in the same way, each try in a process of its own. What is left is written as a script
that runs it again: the kernel and the schedule as text, the sizes, how the arguments were made.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.fuzz import trials
from tests.fuzz.trials import Focus, Trial
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline, _in_order
from tilewright.lang.text import print_kernel
from tilewright.schedule.directive import Directive
from tilewright.schedule.schedule import Schedule

SECONDS = 8.0  # of one try; longer ones hang
TRIES = 250


@dataclass(frozen=True)
class Run:
    """What is tried: a trial at one size, and the seed of all that is drawn while it runs."""

    trial: Trial
    extents: dict[str, int]
    draws: int


def fails(r: Run) -> str:
    """How a run fails ("": it does not), found in a process of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        try:
            theirs.send(_how(r))
        finally:
            os._exit(0)
    theirs.close()
    try:
        if not ours.poll(SECONDS):
            os.kill(pid, 9)
            return "hangs"
        return ours.recv()
    except EOFError:
        return "dies"
    finally:
        os.waitpid(pid, 0)
        ours.close()


def _how(r: Run) -> str:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
        out = trials.run(r.trial, random.Random(r.draws).randrange, extents=r.extents)
    except Exception as e:
        return signature(e)
    assert out.name
    return ""


def signature(e: BaseException) -> str:
    """The kind of a failure: what is compared, or the error, without numbers and names."""
    text = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
    if " differ: " in text:
        return text.partition(" differ: ")[0] + " differ"
    return re.sub(r"[0-9]+|'[^']*'|\\b[a-zA-Z]+[0-9]\\w*", "#", text)[:80]


# What may be left out -----------------------------------------------------------------------------------------------


def with_directives(t: Trial, kept: list[Directive]) -> Trial | None:
    """The trial with some directives only; None where one of them is refused."""
    s = Schedule(t.case.pipeline)
    try:
        for d in kept:
            s.apply(replace(d, location=None))
        return replace(t, schedule=s)
    except TilewrightError:
        return None


def with_outputs(t: Trial, keep: list[int]) -> Trial | None:
    """The trial with some outputs only."""
    p = t.case.pipeline
    try:
        q = fewer_outputs(p, keep)
        return with_directives(replace(t, case=replace(t.case, pipeline=q)), list(t.schedule.directives))
    except TilewrightError:
        return None


def fewer_outputs(p: Pipeline, keep: list[int]) -> Pipeline:
    outputs = tuple(p.outputs[k] for k in keep)
    needed = _in_order([o.func for o in outputs] + [f for f in p.inouts if f.updates])
    structure: Any = 0 if len(outputs) == 1 else tuple(range(len(outputs)))
    return replace(p, outputs=outputs, funcs=tuple(needed), structure=structure)


def smaller(r: Run) -> Iterator[Run]:
    """Runs with less in them, the largest steps first."""
    t, ds = r.trial, list(r.trial.schedule.directives)
    if t.filled:
        yield replace(r, trial=replace(t, filled=False))
    n = len(ds)
    for size in (n // 2, n // 4, 1):
        for k in range(n - size, -1, -1) if size else ():
            made = with_directives(t, ds[:k] + ds[k + size :])
            if made is not None:
                yield replace(r, trial=made)
    for k in range(len(t.case.pipeline.outputs)) if len(t.case.pipeline.outputs) > 1 else ():
        made = with_outputs(t, [j for j in range(len(t.case.pipeline.outputs)) if j != k])
        if made is not None:
            yield replace(r, trial=made)
    for k, d in enumerate(ds):
        for changed in simpler(d):
            made = with_directives(t, [*ds[:k], changed, *ds[k + 1 :]])
            if made is not None:
                yield replace(r, trial=made)
    for n_, v in r.extents.items():
        for less in {1, 2, v // 2, v - 1}:
            if 0 <= less < v:
                yield replace(r, extents={**r.extents, n_: less})


def simpler(d: Directive) -> Iterator[Directive]:
    """A directive with an option less."""
    for k, (key, _) in enumerate(d.options):
        if key not in ("by", "at", "over", "for", "="):
            yield replace(d, options=d.options[:k] + d.options[k + 1 :])


def shrunk(r: Run) -> tuple[Run, str]:
    """The smallest run that is found, and how it fails."""
    how = fails(r)
    assert how, "this trial does not fail"
    tries, again = 0, True
    while again and tries < TRIES:
        again = False
        for less in smaller(r):
            tries += 1
            if fails(less) == how:
                r, again = less, True
                break
            if tries >= TRIES:
                break
    return r, how


# A script -----------------------------------------------------------------------------------------------------------

SCRIPT = '''\
"""{title}"""
import random

from tests.fuzz import trials
from tests.fuzz.random_pipelines import Case
from tilewright.lang.text import parse_kernel
from tilewright.schedule.schedule import parse_schedule

KERNEL = """
{kernel}
"""

SCHEDULE = """
{schedule}
"""

p = parse_kernel(KERNEL)
s = parse_schedule(SCHEDULE, p)
t = trials.Trial({seed}, Case(p, {{}}, {exact}, {extents}), s, {data!r}, {filled})
print(trials.run(t, random.Random({draws}).randrange, extents={extents}))
'''


def script(r: Run, how: str, where: str) -> str:
    t = r.trial
    return SCRIPT.format(
        title=f"{how} ({where})", kernel=print_kernel(t.case.pipeline).strip(), schedule=str(t.schedule), seed=t.seed,
        exact=t.case.exact, extents=r.extents, data=t.data, filled=t.filled, draws=r.draws,
    )  # fmt: skip


def failing(seed: int, focus: Focus) -> Run:
    """The run of a trial at the size at which it fails."""
    rnd = random.Random(f"{seed} {focus}")
    t = trials.drawn(rnd.randrange, seed, focus)
    assert t is not None, "this trial has no pipeline"
    if fails(r := Run(t, {"M": 3, "N": 4, "K": 2}, 0)):
        return r
    t = trials.legal(t)
    for draws in range(60):
        extents = trials.extents_for(t, random.Random(draws).randrange)
        if fails(r := Run(t, extents, draws)):
            return r
    raise AssertionError("this trial does not fail at any size that was tried")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("focus", nargs="?", default="*")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found, how = shrunk(failing(given.seed, Focus.read(given.focus)))
    text = script(found, how, f"seed {given.seed} focus {given.focus}")
    given.out.write_text(text) if given.out else print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
