"""The cases, one module a family: each has a tuple `ENTRIES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import harness
from benchmarks.harness import Case


@dataclass(frozen=True)
class Entry:
    """A case by name. `run(threads, rounds)` measures it: the result prints itself and has `as_json()`. A `long` one runs
    where it is named in full and nowhere else; the ratios of a `group` are shown with their geometric mean. `make`:
    the case, where it runs in this process. With a `size` it is a point of its group's curve: all of them make one
    picture and one line, not a row each."""

    name: str
    title: str
    run: Callable[[int, int | None], Any]
    group: str = ""
    long: bool = False
    make: Callable[[], Case] | None = None
    size: int | None = None


def entry(name: str, title: str, make: Callable[[], Case], group: str = "", size: int | None = None) -> Entry:
    """A case whose sides run in turns in this process; a point of a curve takes fewer rounds."""

    def run(threads: int, rounds: int | None) -> harness.Result:
        return harness.measure(name, make(), threads, rounds or (size and harness.LEAST_ROUNDS))

    return Entry(name, title, run, group, make=make, size=size)


def entries() -> dict[str, Entry]:
    """All of them by name. Imports NumPy and Numba: threads have to be pinned before."""
    from benchmarks import simulator
    from benchmarks.cases import (
        compiling,
        convolutions,
        grids,
        networks,
        pictures,
        plans,
        processes,
        products,
        rows,
        sums,
        threads,
        unscheduled,
    )

    modules = (
        products,
        networks,
        convolutions,
        rows,
        unscheduled,
        sums,
        pictures,
        grids,
        plans,
        threads,
        processes,
        compiling,
    )
    found = [e for module in modules for e in module.ENTRIES]
    found += [
        Entry(name, title, partial(_figure, name), long=name in simulator.LONG)
        for name, title in simulator.CASES.items()
    ]
    return {e.name: e for e in found}


def _figure(name: str, threads: int, rounds: int | None) -> Any:
    from benchmarks import simulator

    return simulator.measure(name, rounds)
