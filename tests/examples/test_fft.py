"""One long Fourier transform in four steps, also where lines and columns differ and radix 2 comes in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import fft as scipy_fft

from tests.examples.test_examples import example


@pytest.mark.parametrize(("lines", "length"), [(64, 64), (64, 32)])
def test_lines_of_one_signal(lines: int, length: int) -> None:
    module = example("fft")
    rng = np.random.default_rng(0)
    real, imag = rng.standard_normal((2, lines, length), np.float32)
    right = scipy_fft.fft((np.float64(real) + 1j * np.float64(imag)).ravel()).reshape(length, lines)
    statics = {"length": length, "lines": lines}
    for schedule in (module.fft.schedule(**statics), module.expert_long(**statics)):
        found = module.fft.compile(schedule)(real, imag)
        assert np.linalg.norm(found[0] + 1j * found[1] - right) < 1e-6 * np.linalg.norm(right)


@pytest.mark.parametrize("length", [1, 0, -4, 3, 1.5])
def test_other_lengths_are_refused(length: float) -> None:
    module = example("fft")
    with pytest.raises(ValueError, match=f"from 2 on, not {length}"):
        module.fft.schedule(length=length)
