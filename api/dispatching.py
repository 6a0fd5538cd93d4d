"""`tw.dispatch`: a kernel that takes for every call the schedule that was found best for its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.dispatch import Dispatch, Entry, Left, Order
from tilewright.autotune.errors import TuneError
from tilewright.kernels import Kernel, check_mode
from tilewright.lang.errors import TilewrightError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.schedule import Schedule, parse_schedule


def dispatch(
    kernel: Kernel | Pipeline, source: Mapping[str, Schedule | str], *, order: Order = "free", mode: str | None = None,
    dtypes: Mapping[str, Any] | None = None, statics: Mapping[str, Any] | None = None,
) -> Dispatch:  # fmt: skip
    """The kernel with the schedules of `source` (or their texts) by bucket: `{"M=1..16,N=1024": schedule, ...}`."""
    p, how, keyword_only = _pipeline(kernel, dtypes, statics or {})
    entries, left = _given(p, source)
    return Dispatch(p, entries, mode=check_mode(mode or how), keyword_only=keyword_only, order=order, left=left)


def _pipeline(
    kernel: Any, dtypes: Mapping[str, Any] | None, statics: Mapping[str, Any]
) -> tuple[Pipeline, str, tuple[str, ...]]:
    """What is called, its mode, and the parameters that calls give by name."""
    if isinstance(kernel, Pipeline):
        return kernel, "contract", ()
    if not isinstance(kernel, Kernel):
        raise TuneError(f"{kernel!r:.60} is no kernel", code="tune.kernel", where=user_location(),
                        hint="a @tw.kernel, or kernel.pipeline()")  # fmt: skip
    return kernel.pipeline(dtypes=dtypes, **statics), kernel.mode, kernel.interface.keyword_only


def _given(p: Pipeline, source: Any) -> tuple[list[Entry], list[Left]]:
    """The entries of a mapping from buckets to schedules, and the texts that are none for this pipeline."""
    if not isinstance(source, Mapping):
        raise TuneError(f"{source!r:.60} holds no schedules by bucket", code="tune.source", where=user_location(),
                        hint='a dict: {"M=1..16,N=1024": schedule}')  # fmt: skip
    entries, left = [], []
    for where, what in source.items():
        bucket = where if isinstance(where, Bucket) else Bucket.read(str(where))
        try:
            schedule = parse_schedule(what, p) if isinstance(what, str) else what
        except TilewrightError as e:
            left.append(Left(bucket.text, e.message))
            continue
        if not isinstance(schedule, Schedule):
            raise TuneError(f"{what!r:.60} is no schedule", code="tune.source", where=user_location(),
                            hint="kernel.schedule(), or the text of one")  # fmt: skip
        entries.append(Entry(bucket, schedule))
    return entries, left


__all__ = ["dispatch"]
