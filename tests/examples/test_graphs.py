"""The programs that plan whole graphs, at small sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

GRAPHS = Path(__file__).parents[2] / "examples" / "graphs"


def example(name):
    spec = importlib.util.spec_from_file_location(f"graph_{name}", GRAPHS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_transformer_writes_what_it_does_without_caches():
    module = example("transformer")
    shape = module.Shape(layers=2, width=48, heads=3, vocabulary=70, places=40)
    assert len(set(module.check(shape, prompt=9, count=20))) > 3
    model = module.Generator(shape, module.make_weights(shape), 9)
    for prompt in (1, 2, 30):  # other lengths than planned for
        tokens = np.arange(prompt) % shape.vocabulary
        model.past = 0
        got = model.logits(tokens)
        right = module.independent(shape, module.make_weights(shape), tokens)
        np.testing.assert_allclose(got, right, atol=2e-4 * np.abs(right).max())
    with pytest.raises(ValueError, match="41 tokens"):
        model.logits(np.arange(11))
