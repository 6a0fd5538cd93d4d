"""Whether a schedule, whole or a part of it, computes what the reference does: on exact data, on random data within
derived bounds, and by the bits of the unscheduled nest where no order of a sum is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.codegen.compile import Compiled
from tilewright.lang import exactness, judging, samples
from tilewright.lang.binding import bind
from tilewright.lang.errorbound import ErrorBound
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import run as run_reference
from tilewright.schedule.check import check
from tilewright.schedule.promises import relaxed
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State

# Sizes where none are given: primes, so that tiles have tails; smaller ones for kernels with many sizes. The larger
# ones come first, as extents come before the widths of what slides over them.
_DEFAULT_SIZES = ((83, 71, 67), (31, 29, 23, 19), (13, 11, 7, 5, 3))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out of a schedule. `problem` says how the values differ (None: they agree); `unjudged` why there is
    nothing to say about them (`ran`: whether it ran at all); `ignored` are promises that a part of a schedule can't keep.
    """

    problem: str | None = None
    unjudged: str | None = None
    ignored: tuple[str, ...] = ()
    ran: bool = True


def default_sizes(p: Pipeline, scalars: Mapping[str, Any]) -> dict[str, int]:
    """Small odd sizes that the kernel can take; the first try where none of ours are."""
    values = next((v for v in _DEFAULT_SIZES if len(p.sizes) <= len(v)), _DEFAULT_SIZES[-1])
    tries = [
        {name: order[k % len(order)] for k, name in enumerate(p.sizes)}
        for order in (values, values[len(p.sizes) - 1 :: -1], (values[0],))
    ]
    return next((sizes for sizes in tries if takes(p, sizes, scalars)), tries[0])


def takes(p: Pipeline, sizes: Mapping[str, int], scalars: Mapping[str, Any]) -> bool:
    """Whether a pipeline can be called at these sizes."""
    try:
        bind(p, (), samples.random_inputs(p, sizes) | dict(scalars), sizes)
    except TilewrightError:
        return False
    return True


def prefixes(full: Schedule) -> Iterator[tuple[int, Schedule]]:
    """(n, the schedule of the first n directives), from none to all."""
    s = Schedule(full.pipeline, None)
    yield 0, s
    for n, d in enumerate(full.directives, 1):
        s.apply(d)
        yield n, s


class Judge:
    """The data at some sizes, what must come out of it, and the comparison.

    `given` fixes arguments of all data, `random` those of the random data besides. `compared` says what values are
    compared with, `limits` what can't be.
    """

    def __init__(
        self, p: Pipeline, sizes: Mapping[str, int], given: Mapping[str, Any], mode: str, seed: int,
        random: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        self.p, self.sizes, self.given, self.mode = p, sizes, given, mode
        self.compared: list[str] = []
        self.limits: list[str] = []
        self.exact: dict[str, Any] | None = None
        self.exact_result: Any = None
        self.bounds: list[ErrorBound] | None = None
        self.ordered: Any = None  # bits of the algorithm's own order on random data
        self._take_exact(seed)
        self._take_random(samples.random_inputs(p, sizes, seed) | dict(given) if random is None else dict(random))

    def _take_exact(self, seed: int) -> None:
        try:
            self.exact = exactness.exact_inputs(self.p, self.sizes, seed, self.given, fused=self.mode != "strict")
        except exactness.NotExactError as e:
            self.limits.append(f"exact data ({e.message})")
            return
        self.exact_result = self._reference(self.exact)
        self.compared.append("all bits on exact data, with the reference")

    def _take_random(self, data: dict[str, Any]) -> None:
        self.random = data
        reference = self._reference(self.random)
        results = [a for _, a in judging.leaves(reference[0])] + list(reference[1].values())
        self.empty = not any(np.size(a) for a in results)
        if self.mode == "fast":
            self.limits.append("random data by error bounds (mode fast promises none)")
        elif self.mode == "contract" and self.p.outputs:
            try:
                bound = bind(self.p, (), _copied(self.random), self.sizes)
                self.bounds = judging.require_within_bound(self.p, bound, reference[0])
                self.compared.append("random data, with the reference, by derived error bounds")
            except judging.ProvesNothingError as e:
                self.limits.append(f"random data by error bounds ({e.message})")
        self.strict = self.mode == "strict" or (self.exact is None and self.bounds is None)
        if self.strict:
            self.ordered = reference
        other = "with the reference, in mode strict," if self.strict else "with the unscheduled nest,"
        self.compared.append(f"all bits on random data, {other} where no order of a sum is changed")

    def _reference(self, data: Mapping[str, Any]) -> Any:
        args = _copied(data)
        value = run_reference(self.p, bind(self.p, (), args, self.sizes))
        return value, _written(self.p, args)

    def verdict(self, prefix: Schedule) -> Verdict:
        """Compile and run a schedule, or the first directives of one, on all data."""
        ignored: tuple[str, ...] = ()
        try:
            state, ignored = relaxed(prefix.state)
            check(state)
            unjudged = self._compare(state, f"{prefix.hash} {ignored}")
        except judging.MismatchError as e:
            return Verdict(problem=e.message, ignored=ignored)
        except TilewrightError as e:
            return Verdict(unjudged=f"it does not run: {e.message}", ran=False)
        return Verdict(unjudged=unjudged, ignored=ignored)

    def _compare(self, state: State, identity: str) -> str | None:
        """Raise MismatchError for values that differ; why there is nothing to compare them with, or None."""
        in_order = not state.reassociations
        if self.empty:
            return "no result has any element at these sizes"
        if self.exact is None and self.bounds is None and not in_order:
            return "it changes the order of a sum, and neither exact data nor error bounds say anything"
        kernel = Compiled(self.p, identity, lambda: state, "strict" if self.strict and in_order else self.mode)
        if self.exact is not None:
            judging.require_bitwise(self._run(kernel, self.exact), self.exact_result, zeros=True)
        result = self._run(kernel, self.random)
        if self.bounds is not None:
            judging.require_near(self.p, self.bounds, result[0])
        if in_order:
            if self.ordered is None:
                self.ordered = result
            judging.require_bitwise(result, self.ordered)
        return None

    def _run(self, kernel: Any, data: Mapping[str, Any]) -> Any:
        args = _copied(data)
        return kernel(**args, sizes=self.sizes), _written(self.p, args)


def _copied(data: Mapping[str, Any]) -> dict[str, Any]:
    """Fresh arrays: kernels write into their `inout` ones."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in data.items()}


def _written(p: Pipeline, args: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: args[f.name] for f in p.inouts}


__all__ = ["Judge", "Verdict", "default_sizes", "prefixes", "takes"]
