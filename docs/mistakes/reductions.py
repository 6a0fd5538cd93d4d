"""The order of reductions."""

from __future__ import annotations

from . import refused
from .kernels import matmul, scan, sums


@refused("reduction-order")
def reduction_order():
    """The steps depend on each other in their order: other orders of these loops compute something else."""
    s = scan.schedule()
    s["p.update"].reorder("x", "y")


@refused("not-associative")
def not_associative():
    """Partial results need an operator that may be bracketed in any way."""
    s = scan.schedule()
    s["p.update"].parallel("y")


@refused("strict")
def strict():
    """In mode strict sums of floats keep the order of the algorithm."""
    s = matmul.schedule()
    s["C.update"].vectorize("k", 8)
    matmul.compile(s, mode="strict")


@refused("rfactor-pure")
def rfactor_pure():
    """A loop over elements of the result has no partial results."""
    s = matmul.schedule()
    s["C.update"].rfactor("i", "part")


@refused("rfactor-fused")
def rfactor_fused():
    """Partial results are over a part of one reduction variable."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 8).fuse("ko", "ki", "t").rfactor("t", "part")


@refused("rfactor-cache")
def rfactor_cache():
    """A tile holds results, and what it would hold of partial ones is not said."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 8)
    s.cache_write("C", at="C.update.j")
    s["C.update"].rfactor("ki", "part")


@refused("rfactor-scatter")
def rfactor_scatter():
    """Every step of the loop updates an element of its own, so that there is nothing to combine."""
    s = sums.schedule()
    s["s.update"].rfactor("y", "part")
