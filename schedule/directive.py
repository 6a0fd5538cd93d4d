"""A directive as data: what stands on one line of a schedule's text.

`{kind} {operands} [-> {results}] [{key} {value} ...]`, under the heading of a stage or on its own.
What a kind means, which operands and options it takes and when it is legal is said where it is implemented.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.lang.errors import Location


@dataclass(frozen=True, slots=True)
class KnobRef:
    """A value left open for the tuner, by the knob's name (printed `$name`)."""

    name: str


Value = int | str | KnobRef | tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Directive:
    """One step of a schedule. Two directives are equal when they say the same, wherever they were written.

    kind      split, reorder, cache_read, ...
    stage     address of the stage whose loops are meant (`C.update`), or "" for directives that stand on their own
    operands  loop names, or addresses of Funcs and arrays
    results   new names (split, fuse, tile, rfactor)
    options   (key, value) pairs in the kind's canonical order: by, tail, at, in, layout, ...
    """

    kind: str
    stage: str = ""
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    options: tuple[tuple[str, Value], ...] = ()
    location: Location | None = field(default=None, compare=False)

    def option(self, key: str, default: Value | None = None) -> Value | None:
        """The value of an option, or `default`."""
        for k, v in self.options:
            if k == key:
                return v
        return default
