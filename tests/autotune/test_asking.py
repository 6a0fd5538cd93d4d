"""The side of a tuner that asks: it ends with the tuner, however long a search would go on."""

from __future__ import annotations

import threading
import time

from tests.autotune.fakes import FakeMeasurer
from tests.autotune.test_space import Tiles, double
from tilewright.autotune.asking import Asker
from tilewright.autotune.buckets import Buckets
from tilewright.autotune.session import Options, Wanted, jobs_of
from tilewright.autotune.space import Choose
from tilewright.autotune.tasks import Subject
from tilewright.schedule.schedule import Schedule


class Endless(Tiles):
    """Choices without number, all of which lead to one schedule."""

    def build(self, choose: Choose) -> Schedule:
        for k in range(12):
            choose(f"idle {k}", tuple(range(7)))
        return double.schedule()


def test_who_searches_without_end_is_given_up_with_the_tuner():
    buckets = Buckets.of(double.pipeline(), {"M": 64, "N": 64}, None, None)
    wanted = Wanted(Subject("double", double.pipeline()), buckets, Endless())
    (job,) = jobs_of(wanted, Options(budget=1000.0, threads=2, rates={"f32": 1e9}))
    asker = Asker(FakeMeasurer(lambda task, text: 1.0), "exhaustive", 0, [job])
    job.waiting.append(job.default)
    asker.ahead(job, 4)
    assert asker.take(60.0) is not None  # the default schedule, by itself
    asker.ahead(job, 4)
    assert asker.take(0.0) is None
    asker.close()
    searching = [t for t in threading.enumerate() if t.name.startswith("tilewright-search")]
    until = time.monotonic() + 60
    for t in searching:
        t.join(until - time.monotonic())
    assert not any(t.is_alive() for t in searching)
    assert not job.broken
