"""Matrix products against OpenBLAS (by way of NumPy) and TVM, integer ones against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import openblas
from benchmarks.cases import entry
from benchmarks.cases.data import every, example, judged, uniform
from benchmarks.harness import Case, Peer, Work, peer

SIZES = (64, 128, 256, 512, 1024, 1031, 2048)
SWEEP = (*range(1, 21), 31, 32, 33, 48, 63, 64, 65, 66, 67, 96, 100, 127, 128, 129, 200, 255, 256, 257, 300, 384, 500,
         511, 512, 513, 768, 1000, 1024, 1031)  # fmt: skip
LARGE = 256  # sizes with other kernels of OpenBLAS beside: what a call costs from Python counts for nothing
SCHEDULED = (512, 1024)  # sizes with a schedule in TVM beside
SHAPES = ((1, 4096, 4096), (8, 1024, 1024), (100_000, 8, 8), (4096, 64, 64), (64, 64, 4096))  # M, N, K
ORDERS = ("nt", "tn", "tt")  # which operands stand transposed


def _product(name: str, a: np.ndarray, b: np.ndarray, target: float | None) -> Case:
    """`expert` of an example beside NumPy."""
    module = example(name)
    kernel = getattr(module, name)
    fast = kernel.compile(module.expert())
    (m, k), n, dtype = a.shape, b.shape[1], a.dtype
    c, d = np.empty((m, n), dtype), np.empty((m, n), dtype)
    rows = every(m)
    results: list[Callable[[], np.ndarray]] = [lambda: fast(a, b), lambda: a @ b]
    peers = [Peer("NumPy (OpenBLAS)", lambda: np.matmul(a, b, out=d), target)]
    if m == n == k and n >= LARGE:
        peers.append(_other_kernels(a, b, results))
    if m == n == k and n in SCHEDULED and dtype == np.float32:
        peers.append(peer("TVM, by hand", "tvm", partial(_tvm, a, b, results)))
    return Case(
        lambda: fast(a, b, out=c), tuple(peers), judged(kernel, results, rows, a[rows], b),
        Work(2.0 * m * n * k, f"f{dtype.itemsize * 8}", a.nbytes + b.nbytes, c.nbytes),
    )  # fmt: skip


def _other_kernels(a: np.ndarray, b: np.ndarray, results: list[Callable[[], np.ndarray]]) -> Peer:
    run = openblas.product(a, b, np.empty((a.shape[0], b.shape[1]), a.dtype))
    name = "OpenBLAS, AVX2 kernels"
    if run is None:
        return Peer(name, None, None, "there is no such library here")
    results.append(run)
    return Peer(name, run)


def _tvm(a: np.ndarray, b: np.ndarray, results: list[Callable[[], np.ndarray]]) -> Callable[[], Any]:
    from benchmarks.tvm_matmul import product

    run, found = product(a, b)

    def result() -> np.ndarray:
        run()
        return found()

    results.append(result)
    return run


def square(name: str, n: int, target: float | None) -> Case:
    dtype = np.float64 if name.endswith("f64") else np.float32
    return _product(name, uniform(n, n).astype(dtype), uniform(n, n)[::-1].astype(dtype), target)


def swept(n: int) -> Case:
    """A square product beside OpenBLAS alone."""
    case = square("matmul", n, None)
    return replace(case, peers=case.peers[:1])


def shaped(m: int, n: int, k: int) -> Case:
    return _product("gemm", uniform(m, k), uniform(k, n), None)


def transposed(order: str, n: int = 1024) -> Case:
    operands = uniform(n, n), uniform(n, n)[::-1].copy()
    a, b = (x.T if o == "t" else x for x, o in zip(operands, order, strict=True))
    return _product("gemm", a, b, None)


def unscheduled(n: int) -> Case:
    """The default schedule beside the expert one, and beside NumPy."""
    module = example("matmul")
    plain, fast = module.matmul.compile(), module.matmul.compile(module.expert())
    a, b = uniform(n, n), uniform(n, n)[::-1].copy()
    c, d, e = (np.empty((n, n), np.float32) for _ in range(3))
    rows = every(n)
    return Case(
        lambda: plain(a, b, out=c),
        (
            Peer("ours, expert", lambda: fast(a, b, out=d), 0.7),
            Peer("NumPy (OpenBLAS)", lambda: np.matmul(a, b, out=e)),
        ),
        judged(module.matmul, [lambda: plain(a, b), lambda: fast(a, b), lambda: a @ b], rows, a[rows], b),
        Work(2.0 * n**3),
    )  # fmt: skip


# 8-bit integers -------------------------------------------------------------------------------------------------


def int8(n: int) -> Case:
    """Sums in 32 bits narrowed to 8. PyTorch's `_int_mm` leaves the sums as they are, its quantised linear layer has a
    bias and narrows, from u8 and i8; the f32 product of the same size stands beside."""
    module, f32 = example("int8_matmul"), example("matmul")
    args = module.inputs(n, n, n)
    fast, plain = module.int8_matmul.compile(module.expert()), f32.matmul.compile(f32.expert())
    x, y = uniform(n, n), uniform(n, n)[::-1].copy()
    ours, z = np.empty((n, n), np.int8), np.empty((n, n), np.float32)
    checks: list[Callable[[], Any]] = [lambda: np.testing.assert_array_equal(fast(*args), module.independent(*args))]
    peers = (
        peer("PyTorch, _int_mm", "torch", partial(_int_mm, args, checks), 1.0),
        peer("PyTorch, quantised linear", "torch", partial(_quantised, args, checks, module), 1.0),
        Peer("ours, f32", lambda: plain(x, y, out=z), 1.0),
    )
    return Case(lambda: fast(*args, out=ours), peers, lambda: [check() for check in checks])


def _int_mm(args: tuple, checks: list[Callable[[], Any]]) -> Callable[[], Any]:
    import torch

    a, b = (torch.from_numpy(x) for x in args[:2])
    sums = torch.empty(a.shape[0], b.shape[1], dtype=torch.int32)

    def check() -> None:
        right = np.int64(args[0]) @ np.int64(args[1])
        np.testing.assert_array_equal(torch._int_mm(a, b).numpy(), right)

    checks.append(check)
    return lambda: torch._int_mm(a, b, out=sums)


def _quantised(args: tuple, checks: list[Callable[[], Any]], module: ModuleType) -> Callable[[], Any]:
    """The same sums: a u8 is an i8 and 128, which is its zero; weights lie in the layer's own order."""
    import torch

    torch.backends.quantized.engine = "onednn" if "onednn" in torch.backends.quantized.supported_engines else "x86"
    a, b, bias, factors = args
    scales, zeros = torch.from_numpy(np.float64(factors)), torch.zeros(len(factors), dtype=torch.int64)
    with warnings.catch_warnings(action="ignore"):  # such tensors are to leave PyTorch one day
        x = torch._make_per_tensor_quantized_tensor(torch.from_numpy(np.uint8(np.int16(a) + 128)), 1.0, 128)
        w = torch._make_per_channel_quantized_tensor(torch.from_numpy(np.ascontiguousarray(b.T)), scales, zeros, 0)
    layer = torch.ops.quantized.linear_prepack(w, torch.from_numpy(np.float32(bias) * factors))

    def run() -> Any:
        return torch.ops.quantized.linear(x, layer, 1.0, 128)

    def check() -> None:
        found = np.int16(run().int_repr().numpy()) - 128
        if np.abs(found - module.independent(*args)).max() > 1:  # the bias is rounded once more
            raise AssertionError("PyTorch's quantised linear layer computes something else")

    checks.append(check)
    return run


ENTRIES = (
    *(
        entry(f"matmul-{n}", f"f32 {n} x {n}, `expert` of examples/matmul.py", partial(square, "matmul", n, 0.9), "matmul")
        for n in SIZES
    ),
    entry("matmul-f64", "f64 1024 x 1024, `expert` of examples/matmul_f64.py", partial(square, "matmul_f64", 1024, 0.95)),
    entry("matmul-int8", "i8 1024 x 1024, `expert` of examples/int8_matmul.py", partial(int8, 1024)),
    *(entry(f"matmul-{o}", f"f32 1024 x 1024, orders {o}, examples/gemm.py", partial(transposed, o)) for o in ORDERS),
    *(
        entry(f"matmul-{m}x{n}x{k}", f"f32, M={m} N={n} K={k}, examples/gemm.py", partial(shaped, m, n, k))
        for m, n, k in SHAPES
    ),
    *(
        entry(f"matmul-unscheduled-{n}", f"f32 {n} x {n}, the default schedule", partial(unscheduled, n))
        for n in (512, 1024)
    ),
    *(
        entry(f"sweep-{n}", "f32 over sizes, `expert` of examples/matmul.py", partial(swept, n), "sweep", size=n)
        for n in SWEEP
    ),
)  # fmt: skip
