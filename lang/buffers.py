"""Boxes of an infinite grid in NumPy arrays: reading and writing by arrays of coordinates.

Coordinates are int64 arrays that broadcast against each other, one an axis of the buffer. Where they run evenly
along dimensions of their own, the access is a slice; otherwise NumPy gathers. Coordinates outside the buffer are
read at its nearest element: such values belong to points that are masked or not selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Buffer:
    """The elements of a region: one array a component, all with element 0 at the coordinates `origin`."""

    data: tuple[np.ndarray, ...]
    origin: tuple[int, ...]


def gather(data: np.ndarray, origin: Sequence[int], where: Sequence[np.ndarray]) -> np.ndarray:
    """The elements at the coordinates `where`, of a shape that broadcasts to theirs. May be a view."""
    shape = np.broadcast_shapes(*(i.shape for i in where))
    if 0 in shape or 0 in data.shape:
        return np.zeros(shape, data.dtype)
    picks = _separate(where, origin, data.shape, len(shape))
    if picks is None:
        return data[_general(where, origin, data.shape)]
    view = data[tuple(p if isinstance(p, (int, slice)) else slice(None) for _, p in picks)]
    dims = [d for d, p in picks if not isinstance(p, int)]
    for axis, p in enumerate(p for _, p in picks if not isinstance(p, int)):
        if isinstance(p, np.ndarray):
            view = view.take(p, axis=axis)
    return _arranged(view, dims, len(shape))


def window(data: np.ndarray, origin: Sequence[int], where: Sequence[np.ndarray]) -> np.ndarray | None:
    """A writable view of the elements at `where`, if slices can express it."""
    shape = np.broadcast_shapes(*(i.shape for i in where))
    picks = _separate(where, origin, data.shape, len(shape))
    if picks is None or any(isinstance(p, np.ndarray) for _, p in picks):
        return None
    view = data[(*(p for _, p in picks), ...)]  # the dots keep a view of rank 0 an array
    return _arranged(view, [d for d, p in picks if not isinstance(p, int)], len(shape))


def put(
    data: np.ndarray,
    origin: Sequence[int],
    where: Sequence[np.ndarray],
    values: np.ndarray,
    mask: np.ndarray | None = None,
) -> None:
    """Write `values` at the coordinates `where`, at points that `mask` lets through.

    Where coordinates repeat, the last in C order stays.
    """
    view = window(data, origin, where)
    shape = np.broadcast_shapes(*(i.shape for i in where), values.shape, () if mask is None else mask.shape)
    if 0 in shape:
        return
    if view is not None and view.shape == shape:
        if mask is None:
            view[...] = values
        else:
            np.copyto(view, values, where=mask, casting="same_kind")
        return
    at, kept = flat_points(data, origin, where, shape, mask)
    flat = data.reshape(-1)
    flat[at] = np.broadcast_to(values, shape).reshape(-1)[kept]


def flat_points(
    data: np.ndarray,
    origin: Sequence[int],
    where: Sequence[np.ndarray],
    shape: tuple[int, ...],
    mask: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | slice]:
    """Positions in the flattened (C-contiguous) buffer, in C order of `shape`, and which points they belong to."""
    kept = slice(None) if mask is None else np.broadcast_to(mask, shape).reshape(-1)
    at = np.zeros(shape, np.int64)
    for i, o, n in zip(where, origin, data.shape, strict=True):
        at *= n
        at += i - o
    return at.reshape(-1)[kept], kept


def _separate(
    where: Sequence[np.ndarray], origin: Sequence[int], shape: tuple[int, ...], ndim: int
) -> list[tuple[int, int | slice | np.ndarray]] | None:
    """Per axis the one dimension it varies along and how: a position, a slice, positions. None if axes share one."""
    out: list[tuple[int, int | slice | np.ndarray]] = []
    used: set[int] = set()
    for i, o, n in zip(where, origin, shape, strict=True):
        wide = [d + ndim - i.ndim for d, m in enumerate(i.shape) if m != 1]
        if not wide:
            out.append((-1, min(max(int(i.reshape(-1)[0]) - o, 0), n - 1)))
            continue
        if len(wide) > 1 or wide[0] in used:
            return None
        used.add(wide[0])
        out.append((wide[0], _run(i.reshape(-1), o, n)))
    return out


def _run(line: np.ndarray, origin: int, n: int) -> slice | np.ndarray:
    first, last = int(line[0]) - origin, int(line[-1]) - origin
    step = int(line[1]) - int(line[0])
    inside = first >= 0 and last < n
    if inside and step > 0 and (len(line) == 2 or (line[1:] - line[:-1] == step).all()):
        return slice(first, last + 1, step)
    return np.clip(line - origin, 0, n - 1)


def _general(where: Sequence[np.ndarray], origin: Sequence[int], shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.clip(i - o, 0, n - 1) for i, o, n in zip(where, origin, shape, strict=True))


def _arranged(view: np.ndarray, dims: list[int], ndim: int) -> np.ndarray:
    """Axes of `view` brought to the dimensions `dims` of an array with `ndim` dimensions."""
    view = view.transpose(sorted(range(len(dims)), key=lambda k: dims[k]))
    return view[tuple(slice(None) if d in dims else None for d in range(ndim))] if ndim else view
