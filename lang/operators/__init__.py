"""Operators for graphs: each is a plain algorithm in this language, so that nothing is opaque.

They take inputs and Values (a tensor with the extent of each axis) and return Values; a kernel returns them whole:

    @tw.kernel
    def layer(x: tw.f32[T, D], w: tw.f32[D, E], b: tw.f32[E]):
        return tw.ops.gelu(tw.ops.linear(x, w, b))

The stages that they make have names (`tw.scope` prefixes them) and are scheduled like any other.
"""

from tilewright.lang.operators.attention import append, attention, rotary
from tilewright.lang.operators.convolutions import (
    average_pool2d,
    conv2d,
    conv_transpose2d,
    depthwise_conv2d,
    max_pool2d,
    upsample2d,
)
from tilewright.lang.operators.einsum import einsum
from tilewright.lang.operators.elementwise import abs_ as abs
from tilewright.lang.operators.elementwise import (
    cast,
    clamp,
    elu,
    exp,
    gelu,
    gelu_tanh,
    hard_swish,
    leaky_relu,
    log,
    maximum,
    minimum,
    relu,
    sigmoid,
    silu,
    softplus,
    sqrt,
    tanh,
    where,
)
from tilewright.lang.operators.products import linear, matmul, quantized_linear
from tilewright.lang.operators.rows import (
    argmax,
    argmin,
    batch_norm,
    cross_entropy,
    cumsum,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    log_sum_exp,
    mean,
    rms_norm,
    softmax,
    topk,
    variance,
)
from tilewright.lang.operators.rows import max_ as max
from tilewright.lang.operators.rows import min_ as min
from tilewright.lang.operators.rows import sum_ as sum
from tilewright.lang.operators.shapes import (
    broadcast_to,
    concat,
    expand_dims,
    flatten,
    gather,
    pad,
    reshape,
    split,
    split_axis,
    squeeze,
    transpose,
)
from tilewright.lang.operators.shapes import slice_ as slice
from tilewright.lang.operators.value import Value, elementwise, value

__all__ = [
    "Value", "abs", "append", "argmax", "argmin", "attention", "average_pool2d", "batch_norm", "broadcast_to", "cast",
    "clamp", "concat", "conv2d", "conv_transpose2d", "cross_entropy", "cumsum", "depthwise_conv2d", "einsum",
    "elementwise", "elu", "exp", "expand_dims", "flatten", "gather", "gelu", "gelu_tanh", "group_norm", "hard_swish",
    "instance_norm", "layer_norm", "leaky_relu", "linear", "log", "log_softmax", "log_sum_exp", "matmul", "max",
    "max_pool2d", "maximum", "mean", "min", "minimum", "pad", "quantized_linear", "relu", "reshape", "rms_norm",
    "rotary", "sigmoid", "silu", "slice", "softmax", "softplus", "split", "split_axis", "sqrt", "squeeze", "sum",
    "tanh", "topk", "transpose", "upsample2d", "value", "variance", "where",
]  # fmt: skip
