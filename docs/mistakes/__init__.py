"""What schedules and calls are refused for: an example of every code, which docs/generate.py runs and writes down.

Each example is a function that ends in the mistake; its docstring says the cause.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.lang.errors import TilewrightError


@dataclass(frozen=True, slots=True)
class Example:
    """A code (of schedules without `schedule.`) and a function that provokes it."""

    code: str
    run: Callable[[], object]

    @property
    def cause(self) -> str:
        return " ".join((inspect.getdoc(self.run) or "").split())

    @property
    def source(self) -> str:
        """What the function does, without its head."""
        text = inspect.getsource(self.run)
        body = text.split('"""', 2)[2]
        return textwrap.dedent(body).strip()

    def error(self) -> TilewrightError:
        """The error that the example gives; an AssertionError where it gives none."""
        try:
            self.run()
        except TilewrightError as e:
            return e
        raise AssertionError(f"{self.code} is not refused")


EXAMPLES: list[Example] = []
CALLS: list[Example] = []


def refused(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register an example of `schedule.{code}`."""

    def register(fn: Callable[[], object]) -> Callable[[], object]:
        EXAMPLES.append(Example(code, fn))
        return fn

    return register


def mistaken(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register an example of another code, given in full."""

    def register(fn: Callable[[], object]) -> Callable[[], object]:
        CALLS.append(Example(code, fn))
        return fn

    return register


def call_examples() -> list[Example]:
    """The examples of calls, and of what is made beside them, in the order of the document."""
    from . import calls, plans  # noqa: F401  (they register themselves)

    return CALLS


def examples() -> list[Example]:
    """All examples of schedules, in the order of the document."""
    from . import buffers, loops, machines, names, online, places, reductions, sharing, stages  # noqa: F401  (they register themselves)

    return EXAMPLES
