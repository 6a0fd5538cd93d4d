"""Layers of convolutional networks against PyTorch, whose arrays lie channels last as ours do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import entry
from benchmarks.cases.data import close, example
from benchmarks.harness import Case, Work, peer

SIZE, CHANNELS = 56, 64


def conv_3x3() -> Case:
    return _layer("conv_layer", 2.0 * 9 * CHANNELS * CHANNELS, _conv)


def separable() -> Case:
    """Depthwise 3x3 and 1x1 in one."""
    return _layer("separable_conv", 2.0 * (9 * CHANNELS + CHANNELS * CHANNELS), _separable, target=None)


def _layer(
    name: str, per_pixel: float, make: Callable[..., Callable[[], Any]], target: float | None = 1.0, size: int = SIZE
) -> Case:  # fmt: skip
    """An example of examples/ on one picture; `make` gives PyTorch's run for its arguments."""
    module = example(name)
    args = module.inputs(B=1, size=size, CI=CHANNELS, CO=CHANNELS)
    fast = getattr(module, name).compile(module.expert())
    out = fast(*args)
    results: list[Callable[[], Any]] = [lambda: fast(*args)]

    def run_of_torch() -> Callable[[], Any]:
        run = make(*args)
        results.append(lambda: run().permute(0, 2, 3, 1).numpy())
        return run

    return Case(
        fast.bind(*args, out=out), (peer("PyTorch", "torch", run_of_torch, target),),
        close(results, partial(module.independent, *args), 1e-5),
        Work(per_pixel * size * size, reads=sum(a.nbytes for a in args), writes=out.nbytes),
    )  # fmt: skip


def _channels_last(image: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(image).permute(0, 3, 1, 2)


def _filters(weights: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(weights).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def _conv(image: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> Callable[[], Any]:
    import torch

    x, w, b = _channels_last(image), _filters(weights), torch.from_numpy(bias)
    return lambda: torch.relu(torch.nn.functional.conv2d(x, w, b, padding=1))


def _separable(
    image: np.ndarray, filters: np.ndarray, bias: np.ndarray, mix: np.ndarray, shift: np.ndarray
) -> Callable[[], Any]:
    import torch

    conv = torch.nn.functional.conv2d
    x, b, s = _channels_last(image), torch.from_numpy(bias), torch.from_numpy(shift)
    deep, flat = _filters(filters[:, :, None, :]), _filters(mix[None, None])
    groups = image.shape[-1]
    return lambda: torch.relu(conv(torch.relu(conv(x, deep, b, padding=1, groups=groups)), flat, s))


ENTRIES = (
    entry("conv-3x3", "3x3, 64 channels to 64, 56 x 56, `expert` of examples/conv_layer.py", conv_3x3),
    entry("conv-separable", "depthwise 3x3 and 1x1, the same sizes, `expert` of examples/separable_conv.py", separable),
)
