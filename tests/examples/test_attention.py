"""The attention example in one pass: causal, rows that see nothing, and no buffer of all scores."""

from __future__ import annotations

import numpy as np

from tests.examples.test_examples import example
from tilewright import testing


def test_causal_with_masked_rows_in_buffers_that_grow_with_the_keys_alone():
    module = example("attention")
    kernel, H, M, N, D = module.attention, 2, 580, 530, 8
    args = module.inputs(H, M, N, D)
    counts = kernel.count(
        module.expert(causal=True),
        sizes={"H": H, "M": M, "N": N, "D": D},
        inputs=dict(zip("QKV", args[:3], strict=True)) | {"scale": args[3]},
    )
    assert np.isnan(counts.result[:, : M - N]).all() and np.isfinite(counts.result[:, M - N :]).all()
    testing.assert_within_bound(kernel.pipeline(causal=True), counts.result, *args)
    constant, linear = 4 * module.QUERIES * module.KEYS, 4 * D * (N + module.COLUMNS)
    assert all(a.bytes <= max(constant, linear) < 4 * M * N for a in counts.allocations.values())
