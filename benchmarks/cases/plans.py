"""Plans: attention, a transformer, residual blocks and a picture pyramid, beside PyTorch and ours op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.cases import entry
from benchmarks.cases.data import close, example, normal
from benchmarks.harness import Case, Peer, Work, peer
from tilewright import ops
from tilewright.lang.pipeline import Pipeline

Run = Callable[[], Any]


def planned(kernel: tw.Kernel, sizes: dict[str, int], *args: Any, weights: Sequence[str] = (), **statics: Any) -> Run:
    """The kernel by its plan, on these arguments; those named in `weights` are packed before."""
    program = tw.plan(kernel, sizes=sizes, statics=statics, **({"weights": weights} if weights else {})).compile()
    if weights:
        names = [q.name for q in program.plan.pipeline.params]
        program = program.with_weights({n: args[names.index(n)] for n in weights})
        args = tuple(a for n, a in zip(names, args, strict=True) if n not in weights)
    return lambda: program(*args)


def op_by_op(p: Pipeline, sizes: dict[str, int], scalars: dict[str, int] | None = None, every: bool = False) -> Any:
    """Each Func stored whole that a plan does not inline (or `every` one), with the default schedule for itself."""
    from tilewright.kernels import from_pipeline
    from tilewright.planner.graph import make_graph
    from tilewright.planner.host import host_machine
    from tilewright.planner.model import Model

    g = make_graph(p, {**sizes, **(scalars or {})}, Model(host_machine()))
    kernel = from_pipeline(p)
    s = kernel.schedule()
    for f in p.funcs:
        if f in g.inlined and not every:
            s[f.name].compute_inline()
        elif f.init is not None and f not in g.results:
            s[f.name].compute_root()
    return kernel.compile(s)


# Attention ----------------------------------------------------------------------------------------------------------


H, M, N = tw.sizes("H M N")


@tw.kernel
def attention_kernel(q: tw.f32[1, H, M, 64], k: tw.f32[1, H, N, 64], v: tw.f32[1, H, N, 64], *, causal=False):
    return ops.attention(q, k, v, causal=causal)


def attention(causal: bool, h: int = 8, m: int = 1024, n: int = 1024) -> Case:
    """From the plain text; `M` queries are the last of `N`."""
    d = 64
    q, k, v = normal(1, h, m, d), normal(1, h, n, d), normal(1, h, n, d)
    kernel, sizes = attention_kernel, {"H": h, "M": m, "N": n}
    ours, unfused = planned(kernel, sizes, q, k, v, causal=causal), op_by_op(kernel.pipeline(causal=causal), sizes)
    expert = example("attention")
    by_head = expert.attention.compile(expert.unfused(causal=causal))
    args = (q[0], k[0], v[0], np.float32(d**-0.5))
    results = [lambda: ours()[0], lambda: unfused(q, k, v)[0], lambda: by_head(*args)]

    def torch_attention(fused: bool) -> Run:
        import torch

        x, y, z = (torch.from_numpy(a) for a in (q, k, v))
        hidden = torch.full((m, n), -torch.inf).triu(1 + n - m) if causal else None

        def in_steps() -> Any:
            scores = x @ y.mT * d**-0.5
            return torch.softmax(scores if hidden is None else scores + hidden, -1) @ z

        whole = partial(torch.nn.functional.scaled_dot_product_attention, x, y, z, is_causal=causal and m > 1)
        run = whole if fused else in_steps
        results.append(lambda: run()[0].numpy())
        return run

    return Case(
        ours,
        (
            peer("PyTorch, softmax(q k) v", "torch", partial(torch_attention, False), 3.0 if m == n else None),
            Peer("ours, head by head, examples/attention.py", lambda: by_head(*args)),
            Peer("ours, op by op", lambda: unfused(q, k, v), 1.1 if m == n else 1.0),
            peer("PyTorch, fused attention", "torch", partial(torch_attention, True), 0.9),
        ),
        close(results, partial(expert.independent, *args, causal), 1e-5),
        Work(4.0 * h * m * n * d / (2 if causal and m > 1 else 1), reads=8.0 * h * n * d, writes=4.0 * h * m * d),
    )  # fmt: skip


# Residual blocks ----------------------------------------------------------------------------------------------------


B, Y, X, C, F = tw.sizes("B Y X C F")


def normed(x: Any, w: Any, norm: Sequence[Any], padding: int) -> ops.Value:
    """A convolution and its batch norm."""
    return ops.batch_norm(ops.conv2d(x, w, padding=padding), *norm)


@tw.kernel
def basic(
    x: tw.f32[B, Y, X, 64],
    w1: tw.f32[3, 3, 64, 64], mean1: tw.f32[64], var1: tw.f32[64], scale1: tw.f32[64], shift1: tw.f32[64],
    w2: tw.f32[3, 3, 64, 64], mean2: tw.f32[64], var2: tw.f32[64], scale2: tw.f32[64], shift2: tw.f32[64],
):  # fmt: skip
    h = ops.relu(normed(x, w1, (mean1, var1, scale1, shift1), 1))
    return ops.relu(ops.value(x) + normed(h, w2, (mean2, var2, scale2, shift2), 1))


@tw.kernel
def bottleneck(
    x: tw.f32[B, Y, X, 256],
    w1: tw.f32[1, 1, 256, 64], mean1: tw.f32[64], var1: tw.f32[64], scale1: tw.f32[64], shift1: tw.f32[64],
    w2: tw.f32[3, 3, 64, 64], mean2: tw.f32[64], var2: tw.f32[64], scale2: tw.f32[64], shift2: tw.f32[64],
    w3: tw.f32[1, 1, 64, 256], mean3: tw.f32[256], var3: tw.f32[256], scale3: tw.f32[256], shift3: tw.f32[256],
):  # fmt: skip
    h = ops.relu(normed(x, w1, (mean1, var1, scale1, shift1), 0))
    h = ops.relu(normed(h, w2, (mean2, var2, scale2, shift2), 1))
    return ops.relu(ops.value(x) + normed(h, w3, (mean3, var3, scale3, shift3), 0))


def residual(kernel: tw.Kernel, batch: int, size: int = 56) -> Case:
    """PyTorch gets its own order of axes (channels first), and the one that ours has."""
    p = kernel.pipeline()
    rng = np.random.default_rng(0)
    sizes = {"B": batch, "Y": size, "X": size}
    shapes = [tuple(sizes[e.attr] if e.op == "size" else e.attr for e in a.extents) for a in p.arrays]
    args = [np.float32(rng.standard_normal(s) / max(1, np.prod(s[:-1])) ** 0.5) for s in shapes]
    args[0] = normal(*shapes[0])
    for k, a in enumerate(p.arrays):
        if a.name.startswith("var"):
            args[k] = np.float32(0.5 + rng.random(shapes[k]))
    weights = [a.name for a in p.arrays[1:]]
    ours, unfused = planned(kernel, sizes, *args, weights=weights), op_by_op(p, sizes)
    results = [ours, lambda: unfused(*args)]
    stages = [args[k : k + 5] for k in range(1, len(args), 5)]

    def torch_block(last: bool) -> Run:
        import torch
        from torch.nn import functional

        form = torch.channels_last if last else torch.contiguous_format
        given = torch.from_numpy(args[0]).permute(0, 3, 1, 2).contiguous(memory_format=form)
        layers = [
            (torch.from_numpy(w).permute(3, 2, 0, 1).contiguous(memory_format=form), *map(torch.from_numpy, norm))
            for w, *norm in stages
        ]

        def run() -> Any:
            h = given
            for k, (w, mean, var, scale, shift) in enumerate(layers):
                h = functional.conv2d(h, w, padding=w.shape[2] // 2)
                h = functional.batch_norm(h, mean, var, scale, shift)
                h = functional.relu(h + given if k + 1 == len(layers) else h)
            return h

        results.append(lambda: run().permute(0, 2, 3, 1).numpy())
        return run

    operations = sum(2.0 * w.size for w, *_ in stages) * batch * size * size
    return Case(
        ours,
        (
            peer("PyTorch", "torch", partial(torch_block, False), 1.0),
            peer("PyTorch, channels last", "torch", partial(torch_block, True), 1.0),
            Peer("ours, op by op", lambda: unfused(*args), None),
        ),
        close(results, partial(residual_exactly, args[0], stages), 1e-5),
        Work(operations, reads=float(sum(a.nbytes for a in args)), writes=float(args[0].nbytes)),
    )  # fmt: skip


def residual_exactly(x: np.ndarray, stages: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """In f64."""
    h = np.float64(x)
    for k, (w, mean, var, scale, shift) in enumerate(stages):
        n = w.shape[0]
        wide = np.pad(h, ((0, 0), (n // 2, n // 2), (n // 2, n // 2), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (n, n), (1, 2))
        h = np.einsum("byxcvu,vuco->byxo", windows, np.float64(w), optimize=True)
        h = (h - mean) / np.sqrt(np.float64(var) + 1e-5) * scale + shift
        h = np.maximum(h + x if k + 1 == len(stages) else h, 0)
    return h


# A picture ----------------------------------------------------------------------------------------------------------


def laplacian() -> Case:
    """Photograph, pyramids of eight tones and four levels."""
    module = example("local_laplacian")
    kernel, args = module.local_laplacian, module.inputs(repeat=2)
    sizes = dict(zip("HW", args[0].shape, strict=True))
    ours, unfused = planned(kernel, sizes, *args), op_by_op(kernel.pipeline(), sizes)
    stored = op_by_op(kernel.pipeline(), sizes, every=True)
    nobody, expert = kernel.compile(), kernel.compile(module.expert())
    return Case(
        ours,
        (
            Peer("ours, every Func stored", lambda: stored(*args), 2.0),
            Peer("ours, op by op", lambda: unfused(*args)),
            Peer("ours, default schedule of the whole", lambda: nobody(*args)),
            Peer("ours, `expert` of examples/local_laplacian.py", lambda: expert(*args)),
        ),
        close([ours, lambda: unfused(*args), lambda: stored(*args), lambda: nobody(*args), lambda: expert(*args)],
              lambda: np.float64(module.independent(*args)), 1e-5),
        Work(reads=float(args[0].nbytes), writes=float(args[0].nbytes)),
    )  # fmt: skip


# A transformer ------------------------------------------------------------------------------------------------------


def language(count: int, past: int) -> Case:
    """Six layers, 384 wide, 12 heads, 8192 words: `count` tokens after `past` others, with caches of keys and values."""
    module = example("graphs/transformer")
    s = module.Shape()
    weights = module.make_weights(s)
    tokens = np.random.default_rng(1).integers(0, s.vocabulary, past + count)
    model = module.Generator(s, weights, 128, threads=None)
    model.logits(tokens[:past]) if past else None

    def again() -> np.ndarray:
        model.past = past
        return model.logits(tokens[past:])

    p = model.plans["prefill"].pipeline
    unfused = op_by_op(p, {"T": count, "N": past + count}, {"past": past})
    results: list[Run] = [again]

    def plain() -> np.ndarray:
        used = [{n: a[:, :, : past + count] for n, a in c.items()} for c in model.caches]
        return unfused(tokens[past:], past, weights, used)

    def torch_model() -> Run:
        run = torch_transformer(s, weights)
        run(tokens[:past], 0) if past else None
        results.append(lambda: run(tokens[past:], past)[0].numpy())
        return lambda: run(tokens[past:], past)

    results.append(lambda: plain()[0])
    read = sum(a.nbytes for a in leaves(weights)) - weights["table"].nbytes - weights["places"].nbytes
    caches = 2.0 * s.layers * s.width * (past + count) * 4
    matrices = sum(a.size for a in leaves(weights["layers"]) if a.ndim == 2)
    return Case(
        again,
        (peer("PyTorch", "torch", torch_model, 1.0), Peer("ours, op by op", plain, 2.0 if count == 1 else None)),
        close(results, partial(module.independent, s, weights, tokens), 1e-4),
        Work(2.0 * matrices * count, reads=read + caches),
    )


def leaves(x: Any) -> list[np.ndarray]:
    if isinstance(x, np.ndarray):
        return [x]
    return [a for v in (x.values() if isinstance(x, dict) else x) for a in leaves(v)]


def torch_transformer(s: Any, weights: Any) -> Callable[[np.ndarray, int], Any]:
    """The same model as PyTorch runs it eagerly, caches written in place."""
    import torch
    from torch.nn import functional

    def tensors(x: Any) -> Any:
        if isinstance(x, dict):
            return {n: tensors(v) for n, v in x.items()}
        return [tensors(v) for v in x] if isinstance(x, list) else torch.from_numpy(x)

    w, d = tensors(weights), s.width
    caches = [torch.zeros(2, 1, s.heads, s.places, d // s.heads) for _ in range(s.layers)]

    def norm(x: Any, p: Any) -> Any:
        return functional.layer_norm(x, (d,), p["scale"], p["shift"])

    @torch.inference_mode()
    def run(tokens: np.ndarray, past: int) -> Any:
        n = len(tokens)
        now = past + n
        x = functional.embedding(torch.from_numpy(tokens), w["table"]) + w["places"][past:now]
        for p, cache in zip(w["layers"], caches, strict=True):
            parts = (norm(x, p["norm1"]) @ p["qkv"]).split(d, 1)
            q, k, v = (t.reshape(1, n, s.heads, -1).transpose(1, 2) for t in parts)
            cache[0, :, :, past:now], cache[1, :, :, past:now] = k, v
            keys, values = cache[0, :, :, :now], cache[1, :, :, :now]
            seen = functional.scaled_dot_product_attention(q, keys, values, is_causal=n > 1)
            x = x + seen.transpose(1, 2).reshape(n, d) @ p["out"]
            h = functional.gelu(torch.addmm(p["up_bias"], norm(x, p["norm2"]), p["up"]))
            x = x + torch.addmm(p["down_bias"], h, p["down"])
        return norm(x[-1:], w["norm"]) @ w["head"]

    return run


ENTRIES = (
    entry("plan-attention", "8 heads x 1024 x 64 in f32, the plain text planned", partial(attention, False)),
    entry("plan-attention-causal", "the same with a causal mask", partial(attention, True)),
    entry("plan-decode-1024", "one query to 1024 keys, 8 heads x 64", partial(attention, True, m=1)),
    entry("plan-decode-4096", "one query to 4096 keys, 8 heads x 64", partial(attention, True, m=1, n=4096)),
    entry("plan-prefill", "six layers, 384 wide, 12 heads, 8192 words: 128 tokens", partial(language, 128, 0)),
    entry("plan-token", "the same, one token after 128", partial(language, 1, 128)),
    entry("plan-token-1000", "the same, one token after 1000", partial(language, 1, 1000)),
    entry("plan-residual-1", "two 3x3 convolutions of 64 channels, 56 x 56", partial(residual, basic, 1)),
    entry("plan-residual-8", "the same, 8 pictures", partial(residual, basic, 8)),
    entry("plan-bottleneck-1", "1x1, 3x3, 1x1: 256, 64, 64, 256 channels, 56 x 56", partial(residual, bottleneck, 1)),
    entry("plan-bottleneck-8", "the same, 8 pictures", partial(residual, bottleneck, 8)),
    entry("plan-laplacian", "examples/local_laplacian.py, a photograph of four times its size", laplacian),
)  # fmt: skip
