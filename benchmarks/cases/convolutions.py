"""Layers of convolutional networks against PyTorch, given its best: pictures with channels last and with channels first,
the rectifier in place, and the operator that its compiler chooses for layers whose weights are packed once for all calls.

Pictures of ours lie channels last. Where a schedule packs weights, ours are packed once as well: a network's do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import entry
from benchmarks.cases.data import close, example
from benchmarks.harness import Case, Peer, Work, peer

SIZE, CHANNELS = 56, 64

Run = Callable[[], Any]


# Ours -----------------------------------------------------------------------------------------------------------------


def conv_3x3(size: int = SIZE, inputs: int = CHANNELS, outputs: int = CHANNELS, batch: int = 1) -> Case:
    module = example("conv_layer")
    args = module.inputs(B=batch, size=size, CI=inputs, CO=outputs)
    fast = module.conv_layer.compile(module.expert())
    return _against(fast, args, module.independent(*args), 9 * inputs, *_torch(*args), packs=True)


def pointwise(size: int, inputs: int, outputs: int, batch: int = 1) -> Case:
    module = example("pointwise_conv")
    args = module.inputs(P=batch * size * size, CI=inputs, CO=outputs)
    picture = args[0].reshape(batch, size, size, inputs)
    fast = module.pointwise_conv.compile(module.expert())
    return _against(
        fast, args, module.independent(*args), inputs, *_torch(picture, args[1][None, None], args[2]), packs=True
    )


def strided(size: int, filters: int, inputs: int, outputs: int, batch: int = 1) -> Case:
    module = example("strided_conv")
    args = module.inputs(B=batch, size=size, R=filters, CI=inputs, CO=outputs)
    fast = module.strided_conv.compile(module.expert())
    peers = _torch(*args, stride=module.STRIDE)
    return _against(fast, args, module.independent(*args), filters**2 * inputs, *peers, packs=True)


def depthwise(size: int, channels: int, stride: int, batch: int = 1) -> Case:
    module = example("depthwise_conv")
    args = module.inputs(B=batch, size=size, C=channels)
    fast = module.depthwise_conv.compile(module.expert(stride))
    peers = _torch(args[0], args[1][:, :, None, :], args[2], stride, channels)
    return _against(fast, args, module.independent(*args, stride), 9, *peers)


def separable() -> Case:
    """Depthwise 3x3 and 1x1 in one."""
    module = example("separable_conv")
    args = module.inputs(B=1, size=SIZE, CI=CHANNELS, CO=CHANNELS)
    fast = module.separable_conv.compile(module.expert())
    results: list[Run] = []
    forms = {"PyTorch": _separable, "PyTorch, packed": _separable_packed}
    peers = tuple(peer(name, "torch", lambda m=make: _kept(m(*args), results)) for name, make in forms.items())
    return _against(fast, args, module.independent(*args), 9 + CHANNELS, peers, results)


def _against(
    fast: Any, args: Sequence[Any], exact: np.ndarray, sums: int, peers: tuple[Peer, ...], results: Sequence[Run],
    packs: bool = False,
) -> Case:  # fmt: skip
    """`sums`: products that are added up for an element of the result; `packs`: whether weights are packed once."""
    given = (args[0], fast.prepack("weights", args[1]), *args[2:]) if packs else args
    out = fast(*given)
    shaped = [lambda r=r: np.reshape(r(), exact.shape) for r in (lambda: fast(*given), *results)]
    return Case(
        fast.bind(*given, out=out), peers, close(shaped, lambda: exact, 1e-5),
        Work(2.0 * sums * out.size, reads=sum(a.nbytes for a in args), writes=out.nbytes),
    )  # fmt: skip


# PyTorch's ------------------------------------------------------------------------------------------------------------


def _torch(
    image: np.ndarray, weights: np.ndarray, bias: np.ndarray, stride: int = 1, groups: int = 1
) -> tuple[tuple[Peer, ...], list[Run]]:
    """Its forms of a layer, and what gives their results as ours lie; weights are given as [R, R, inputs, outputs]."""
    results: list[Run] = []
    forms = {
        "channels last": partial(_eager, last=True), "channels first": partial(_eager, last=False), "packed": _packed
    }  # fmt: skip
    peers = tuple(
        peer(f"PyTorch, {name}", "torch", lambda m=make: _kept(m(image, weights, bias, stride, groups), results), 1.0)
        for name, make in forms.items()
    )
    return peers, results


def _kept(run: Run, results: list[Run]) -> Run:
    results.append(lambda: run().permute(0, 2, 3, 1).numpy())
    return run


def _picture(image: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(image).permute(0, 3, 1, 2)


def _filters(weights: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(weights).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def _eager(
    image: np.ndarray, weights: np.ndarray, bias: np.ndarray, stride: int, groups: int, last: bool
) -> Run:  # fmt: skip
    import torch

    x, w, b = _picture(image), _filters(weights), torch.from_numpy(bias)
    if not last:
        x, w = x.contiguous(), w.contiguous()

    @torch.inference_mode()
    def run() -> Any:
        return torch.nn.functional.conv2d(x, w, b, stride, len(weights) // 2, groups=groups).relu_()

    return run


def _packed(image: np.ndarray, weights: np.ndarray, bias: np.ndarray, stride: int, groups: int) -> Run:
    """What torch.compile makes of a layer where weights are constants: one call of oneDNN with the rectifier in it."""
    import torch

    x = _picture(image)
    layer = _packed_layer(x.shape, weights, bias, stride, groups)

    @torch.inference_mode()
    def run() -> Any:
        return layer(x)

    return run


def _packed_layer(
    shape: Sequence[int], weights: np.ndarray, bias: np.ndarray, stride: int, groups: int
) -> Callable[[Any], Any]:  # fmt: skip
    import torch

    b, pad, strides, ones = torch.from_numpy(bias), [len(weights) // 2] * 2, [stride] * 2, [1, 1]
    w = torch.ops.aten.mkldnn_reorder_conv2d_weight(
        _filters(weights).to_mkldnn(), pad, strides, ones, groups, list(shape)
    )
    layer = torch.ops.mkldnn._convolution_pointwise
    return lambda x: layer(x, w, b, pad, strides, ones, groups, "relu", [], "")


def _separable(image: np.ndarray, filters: np.ndarray, bias: np.ndarray, mix: np.ndarray, shift: np.ndarray) -> Run:
    import torch

    conv = torch.nn.functional.conv2d
    x, b, s = _picture(image), torch.from_numpy(bias), torch.from_numpy(shift)
    deep, flat = _filters(filters[:, :, None, :]), _filters(mix[None, None])
    groups = image.shape[-1]

    @torch.inference_mode()
    def run() -> Any:
        return conv(conv(x, deep, b, padding=1, groups=groups).relu_(), flat, s).relu_()

    return run


def _separable_packed(
    image: np.ndarray, filters: np.ndarray, bias: np.ndarray, mix: np.ndarray, shift: np.ndarray
) -> Run:  # fmt: skip
    import torch

    x, channels = _picture(image), image.shape[-1]
    deep = _packed_layer(x.shape, filters[:, :, None, :], bias, 1, channels)
    flat = _packed_layer(x.shape, mix[None, None], shift, 1, 1)

    @torch.inference_mode()
    def run() -> Any:
        return flat(deep(x))

    return run


ENTRIES = (
    entry("conv-3x3", "3x3, 64 channels to 64, 56 x 56, `expert` of examples/conv_layer.py", conv_3x3),
    entry("conv-3x3-8", "the same, eight pictures", partial(conv_3x3, batch=8)),
    entry("conv-3x3-odd", "3x3, 65 channels to 63, 57 x 57", partial(conv_3x3, 57, 65, 63)),
    entry("conv-1x1", "1x1, 64 channels to 64, 56 x 56, `expert` of examples/pointwise_conv.py",
          partial(pointwise, 56, 64, 64)),
    entry("conv-1x1-256", "256 channels to 64, 56 x 56", partial(pointwise, 56, 256, 64)),
    entry("conv-1x1-512", "512 channels to 512, 14 x 14", partial(pointwise, 14, 512, 512)),
    entry("conv-1x1-8", "256 channels to 64, 56 x 56, eight pictures", partial(pointwise, 56, 256, 64, 8)),
    entry("conv-1x1-odd", "65 channels to 63, 57 x 57", partial(pointwise, 57, 65, 63)),
    entry("conv-strided", "3x3 at every second pixel, 64 channels to 128, 56 x 56, `expert` of examples/strided_conv.py",
          partial(strided, 56, 3, 64, 128)),
    entry("conv-strided-8", "the same, eight pictures", partial(strided, 56, 3, 64, 128, 8)),
    entry("conv-strided-7x7", "7x7 at every second pixel, 3 channels to 64, 224 x 224", partial(strided, 224, 7, 3, 64)),
    entry("conv-strided-odd", "3x3 at every second pixel, 65 channels to 63, 57 x 57", partial(strided, 57, 3, 65, 63)),
    entry("conv-depthwise", "depthwise 3x3, 128 channels, 56 x 56, `expert` of examples/depthwise_conv.py",
          partial(depthwise, 56, 128, 1)),
    entry("conv-depthwise-2", "the same at every second pixel", partial(depthwise, 56, 128, 2)),
    entry("conv-depthwise-8", "at every pixel, eight pictures", partial(depthwise, 56, 128, 1, 8)),
    entry("conv-depthwise-odd", "65 channels, 57 x 57", partial(depthwise, 57, 65, 1)),
    entry("conv-separable", "depthwise 3x3 and 1x1 in one, 64 channels to 64, 56 x 56, `expert` of "
          "examples/separable_conv.py", separable),
)  # fmt: skip
