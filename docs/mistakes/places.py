"""Where things are computed and stored, threads, and what depends on what."""

from __future__ import annotations

from . import refused
from .kernels import blur, matmul, shares


@refused("illegal-place")
def illegal_place():
    """Not every use of the Func stands inside that loop."""
    s = shares.schedule()
    s["wide"].compute_at("out.i")


@refused("output-place")
def output_place():
    """An output lives in the caller's array."""
    s = blur.schedule()
    s["down"].store_at("down.y")


@refused("inlined")
def inlined():
    """What is inlined has neither loops nor a buffer of its own."""
    s = blur.schedule()
    s["across"].store_in("main")


@refused("inline-update")
def inline_update():
    """What updates define is no expression that could stand in its uses."""
    s = shares.schedule()
    s["total"].compute_inline()


@refused("store-inside")
def store_inside():
    """The buffer would be gone before the place where it is filled."""
    s = blur.schedule()
    s["across"].compute_at("down.y").store_at("down.x")


@refused("hoist")
def hoist():
    """A ring of slots is allocated around its loop already."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 8)
    s.cache_read("B", at="C.update.ko").double_buffer().hoist_storage()


@refused("store-race")
def store_race():
    """Threads would fill one buffer: it is stored outside the loop that they share out, and computed inside."""
    s = blur.schedule()
    s["down"].parallel("y")
    s["across"].compute_at("down.y").store_root()


@refused("tile-race")
def tile_race():
    """Registers belong to one thread."""
    s = matmul.schedule()
    s["C.update"].split("j", "jo", "ji", 8).split("i", "io", "ii", 8).reorder("io", "jo", "ii", "ji", "k")
    s.cache_write("C", at="C.update.jo", memory="reg")
    s["C.update"].parallel("ii")


@refused("compute-with-dependence")
def compute_with_dependence():
    """One of the stages needs what the other one computes."""
    s = shares.schedule()
    s["out"].compute_with("total.update.i")


@refused("ring-dependence")
def ring_dependence():
    """A copy that runs ahead would read what is written only then."""
    s = blur.schedule()
    s["across"].compute_at("down.y")
    s.cache_read("across", at="down.y").double_buffer()


@refused("ring-guards")
def ring_guards():
    """A ring turns once an iteration, and some iterations may be left out."""
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 8).fuse("ii", "j", "t")
    s.cache_read("A", at="C.update.t").double_buffer()
    s.check()


@refused("prefetch-lost")
def prefetch_lost():
    """What is prefetched is not read there any more."""
    s = matmul.schedule()
    s.prefetch("C", at="C.update.k")
    s["C.update"].parallel("k")
