"""Errors as part of the interface: one base class, a stable code, the user's place, what would be legal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

_PASSED_OVER = ("tilewright", "numpy", "contextlib")  # the user's frame is the one that called these


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source: `file` and 1-based `line` (and `column` for text forms)."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        tail = "" if self.column is None else f":{self.column}"
        return f"{self.file}:{self.line}{tail}"


current_location: ContextVar[Location | None] = ContextVar("current_location", default=None)


@contextmanager
def located(place: Location | None) -> Iterator[None]:
    """What is built inside counts as written at `place` (a text that is being read, not a Python frame)."""
    token = current_location.set(place)
    try:
        yield
    finally:
        current_location.reset(token)


def user_location() -> Location | None:
    """Where the user wrote the definition or directive: the place in the text that is being read, if there is one,
    else the innermost Python frame that is not ours."""
    place = current_location.get()
    if place is not None:
        return place
    frame = user_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def user_frame() -> FrameType | None:
    """The innermost Python frame that is not ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame = frame.f_back
    return frame


class TilewrightError(Exception):
    """Base of everything that tilewright raises on purpose.

    `code` is stable (tests and tools may rely on it), `where` names the places in the user's source
    (first the one to change), `hint` says what would be legal or what to try next.
    """

    default_code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: Location | tuple[Location | None, ...] | None = None,
        hint: str | None = None,
    ):
        places = where if isinstance(where, tuple) else (where,)
        self.message = message
        self.code = code or self.default_code
        self.where: tuple[Location, ...] = tuple(p for p in places if p is not None)
        self.hint = hint
        super().__init__(self.render())

    def render(self) -> str:
        """One clear paragraph: place, code, cause, next step."""
        place = f"{self.where[0]}: " if self.where else ""
        text = f"{place}{self.message} [{self.code}]"
        if len(self.where) > 1:
            text += "".join(f"\n  see also {p}" for p in self.where[1:])
        if self.hint:
            text += f"\n  {self.hint}"
        return text


class TypeRuleError(TilewrightError):
    """An expression breaks a typing rule of the numerics contract."""

    default_code = "type"


class DefinitionError(TilewrightError):
    """A Func, reduction domain or kernel is defined in a way that has no meaning."""

    default_code = "definition"


class UnknownNameError(DefinitionError, AttributeError):
    """Something is asked for by a name that it does not have (an AttributeError, so that hasattr works)."""

    default_code = "definition.unknown-name"


class SymbolicUseError(TilewrightError, TypeError):
    """A symbolic value was used where Python needs a concrete one (`if`, `and`, `len`, iteration...)."""

    default_code = "symbolic-use"


class BoundsError(TilewrightError):
    """A region is unbounded, empty where it may not be, or exceeds what an input has."""

    default_code = "bounds"


class ArgumentError(TilewrightError):
    """A call passes an argument that the kernel can't take."""

    default_code = "argument"


class ScheduleError(TilewrightError):
    """A directive is not legal where it stands.

    `about` names a directive (its kind, and one of its operands) whose promise turned out later not to hold.
    """

    default_code = "schedule"
    about: tuple[str, str] | None = None


class ParseError(TilewrightError):
    """Text that can't be read: line, column, what was expected."""

    default_code = "parse"


class UnusedWarning(UserWarning):
    """A kernel's text defines what no result needs."""


class AssumptionError(TilewrightError):
    """What `tw.assume` promised does not hold."""

    default_code = "kernel.assumption"


class ExternStageError(TilewrightError):
    """What the user computes (`tw.extern_stage`, `tw.extern`) raised an exception, the cause, or broke its promises."""

    default_code = "extern"


class CompileError(TilewrightError):
    """The native back end can't do what the schedule promises, or its tools failed."""

    default_code = "compile"


class CoverageError(TilewrightError):
    """The loops that were made of a schedule lose a point, double one, or compute one that is none: a mistake of ours.

    `stage` is the address of the stage, `points` are the points in question, as values of its variables.
    """

    default_code = "coverage"

    def __init__(
        self, message: str, *, stage: str, points: tuple[tuple[int, ...], ...], code: str | None = None,
        where: Location | None = None, hint: str | None = None,
    ):  # fmt: skip
        self.stage, self.points = stage, points
        super().__init__(message, code=code, where=where, hint=hint)
