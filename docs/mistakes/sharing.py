"""Shared loops and forms of stages."""

from __future__ import annotations

from . import refused
from .kernels import both, matmul, totals


@refused("compute-with-self")
def compute_with_self():
    """The stages of one Func run one after the other, each as a whole."""
    s = matmul.schedule()
    s["C.update"].compute_with("C.init.i")


@refused("compute-with-twice")
def compute_with_twice():
    """A stage shares the loops of one other, and those are that one's own."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root()
    s["twice"].compute_with("half.i").compute_with("half.j")


@refused("compute-with-place")
def compute_with_place():
    """Stages that share loops stand at one place."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_at("out.i")
    s["twice"].compute_with("half.i")


@refused("compute-with-loops")
def compute_with_loops():
    """Shared loops have the same names, modes and kinds."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root()
    s["half"].split("i", "io", "ii", 8)
    s["twice"].compute_with("half.ii")


@refused("compute-with-tile")
def compute_with_tile():
    """A tile, or a ring of slots, is for one iteration of its stage's own loops."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root()
    s.cache_write("twice", at="twice.i", memory="main")
    s["twice"].compute_with("half.j")


@refused("compute-with-tail")
def compute_with_tail():
    """A tail that shifts computes points again, in an order that the other stage does not know."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root()
    s["half"].split("j", "jo", "ji", 8, tail="shift")
    s["twice"].split("j", "jo", "ji", 8, tail="shift")
    s["twice"].compute_with("half.i")


@refused("compute-with-unused")
def compute_with_unused():
    """Nothing needs the stage whose loops are shared any more."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root().compute_with("half.i")
    s.clone("half", consumers="out")


@refused("compute-with-forms")
def compute_with_forms():
    """A stage of several forms has several nests of loops."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root()
    s.specialize("half", "N % 8 == 0", "even")
    s["twice"].compute_with("half.i")


@refused("specialize-shared")
def specialize_shared():
    """Loops that are shared have one form."""
    s = both.schedule()
    s["half"].compute_root()
    s["twice"].compute_root()
    s["twice"].compute_with("half.i")
    s.specialize("half", "N % 8 == 0", "even")


@refused("specialize-where")
def specialize_where():
    """A form has its own copies of what is computed in its loops, and the where() reads the original."""
    s = totals.schedule()
    s["scaled"].compute_at("s.update.i")
    s.specialize("s.update", "N % 8 == 0", "even")
