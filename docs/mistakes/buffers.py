"""Buffers: folds, rings, tiles, layouts, regions."""

from __future__ import annotations

import numpy as np

from . import refused
from .kernels import add, blur, first, matmul, picked


@refused("fold")
def fold():
    """An iteration needs more of the axis at once than the fold keeps."""
    s = blur.schedule()
    s["across"].compute_at("down.y").store_root().fold_storage("y", 1)
    s.check()


@refused("fold-twice")
def fold_twice():
    """An axis is folded once."""
    s = blur.schedule()
    s["across"].compute_at("down.y").store_root().fold_storage("y", 2).fold_storage("y", 4)


@refused("axis-twice")
def axis_twice():
    """An axis has one bound, one alignment and one padding."""
    s = blur.schedule()
    s["across"].compute_root().pad("x", 8).pad("x", 16)


@refused("bound")
def bound():
    """The promise can't be kept at any size."""
    s = blur.schedule()
    s["down"].bound("y", 1, 64)


@refused("bound-updates")
def bound_updates():
    """The updates of the Func need more of it than the region that bound or align makes."""
    s = first.schedule()
    s["s"].compute_root().bound("i", 0, 4)
    s.check()


@refused("bound-assumed")
def bound_assumed():
    """More of the Func would be computed than is needed, at points that a promise (assume) says nothing of."""
    s = picked.schedule()
    s["p"].compute_root().split("i", "io", "ii", 8, tail="round_up")


@refused("ring")
def ring():
    """Slots are filled by copies, or emptied by them; something else is computed in place."""
    s = blur.schedule()
    s["across"].compute_at("down.y").double_buffer()


@refused("ring-twice")
def ring_twice():
    """The number of slots is said once."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 8)
    s.cache_read("B", at="C.update.ko").double_buffer().double_buffer(3)


@refused("tile-twice")
def tile_twice():
    """A loop has one tile in a memory; tiles within tiles are held at different loops or in different memories."""
    s = matmul.schedule()
    s.cache_write("C", at="C.update.i", memory="main")
    s.cache_write("C", at="C.update.i", memory="main")


@refused("tile-gaps")
def tile_gaps():
    """What one iteration writes is no box: a tile of it would store elements that it does not own."""
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 8).reorder("ii", "io")
    s.cache_write("C", at="C.update.ii", memory="main")


@refused("inout-storage")
def inout_storage():
    """What the caller's array holds has no buffer of ours."""
    s = add.schedule()
    s["X"].store_in("main")


@refused("clone-inout")
def clone_inout():
    """There is one array of the caller's, and a clone would be another."""
    s = add.schedule()
    s.clone("X", consumers="twice")


@refused("layout-given")
def layout_given():
    """A layout is given by the caller, or made by the kernel, and said once."""
    s = matmul.schedule()
    s.layout("B", "k j -> j k", given=True).layout("B", "k j -> j k", given=True)


@refused("layout-packed")
def layout_packed():
    """A packed handle takes the place of a conversion, and the schedule says something of that conversion."""
    s = matmul.schedule()
    s.layout("A", "y x -> x y").layout("B", "y x -> x y")
    s["A_packed"].compute_with("B_packed.y")
    fast = matmul.compile(s)
    packed = fast.prepack("B", np.ones((4, 4), np.float32))
    fast(np.ones((4, 4), np.float32), packed)


@refused("prefetch-twice")
def prefetch_twice():
    """A loop prefetches a tensor once."""
    s = matmul.schedule()
    s.prefetch("B", at="C.update.k").prefetch("B", at="C.update.k", distance=4)


@refused("stream")
def stream():
    """Stores past the caches are whole vectors, and nothing reads them again soon."""
    s = blur.schedule()
    s["down"].stream_stores()
    s["down"].unscheduled()
    s.check()
