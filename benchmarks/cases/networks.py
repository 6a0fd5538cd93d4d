"""What neural networks are made of: matrix times vector with narrow weights, a layer with GELU, attention."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import entry
from benchmarks.cases.data import close, every, example, judged, uniform
from benchmarks.harness import Case, Peer, Work, peer

Run = Callable[[], Any]


# Matrix times vector ------------------------------------------------------------------------------------------------

APART = 128 << 20  # bytes of all weights together: several times the last cache, so that every call reads memory


def in_turn(runs: Sequence[Run]) -> Run:
    """One of them after the other, call by call: each works on a matrix of its own."""
    turns = itertools.cycle(runs)
    return lambda: next(turns)()


def copies(of: np.ndarray, size: int = 0) -> list[np.ndarray]:
    """So many of a matrix that together they are `APART` bytes. `size`: bytes that go with it, if more than its own."""
    return [of.copy() for _ in range(-(-APART // max(size, of.nbytes)))]


def f32_matvec(n: int) -> tuple[Run, Run]:
    """Ours in f32 on matrices in turn, and its result."""
    module = example("matvec")
    fast = module.matvec.compile(module.expert())
    w, x = uniform(n, n), uniform(n)
    return in_turn([fast.bind(c, x) for c in copies(w)]), lambda: fast(w, x)


def matvec(n: int = 4096) -> Case:
    module = example("matvec")
    w, x, theirs = uniform(n, n), uniform(n), np.empty(n, np.float32)
    ours, result = f32_matvec(n)
    weights = copies(w)
    results = [result, lambda: w @ x]

    def torch_mv() -> Run:
        import torch

        v, y = torch.from_numpy(x), torch.empty(n)
        results.append(lambda: torch.mv(torch.from_numpy(w), v).numpy())
        return in_turn([partial(torch.mv, torch.from_numpy(c), v, out=y) for c in weights])

    return Case(
        ours,
        (
            Peer("NumPy (OpenBLAS)", in_turn([partial(np.dot, c, x, out=theirs) for c in weights]), 1.0),
            peer("PyTorch", "torch", torch_mv, 1.0),
        ),
        judged(module.matvec, results, (rows := every(n)), w[rows], x), Work(2.0 * n * n, reads=w.nbytes, span=APART),
    )  # fmt: skip


def matvec_bf16(n: int = 4096) -> Case:
    module = example("matvec_bf16")
    fast = module.matvec_bf16.compile(module.expert())
    w, x = module.inputs(n, n)
    ours = in_turn([fast.bind(c, x) for c in copies(w)])
    checks = [close([lambda: fast(w, x)], lambda: w.astype(np.float64) @ x, 1e-5)]

    def torch_mv() -> Run:
        import torch

        v, y = torch.from_numpy(x).bfloat16(), torch.empty(n, dtype=torch.bfloat16)
        weights = [torch.from_numpy(c.view(np.int16)).view(torch.bfloat16) for c in copies(w)]
        checks.append(close([lambda: torch.mv(weights[0], v).float().numpy()], lambda: w.astype(np.float64) @ x, 0.01))
        return in_turn([partial(torch.mv, c, v, out=y) for c in weights])

    return Case(
        ours, (peer("PyTorch, bf16", "torch", torch_mv, 1.5), Peer("ours, f32", f32_matvec(n)[0], 1.3)),
        lambda: [check() for check in checks], Work(2.0 * n * n, reads=w.nbytes, span=APART),
    )  # fmt: skip


def matvec_int8(n: int = 4096) -> Case:
    module = example("matvec_int8")
    fast = module.matvec_int8.compile(module.expert())
    w, scale, x = module.inputs(n, n)
    ours = in_turn([fast.bind(c, scale, x) for c in copies(w)])
    right = partial(module.independent, w, scale, x)
    checks = [close([lambda: fast(w, scale, x)], right, 1e-5)]

    def torch_int8() -> Run:
        import torch

        v, s = (torch.from_numpy(a).bfloat16() for a in (x[None], scale))
        weights = [torch.from_numpy(c) for c in copies(w)]
        checks.append(close([lambda: torch._weight_int8pack_mm(v, weights[0], s)[0].float().numpy()], right, 0.02))
        return in_turn([partial(torch._weight_int8pack_mm, v, c, s) for c in weights])

    return Case(
        ours, (Peer("ours, f32", f32_matvec(n)[0], 2.0), peer("PyTorch, _weight_int8pack_mm", "torch", torch_int8)),
        lambda: [check() for check in checks], Work(2.0 * n * n, reads=w.nbytes, span=APART),
    )  # fmt: skip


def matvec_int4(n: int = 4096) -> Case:
    """Weights are packed once into the order in which they are read, ours and PyTorch's."""
    module = example("matvec_int4")
    fast = module.matvec_int4.compile(module.expert())
    w, scale, x = module.inputs(n, n // 32)
    size = w.nbytes + scale.nbytes
    ours = in_turn([fast.bind(fast.prepack("W", c), scale.copy(), x) for c in copies(w, size)])
    right = partial(module.independent, w, scale, x)
    checks = [close([lambda: fast(w, scale, x)], right, 1e-5)]

    def torch_int4() -> Run:
        import torch

        v = torch.from_numpy(x.reshape(1, n)).bfloat16()
        q = (w[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)[:, None]) & 15).reshape(n, n).astype(np.int32)
        factors = torch.from_numpy(np.float32(scale).T.copy()).bfloat16()
        factors = torch.stack([factors, torch.zeros_like(factors)], 2).contiguous()
        weights = [torch._convert_weight_to_int4pack_for_cpu(torch.from_numpy(c), 1) for c in copies(q)]
        weights = [c.clone() for c in itertools.islice(itertools.cycle(weights), -(-APART // size))]
        run = torch._weight_int4pack_mm_for_cpu
        checks.append(close([lambda: run(v, weights[0], 32, factors)[0].float().numpy()], right, 0.02))
        return in_turn([partial(run, v, c, 32, factors) for c in weights])

    return Case(
        ours,
        (Peer("ours, f32", f32_matvec(n)[0], 3.0), peer("PyTorch, _weight_int4pack_mm_for_cpu", "torch", torch_int4)),
        lambda: [check() for check in checks], Work(2.0 * n * n, reads=size, span=APART),
    )  # fmt: skip


# A layer ------------------------------------------------------------------------------------------------------------


def gelu(m: int = 1024, n: int = 4096, k: int = 1024) -> Case:
    """PyTorch gets the weights in the order in which its linear layers have them."""
    module = example("matmul_gelu")
    fast = module.matmul_gelu.compile(module.expert())
    a, b, bias = module.inputs(m, n, k)
    ours = fast.bind(a, b, bias)
    results = [lambda: fast(a, b, bias)]

    def torch_gelu() -> Run:
        import torch

        x, w, v = (torch.from_numpy(np.ascontiguousarray(t)) for t in (a, b.T, bias))

        def run() -> Any:
            return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, v))

        results.append(lambda: run().numpy())
        return run

    def torch_into_arrays() -> Run:
        """Weights as they stand, sums and results in arrays that are there."""
        import torch

        x, w, v = (torch.from_numpy(t) for t in (a, b, bias))
        sums, result = torch.empty(m, n), torch.empty(m, n)

        def run() -> Any:
            return torch._C._nn.gelu(torch.addmm(v, x, w, out=sums), out=result)

        results.append(lambda: run().numpy())
        return run

    target = 1.0 if m >= 1024 else None
    return Case(
        ours,
        (
            peer("PyTorch, gelu(linear)", "torch", torch_gelu, target),
            peer("PyTorch, gelu(addmm), out=", "torch", torch_into_arrays, target),
        ),
        close(results, partial(module.independent, a, b, bias), 1e-5),
        Work(2.0 * m * n * k, reads=a.nbytes + b.nbytes, writes=4.0 * m * n),
    )  # fmt: skip


# Attention ----------------------------------------------------------------------------------------------------------


def attention(causal: bool, schedule: str | None, h: int = 8, n: int = 1024, d: int = 64) -> Case:
    module = example("attention")
    s = getattr(module, schedule)(causal=causal) if schedule else None
    fast = module.attention.compile(s, **{} if schedule else {"causal": causal})
    args = module.inputs(h, n, n, d)
    ours = fast.bind(*args)
    results = [lambda: fast(*args)]

    def torch_attention(fused: bool) -> Run:
        import torch

        q, k, v = (torch.from_numpy(a)[None] for a in args[:3])
        hidden = torch.full((n, n), -torch.inf).triu(1) if causal else None

        def in_steps() -> Any:
            scores = q @ k.mT * d**-0.5
            return torch.softmax(scores if hidden is None else scores + hidden, -1) @ v

        whole = partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=causal)
        run = whole if fused else in_steps
        results.append(lambda: run()[0].numpy())
        return run

    return Case(
        ours,
        (
            peer("PyTorch, fused attention", "torch", partial(torch_attention, True), 1.1 if schedule else None),
            peer("PyTorch, softmax(q k) v", "torch", partial(torch_attention, False), None if schedule else 1.0),
        ),
        close(results, partial(module.independent, *args, causal), 1e-5),
        Work(4.0 * h * n * n * d / (2 if causal else 1), reads=3.0 * args[0].nbytes, writes=args[0].nbytes),
    )  # fmt: skip


