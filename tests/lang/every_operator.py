"""A small graph for every operator of `tw.ops`, of symbolic sizes where it can be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tilewright as tw
from tilewright import ops
from tilewright.kernels import Kernel

B, T, D, E, H, W = tw.sizes("B T D E H W")
SIZES = {"B": 2, "T": 3, "D": 4, "E": 5, "H": 6, "W": 7}
ROWS, MANY, ROW, FLAGS = tw.f32[T, D], tw.f32[B, T, D], tw.f32[D], tw.bool_[T, D]
PICTURE = tw.f32[B, H, W, 4]

Graph = tuple[Callable[..., Any], tuple[Any, ...]]

ONE = ("abs", "elu", "exp", "gelu", "gelu_tanh", "hard_swish", "leaky_relu", "log", "relu", "sigmoid", "silu", "softplus",
       "sqrt", "tanh")  # fmt: skip
REDUCED = (
    "argmax",
    "argmin",
    "cumsum",
    "log_softmax",
    "log_sum_exp",
    "max",
    "mean",
    "min",
    "softmax",
    "sum",
    "variance",
)

GRAPHS: dict[str, Graph] = {
    **{n: (getattr(ops, n), (ROWS,)) for n in ONE},
    **{n: (partial(getattr(ops, n), axis=1), (MANY,)) for n in REDUCED},
    "append": (
        lambda c, x, at: ops.append(c, x, at),
        (tw.inout(tw.f32[B, 2, T, D]), tw.f32[B, 2, 1, D], tw.i64[B]),
    ),
    "attention": (
        lambda q, k, v, n: ops.attention(q, k, v, causal=True, lengths=n),
        (tw.f32[B, 4, T, D], tw.f32[B, 2, W, D], tw.f32[B, 2, W, E], tw.i64[B]),
    ),
    "average_pool2d": (lambda x: ops.average_pool2d(x, (3, 2), stride=2, padding=1), (PICTURE,)),
    "batch_norm": (ops.batch_norm, (PICTURE, *[tw.f32[4]] * 4)),
    "broadcast_to": (lambda x: ops.broadcast_to(x, (B, T, D)), (ROW,)),
    "cast": (lambda x: ops.cast(tw.bf16, x), (ROWS,)),
    "clamp": (lambda x: ops.clamp(x, -1, 0.5), (ROWS,)),
    "concat": (lambda x, y: ops.concat([x, y, x], -1), (ROWS, tw.f32[T, E])),
    "conv2d": (lambda x, w, b: ops.conv2d(x, w, b, stride=2, padding=1, groups=2), (PICTURE, tw.f32[3, 3, 2, 6], tw.f32[6])),
    "conv_transpose2d": (lambda x, w: ops.conv_transpose2d(x, w, stride=2, padding=1), (PICTURE, tw.f32[3, 2, 4, 3])),
    "cross_entropy": (ops.cross_entropy, (ROWS, tw.i64[T])),
    "depthwise_conv2d": (lambda x, w: ops.depthwise_conv2d(x, w, padding=1, dilation=2), (PICTURE, tw.f32[3, 3, 4])),
    "einsum": (lambda x, y: ops.einsum("btd,de->ebt", x, y), (MANY, tw.f32[D, E])),
    "elementwise": (lambda x, y: ops.elementwise(lambda a, b: tw.exp(a) * b, x, y), (MANY, ROW)),
    "expand_dims": (lambda x: ops.expand_dims(x, 1), (ROWS,)),
    "flatten": (lambda x: ops.flatten(x, 1), (MANY,)),
    "gather": (ops.gather, (ROWS, tw.i32[B, W])),
    "group_norm": (lambda x, g: ops.group_norm(x, 2, g), (PICTURE, tw.f32[4])),
    "instance_norm": (ops.instance_norm, (PICTURE, tw.f32[4], tw.f32[4])),
    "layer_norm": (ops.layer_norm, (MANY, ROW, ROW)),
    "linear": (ops.linear, (MANY, tw.bf16[D, E], tw.f32[E])),
    "matmul": (lambda x, y: ops.matmul(x, y, transpose_b=True), (MANY, tw.f32[E, D])),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 2), (PICTURE,)),
    "maximum": (ops.maximum, (MANY, ROW)),
    "minimum": (ops.minimum, (MANY, ROW)),
    "pad": (lambda x: ops.pad(x, [(1, 2), None], -1), (ROWS,)),
    "quantized_linear": (ops.quantized_linear, (tw.f32[T, 8], tw.i8[8, E], tw.f32[2, E], tw.f32[E])),
    "reshape": (lambda x: ops.reshape(x, (T, B, D)), (tw.f32[B * T, D],)),
    "rms_norm": (ops.rms_norm, (ROWS, ROW)),
    "rotary": (ops.rotary, (tw.f32[B, T, 8], tw.f32[T, 4], tw.f32[T, 4])),
    "slice": (lambda x: ops.slice(x, (1, None, 2), (0, -1)), (ROWS,)),
    "split": (lambda x: ops.split(x, [1, D - 1]), (ROWS,)),
    "split_axis": (lambda x: ops.split_axis(x, 1, 2), (tw.f32[T, 2 * D],)),
    "squeeze": (lambda x: ops.squeeze(x, 0), (tw.f32[1, T],)),
    "topk": (lambda x: ops.topk(x, 2), (ROWS,)),
    "transpose": (lambda x: ops.transpose(x, (2, 0, 1)), (MANY,)),
    "upsample2d": (lambda x: ops.upsample2d(x, (2, 3), method="bilinear"), (PICTURE,)),
    "value": (lambda x, y: ops.value(x) + y - 2.0, (ROWS, ROW)),
    "where": (ops.where, (FLAGS, ROWS, ROW)),
}  # fmt: skip


def kernel(name: str) -> Kernel:
    """The graph of an operator as a kernel of that name."""
    f, specs = GRAPHS[name]
    scope = {"f": f}
    names = [f"p{k}" for k in range(len(specs))]
    exec(f"def {name}_graph({', '.join(names)}): return f({', '.join(names)})", scope)
    made: Any = scope[f"{name}_graph"]
    made.__annotations__ = dict(zip(names, specs, strict=True))
    return tw.kernel(made)
