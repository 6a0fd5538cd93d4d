"""docs/fuzzing.md: how the fuzzer is run, what it compares, and what a campaign has tried."""

from __future__ import annotations

import textwrap
from collections import Counter

from tests.fuzz.covering import IMPOSSIBLE
from tests.fuzz.found import FOUND, OWN_MISTAKES
from tests.fuzz.store import Row, Store
from tilewright.schedule.directives.kinds import KINDS, TAILS

HEAD = """\
# The schedule fuzzer

Random pipelines under random schedules over the whole directive language, run in several ways that must agree. The
generator, the comparisons and the campaign are in `tests/fuzz/`; a small campaign runs with the other tests.

```text
python -m tests.fuzz.campaign --seeds 0:20000 --store fuzz.db --minutes 60   # goes on where the store ends
python -m tests.fuzz.campaign --store fuzz.db --summary docs/fuzzing.md      # writes this page
python -m tests.fuzz.worker SEED FOCUS                                       # repeats one trial
python -m tests.fuzz.shrink SEED FOCUS                                       # makes it smaller, writes it as a script
```

A campaign runs its trials one by one in a process with a limit of time and memory, so that a trial that kills or hangs
it is a failure like any other. Nine of ten trials have a focus: the directive, or the directive and the tail, with the
fewest good trials so far, set up by a recipe before and after random directives. Seed and focus together are the trial.

## What a trial is

One to six stages and their outputs: expressions, stencils, pyramids, reductions, scans, scatters, gathers, tuples,
in-place updates, index pairs, complex products, sums of exponentials with a running maximum (softmax, attention,
masked), conditions, several types in one pipeline, boundary conditions, sizes from 0 to 70. Up to some twenty legal
directives; illegal ones are tried on copies on the way: each must be refused with an error of ours, and leave the
schedule as it was, or be right like any other. Trials run at two sizes each.

## What is compared

Reference, native code and instrumented run, always; native code runs between guard pages, with strided arrays, with
temporaries of undefined content, on the stack or not, and with tasks in any order.

| data | values | must be |
|---|---|---|
| integers | small integers of any type | the reference's bits, whatever the schedule |
| strict | floats, also infinite, zeros of both signs | the reference's bits |
| exact | floats that round nowhere | the reference's bits but for the signs of zeros, whatever the schedule |
| contract | normally distributed | within the derived error bound, where it tells anything; the bits of the plain \
schedule where nothing is reassociated |

In a part of the trials the loop IR is interpreted too (bounds, undefined values, races), its loops are checked to compute
every point once, and the kernel is called by the public interface, with packed inputs. The passes and the emission are
the same everywhere; LLVM optimises one trial of eight and runs at -O0 for the others, as most of the time would be its.
(Several pipelines in one LLVM module gain nothing: a module costs 0.7 ms, a trial 110.)

"""


def summary(store: Store) -> str:
    rows = list(store.rows())
    kinds, found = store.counts()
    return HEAD + _totals(rows) + _table(kinds, found) + _impossible() + _refusals(rows) + _found(rows)


def _totals(rows: list[Row]) -> str:
    outcomes = Counter(r.outcome for r in rows)
    good = [r for r in rows if r.outcome == "good"]
    lines = [
        "## What has been tried\n",
        f"{len(rows)} trials, of which {len(good)} were legal, ran, computed something and agreed. The others:\n",
    ]
    meaning = {
        "refused": "the schedule as a whole is refused by check()", "not compiled": "refused by compilation",
        "asks more": "the schedule asks more of the sizes than any call gave (bound, align, round_up)",
        "no call": "the algorithm itself refuses the sizes", "no pipeline": "the algorithm itself is refused",
        "empty": "nothing was computed", "vague": "the error bound is too wide to tell", "FAILED": "a failure (see below)",
    }  # fmt: skip
    lines += ["| outcome | trials | |", "|---|---|---|"]
    lines += [f"| {n} | {c} | {meaning.get(n, '')} |" for n, c in outcomes.most_common() if n != "good"]
    data, levels, ways = (
        Counter(x) for x in ((r.data for r in good), (r.level for r in good), (w for r in good for w in r.ways))
    )
    shown = lambda c: ", ".join(f"{n} {v}" for n, v in c.most_common())  # noqa: E731
    largest = Counter(_class(max(e.values())) for r in good for e in r.extents)
    funcs, directives = (Counter(map(_bucket, x)) for x in ((r.funcs for r in good), (r.directives for r in good)))
    parts = {
        "data": data, "what LLVM did": levels, "other ways besides (interpreted, public calls)": ways, "Funcs": funcs,
        "directives": directives, "the largest size of a call": largest,
    }  # fmt: skip
    lines += ["", "The good ones:\n", *(f"* by {name}: {shown(c)}" for name, c in parts.items()), ""]
    return "\n".join(lines) + "\n"


def _bucket(n: int) -> str:
    return next(name for top, name in ((2, "up to 2:"), (5, "3 to 5:"), (10, "6 to 10:"), (10**9, "more:")) if n <= top)


def _class(n: int) -> str:
    return next(name for top, name in ((1, "0 or 1:"), (8, "2 to 8:"), (20, "9 to 20:"), (70, "21 to 70:")) if n <= top)


def _table(kinds: Counter[str], found: Counter[tuple[str, str]]) -> str:
    lines = [
        "### Good trials by directive and tail\n",
        "A directive counts where the Func or stage that it names was computed at some point. A tail counts with it where\n"
        "a loop of that Func, or of one next to it (read by it, or reading it), was split with that tail and ran.\n",
        f"| directive | trials | {' | '.join(f'with {t}' for t in TAILS)} |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for k in sorted(KINDS):
        cells = ["impossible" if (t, k) in IMPOSSIBLE else str(found[(t, k)]) for t in TAILS]
        lines.append(f"| `{k}` | {kinds[k]} | {' | '.join(cells)} |")
    special = ", ".join(f"`{k}` {n}" for k, n in sorted(kinds.items()) if k not in KINDS)
    return "\n".join(lines) + "\n\n" + _wrapped(f"Special uses, in trials that told them apart: {special}.") + "\n\n"


def _impossible() -> str:
    if not IMPOSSIBLE:
        return ""
    return "\n".join(f"`{k}` with tail {t} is impossible: {why}.\n" for (t, k), why in IMPOSSIBLE.items()) + "\n"


def _refusals(rows: list[Row]) -> str:
    codes: Counter[str] = Counter(c.rpartition(": ")[2] for r in rows for c in r.refused)
    tried, legal = sum(codes.values()), codes.pop("None", 0)
    intro = (
        f"{tried} were tried; {legal} turned out legal, the others were refused with {len(codes)} different codes, and left "
        "the schedule as it was."
    )
    shown = ", ".join(f"{c} {n}" for c, n in codes.most_common(40))
    return f"### Illegal directives\n\n{_wrapped(intro)}\n\n{_wrapped(shown)}\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_on_hyphens=False, break_long_words=False)


def _found(rows: list[Row]) -> str:
    failed = sum(r.outcome == "FAILED" for r in rows)
    intro = (
        f"{failed} trials failed, with the library as it was at that time; in {OWN_MISTAKES} of them the fuzzer was wrong. "
        "The causes of the others and of failures in longer trials beside the campaign, and the tests that stand for each "
        "kind:"
    )
    lines = [
        "", "## What was found\n", _wrapped(intro), "", "| cause | it gave | test |", "|---|---|---|",
        *(f"| {f.what} | {f.became} | {f'`{f.test}`' if f.test else 'open'} |" for f in FOUND),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
