"""The caches of a machine as what the accesses of a kernel go into while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from tilewright.codegen import loops as L
from tilewright.codegen.cpu_caches import emit as e
from tilewright.codegen.cpu_caches.hierarchy import Hierarchy
from tilewright.codegen.emit import Driver
from tilewright.hw import Machine, SimulationError
from tilewright.hw.parts import align_up
from tilewright.lang.errors import user_location

PAGE = 4096


class Driven(Protocol):
    """What an instrumented kernel drives: the functions for its module, and the state that they are given."""

    driver: Driver
    state: np.ndarray

    def finish(self) -> None:
        """What is left to do when the kernel has run."""
        ...


Drive = Callable[[L.Program], Driven]


class DrivenCaches:
    """A machine's caches for one run of a program, cold at first. Registers and scratchpads have none.

    `hierarchy` has the counts. Raises SimulationError `caches.none` for a machine without caches.
    """

    def __init__(self, program: L.Program, machine: Machine):
        check_caches(machine)
        buffers = main_buffers(program, machine)
        names = {b.name for b in buffers}
        plain = {n: n.removeprefix("out.") for n in names}
        # an output that is copied from a buffer of its own keeps its `out.`
        shown = {n: n if p != n and p in names else p for n, p in plain.items()}
        tensors = sorted(set(shown.values()))
        self.hierarchy = Hierarchy(machine.caches, tensors)
        self.state = self.hierarchy.state
        numbers = {b: tensors.index(shown[b.name]) for b in buffers}
        self.driver = Driver(numbers, lambda m: e.define(m, self.hierarchy.plan, "driver"))

    def finish(self) -> None:
        """Write back what has changed: what the run wrote reaches the memory."""
        self.hierarchy.flush()


def check_caches(machine: Machine) -> None:
    """Raises SimulationError `caches.none` for a machine without caches."""
    if not machine.caches:
        raise SimulationError(
            f"machine {machine.name} has no caches", code="caches.none", where=user_location(),
            hint="machine files list them as [[cache]], from the core outwards; generic-avx2 and zen3 have some",
        )  # fmt: skip


def main_buffers(program: L.Program, machine: Machine) -> list[L.Buffer]:
    """The buffers of a program that live in the machine's main memory."""
    temporaries = (s.buffer for s in L.walk(program.body) if isinstance(s, L.Allocate))
    return [b for b in (*program.arguments, *temporaries) if machine.memory(b.memory).kind == "main"]


def bases(sizes: Iterable[int]) -> np.ndarray:
    """The virtual addresses of arguments of so many bytes, one behind the other at whole pages, and the one behind."""
    at, out = PAGE, []
    for n in sizes:
        out.append(at)
        at += align_up(n, PAGE)
    return np.array([*out, at], np.int64)
