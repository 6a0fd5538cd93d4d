"""What the fuzzer has found, and the tests that now stand for each kind; for docs/fuzzing.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A cause of failures. `became`: wrong values, a crash, a hang, a slow check; `test` stands for its whole kind
    ("" while it is open)."""

    what: str
    became: str
    test: str


FOUND = (
    Found(
        "a window that slides along an outer loop, in a buffer folded along an axis that moves in an inner one: the fold "
        "has overwritten what the outer iteration before had computed",
        "wrong values", "",
    ),
    Found(
        "an online group whose member is read in loops that stages share (compute_with) ran after these loops",
        "wrong values", "",
    ),
    Found(
        "compute_with of a stage with another one that it depends on through what is computed in the shared loops",
        "a hang", "",
    ),
    Found(
        "storage hoisted out of a loop, of a Func that was placed elsewhere afterwards or needs nothing there",
        "a crash", "tests/schedule/test_storage.py",
    ),
    Found("the error bound of a pipeline with a Func that no point needs (an empty where())", "a crash", ""),
    Found("regions of a window inside a window, read through wrap_around", "a check of seconds", ""),
)  # fmt: skip
