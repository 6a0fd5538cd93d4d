"""Arrays and units of machines."""

from __future__ import annotations

from . import refused
from .kernels import matmul


@refused("spatial-inside")
def spatial_inside():
    """An element of an array runs no threads: parallel loops stand outside of spatial ones."""
    s = matmul.schedule()
    s["C.update"].spatial("i", "x").parallel("j")
