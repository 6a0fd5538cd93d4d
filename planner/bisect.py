"""The first directive after which values are wrong, and the smallest case that shows it: sizes, directives and Funcs that
take no part in it are left out for as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.codegen.judge import Judge, Verdict, default_sizes, takes
from tilewright.lang import ir
from tilewright.lang.errors import TilewrightError
from tilewright.lang.func import Func, InoutFunc, OutputSlice
from tilewright.lang.pipeline import Pipeline, make_pipeline
from tilewright.lang.text import print_kernel
from tilewright.lang.text.blocks import format_tw
from tilewright.planner.cut import cut
from tilewright.planner.double import in_double
from tilewright.planner.plan import Plan
from tilewright.planner.samples import likely_inputs
from tilewright.planner.validate import fault_at, passes_of, prefix, validate
from tilewright.schedule.directive import Directive
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.text import format_directive, print_directives

_TRIES = 60  # cases that are tried on the way to a smaller one


@dataclass(frozen=True, slots=True)
class Bisection:
    """What breaks the values. `step` and `stage` (the pass of planning) are "" where a schedule by hand was looked at;
    `number` is the first wrong directive of the schedule and `directive` its text (0 and "": no directive is to blame).

    `pipeline` with `schedule` (None: the plan as a whole) at `sizes` is the smallest case found, and `problem` what is
    wrong there.
    """

    step: str
    stage: str
    number: int
    directive: str
    problem: str
    sizes: Mapping[str, int]
    pipeline: Pipeline
    schedule: Schedule | None

    @property
    def text(self) -> str:
        """The smallest case as a `.tw` file: `tilewright verify FILE --size ...` shows it again."""
        blocks = [print_kernel(self.pipeline)]
        if self.schedule is not None:
            blocks.append(print_directives(self.pipeline.name, self.schedule.directives, self.pipeline.digest, None))
        return format_tw(blocks)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "step": self.step, "pass": self.stage, "number": self.number, "directive": self.directive,
            "problem": self.problem, "sizes": dict(self.sizes), "case": self.text,
        }  # fmt: skip

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        where = f"step {self.step}, pass {self.stage}" if self.step else "the schedule"
        what = f"directive {self.number}: {self.directive}" if self.number else "no directive is to blame"
        size = f"{len(self.pipeline.funcs)} Funcs"
        if self.schedule is not None:
            size += f" and {len(self.schedule)} directives"
        return f"{where}, {what}\n  the smallest case: {size}" + (f", at {at}" if at else "") + f"\n  {self.problem}"


def bisect_plan(
    plan: Plan, sizes: Mapping[str, int] | None = None, *, scalars: Mapping[str, Any] | None = None, seed: int = 0,
    mode: str = "contract", reduce: bool = True,
) -> Bisection | None:  # fmt: skip
    """What first breaks the values of a plan, or None where `validate` finds nothing. Without `reduce` the case is left
    as large as it was found."""
    found = validate(plan, sizes, scalars=scalars, seed=seed, mode=mode)
    if not found.faults:
        return None
    fault = found.faults[0]
    if not fault.number:
        smallest, last = dict(fault.sizes), fault
        if reduce:
            smallest, last = _smallest(smallest, lambda at: fault_at(plan, at, dict(scalars or {}), seed, mode), fault)
        return Bisection(fault.step, fault.stage, 0, "", last.problem, smallest, plan.pipeline, None)
    step = next(s for s in plan.steps if s.name == fault.step)
    own = {n: fault.sizes[n] for n in step.part.pipeline.sizes}
    made = bisect_schedule(step.schedule, own, seed=seed, mode=mode, reduce=reduce)
    if made is None:  # it takes the data that reach the part in the whole
        p = step.part.pipeline
        return Bisection(fault.step, fault.stage, fault.number, fault.directive, fault.problem, own, p,
                         prefix(step.schedule, fault.number))  # fmt: skip
    stage = next((name for name, end in passes_of(step) if made.number <= end), fault.stage)
    return replace(made, step=step.name, stage=stage)


def bisect_schedule(
    schedule: Schedule, sizes: Mapping[str, int] | None = None, *, scalars: Mapping[str, Any] | None = None,
    seed: int = 0, mode: str = "contract", reduce: bool = True,
) -> Bisection | None:  # fmt: skip
    """The first directive of a schedule after which values are wrong, or None where the whole of it is right.

    Found by halving; before it values agree, or there is nothing to say about them.
    """
    given = dict(scalars or {})
    at = dict(sizes) if sizes is not None else default_sizes(schedule.pipeline, given)
    for p in (schedule.pipeline, in_double(schedule.pipeline)):
        trial = None if p is None else _Trial(p, tuple(schedule.directives), at, given, seed, mode)
        if trial is not None and trial.verdict().problem is not None:
            number = _first(trial)
            d = schedule.directives[number - 1] if number else None
            text = "" if d is None else (f"{d.stage}: " if d.stage else "") + format_directive(d)
            trial = replace(trial, directives=trial.directives[:number])
            small = _reduced(trial) if reduce else trial
            problem = small.verdict().problem
            assert problem is not None
            return Bisection("", "", number, text, problem, small.sizes, small.p, small.schedule())
    return None


@dataclass(frozen=True)
class _Trial:
    """A case: directives on a pipeline, at sizes."""

    p: Pipeline
    directives: tuple[Directive, ...]
    sizes: Mapping[str, int]
    given: Mapping[str, Any]
    seed: int
    mode: str

    def schedule(self) -> Schedule:
        made = Schedule(self.p)
        for d in self.directives:
            made.apply(d)
        return made

    def verdict(self) -> Verdict:
        """What comes out of it; a case that can't be had is unjudged."""
        given = {k: v for k, v in self.given.items() if any(q.name == k for q in self.p.params)}
        try:
            if not takes(self.p, self.sizes, given):
                return Verdict(unjudged="the sizes contradict each other")
            data = likely_inputs(self.p, self.sizes, self.seed, given)
            fixed = {q.name: data[q.name] for q in self.p.params if q.dtype.is_int and not q.dtype.is_bool}
            judge = Judge(self.p, self.sizes, fixed | given, self.mode, self.seed, data)
            return judge.verdict(self.schedule())
        except TilewrightError as e:
            return Verdict(unjudged=e.message)

    @property
    def fails(self) -> bool:
        return self.verdict().problem is not None


