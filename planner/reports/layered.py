"""Layered drawings of graphs: boxes in rows, each below what it reads, and curves between them.

Rows follow from the longest way to a box; edges over several rows lead through gaps that are kept free for them; boxes of a
row are ordered by their neighbours' places (barycentres), and stand as near below them as their order allows. As in
Sugiyama, Tagawa, Toda, IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981; places in a row are the isotonic
regression of what neighbours ask for. Time grows with the graph, so that thousands of boxes are no matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 4  # over the rows, down and up
_GAP, _ROW_GAP, _LANE = 26.0, 44.0, 10.0  # between boxes, between rows, and the width of a gap for an edge


@dataclass(frozen=True)
class Box:
    """A box in the drawing: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """Boxes in the order in which they were given, and for each edge the points that it goes through."""

    boxes: tuple[Box, ...]
    paths: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def layered(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], gap: float = _GAP, row_gap: float = _ROW_GAP
) -> Drawing:
    """Draw boxes of these widths and heights; every edge leads from a box to one with a larger number."""
    rows = _rows(len(sizes), edges)
    widths = [w for w, _ in sizes]
    chains = []  # of each edge: its boxes and the gaps between them, from above
    for a, b in edges:
        chain = [a]
        for row in range(rows[a] + 1, rows[b]):
            chain.append(len(widths))
            widths.append(_LANE)
            rows.append(row)
        chains.append([*chain, b])
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for chain in chains:
        for a, b in pairwise(chain):
            below[a].append(b)
            above[b].append(a)
    grid: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for n, row in enumerate(rows):
        grid[row].append(n)
    _order(grid, above, below)
    centres = _centres(grid, widths, above, below, gap)
    return _drawn(sizes, widths, rows, grid, centres, chains, row_gap)


def _rows(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way to each box; one that reads nothing stands just above the first that reads it."""
    rows, first = [0] * n, [n] * n
    reads = [False] * n
    for a, b in sorted(edges, key=lambda e: e[1]):
        rows[b], reads[b] = max(rows[b], rows[a] + 1), True
    for a, b in edges:
        first[a] = min(first[a], rows[b])
    return [max(0, first[k] - 1) if not reads[k] and first[k] < n else rows[k] for k in range(n)]


def _order(grid: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Order each row by the mean place of what its boxes are joined with in the row before, in sweeps down and up."""
    place = {n: float(k) for row in grid for k, n in enumerate(row)}
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(grid) if sweep % 2 else grid:
            wanted = {n: _mean([place[m] for m in neighbours[n]], place[n]) for n in row}
            row.sort(key=lambda n: (wanted[n], place[n]))
            place.update({n: float(k) for k, n in enumerate(row)})


def _mean(found: list[float], otherwise: float) -> float:
    return sum(found) / len(found) if found else otherwise


def _centres(
    grid: list[list[int]], widths: Sequence[float], above: list[list[int]], below: list[list[int]], gap: float
) -> list[float]:
    """The middle of each box: as near to its neighbours' as the others of its row let it."""
    centres = [0.0] * len(widths)
    for row in grid:
        _place(row, [0.0] * len(row), widths, centres, gap)
    for sweep in range(2 * _SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(grid) if sweep % 2 else grid:
            _place(row, [_mean([centres[m] for m in neighbours[n]], centres[n]) for n in row], widths, centres, gap)
    return centres


def _place(
    row: Sequence[int], wanted: Sequence[float], widths: Sequence[float], centres: list[float], gap: float
) -> None:
    """Least squares of the distances to the wanted places, in this order without overlaps (pooled adjacent violators)."""
    offsets, total = [], 0.0
    for k, n in enumerate(row):
        if k:
            total += (widths[row[k - 1]] + widths[n]) / 2 + gap
        offsets.append(total)
    pools: list[tuple[float, int]] = []  # mean, how many
    for w, o in zip(wanted, offsets, strict=True):
        pool = (w - o, 1)
        while pools and pools[-1][0] >= pool[0]:
            m, k = pools.pop()
            pool = ((m * k + pool[0] * pool[1]) / (k + pool[1]), k + pool[1])
        pools.append(pool)
    at = (mean for mean, k in pools for _ in range(k))
    for n, o, mean in zip(row, offsets, at, strict=True):
        centres[n] = mean + o


def _drawn(
    sizes: Sequence[tuple[float, float]], widths: Sequence[float], rows: Sequence[int], grid: list[list[int]],
    centres: Sequence[float], chains: list[list[int]], row_gap: float,
) -> Drawing:  # fmt: skip
    left = min((c - w / 2 for c, w in zip(centres, widths, strict=True)), default=0.0)
    right = max((c + w / 2 for c, w in zip(centres, widths, strict=True)), default=0.0)
    heights = [max((sizes[n][1] for n in row if n < len(sizes)), default=0.0) for row in grid]
    tops, y = [], 0.0
    for h in heights:
        tops.append(y)
        y += h + row_gap
    boxes = tuple(Box(centres[n] - w / 2 - left, tops[rows[n]], w, h) for n, (w, h) in enumerate(sizes))
    paths = []
    for chain in chains:
        a, b = boxes[chain[0]], boxes[chain[-1]]
        points = [(a.x + a.width / 2, a.y + a.height)]
        for n in chain[1:-1]:
            x = centres[n] - left
            points += [(x, tops[rows[n]]), (x, tops[rows[n]] + heights[rows[n]])]
        paths.append((*points, (b.x + b.width / 2, b.y)))
    return Drawing(boxes, tuple(paths), right - left, max(0.0, y - row_gap))


__all__ = ["Box", "Drawing", "layered"]
