"""What runs inside the workers of a Dask cluster: a measurer of their machine's own, kept from one job to the next."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.autotune.errors import TuneError
from tilewright.autotune.fingerprint import Fingerprint, versions
from tilewright.autotune.measure.local import LocalMeasurer
from tilewright.autotune.measure.task import Limits, Task

_lock = threading.Lock()
_measurer: LocalMeasurer | None = None


def about() -> dict[str, Any]:
    """This machine, and the versions of what makes code for it."""
    return {"fingerprint": Fingerprint.here().as_json(), "versions": versions()}


def measurer(compilers: int, limits: Mapping[str, Any]) -> LocalMeasurer:
    """That of this process."""
    global _measurer
    with _lock:
        if _measurer is None:
            _measurer = LocalMeasurer(compilers, Limits(**limits))
        return _measurer


def work(
    kind: str, task: Mapping[str, Any], schedules: Sequence[str], best: float | None, compilers: int,
    limits: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Outcomes (`run`, `finals`) or costs (`predict`) of some schedules; an `error` where the task can't be done."""
    local, wanted = measurer(compilers, limits), Task.from_json(task)
    try:
        if kind == "predict":
            return {"costs": local.predict(wanted, schedules)}
        found = local.finals(wanted, schedules) if kind == "finals" else local.run(wanted, schedules, best)
        return {"outcomes": [o.as_json() for o in found]}
    except TuneError as e:
        return {"error": {"message": e.message, "code": e.code, "hint": e.hint}}


def close() -> None:
    """End the measurer of this process."""
    global _measurer
    with _lock:
        if _measurer is not None:
            _measurer.close()
            _measurer = None


__all__ = ["about", "close", "measurer", "work"]
