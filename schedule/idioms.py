"""Scheduling idioms as plain functions over a schedule: what experts write again and again, to use or to copy.

Each function appends ordinary directives, so the schedule's text shows what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


def parallel_strips(s: Schedule, stage: str, loop: str, height: int) -> None:
    """Threads over strips of `height` iterations: `loop` becomes strips (parallel) and the iterations of one."""
    s[stage].parallel(loop, height)


def two_level_tile(s: Schedule, stage: str, loops: Sequence[str], outer: Sequence[int], inner: Sequence[int]) -> None:
    """Tiles of `outer` points cut into tiles of `inner` points: loops x_o (outermost), x_m, x_i for every loop x."""
    h = s[stage]
    for x, big, small in zip(loops, outer, inner, strict=True):
        h.split(x, f"{x}_o", f"{x}_t", big).split(f"{x}_t", f"{x}_m", f"{x}_i", small)
    h.reorder(*(f"{x}_{level}" for level in "omi" for x in loops))


def register_tile(
    s: Schedule, stage: str, rows: str, columns: str, reductions: Sequence[str], height: int, vectors: int, lanes: int
) -> str:
    """A tile of `height` rows and `vectors` vectors of `lanes` columns of the result in registers while the
    reductions run; returns the address of the loop that holds it.

    Loops, outermost first: {columns}_o, {rows}_o (holds the tile), the reductions, {rows}_i (unrolled), {columns}_u
    (unrolled), {columns}_v (a vector).
    """
    h = s[stage]
    h.split(rows, f"{rows}_o", f"{rows}_i", height)
    h.split(columns, f"{columns}_o", f"{columns}_t", vectors * lanes)
    h.split(f"{columns}_t", f"{columns}_u", f"{columns}_v", lanes)
    h.reorder(f"{columns}_o", f"{rows}_o", *reductions, f"{rows}_i", f"{columns}_u", f"{columns}_v")
    h.unroll(f"{rows}_i").unroll(f"{columns}_u").vectorize(f"{columns}_v")
    holder = f"{h.stage}.{rows}_o"
    s.cache_write(h.func, at=holder, memory="reg")
    return holder


def packed_panel(s: Schedule, tensor: str, at: str, axes: str, axis: str, width: int, memory: str = "main") -> str:
    """A copy of what an iteration of `at` reads of a tensor, in panels of `width` along `axis`, each read end to end.

    `axes` names the tensor's axes (`"k j"`); the panel's axis becomes the outermost (which panel) and the innermost
    (place in the panel). Returns the name of the copy.
    """
    names = axes.split()
    inside = " ".join(n for n in names if n != axis)
    layout = f"{axes} -> {axis}//{width} {inside} {axis}%{width}"
    return s.cache_read(tensor, at=at, memory=memory, layout=layout).func


def line_buffer(s: Schedule, func: str, at: str, axis: str, lines: int, within: str | None = None) -> None:
    """Computed a line at a time in the loop `at`, the last `lines` of them kept: a sliding window in a ring of lines.

    The ring lives for the whole run, or for one iteration of the loop `within` (a strip, say), where it starts anew.
    """
    f = s[func].compute_at(at)
    (f.store_at(within) if within else f.store_root()).fold_storage(axis, lines)
