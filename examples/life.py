"""Conway's game of life on a torus: one generation in 8 bits; the far edges of the board are neighbours."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
LANES = tw.host_registers().width


@tw.kernel
def life(board: tw.u8[H, W]):
    y, x = tw.vars("y x")
    torus = tw.wrap_around(board)
    across, alive = tw.func("across"), tw.func("alive")
    across[y, x] = torus[y, x - 1] + torus[y, x] + torus[y, x + 1]
    block = across[y - 1, x] + across[y, x] + across[y + 1, x]  # the cell itself included
    alive[y, x] = tw.cast(tw.u8, (block == 3) | ((block == 4) & (torus[y, x] == 1)))
    return alive[:H, :W]


def inlined():
    """All nine cells of a block are added up for every cell."""
    s = life.schedule()
    s["across"].compute_inline()
    s["alive"].parallel("y").vectorize("x", LANES)
    return s


def strips():
    """Strips of 32 rows, in which each row's sums across are computed once and used by three rows."""
    s = life.schedule()
    s["alive"].split("y", "strip", "row", 32).parallel("strip").vectorize("x", LANES)
    s["across"].compute_at("alive.strip").vectorize("x", LANES)
    return s


def expert():
    """Four rows of a vector at once: what they share of the six rows that they read stays in registers."""
    s = life.schedule()
    s["across"].compute_inline()
    alive = s["alive"].split("y", "rows", "row", 4).split("x", "columns", "lane", LANES)
    alive.reorder("rows", "columns", "row", "lane").parallel("rows").unroll("row").vectorize("lane")
    return s


SCHEDULES = (inlined, strips, expert)


def inputs(H=100, W=150):
    """A board with a third of its cells alive, and a glider."""
    board = (np.random.default_rng(0).random((H, W)) < 1 / 3).astype(np.uint8)
    board[:5, :5] = 0
    board[1:4, 1:4] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    return (board,)


def independent(board):
    neighbours = ndimage.convolve(board, np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8), mode="wrap")
    return ((neighbours == 3) | ((neighbours == 2) & (board == 1))).astype(np.uint8)


def check(generations=3, **sizes):
    (board,) = inputs(**sizes)
    testing.check_schedules(life, SCHEDULES, (board,), independent(board))
    played = board
    for _ in range(generations):
        board, played = independent(board), life(played)
    testing.assert_bitwise(played, board)


if __name__ == "__main__":
    check()
