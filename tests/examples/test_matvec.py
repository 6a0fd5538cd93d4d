"""Matrix times vector with 4-bit weights: whole tiles have a form of their own."""

from __future__ import annotations

import numpy as np

from tests.examples.test_examples import example
from tilewright import testing


def test_whole_tiles_of_packed_weights_in_both_forms():
    module = example("matvec_int4")
    fast = module.matvec_int4.compile(module.expert())
    for rows, groups in ((2 * module.ROWS, 2 * module.VECTOR), (2 * module.ROWS - 1, module.VECTOR)):
        args = module.inputs(rows, groups)
        words, scale, x = args
        testing.assert_within_bound(module.matvec_int4, fast(*args), *args)
        np.testing.assert_array_equal(fast(fast.prepack("W", words), scale, x), fast(*args))


def test_every_weight_is_what_its_word_says():
    module = example("matvec_int4")
    weights = np.float32(np.arange(-7, 9)[None].repeat(2, 0).reshape(1, 32))  # a scale of 8/7: 7 steps are 8
    words, scale = module.quantised(weights)
    fast = module.matvec_int4.compile(module.expert())
    right = np.clip(np.rint(weights[0] / np.float32(scale[0, 0])), -8, 7) * np.float32(scale[0, 0])
    for u in range(32):
        unit = np.float32(np.arange(32) == u)[None]
        assert fast(words, scale, unit) == right[u]
