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


OWN_MISTAKES = 5  # failures of the fuzzer itself, among those that the store has
FOUND = (
    Found(
        "a window that slides along an outer loop, in a buffer folded along an axis that moves in an inner one: the fold "
        "has overwritten what the outer iteration before had computed",
        "wrong values", "tests/schedule/test_random_windows.py",
    ),
    Found(
        "online of a reduction that has forms (specialize): the form went over the whole domain in every block",
        "wrong values", "tests/schedule/test_online.py",
    ),
    Found(
        "online over a variable that is not the outermost one of its domain changes the order of a float sum, and did not "
        "say so: strict accepted it",
        "wrong bits", "tests/schedule/test_online.py",
    ),
    Found(
        "an online group whose member is read in loops that stages share (compute_with) ran after these loops",
        "wrong values", "tests/schedule/test_compute_with.py",
    ),
    Found(
        "an online group placed in loops that stages share: a block's number was used outside of its loop",
        "an error of the emitter", "tests/schedule/test_compute_with.py",
    ),
    Found(
        "compute_with of a stage with another one that it depends on through what is computed in the shared loops",
        "a hang", "tests/schedule/test_compute_with.py",
    ),
    Found(
        "storage hoisted out of a loop, of a Func that was placed elsewhere afterwards or needs nothing there",
        "a crash", "tests/schedule/test_placement.py",
    ),
    Found("a tile of a region that is always empty", "a crash", "tests/schedule/test_cache_write.py"),
    Found(
        "the error bound of a pipeline with a Func that no point needs (an empty where())",
        "a crash", "tests/lang/test_judging.py",
    ),
    Found(
        "regions of a window inside a window, read through wrap_around",
        "a check of seconds", "tests/schedule/test_windows.py",
    ),
    Found(
        "the text of a nest with extents of nested splits with shifted tails",
        "minutes", "tests/schedule/test_wording.py",
    ),
    Found("the estimate of work of fused, split and parallel loops inside each other", "10 s a lowering", ""),
    Found("regions of forms and of tiles with shifted tails inside tiles", "a check of 5 to 7 s", ""),
)  # fmt: skip
