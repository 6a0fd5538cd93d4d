"""`tw.plan`: a pipeline of many Funcs comes in, a plan of how to run it on a machine comes out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright import pipelines
from tilewright.kernels import Kernel, check_mode
from tilewright.lang.binding import bind_scalars
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.planner.errors import PlanError
from tilewright.planner.goal import Goal, Objective, Phase
from tilewright.planner.host import HOST, host_identity, host_machine
from tilewright.planner.plan import Plan
from tilewright.planner.store import planned
from tilewright.planner.weights import check_weights

if TYPE_CHECKING:
    from tilewright.hw import Machine


def plan(
    target: Kernel | Pipeline,
    machine: Machine | str = HOST,
    *,
    objective: Objective = "latency",
    phase: Phase | None = None,
    budget_s: float = 10.0,
    sizes: Mapping[str, int | tuple[int, int]] | None = None,
    seed: int = 0,
    tokens: str | None = None,
    weights: Iterable[str] = (),
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Plan:
    """Plan how a kernel (or a pipeline of one) runs on a machine: what is computed together, in which tiles, in which
    order, and where what passes between steps lies.

    `machine` is a Machine, a preset, a machine file, or "host": this computer, with known rates of its kind. `objective`
    is latency (cycles), traffic (bytes from and to main memory) or memory (the most that lives at once). `sizes` has every
    size as a number or as a range `(low, high)`: for ranges plans are made at their ends and in the middle, and the one is
    taken that is best over all of them. Values are right at other sizes, too. `budget_s` bounds the search; the plan says
    what stopped early. `tokens` names the size that counts tokens, for figures by token; `scalars` has values of those
    that indices go by.

    `weights` names inputs that stay the same from call to call: the plan may want them in other layouts, and
    `plan.compile().with_weights({...})` packs them once. Of a parameter that is a dict or a list its name means all of it.

    Raises ArgumentError for what is no kernel and for wrong sizes, PlanError for an unknown objective, phase or budget,
    ranges that are none, and what no plan can be made for, and MachineError for an unknown machine.
    """
    start = time.perf_counter()
    goal = Goal(objective, phase, budget_s, seed=seed)
    for name, value in (("statics", statics), ("dtypes", dtypes), ("scalars", scalars)):
        if value is not None and not isinstance(value, Mapping):
            raise ArgumentError(
                f"plan: {name}= is {value!r:.60}", code="argument.plan", where=user_location(),
                hint=f"give a dict: {name}={{name: value}}",
            )  # fmt: skip
    p, how, keyword_only = _pipeline(target, dtypes, statics or {})
    known, packed = bind_scalars(p, scalars or {}), check_weights(p, weights)
    asked = {
        "goal": goal, "tokens": tokens, "weights": packed, "mode": check_mode(mode or how), "keyword_only": keyword_only,
        "sizes": sorted((sizes or {}).items(), key=repr) if isinstance(sizes or {}, Mapping) else sizes,
        "scalars": sorted((n, v.item()) for n, v in known.items()),
    }  # fmt: skip

    def make() -> Plan:
        from tilewright.planner.ranges import plan_ranges, read_sizes

        on = _machine(machine)
        ranges = read_sizes(p, sizes or {}, scalars or {})
        if tokens is not None and tokens not in p.sizes:
            raise PlanError(
                f"{p.name} has no size {tokens!r} that could count tokens", code="plan.tokens", where=user_location(),
                hint=f"one of its sizes: {', '.join(p.sizes)}" if p.sizes else "it has no sizes: leave it out",
            )  # fmt: skip
        found = plan_ranges(p, on, ranges, scalars or {}, goal, packed)
        return replace(found, tokens=tokens, mode=asked["mode"], keyword_only=keyword_only)

    made = planned(p, _identity(machine), asked, make, lambda: _machine(machine))
    made.seconds["plan"] = time.perf_counter() - start
    return made


def _pipeline(target: Any, dtypes: Any, statics: Mapping[str, Any]) -> tuple[Pipeline, str, tuple[str, ...]]:
    """What is planned, its mode, and the parameters that calls give by name."""
    if isinstance(target, Kernel):
        types = {t.name: t.choices[0] for t in target.interface.type_vars} | dict(dtypes or {})
        return target.pipeline(dtypes=types, **statics), target.mode, target.interface.keyword_only
    if isinstance(target, Pipeline):
        if dtypes or statics:
            raise _no_kernel("a pipeline has its types and static values already", "leave out dtypes and statics")
        return target, "contract", ()
    if isinstance(target, pipelines.Pipeline):
        raise _no_kernel("this pipeline has no outputs yet", "what it gives: p.returns(out)")
    raise _no_kernel(f"{target!r:.60} is no kernel", "a @tw.kernel, or kernel.pipeline()")


def _no_kernel(problem: str, legal: str) -> ArgumentError:
    return ArgumentError(f"plan: {problem}", code="argument.plan", where=user_location(), hint=legal)


def _machine(given: Machine | str) -> Machine:
    from tilewright.hw import Machine, load_machine

    if isinstance(given, str) and given == HOST:
        return host_machine()
    return given if isinstance(given, Machine) else load_machine(given)


def _identity(given: Machine | str) -> Machine | str:
    """What the plans of a machine are kept under: files by what is in them, presets by their name alone."""
    if isinstance(given, str) and given == HOST:
        return host_identity()
    preset = isinstance(given, str) and not given.endswith(".toml") and "/" not in given and "\\" not in given
    return given if preset else _machine(given)


__all__ = ["plan"]
