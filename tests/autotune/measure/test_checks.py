"""Wrong candidates are found, whatever is wrong with them, and right ones pass at every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.autotune.measure.arrays import guarded, guarded_copy, same_bits
from tilewright.autotune.measure.bench import Bench, Refused
from tilewright.autotune.measure.checks import Checks, small_sizes, trial
from tilewright.autotune.measure.task import Task
from tilewright.lang.judging import MismatchError
from tilewright.lang.types import DTYPES

M, N, K = tw.sizes("M N K")
SILENT = lambda *a, **k: None  # noqa: E731


@tw.kernel
def product(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def scores(A: tw.f32[M, N], scale: tw.f32):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    e, out = tw.func("e"), tw.func("out")
    e[i, j] = tw.exp((A[i, j] - tw.max(A[i, k], over=k, name="top")) * scale)
    out[i, j] = e[i, j] / tw.sum(e[i, k], over=k, name="total")
    return out[:M, :N]


@tw.kernel
def counts(A: tw.u8[M], H: tw.inout(tw.i32[256])):
    x = tw.vars("x")
    r = tw.rdom(r=M)
    above = tw.func("above")
    H[tw.cast(tw.i64, A[r])] += 1
    above[x] = A[x] > 100
    return above[:M]


def default(task: Task) -> tuple[Bench, Any]:
    bench = Bench.of(task)
    kernel = bench.default
    assert kernel is not None
    return bench, kernel


def broken(kernel: Any, harm: Callable[..., None]) -> Any:
    def run(*, out: Any, **kwargs: Any) -> Any:
        found = kernel(out=out, **kwargs)
        harm(out, **kwargs)
        return found

    return run


def every(checks: Checks, bench: Bench, kernel: Any) -> None:
    for case in (*checks.small, *bench.cases):
        trial(case, kernel, 1)


TASKS = [
    Task.of(product, {"M": 70, "N": 45, "K": 200}),
    Task.of(product, {"M": 70, "N": 45, "K": 200}, mode="strict"),
    Task.of(product, {"M": 70, "N": 45, "K": 200}, mode="fast"),
    Task.of(scores, {"M": 60, "N": 90}),
    Task.of(scores, {"M": 60, "N": 90}, scalars={"scale": 0.25}),
    Task.of(counts, {"M": 5000}),
]
NAMES = ["product", "strict", "fast", "scores", "scaled", "counts"]


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_the_right_one_passes_and_wrong_ones_do_not(task: Task) -> None:
    bench, kernel = default(task)
    assert len(bench.checks.small) >= 3
    every(bench.checks, bench, kernel)
    assert not bench.checks.skipped

    def last(out: Any, **_: Any) -> None:
        out.flat[-1] = ~out.flat[-1] if out.dtype.kind == "b" else out.flat[-1] * 1.001 + 0.01

    def unwritten(out: Any, **_: Any) -> None:
        out.view(np.uint8)[...] = 0xFF

    for harm in (last, unwritten):
        with pytest.raises(MismatchError, match=r"\(at M="):
            every(bench.checks, bench, broken(kernel, harm))


def test_what_is_written_elsewhere_is_found() -> None:
    bench, kernel = default(TASKS[0])

    def beyond(out: Any, **_: Any) -> None:
        np.lib.stride_tricks.as_strided(out, (out.size + 1,), (out.itemsize,))[-1] = 0

    def given(out: Any, A: Any, **_: Any) -> None:
        A[0, 0] += 1

    with pytest.raises(MismatchError, match="beyond the bounds of C"):
        every(bench.checks, bench, broken(kernel, beyond))
    with pytest.raises(MismatchError, match="writes to its input A"):
        every(bench.checks, bench, broken(kernel, given))


def test_in_place_buffers_are_judged_and_restored() -> None:
    bench, kernel = default(TASKS[-1])

    def more(out: Any, H: Any, **_: Any) -> None:
        H[7] += 1

    with pytest.raises(MismatchError, match="H"):
        every(bench.checks, bench, broken(kernel, more))
    before = bench.checks.arguments["H"].copy()
    found = bench.time(kernel, None, SILENT, bench_policy())
    assert found.best > 0
    assert same_bits(bench.checks.arguments["H"], before)


def bench_policy() -> Any:
    from tilewright.autotune.measure.timing import Policy

    return Policy(least=1e-4)


def test_where_the_reference_takes_too_long_the_default_schedule_says_what_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.autotune.measure.bench._REFERENCE", 0.0)
    for task in (TASKS[0], TASKS[3]):
        bench, kernel = default(task)
        every(bench.checks, bench, kernel)
        for small in (0.9, 0.0):  # a block that lacks something, and one that is left out

            def block(out: Any, by: float = small, **_: Any) -> None:
                out[:8, :8] *= np.float32(by)

            with pytest.raises(MismatchError, match="not what they should be"):
                trial(bench.cases[0], broken(kernel, block), 1)

        def slightly(out: Any, **_: Any) -> None:
            out *= np.float32(1 + 2**-22)

        trial(bench.cases[0], broken(kernel, slightly), 1)


def test_a_default_schedule_that_fails_is_no_fault_of_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.of(TASKS[0])
    kernel = bench.compiled(str(product.schedule()))
    bench.trusted = False
    monkeypatch.setattr("tilewright.autotune.measure.bench._REFERENCE", 0.0)
    bench.check(kernel, SILENT)
    assert bench.default is None
    assert bench.cases  # the reference alone
    monkeypatch.setattr("tilewright.autotune.measure.bench._PATIENCE", 0.0)
    bench = Bench.of(TASKS[0])
    bench.trusted = False
    bench.check(kernel, SILENT)
    assert bench.cases == []
    assert bench.checks.skipped == ["values at M=70, N=45, K=200: the default schedule can't be run"]


def test_errors_say_what_they_mean_for_a_candidate() -> None:
    bench = Bench.of(TASKS[0])
    for text, status in (
        ("no schedule", "illegal"),
        ("schedule other\n", "illegal"),
        ("schedule product\n  C.update:\n    vectorize x by 8", "illegal"),
        (str(product.schedule().layout("A", "i k -> k i", given=True)), "illegal"),
    ):
        with pytest.raises(Refused) as e:
            bench.compiled(text)
        assert e.value.status == status, text
        assert e.value.message


def test_shapes_of_a_bucket_are_checked_too() -> None:
    bench, kernel = default(Task.of(product, {"M": 70, "N": 45, "K": 20}, shapes=({"M": 33, "N": 45, "K": 20},)))

    def harm(out: Any, **_: Any) -> None:
        if len(out) == 33:
            out[:] = 0

    with pytest.raises(MismatchError, match="M=33, N=45, K=20"):
        every(bench.checks, bench, broken(kernel, harm))


def test_small_sizes_are_no_larger_than_the_task() -> None:
    for task in TASKS:
        p = Bench.of(task).p
        found = small_sizes(p, task)
        assert len(found) >= 3
        assert all(0 < s[n] <= v for s in found for n, v in task.sizes.items())
    assert small_sizes(Bench.of(TASKS[0]).p, Task.of(product, {"M": 1, "N": 1, "K": 1})) == [{"M": 1, "N": 1, "K": 1}]
    empty = Task.of(product, {"M": 0, "N": 5, "K": 5})
    bench, kernel = default(empty)
    every(bench.checks, bench, kernel)


def test_given_arrays_are_what_is_timed(tmp_path: Any) -> None:
    a = np.full((6, 7), 0.3, np.float32)
    np.savez(tmp_path / "in.npz", A=a)
    bench, kernel = default(Task.of(product, {"M": 6, "N": 5, "K": 7}, inputs=str(tmp_path / "in.npz")))
    assert same_bits(bench.arena.inputs["A"], a)
    every(bench.checks, bench, kernel)


@tw.kernel
def halved(A: tw.bf16[M]):
    i = tw.vars("i")
    B = tw.func("B")
    B[i] = tw.cast(tw.f32, A[i]) * 0.5
    return B[:M]


def test_given_arrays_of_bf16(tmp_path: Any) -> None:
    a = np.array([1, 2, 3], ml_dtypes.bfloat16)
    np.savez(tmp_path / "in.npz", A=a)
    bench, kernel = default(Task.of(halved, {"M": 3}, inputs=str(tmp_path / "in.npz")))
    every(bench.checks, bench, kernel)
    assert bench.arena.outputs[0].array.tolist() == [0.5, 1.0, 1.5]


@pytest.mark.parametrize("shape", [(3, 5), (), (1,), (0, 4)])
@pytest.mark.parametrize("dtype", [t.np for t in DTYPES.values()])
def test_poison_is_no_result(dtype: Any, shape: tuple[int, ...]) -> None:
    made = guarded(shape, np.dtype(dtype))
    assert made.array.shape == shape
    assert made.array.flags.c_contiguous
    expected = np.zeros(shape, dtype)
    made.poison()
    assert made.array.size == 0 or not same_bits(made.array, expected)
    made.poison(expected)
    assert not (made.array == expected).any()
    assert made.intact()
    made.block[-1] ^= 1
    assert not made.intact()
    assert same_bits(guarded_copy(expected).array, expected)
    assert made.array.size == 0 or not same_bits(made.array, expected)


@pytest.mark.parametrize("kind", ["i8", "u16", "i32", "i64", "bf16", "f64"])
def test_a_result_of_no_axes_is_judged_like_others(kind: str) -> None:
    def total(x):
        k, s = tw.rdom(k=N), tw.func("s", DTYPES[kind])
        s[()] = tw.cast(DTYPES[kind], 0)
        s[()] += x[k]
        return s[()]

    total.__annotations__ = {"x": DTYPES[kind][N]}
    bench, kernel = default(Task.of(tw.kernel(total), {"N": 40}))
    every(bench.checks, bench, kernel)
    assert not bench.checks.skipped
    with pytest.raises(MismatchError):
        every(bench.checks, bench, broken(kernel, lambda out, **_: out.fill(77)))


def test_bits_are_compared_to_the_last_byte() -> None:
    for size in (0, 1, 7, 8, 9, 31):
        a = np.arange(size, dtype=np.uint8)
        for k in range(size):
            b = a.copy()
            b[k] ^= 1
            assert not same_bits(a, b)
        assert same_bits(a, a.copy())
