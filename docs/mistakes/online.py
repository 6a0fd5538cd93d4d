"""Reductions in a single pass."""

from __future__ import annotations

from . import refused
from .kernels import softmax, spread


@refused("online-form")
def online_form():
    """A member is a reduction of one pure definition and one update, at its own Vars."""
    s = softmax.schedule()
    s.online(["m", "out"], over="k", block=8)


@refused("online-variable")
def online_variable():
    """The members run over the variable that is named."""
    s = softmax.schedule()
    s.online(["m", "l"], over="q", block=8)


@refused("online-twice")
def online_twice():
    """A reduction is a member of one group, once."""
    s = softmax.schedule()
    s.online(["m", "m"], over="k", block=8)


@refused("online-split")
def online_split():
    """The terms can't be made right again when an earlier reduction changes."""
    s = spread.schedule()
    s.online(["m", "far"], over="k", block=8)


@refused("online-domain")
def online_domain():
    """The members run over the same points."""
    s = spread.schedule()
    s.online(["m", "near"], over="k", block=8)


@refused("online-place")
def online_place():
    """The members are computed together, at one place."""
    s = softmax.schedule()
    s["l"].compute_at("out.i")
    s.online(["m", "l"], over="k", block=8)


@refused("online-storage")
def online_storage():
    """A member has the storage that the pass gives it."""
    s = softmax.schedule()
    s.online(["m", "l"], over="k", block=8).store_in("spm")


@refused("online-loops")
def online_loops():
    """The loop over the blocks is made of an ordinary loop."""
    s = softmax.schedule()
    s.cache_write("l", at="l.update.i", memory="main")
    s.online(["m", "l"], over="k", block=8)


@refused("online-between")
def online_between():
    """Between the members stands a Func that uses one and that another one uses."""
    s = softmax.schedule()
    s.online(["m", "l"], over="k", block=8)
    s["e"].compute_root()


@refused("online-before")
def online_before():
    """What a member was before a block is kept where the pass needs it."""
    s = softmax.schedule()
    s.online(["m", "l"], over="k", block=8)
    s["m_before"].compute_inline()


@refused("online-blocks")
def online_blocks():
    """The loop over the blocks runs in order, as a whole, around the blocks of all members."""
    s = softmax.schedule()
    s.online(["m", "l"], over="k", block=8).split("k_b", "outer", "inner", 4)