def decode(h: int, d: int, n: int = 4096) -> Case:
    """The last token of n: its key and value go into the cache, then it attends to all of it. Caches in turn."""
    module = example("decode_step")
    fast = module.decode_step.compile(module.expert())
    query, key, value, keys, values, _, _ = module.inputs(1, h, 1, n, d)
    length, scale = np.array([n - 1]), np.float32(d**-0.5)
    args = (query, key, value, keys, values, length, scale)
    caches = list(zip(copies(keys, 2 * keys.nbytes), copies(values, 2 * values.nbytes), strict=True))
    ours = in_turn([fast.bind(query, key, value, k, v, length, scale) for k, v in caches])
    results = [lambda: fast(query, key, value, keys.copy(), values.copy(), length, scale)]

    def torch_decode() -> Run:
        import torch

        q, new_key, new_value = (torch.from_numpy(a) for a in (query, key, value))
        old = [(torch.from_numpy(k.copy()), torch.from_numpy(v.copy())) for k, v in caches]

        def run(k: Any, v: Any) -> Any:
            k[:, :, n - 1], v[:, :, n - 1] = new_key, new_value
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

        results.append(lambda: run(*old[0]).numpy())
        return in_turn([partial(run, *c) for c in old])

    return Case(
        ours, (peer("PyTorch, fused attention", "torch", torch_decode, 1.0),),
        close(results, partial(module.independent, *args), 1e-5),
        Work(4.0 * h * n * d, reads=2.0 * keys.nbytes, span=APART),
    )  # fmt: skip


