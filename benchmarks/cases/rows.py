"""Row-wise and elementwise kernels with their expert schedules, and the cost of a call.

All sides write into the same arrays as far as they let one choose: where in memory these lie is worth several per cent.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.cases import entry
from benchmarks.cases.data import close, every, example, judged, normal
from benchmarks.harness import Case, Peer, Work, peer

N = tw.sizes("N")


def softmax(m: int = 4096, n: int = 1024) -> Case:
    module = example("softmax")
    a = normal(m, n)
    fast = module.softmax.compile(module.expert())
    ours, rows = np.empty_like(a), every(m)
    results = [lambda: fast(a)]

    def torch_softmax() -> Any:
        import torch

        x, theirs = torch.from_numpy(a), torch.from_numpy(ours)
        results.append(lambda: torch.softmax(x, 1).numpy())
        return lambda: torch.softmax(x, 1, out=theirs)

    peers = (peer("PyTorch", "torch", torch_softmax, 1.5),)
    return Case(
        lambda: fast(a, out=ours), peers, judged(module.softmax, results, rows, a[rows]),
        Work(reads=a.nbytes, writes=a.nbytes),
    )  # fmt: skip


def elementwise(n: int = 1 << 24) -> Case:
    module = example("elementwise")
    x, y = normal(n), normal(n)[::-1].copy()
    fast = module.elementwise.compile(module.expert())
    out = np.empty_like(x)
    results = [lambda: fast(x, y)]

    def numexpr_chain() -> Any:
        import numexpr

        def run() -> np.ndarray:
            return numexpr.evaluate("sqrt(abs(x * y + x)) * y", {"x": x, "y": y}, out=out)

        results.append(run)
        return run

    return Case(
        lambda: fast(x, y, out=out), (peer("numexpr", "numexpr", numexpr_chain, 1.5),),
        judged(module.elementwise, results, slice(None, None, n >> 16), x[:: n >> 16], y[:: n >> 16]),
        Work(reads=x.nbytes + y.nbytes, writes=out.nbytes),
    )  # fmt: skip


def norm(name: str, m: int = 4096, n: int = 1024) -> Case:
    """A norm after a residual connection, whose sum is a result as well."""
    module = example(name)
    kernel = getattr(module, name)
    *arrays, epsilon = module.inputs(M=m, N=n)
    args = (*arrays, float(epsilon))
    fast = kernel.compile(module.expert())
    ours = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    results = [lambda: np.stack(fast(*args), 1)]

    def torch_norm() -> Any:
        import torch
        from torch.nn import functional

        x, residual, *weights = (torch.from_numpy(a) for a in arrays)
        total, call = torch.from_numpy(ours[0]), getattr(functional, name)

        def run() -> Any:
            return call(torch.add(x, residual, out=total), (n,), *weights, eps=float(epsilon))

        results.append(lambda: np.stack([total.numpy(), run().numpy()], 1))
        return run

    def exact() -> np.ndarray:
        return np.stack(module.independent(*args), 1)

    peers = (peer("PyTorch", "torch", torch_norm, 1.3),)
    return Case(
        lambda: fast(*args, out=ours),
        peers,
        close(results, exact, 1e-6),
        Work(reads=2 * m * n * 4, writes=2 * m * n * 4),
    )


# Calls ----------------------------------------------------------------------------------------------------------


@tw.kernel
def _add(a: tw.f32[N], b: tw.f32[N]):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = a[i] + b[i]
    return out[:N]


def call_cost(n: int = 16) -> Case:
    fast = _add.compile()
    a, b, c, d = (normal(n) for _ in range(4))
    return Case(
        lambda: fast(a, b, out=c), (Peer("np.add(a, b, out=c)", lambda: np.add(a, b, out=d), 1.0),),
        judged(_add, [lambda: fast(a, b), lambda: a + b], slice(None), a, b),
    )  # fmt: skip


ENTRIES = (
    entry("elementwise", "f32, a chain of 5 operations over 16 million, `expert` of examples/elementwise.py", elementwise),
    entry("softmax", "f32 4096 x 1024, schedule `expert` of examples/softmax.py", softmax),
    entry("layer-norm", "with a residual, f32 4096 x 1024, `expert` of examples/layer_norm.py", partial(norm, "layer_norm")),
    entry("rms-norm", "with a residual, f32 4096 x 1024, `expert` of examples/rms_norm.py", partial(norm, "rms_norm")),
    entry("call", "a call on 16 elements with out=", call_cost),
)  # fmt: skip
