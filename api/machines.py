"""Machines: presets and files, how to make, check, measure and fit them (`tw.machines`; `tilewright machine ...`).

machine = tw.machines.load("toy")           # or "my.toml"; print(machine) shows its parts
text = tw.machines.like("toy", name="mine") # a file with remarks, to be changed
tw.machines.problems("my.toml")             # all that is wrong with a file
probed = tw.machines.probe(seconds=5)       # this computer; probed.machine
fitted = tw.machines.fit(machine, tw.machines.read_measurements("cycles.csv", machine))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.codegen.probe import Probe
    from tilewright.hw import Machine, MachineError
    from tilewright.hw.fit import Fit
    from tilewright.hw.measurements import Measurement

__all__ = ["fit", "like", "load", "names", "parse", "probe", "problems", "read_measurements", "text"]


def names() -> list[str]:
    """The presets that come with the library."""
    from tilewright.hw import machine_names

    return machine_names()


def load(name_or_path: str | Path) -> Machine:
    """A preset by its name, or a machine file by its path (anything with a separator or ending in .toml).

    Raises MachineError: `machine.unknown`, `machine.no-file`, or the first thing that is wrong with the file.
    """
    from tilewright.hw import load_machine

    return load_machine(name_or_path)


def parse(text: str, origin: str = "<machine>") -> Machine:
    """The machine that a text describes; `origin` names it in errors. Raises MachineError."""
    from tilewright.hw import parse_machine

    return parse_machine(text, origin)


def text(machine: Machine, heading: str = "") -> str:
    """A machine as a file with a remark on every key, which reads back as the same machine; `heading` stands on top."""
    from tilewright.hw.writing import commented_text

    return commented_text(machine, heading)


def like(other: str | Path | Machine, name: str | None = None) -> str:
    """The text of a machine file like another machine (a preset, a file or a Machine), with a remark on every key.

    Raises MachineError: `machine.unknown`, `machine.no-file`, what is wrong with the file, or `machine.bad-value` for the
    new name.
    """
    from tilewright.hw import Machine

    known = other if isinstance(other, Machine) else load(other)
    made = text(
        dataclasses.replace(known, name=f"my-{known.name}" if name is None else name),
        f"Like {known.name}: change what is different, and say where the new figures come from.",
    )
    parse(made, "the new file")
    return made


def problems(path: str | Path) -> list[MachineError]:
    """All that is wrong with a machine file, in the order of its lines. Raises MachineError `machine.no-file`."""
    from tilewright.hw.machine import machine_problems, read_machine_file

    return machine_problems(read_machine_file(path), str(path))


def probe(seconds: float = 10.0) -> Probe:
    """Measure this computer for about so many seconds: `print` what was found, `.machine` is a Machine.

    One core is measured: sizes of caches as the system gives them, bandwidth and latency of every level, the clock, and
    operations a cycle for each type. Raises MachineError `machine.probe` where that can't be done.
    """
    from tilewright.codegen.probe import probe as run

    return run(seconds)


def read_measurements(path: str | Path, machine: Machine) -> list[Measurement]:
    """Measured cycles from a CSV file; its columns are described in docs/machines.md. Raises MeasurementError."""
    from tilewright.hw.measurements import read_measurements as run

    return run(path, machine)


def fit(machine: Machine, measurements: Sequence[Measurement], source: str = "measurements") -> Fit:
    """A machine's latencies, issue costs, bandwidths and rates fitted to measured cycles; see `tilewright.hw.fit.fit`."""
    from tilewright.hw.fit import fit as run

    return run(machine, measurements, source)
