"""Calls that the builtin for contiguous arrays does not take, and other builtins do: arrays with other strides, sizes
that the call gives, packed inputs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.codegen import runtime, stages
from tilewright.codegen.entry import make_entry
from tilewright.codegen.entry_table import Shaping
from tilewright.codegen.interface import signature
from tilewright.codegen.signature import size_name
from tilewright.lang.reference import structured

if TYPE_CHECKING:
    from tilewright.codegen.compile import Classes, Compiled, Variant

MISSED: Any = object()  # what a call gives that no builtin takes
_MANY_SIZES = 1000  # are remembered
_MANY = 4  # builtins for other strides: each one that does not take a call costs it some 50 ns


def missed(*_args: Any, **_kwargs: Any) -> Any:
    """What a builtin calls that has to leave a call to others."""
    return MISSED


def builtin(
    c: Compiled, variant: Variant, classes: Classes, threads: int | None, slow: Callable[..., Any],
    given_sizes: tuple[str, ...] = (),
) -> Callable[..., Any]:  # fmt: skip
    """The builtin of a variant of a kernel, or `slow` itself where there is none."""
    if not native(c):
        return slow
    context = runtime.context(threads)
    return make_entry(
        signature(c.interface, classes, c.keyword_only, given_sizes), variant.address, ctypes.addressof(context), slow,
        constants={t.name: t.values for t in c.pipeline.tables}, keep=(variant.keep, context),
        shaping=shaping(c.interface.structure),
    )  # fmt: skip


def native(c: Compiled) -> bool:
    """Whether builtins know all that a call needs: of promises that are checked, and of functions of the user that may
    raise, they know nothing."""
    return not (c.promises or stages.symbols(c.pipeline))


def shaping(structure: Any) -> Shaping | None:
    """How a structure of outputs is made and taken apart; None for one array or none."""
    if structure is None or isinstance(structure, int):
        return None
    if isinstance(structure, dict) and tuple(structure.values()) == tuple(range(len(structure))):
        keys = tuple(structure)
        return Shaping(lambda made: dict(zip(keys, made, strict=True)),
                       lambda out: tuple([out[k] for k in keys]) if len(out) == len(keys) else None)  # fmt: skip
    if type(structure) in (list, tuple) and tuple(structure) == tuple(range(len(structure))):
        make = list if type(structure) is list else tuple
        return Shaping(make, lambda out: tuple(out) if isinstance(out, (list, tuple)) else None)
    return Shaping(lambda made: structured(structure, made), lambda out: tuple(_arrays(structure, out)))


def _arrays(structure: Any, out: Any) -> list[Any]:
    """The arrays of `out` in order. Raises where it is not of that structure."""
    if isinstance(structure, dict):
        if structure.keys() != out.keys():
            raise KeyError
        return [a for k, s in structure.items() for a in _arrays(s, out[k])]
    if isinstance(structure, (tuple, list)):
        if not isinstance(out, (tuple, list)):
            raise TypeError
        return [a for s, o in zip(structure, out, strict=True) for a in _arrays(s, o)]
    return [] if structure is None and out is None else [out]


class NativeCalls:
    """The builtins of one kernel beside the first one, made when they are first wanted."""

    def __init__(self, compiled: Compiled):
        self._compiled = compiled
        self._strided: dict[int | None, Callable[..., Any]] = {}  # the newest; it leaves calls to the one before it
        self._known: set[tuple[int | None, Classes]] = set()
        self._sized: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._good: set[tuple[Any, ...]] = set()  # sizes that were given in calls that Python checked
        # no parameter has such a name
        self.size_names = {n: sys.intern(size_name(n)) for n in compiled.pipeline.sizes}

    def strided(self, threads: int | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call with arrays of other strides; MISSED where no builtin takes them."""
        found = self._strided.get(threads)
        return MISSED if found is None else found(*args, **kwargs)

    def learn(self, threads: int | None, variant: Variant) -> None:
        """Make a builtin of the variant that a call needed."""
        c, key = self._compiled, (threads, variant.classes)
        known = sum(t == threads for t, _ in self._known)
        if key in self._known or variant.aliased or variant.classes == c.default_classes or known == _MANY:
            return
        self._known.add(key)
        before = self._strided.get(threads, missed)
        self._strided[threads] = builtin(c, variant, variant.classes, threads, before)

    def accept(self, sizes: Mapping[str, int]) -> None:
        """Sizes that a call gave, and that were found good."""
        if len(self._good) >= _MANY_SIZES:
            self._good.clear()
        self._good.add((*sizes.items(),))

    def sized(self, threads: int | None, sizes: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call on contiguous arrays that gives sizes; MISSED where no builtin takes it, or they are new: whether index
        arithmetic stays within 64 bits only Python says."""
        try:
            if (*sizes.items(),) not in self._good:
                return MISSED
            given = {self.size_names[n]: v for n, v in sizes.items()}
        except (AttributeError, KeyError, TypeError):
            return MISSED
        return self.with_sizes(threads, tuple(sizes))(*args, **kwargs, **given)

    def with_sizes(self, threads: int | None, sizes: tuple[str, ...]) -> Callable[..., Any]:
        """The builtin for contiguous arrays that takes these sizes by the names that `size_names` has."""
        found = self._sized.get((threads, sizes))
        if found is None:
            c = self._compiled
            variant = c.variant(c.default_classes)
            found = builtin(c, variant, c.default_classes, threads, missed, sizes)
            self._sized[threads, sizes] = found
        return found


__all__ = ["MISSED", "NativeCalls", "builtin", "missed", "native"]
