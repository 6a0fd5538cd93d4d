"""For tests of kernels and schedules: data for which every schedule must agree, and judgements without tolerances.

args = testing.exact_inputs(matmul, dict(M=64, N=64, K=1000))
testing.assert_bitwise(fast(**args), matmul.reference(**args), zeros=True)

args = testing.random_inputs(matmul, dict(M=64, N=64, K=1000))
testing.assert_within_bound(matmul, fast(**args), **args)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.lang import exactness, judging, samples
from tilewright.lang.binding import bind
from tilewright.lang.errorbound import error_bound
from tilewright.lang.errors import ScheduleError
from tilewright.lang.exactness import NotExactError
from tilewright.lang.judging import MismatchError, ProvesNothingError
from tilewright.lang.pipeline import Pipeline

__all__ = [
    "MismatchError", "NotExactError", "ProvesNothingError", "assert_bitwise", "assert_within_bound", "check_schedules",
    "exact_inputs", "random_inputs",
]  # fmt: skip


def _pipeline(kernel: Any) -> Pipeline:
    return kernel if isinstance(kernel, Pipeline) else kernel.pipeline()


def exact_inputs(
    kernel: Any, sizes: Mapping[str, int], seed: int = 0, given: Mapping[str, Any] | None = None, fused: bool = True
) -> dict[str, Any]:
    """Arguments by name for which a kernel (or pipeline) rounds nowhere that schedules may differ.

    Every schedule must then give the same bits (zeros of either sign are equal), and the reference's, in any mode
    unless `fused` is False. `given` fixes some arguments, a number that a reduction's range depends on, say.
    Raises NotExactError where no data of ours is exact.
    """
    return exactness.exact_inputs(_pipeline(kernel), sizes, seed, given, fused)


def random_inputs(kernel: Any, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Arguments by name: normally distributed floats, small integers, indices up to the largest size."""
    return samples.random_inputs(_pipeline(kernel), sizes, seed)


def assert_bitwise(a: Any, b: Any, zeros: bool = False) -> None:
    """The same structure, types, shapes and bits, or both NaN; with `zeros`, zeros of either sign are equal.

    Raises MismatchError, which is an AssertionError.
    """
    judging.require_bitwise(a, b, zeros)


def assert_within_bound(
    kernel: Any, result: Any, /, *args: Any, sizes: Mapping[str, int] | None = None, **kwargs: Any
) -> None:
    """`result` of a kernel called with these arguments lies within its derived error bound, in any mode but `fast`.

    Raises MismatchError if it does not, and ProvesNothingError if the bound is too weak to tell: more than 1% of the
    elements ambiguous, or a median of bound/|value| above 1e-3. Of a kernel with `inout` parameters pass the
    arguments as they were before the call; its returned slices are judged.
    """
    p = _pipeline(kernel)
    judging.require_within_bound(p, bind(p, args, kwargs, sizes), result)


def check_schedules(
    kernel: Any, schedules: Iterable[Any], args: tuple, independent: Any, statics: Mapping[str, Any] | None = None
) -> None:
    """Run a kernel with its default schedule and with those that functions make, judge each and print a line for it.

    Every result, and that of an `independent` implementation (best in f64, then cast), must lie within the kernel's
    error bound; in mode `strict` a schedule that may run there must give the reference's bits. A kernel whose own mode
    is `strict` is judged by its bits alone. `statics` are the kernel's static values, which the functions that make
    schedules get as well. Raises AssertionErrors.
    """
    statics = dict(statics or {})
    named = {"default": None} | {f.__name__: f(**statics) for f in schedules}
    reference = kernel.reference(*args, **statics)
    strict_only = kernel.mode == "strict"
    p = kernel.pipeline(**statics)
    bounds = [] if strict_only else error_bound(p, bind(p, args, {}))

    def judge(result: Any) -> None:
        if strict_only:
            judging.require_bitwise(result, reference)
        else:
            judging.require_near(p, bounds, result)

    judge(independent)
    for name, schedule in named.items():
        said = "its error bound holds"
        if not strict_only:
            judge(kernel.compile(schedule, **statics if schedule is None else {})(*args))
        try:
            strict = kernel.compile(schedule, mode="strict", **statics if schedule is None else {})
        except ScheduleError as e:
            if strict_only or e.code != "schedule.strict":
                raise
            said += "; it changes the order of a sum"
        else:
            judging.require_bitwise(strict(*args), reference)
            said = "bit for bit" if strict_only else said + "; bit for bit in strict"
        print(f"{kernel.__name__:12} {name:12} {said}")