def _first(trial: _Trial) -> int:
    """The number of directives after which values are wrong, those of one fewer not being so."""
    good, bad = -1, len(trial.directives)
    while bad - good > 1:
        middle = (good + bad) // 2
        if replace(trial, directives=trial.directives[:middle]).fails:
            bad = middle
        else:
            good = middle
    return bad


def _reduced(trial: _Trial) -> _Trial:
    """The smallest failing case that leaving things out one by one leads to."""
    sizes, _ = _smallest(trial.sizes, lambda at: replace(trial, sizes=at).verdict().problem, "")
    trial = replace(trial, sizes=sizes)
    left, changed = _TRIES, True
    while changed and left > 0:
        changed = False
        for smaller in (*_fewer_funcs(trial), *_fewer_directives(trial)):
            left -= 1
            if left > 0 and smaller.fails:
                trial, changed = smaller, True
                break
    sizes, _ = _smallest(trial.sizes, lambda at: replace(trial, sizes=at).verdict().problem, "")
    return replace(trial, sizes=sizes)


def _fewer_directives(trial: _Trial) -> Iterator[_Trial]:
    """Without one directive; never without the last, which is to blame."""
    ds = trial.directives
    for k in reversed(range(len(ds) - 1)):
        yield replace(trial, directives=ds[:k] + ds[k + 1 :])


def _fewer_funcs(trial: _Trial) -> Iterator[_Trial]:
    """With one result alone, and with a Func as an input instead."""
    p = trial.p
    if len({o.func for o in p.outputs}) > 1:
        for o in p.outputs:
            if o.component == 0:
                made = make_pipeline(OutputSlice(o.func, o.starts, o.stops), p.params, p.name, p.location)
                yield from _on(trial, made, {})
    results = [f for f in p.funcs if any(o.func is f for o in p.outputs)]
    for f in p.funcs:
        if f not in results and not isinstance(f, InoutFunc):
            try:
                part = cut(p, _needed(p, results, f), results)
            except TilewrightError:
                continue
            yield from _on(trial, part.pipeline, {whole: own for own, whole in part.names.items()})


def _needed(p: Pipeline, results: list[Func], without: Func) -> list[Func]:
    """What the results need if one Func is given."""
    found, todo = set(results), list(results)
    todo += [f for f in p.inouts if f.updates]
    found.update(todo)
    while todo:
        for d in todo.pop().definitions:
            for n in ir.leaves(d.roots, "load"):
                g = n.attr[0]
                if isinstance(g, Func) and g is not without and g not in found and g in p.funcs:
                    found.add(g)
                    todo.append(g)
    return [f for f in p.funcs if f in found]


def _on(trial: _Trial, p: Pipeline, names: Mapping[str, str]) -> Iterator[_Trial]:
    """A case on another pipeline, with the directives that it can still have; none without the one that is to blame."""
    sizes = {n: trial.sizes[n] for n in p.sizes if n in trial.sizes}
    s = Schedule(p)
    for k, d in enumerate(trial.directives):
        try:
            s.apply(_renamed(d, names))
        except TilewrightError:
            if k == len(trial.directives) - 1:
                return
    yield replace(trial, p=p, directives=s.directives, sizes=sizes)


def _renamed(d: Directive, names: Mapping[str, str]) -> Directive:
    """A directive with Funcs and arrays called otherwise; names that aren't known stay."""

    def one(address: str) -> str:
        head, dot, rest = address.partition(".")
        return names.get(head, head) + dot + rest

    options = tuple((k, one(v) if k == "at" and isinstance(v, str) else v) for k, v in d.options)
    operands = d.operands if d.stage else tuple(map(one, d.operands))
    return replace(d, stage=one(d.stage) if d.stage else "", operands=operands, options=options)


def _smallest(
    sizes: Mapping[str, int], problem: Callable[[Mapping[str, int]], Any], first: Any
) -> tuple[dict[str, int], Any]:
    """The smallest sizes at which there still is a problem, one size after the other; and the last problem."""
    at, last = dict(sizes), first
    for name in at:
        for v in _below(at[name]):
            found = problem({**at, name: v})
            if found is not None:
                at[name], last = v, found
                break
        while at[name] > 1 and (found := problem({**at, name: at[name] - 1})) is not None:
            at[name], last = at[name] - 1, found
    return at, last


def _below(n: int) -> list[int]:
    """Sizes to try, small ones first; after those just past powers of two, where tiles end."""
    near = [1, 2, 3, 4, 5, 7]
    far = [k + 1 for k in (8, 16, 32, 64, 128, 256, 512, 1024)] + [n // 2, n - n // 4]
    return sorted({v for v in (*near, *far) if 0 < v < n})


__all__ = ["Bisection", "bisect_plan", "bisect_schedule"]
