"""Every example: its kernel and schedules by their names, its own check at small sizes, its schedules as text."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import tilewright as tw

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(f.stem for f in EXAMPLES.glob("*.py"))

# Sizes at which every tile, block and strip of the schedules has a partial one at its end.
SMALL: dict[str, dict[str, int]] = {
    "argmax": {"M": 11, "N": 150},
    "attention": {"H": 2, "M": 35, "N": 530, "D": 20},
    "bilateral_grid": {"rows": 35, "columns": 70},
    "blur": {"rows": 45},
    "conv1d": {"N": 3000, "K": 17},
    "conv_layer": {"B": 2, "size": 17, "CI": 5, "CO": 35},
    "decode_step": {"B": 2, "H": 2, "G": 3, "N": 530, "D": 20},
    "depthwise_conv": {"B": 2, "size": 17, "C": 19},
    "elementwise": {"N": 70_003},
    "equalise": {"rows": 70},
    "fft": {"B": 11, "length": 32},
    "gauss_seidel": {"H": 9, "W": 21, "sweeps": 3},
    "gemm": {"M": 13, "N": 520, "K": 580},
    "harris": {"rows": 140, "columns": 100},
    "heat": {"H": 70, "W": 41},
    "histogram": {"rows": 70},
    "iir_blur": {"rows": 35, "columns": 150},
    "int8_matmul": {"M": 131, "N": 45, "K": 19},
    "layer_norm": {"M": 7, "N": 150},
    "life": {"H": 45, "W": 70},
    "local_laplacian": {"rows": 35, "columns": 70, "levels": 2},
    "mandelbrot": {"H": 20, "W": 70},
    "matmul": {"M": 109, "N": 520, "K": 580},
    "matmul_f64": {"M": 45, "N": 35, "K": 260},
    "matmul_gelu": {"M": 27, "N": 45, "K": 19},
    "matvec": {"M": 21, "K": 150},
    "matvec_bf16": {"M": 21, "K": 150},
    "matvec_int4": {"M": 7, "G": 21},
    "matvec_int8": {"M": 21, "K": 150},
    "nan_moments": {"M": 103, "N": 150},
    "pointwise_conv": {"P": 75, "CI": 5, "CO": 35},
    "prefix_sum": {"T": 40, "C": 70},
    "resize": {"rows": 70, "columns": 90, "height": 45, "width": 150},
    "rms_norm": {"M": 7, "N": 150},
    "rotary": {"T": 9, "H": 3, "D": 21},
    "separable_conv": {"B": 2, "size": 17, "CI": 19, "CO": 35},
    "snitch_matmul": {"M": 130, "N": 70, "K": 45},
    "softmax": {"M": 9, "N": 150},
    "stencil_chain": {"rows": 70, "columns": 100, "steps": 3},
    "transpose": {"M": 45, "N": 300},
    "strided_conv": {"B": 2, "size": 33, "R": 5, "CI": 5, "CO": 35},
    "tridiagonal": {"N": 13, "S": 75},
    "unsharp": {"rows": 35},
    "wave": {"H": 135, "W": 41, "steps": 3},
}


@cache
def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_examples_are_there():
    assert set(NAMES) >= SMALL.keys()


@pytest.mark.parametrize("name", NAMES)
def test_kernel_and_schedules_have_their_names(name):
    module = example(name)
    assert isinstance(getattr(module, name), tw.kernels.Kernel)
    schedules = [f.__name__ for f in module.SCHEDULES]
    assert len(schedules) >= 2 and schedules[-1] == "expert"
    assert all(getattr(module, s) is f for s, f in zip(schedules, module.SCHEDULES, strict=True))
    assert module.__doc__ and all(f.__doc__ for f in module.SCHEDULES)


@pytest.mark.parametrize("name", NAMES)
def test_schedules_are_text_and_back(name):
    module = example(name)
    for make in module.SCHEDULES:
        s = make()
        assert len(s) > 0
        again = tw.parse_schedule(str(s), getattr(module, name))
        assert again == s and str(again) == str(s) and str(again.loops()) == str(s.loops())


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_agrees_with_the_reference_and_with_others(name, capsys):
    example(name).check(**SMALL.get(name, {}))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(example(name).SCHEDULES)
    assert all(line.startswith(name) for line in lines)
