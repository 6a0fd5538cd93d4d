"""Arrays that notice what should not be written: outputs full of poison, between bands that must stay as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BAND = 4096  # bytes before and after: a multiple of a cache line, so that arrays lie as NumPy's own do
_MARK = 0xA5


@dataclass(frozen=True, eq=False)
class Guarded:
    """An `array` (contiguous) in a `block` of bytes with a band on either side."""

    array: np.ndarray
    block: np.ndarray

    def intact(self) -> bool:
        """Whether nobody wrote beside the array."""
        return bool((self.block[:BAND] == _MARK).all() and (self.block[BAND + self.array.nbytes :] == _MARK).all())

    def poison(self, expected: np.ndarray | None = None) -> None:
        """Fill the array with what can't be a result: NaN, of integers a number out of the way (of what is expected, where
        that is known, another one everywhere)."""
        if self.array.dtype.kind in "biu":
            self.block[BAND : BAND + self.array.nbytes] = _MARK
            if expected is not None:
                self.array[...] = ~expected
        else:
            self.array.fill(np.nan)


def guarded(shape: tuple[int, ...], dtype: np.dtype) -> Guarded:
    """A new one, its values arbitrary."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    block = np.empty(size + 2 * BAND, np.uint8)
    block[:BAND] = _MARK
    block[BAND + size :] = _MARK
    return Guarded(block[BAND : BAND + size].view(dtype).reshape(shape), block)


def guarded_copy(a: np.ndarray) -> Guarded:
    """A copy of an array."""
    made = guarded(a.shape, a.dtype)
    made.array[...] = a
    return made


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one shape and type hold the same bytes."""
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    wide = left.size // 8 * 8  # words are compared several times as fast as bytes
    words = np.array_equal(left[:wide].view(np.uint64), right[:wide].view(np.uint64))
    return words and np.array_equal(left[wide:], right[wide:])


__all__ = ["BAND", "Guarded", "guarded", "guarded_copy", "same_bits"]
