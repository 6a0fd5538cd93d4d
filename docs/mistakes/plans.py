"""Plans: of what, for what, at which sizes, and what no machine has room for."""

from __future__ import annotations

import numpy as np

import tilewright as tw

from . import mistaken
from .kernels import matmul

SIZES = {"M": 64, "N": 64, "K": 64}


@mistaken("argument.plan")
def _():
    """A plan of something that is no kernel, or arguments that are none of a kernel's."""
    tw.plan("matmul", sizes=SIZES)


@mistaken("plan.objective")
def _():
    """An objective that plans can't be for."""
    tw.plan(matmul, sizes=SIZES, objective="speed")


@mistaken("plan.phase")
def _():
    """A phase that there is none of."""
    tw.plan(matmul, sizes=SIZES, phase="training")


@mistaken("plan.budget")
def _():
    """No time for the search."""
    tw.plan(matmul, sizes=SIZES, budget_s=0)


@mistaken("plan.seed")
def _():
    """A seed that is no whole number."""
    tw.plan(matmul, sizes=SIZES, seed=-1)


@mistaken("plan.sizes")
def _():
    """A range whose ends are the wrong way round, or sizes at which an extent is negative."""
    tw.plan(matmul, sizes={**SIZES, "M": (64, 1)})


@mistaken("plan.tokens")
def _():
    """Figures by token of a size that the kernel does not have."""
    tw.plan(matmul, sizes=SIZES, tokens="T")


@mistaken("plan.weights")
def _():
    """A weight that is no input of the kernel."""
    tw.plan(matmul, sizes=SIZES, weights=["W"])


@mistaken("plan.capacity")
def _():
    """No tile fits a scratchpad, or what lives at once does not fit in main memory."""
    tw.plan(matmul, machine="snitch-cluster", sizes=dict.fromkeys(SIZES, 1 << 17))


@mistaken("argument.weights")
def _():
    """Weights that are given to a program as something else than arrays by their names."""
    tw.plan(matmul, sizes=SIZES, weights=["B"]).compile().with_weights([np.zeros((64, 64), np.float32)])
