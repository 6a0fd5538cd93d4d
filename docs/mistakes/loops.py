"""Loops, extents and tails."""

from __future__ import annotations

from . import refused
from .kernels import blur, matmul


@refused("loop-mode")
def loop_mode():
    """A loop that is vectorized, unrolled, parallel, spatial, peeled or parted is not shaped any more."""
    s = matmul.schedule()
    s["C.update"].parallel("i").split("i", "io", "ii", 8)


@refused("not-adjacent")
def not_adjacent():
    """Only a loop and the one right inside of it can be fused."""
    s = matmul.schedule()
    s["C.update"].fuse("j", "i", "t")


@refused("fuse-mixed")
def fuse_mixed():
    """A reduction loop runs in order and a pure one in any; one loop can't do both."""
    s = matmul.schedule()
    s["C.update"].fuse("j", "k", "t")


@refused("vector-twice")
def vector_twice():
    """A stage has one vector loop."""
    s = matmul.schedule()
    s["C.init"].vectorize("j", 8).vectorize("i", 4)


@refused("vector-inside")
def vector_inside():
    """Inside a vector loop nothing is computed, held, prefetched or run in parallel: all its iterations run at once."""
    s = blur.schedule()
    s["down"].split("x", "xo", "xi", 8)
    s["across"].compute_at("down.xi")
    s["down"].vectorize("xi")


@refused("peeled")
def peeled():
    """A loop is peeled once."""
    s = blur.schedule()
    s["down"].peel("y").peel("y")


@refused("peel-copies")
def peel_copies():
    """Peeled iterations are copies of the body, and too many of them are code that nobody wants."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 8).peel("i").peel("j").peel("ko").peel("ki")


@refused("extent")
def extent():
    """A vector or an unrolled loop has a length that is known when the kernel is compiled."""
    s = matmul.schedule()
    s["C.init"].vectorize("j")


@refused("vector-length")
def vector_length():
    """A vector is longer than any machine's registers hold."""
    s = matmul.schedule()
    s["C.init"].vectorize("j", 4096)


@refused("unroll-budget")
def unroll_budget():
    """Unrolling multiplies code, and there is a limit to it."""
    s = matmul.schedule()
    s["C.init"].unroll("i", 100).unroll("j", 100).reorder("i", "j", "i_u", "j_u")
    s.check()


@refused("register-size")
def register_size():
    """Registers hold buffers of a size that is known when the kernel is compiled."""
    s = matmul.schedule()
    s.cache_write("C", at="C.update.i", memory="reg")
    s.check()


@refused("tail")
def tail():
    """The tail computes points again, or more of them, and the stage may not: it is an update, an output, or shared."""
    s = matmul.schedule()
    s["C.update"].split("j", "jo", "ji", 8, tail="shift")
