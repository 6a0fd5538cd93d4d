"""Stages that a function of the user's computes."""

from __future__ import annotations

from . import refused
from .kernels import sorted_rows


@refused("stage-loops")
def stage_loops():
    """The loops of a stage that a function of the user's computes are that function's."""
    s = sorted_rows.schedule()
    s["ordered"].vectorize("j", 8)


@refused("stage-inline")
def stage_inline():
    """A function of the user's reads elements in memory, and an inlined Func has none."""
    s = sorted_rows.schedule()
    s["wide"].compute_inline()


@refused("stage-storage")
def stage_storage():
    """A function of the user's gets arrays with strides, and not every buffer is one."""
    s = sorted_rows.schedule()
    s["wide"].compute_root().layout("i j -> j//8 i j%8")
