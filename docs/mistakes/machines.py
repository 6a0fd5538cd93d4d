"""Arrays and units of machines."""

from __future__ import annotations

from . import refused
from .kernels import matmul


@refused("spatial-inside")
def spatial_inside():
    """An element of an array runs no threads: parallel loops stand outside of spatial ones."""
    s = matmul.schedule()
    s["C.update"].spatial("i", "x").parallel("j")


@refused("array-axis")
def array_axis():
    """The machine has no array, or its array no such axis. Where no machine is bound, it shows when one is met."""
    s = matmul.schedule(machine="tpu-v1")
    s["C.update"].spatial("i", "x")


@refused("array-extent")
def array_extent():
    """An axis of the array is shorter than what would lie along it, the spatial loops around included."""
    s = matmul.schedule(machine="tpu-v1")
    s["C.update"].split("i", "io", "ii", 32).split("j", "jo", "ji", 16)
    s["C.update"].spatial("ii", "row").spatial("ji", "row")
