"""The causes for which a schedule is refused: one code each, and the class of error that it belongs to.

`except tw.RaceError` catches a kind of mistake, `error.code` says which one it is. docs/errors.md has an example of
every code, with what would be legal.
"""

from __future__ import annotations

from tilewright.lang.errors import Location, ScheduleError, user_location


class AddressError(ScheduleError):
    """A stage, loop, Func, axis or knob that is not there, is meant in several ways, or has a name that is taken."""


class WordingError(ScheduleError):
    """A directive or a schedule that says too much, too little or what is none."""


class LoopError(ScheduleError):
    """A loop can't be shaped or run that way where it stands."""


class ExtentError(ScheduleError):
    """An extent or a size must be a constant, or is too large."""


class TailError(ScheduleError):
    """What is left over of a loop can't be dealt with that way."""


class OrderError(ScheduleError):
    """The steps of a reduction would run in another order, or in parts, and may not."""


class RaceError(ScheduleError):
    """Several threads would write where only one may."""


class DependenceError(ScheduleError):
    """Something would run before what it depends on, or ahead of what overwrites it."""


class PlaceError(ScheduleError):
    """A Func would be computed or stored where not all its uses are, or where it has no place of its own."""


class StorageError(ScheduleError):
    """A buffer can't be folded, doubled, laid out, padded or streamed that way."""


class SharingError(ScheduleError):
    """Loops can't be shared, or a stage can't have several forms."""


class OnlineError(ScheduleError):
    """Reductions can't run together in a single pass."""


_CODES: dict[type[ScheduleError], str] = {
    AddressError: """
        ambiguous-loop ambiguous-stage array-axis axis foreign-loop func-directive memory misplaced name name-twice
        not-read unknown-directive unknown-func unit unknown-knob unknown-loop unknown-stage""",
    WordingError: """
        algorithm arity condition constraint factor kind knob layout none option partition several text""",
    LoopError: """
        fuse-mixed loop-mode not-adjacent peel-copies peeled spatial-inside stage-loops unit-form unit-inside
        vector-inside vector-twice""",
    ExtentError: "array-extent extent register-size unit-shape unroll-budget vector-length",
    TailError: "tail",
    OrderError: """
        not-associative reduction-order rfactor-cache rfactor-fused rfactor-pure rfactor-scatter strict""",
    RaceError: "store-race tile-race",
    DependenceError: "compute-with-dependence prefetch-lost ring-dependence ring-guards",
    PlaceError: """
        hoist illegal-place inline-update inlined output-place stage-inline store-inside""",
    StorageError: """
        axis-twice bound bound-assumed bound-updates clone-inout fold fold-twice inout-storage layout-given layout-packed
        prefetch-twice ring ring-twice stage-storage stream tile-gaps tile-twice unit-operands""",
    SharingError: """
        compute-with-forms compute-with-loops compute-with-place compute-with-self compute-with-tail compute-with-tile
        compute-with-twice compute-with-unused specialize-shared specialize-where""",
    OnlineError: """
        online-before online-between online-blocks online-domain online-form online-loops online-place online-split
        online-storage online-twice online-variable""",
}
CAUSES: dict[str, type[ScheduleError]] = {code: c for c, codes in _CODES.items() for code in codes.split()}


def refuse(
    message: str,
    code: str,
    hint: str,
    where: Location | tuple[Location | None, ...] | None = None,
    about: tuple[str, str] | None = None,
) -> ScheduleError:
    """The error for a cause: `message` names what conflicts, `hint` what would be legal or the next step to try.

    `about` is for promises that are judged when the nest is built: the kind of the directive that made the promise, and
    one of its operands.
    """
    places = where if isinstance(where, tuple) else (where,)
    found = tuple(p for p in places if p is not None)
    error = CAUSES[code](message, code=f"schedule.{code}", hint=hint, where=found or user_location())
    error.about = about
    return error


__all__ = [
    "CAUSES", "AddressError", "DependenceError", "ExtentError", "LoopError", "OnlineError", "OrderError", "PlaceError",
    "RaceError", "SharingError", "StorageError", "TailError", "WordingError", "refuse",
]  # fmt: skip
