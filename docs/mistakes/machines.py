"""Arrays and units of machines."""

from __future__ import annotations

from . import refused
from .kernels import blur, matmul


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


def block(machine=None):
    """A block of 4 x 4 x 4 of a matrix product."""
    s = matmul.schedule(machine=machine)
    s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 4, 4).split("k", "ko", "ki", 4)
    s["C.update"].reorder("io", "jo", "ko", "ii", "ji", "ki")
    return s


@refused("unit")
def unit():
    """The machine has no unit of that name. Where no machine is bound, it shows when one is met."""
    block("toy")["C.update"].tensorize("ii", "gemm")


@refused("unit-form")
def unit_form():
    """A unit adds products of a and b to c; what runs inside of it is m, n or k of such a block."""
    s = blur.schedule()
    s["down"].tensorize("y", "mma")


@refused("unit-shape")
def unit_shape():
    """A call covers so many of m, n and k, and the loops inside may be longer."""
    s = matmul.schedule(machine="toy")
    s.cache_read("A", memory="spm")
    s.cache_read("B", memory="spm")
    s.cache_write("C", at="C.update.i", memory="spm")
    s["C.update"].tensorize("k", "mma")


@refused("unit-operands")
def unit_operands():
    """Operands are of the types, and in the memories, that the unit takes them from."""
    block("toy")["C.update"].tensorize("ii", "mma")


@refused("unit-inside")
def unit_inside():
    """A unit does its loops as a whole: nothing is computed, copied or held inside of them."""
    s = block()
    s.cache_write("C", at="C.update.ii", memory="spm")
    s["C.update"].tensorize("ii", "mma")