ENTRIES = (
    entry("matvec", "f32 4096 x 4096, `expert` of examples/matvec.py; matrices in turn, 128 MiB together", matvec),
    entry("matvec-bf16", "bf16 weights, examples/matvec_bf16.py", matvec_bf16),
    entry("matvec-int8", "i8 weights, a factor a row, examples/matvec_int8.py", matvec_int8),
    entry("matvec-int4", "4-bit weights in groups of 32, examples/matvec_int4.py", matvec_int4),
    entry("gelu", "gelu(a @ b + bias), f32 1024 x 4096 of 1024, `expert` of examples/matmul_gelu.py", gelu),
    entry("gelu-64", "the same with 64 rows", partial(gelu, 64)),
    entry("attention", "f32, 8 heads x 1024 x 64, `expert` of examples/attention.py", partial(attention, False, "expert")),
    entry("attention-causal", "the same with a causal mask", partial(attention, True, "expert")),
    entry("attention-unscheduled", "without a mask, the default schedule", partial(attention, False, None)),
    entry("decode", "a token to 4096 in a cache, 8 heads x 64, `expert` of examples/decode_step.py", partial(decode, 8, 64)),
    entry("decode-32", "the same, 32 heads x 128", partial(decode, 32, 128)),
)  # fmt: skip
