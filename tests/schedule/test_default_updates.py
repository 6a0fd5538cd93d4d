"""The default schedule of updates that fix some indices: only loops that are there are scheduled."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tilewright as tw


def kernel(fixed: tuple[bool, ...]):
    """An update of one plane, line or point of a Func of 2 to 3 axes, and one that reads what it wrote."""
    args = tw.vars("a b c")[: len(fixed)]
    where = tuple(3 if f else v for f, v in zip(fixed, args, strict=True))

    def made():
        f = tw.func("f")
        f[args] = sum((k + 1) * v for k, v in enumerate(args))
        f[where] = f[where] * 10
        f[where] += 1
        return f[tuple(slice(7) for _ in args)]

    made.__name__ = "made"
    return tw.kernel(made)


@pytest.mark.parametrize("fixed", [f for n in (1, 2, 3) for f in product((False, True), repeat=n)], ids=str)
def test_updates_with_fixed_indices(fixed):
    if len(fixed) == 1:
        args = (np.arange(7),)
        fixed_kernel = kernel_of_one(fixed[0])
    else:
        args = np.indices((7,) * len(fixed))
        fixed_kernel = kernel(fixed)
    expected = sum((k + 1) * v for k, v in enumerate(args))
    at = tuple(3 if f else slice(None) for f in fixed)
    expected[at] = expected[at] * 10 + 1
    np.testing.assert_array_equal(fixed_kernel(), expected)


def kernel_of_one(fixed: bool):
    @tw.kernel
    def one():
        a = tw.vars("a")
        f = tw.func("f")
        f[a] = a + 0
        where = 3 if fixed else a
        f[where] = f[where] * 10
        f[where] += 1
        return f[:7]

    return one
