"""How tensors lie, as a plan says it: in which layouts steps find their arguments, and what is converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.schedule.layout import IndexMap, parse_index_map

ROWS = ""  # the layout where nothing is said: row-major


@dataclass(frozen=True)
class Given:
    """How a part finds its arguments, by its own names: what is `given` lies in these layouts, what is `converted` is
    brought into others at the step's root."""

    given: tuple[tuple[str, str], ...] = ()
    converted: tuple[tuple[str, str], ...] = ()

    @property
    def maps(self) -> Mapping[str, IndexMap]:
        """The layouts of what does not lie row-major."""
        return {n: parse_index_map(t) for n, t in self.given}

    def __bool__(self) -> bool:
        return bool(self.given or self.converted)


@dataclass(frozen=True)
class Conversion:
    """A tensor that is brought into another layout while the program runs, by the step `at`, which reads it so. `bytes`
    are all that are moved there in a call; `packed`: part by part, in the loops that read them (as the default schedule
    does it)."""

    tensor: str
    at: str
    before: str
    after: str
    bytes: int
    packed: bool = False


@dataclass(frozen=True)
class Assignment:
    """What an assignment of layouts comes to: its cost (cycles of the model; where another objective than latency is asked
    for, bytes as well), and what it converts."""

    cost: float = 0.0
    conversions: tuple[Conversion, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that are converted in a call."""
        return sum(c.bytes for c in self.conversions)


@dataclass(frozen=True)
class Layouts:
    """The layouts of a plan. `homes` has those of buffers that are not row-major, and `weights`, for each step (by name) and
    each weight that it reads, the layout in which that is packed for it before anything runs.

    `chosen` is what that comes to; beside it `greedy`, where each step takes what it likes best, and `plain`, where
    everything is row-major.
    """

    homes: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[tuple[str, str], str] = field(default_factory=dict)
    chosen: Assignment = Assignment()
    greedy: Assignment = Assignment()
    plain: Assignment = Assignment()


PLAIN = Given()

__all__ = ["PLAIN", "ROWS", "Assignment", "Conversion", "Given", "Layouts"]
