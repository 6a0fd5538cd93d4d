"""A small campaign: every directive, and every directive with every tail, once; what campaigns are made of.

`python -m tests.fuzz.worker SEED FOCUS` repeats one that fails.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import campaign, illegal, moves, trials
from tests.fuzz.covering import pairs
from tests.fuzz.random_pipelines import random_pipeline
from tests.fuzz.store import Row, Store
from tests.fuzz.strategies import chosen_by
from tests.fuzz.strategies import trials as any_trial
from tests.fuzz.summary import summary
from tests.fuzz.trials import Focus
from tests.fuzz.worker import VERSION
from tilewright.lang.errors import TilewrightError
from tilewright.schedule.directives.kinds import KINDS
from tilewright.schedule.schedule import Schedule

KINDS_AND_TAILS = [*(Focus(k) for k in KINDS), *(Focus(k, t) for t, k in pairs())]


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """Trials run in a process of their own: a wrong one may well kill it."""
    made = campaign.Worker(str(tmp_path_factory.mktemp("cache")))
    yield made
    made.stop()


@pytest.mark.parametrize("part", range(5))
def test_directives_and_tails(worker, part) -> None:
    """The reference, native code between guard pages and the instrumented run agree, whatever directive there is."""
    kinds: Counter[str] = Counter()
    for n, focus in enumerate(KINDS_AND_TAILS):
        if n % 5 == part:
            row = worker.run(n, focus)
            assert row.outcome != "FAILED", f"python -m tests.fuzz.worker {n} '{focus}'\n{row.message}"
            kinds.update(row.kinds)
    assert len(kinds) > 20, "trials are legal, run, and are not empty"


@given(any_trial(), st.data())
@settings(max_examples=10)
def test_trials_that_shrink(t, data) -> None:
    trials.run(t, chosen_by(data))


@pytest.mark.parametrize("seed", range(60))
def test_illegal_directives(seed) -> None:
    """Refused with an error of ours, the schedule unchanged; or legal after all."""
    rnd = random.Random(seed)
    try:
        s = Schedule(random_pipeline(rnd.randrange, seed=seed).pipeline)
    except TilewrightError:
        return
    moves.grow(s, rnd.randrange, rnd.randrange(8))
    for k in range(4):
        illegal.try_some(s, rnd.randrange, k)


def test_illegal_directives_are_refused() -> None:
    """Most of what is tried is illegal, for reasons of many kinds."""
    rnd, codes = random.Random(1), Counter[str]()
    for seed in range(12):
        s = Schedule(random_pipeline(rnd.randrange, exact=True, seed=seed).pipeline)
        moves.grow(s, rnd.randrange, 6)
        for k in range(20):
            codes.update(c.rpartition(": ")[2] for c in illegal.try_some(s, rnd.randrange, k))
    assert codes["None"] < sum(codes.values()) / 3 and len(codes) > 30, codes


# Campaigns ----------------------------------------------------------------------------------------------------------


def test_trials_repeat() -> None:
    """A seed and a focus are a trial."""
    for focus in (Focus(), Focus("cache_read", "shift")):
        first, second = (trials.draw(random.Random("7").randrange, 7, focus) for _ in range(2))
        assert repr(first) == repr(second)


def test_a_campaign_goes_on_where_it_was(tmp_path) -> None:
    store = Store(tmp_path / "rows.db")
    campaign.run(range(3), store, tmp_path / "failures", 10)
    campaign.run(range(5), store, tmp_path / "failures", 10)
    rows = list(Store(tmp_path / "rows.db").rows())
    assert [r.seed for r in rows] == list(range(5)) and not any(r.outcome == "FAILED" for r in rows)
    assert "| `split` |" in summary(store)


SCRIPT = """
import sys, time
for line in sys.stdin:
    seed = int(line.split()[0])
    if seed == 1:
        sys.exit(3)
    if seed == 2:
        time.sleep(60)
    print('{"seed": %d, "version": VERSION, "focus": "*", "outcome": "good"}' % seed, flush=True)
""".replace("VERSION", str(VERSION))


def test_trials_that_kill_or_hang_are_failures(tmp_path, monkeypatch) -> None:
    started = campaign.subprocess.Popen

    def popen(command, **kwargs):
        return started([sys.executable, "-c", SCRIPT], **kwargs)

    monkeypatch.setattr(campaign.subprocess, "Popen", popen)
    monkeypatch.setattr(campaign, "LIMIT", -7.0)
    store = Store(tmp_path / "rows.db")
    campaign.run(range(4), store, tmp_path / "failures", 10)
    assert [r.outcome for r in store.rows()] == ["good", "FAILED", "FAILED", "good"]
    assert "ended with 3" in (tmp_path / "failures" / "1.txt").read_text()
    assert "no end after" in (tmp_path / "failures" / "2.txt").read_text()


def test_rows(tmp_path) -> None:
    store = Store(tmp_path / "rows.db")
    row = Row(1, 1, "*", "good", kinds=["split"], pairs=[["guard", "split"]], extents=[{"N": 3}], message="é\n")
    store.add([row])
    store.add([row])
    assert list(store.rows()) == [row]
    assert store.counts() == (Counter(["split"]), Counter([("guard", "split")]))


@pytest.mark.campaign
def test_campaign(tmp_path) -> None:
    """Some ten minutes from a new place."""
    store, start = Store(tmp_path / "rows.db"), random.SystemRandom().randrange(1 << 40)
    campaign.run(range(start, start + 10**6), store, tmp_path / "failures", 10)
    bad = [
        f"python -m tests.fuzz.worker {r.seed} '{r.focus}'\n{r.message}" for r in store.rows() if r.outcome == "FAILED"
    ]
    assert not bad, "\n\n".join(bad)
