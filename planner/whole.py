"""The schedule of a whole pipeline from those of a plan's parts: what a plan says, as an ordinary schedule.

A part has names of its own and takes what passes between steps as inputs. Here names lead back to those of the whole,
what passes between steps is computed at the root, and what several steps compute for themselves is cloned. Points of
Funcs are numbered in a part as in the whole, so that everything else that a directive says stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.lang import ir, simplify
from tilewright.lang.func import Func
from tilewright.lang.ir import Node, integer
from tilewright.lang.tensors import Array, Tensor
from tilewright.planner.cut import Buffer
from tilewright.planner.plan import Plan, Step
from tilewright.schedule.conditions import expanded, format_condition, parse_condition, stride
from tilewright.schedule.directive import Directive, Value
from tilewright.schedule.directives import KINDS
from tilewright.schedule.directives.staging import names_in_use
from tilewright.schedule.layout import parse_index_map
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State, loaded

_COPIES = ("cache_read", "layout", "clone")
_HEAD = re.compile(r"[A-Za-z_]\w*")


def whole_schedule(plan: Plan) -> Schedule:
    """The steps of a plan as one schedule of its pipeline, which compiles to a kernel that computes what the plan does.

    Layouts in which a step is given something are those of the buffers here; an input of the pipeline, which a program
    packs once, is converted in every call.
    """
    s = Schedule(plan.pipeline, next((x.schedule.machine for x in plan.steps), None))
    with s.together():
        _carry_over(plan, s)
    return s


def _carry_over(plan: Plan, s: Schedule) -> None:
    results = {o.func.name for o in plan.pipeline.outputs}
    for name in dict.fromkeys(b.func.name for step in plan.steps for b in step.part.outputs):
        if name not in results:
            s[name].compute_root()
    traces: dict[int, tuple[_Line, ...]] = {}  # of a schedule, which equal steps share
    for step in plan.steps:
        if id(step.schedule) not in traces:
            traces[id(step.schedule)] = tuple(_trace(step.schedule))
    lines = [traces[id(step.schedule)] for step in plan.steps]
    for step, own, clones in zip(plan.steps, lines, _cloned(s, plan.steps, lines), strict=True):
        mapper = _Mapper(s, step, clones)
        for line in own:
            mapper.carry_over(line)


# What several steps compute ---------------------------------------------------------------------------------------


def _owners(steps: Iterable[Step]) -> dict[str, Step]:
    """For every Func that is stored somewhere, the step that computes it for all: the one that leaves it to others, or
    the first. What is inlined wherever it is used is left out."""
    found: dict[str, Step] = {}
    for step in steps:
        left = {b.func.name for b in step.part.outputs}
        for f in step.part.pipeline.funcs:
            name = step.part.names[f.name]
            if step.schedule.state.funcs[f.name].compute.kind != "inline" and (name in left or name not in found):
                found[name] = step
    return found


def _cloned(s: Schedule, steps: Sequence[Step], lines: Sequence[Sequence[_Line]]) -> list[dict[str, str]]:
    """Clone what a step computes that another one owns; for each step the names of its clones by those in its part.

    Readers are cloned before what they read, and all before anything else is said: a clone reads what the original does.
    """
    wanted = _wanted(s, steps, lines)
    found: list[dict[str, str]] = [{} for _ in steps]
    for f in reversed(s.pipeline.funcs):
        for step, own, names in zip(steps, wanted, found, strict=True):
            copied = own.get(f.name)
            if copied is None:
                continue
            readers = [
                (names.get(g.name, step.part.names[g.name]), d.number)
                for g in step.part.pipeline.funcs for d in g.definitions
                if g is not copied and copied in loaded(d)
            ]  # fmt: skip
            names[copied.name] = s.clone(f.name, tuple(map(s.state.address, readers))).func
    return found


def _wanted(s: Schedule, steps: Sequence[Step], lines: Sequence[Sequence[_Line]]) -> list[dict[str, Func]]:
    """For each step, the Funcs of its part that are clones in the whole, by their names there.

    What is inlined is a clone where it reads a clone, or a copy that the step makes; but in the first step if that is so
    in all.
    """
    owners = _owners(steps)
    turned = [_turned(step, own) for step, own in zip(steps, lines, strict=True)]
    parts = [{step.part.names[f.name]: f for f in step.part.pipeline.funcs} for step in steps]
    found: list[dict[str, Func]] = [{} for _ in steps]
    for name in (f.name for f in s.pipeline.funcs):
        having = [k for k, part in enumerate(parts) if name in part]
        if name in owners:
            chosen = [k for k in having if steps[k] is not owners[name]]
        else:
            chosen = [k for k in having if name in turned[k] or _read(parts[k][name]) & set(found[k].values())]
            chosen = chosen[len(chosen) == len(having) :]
        for k in chosen:
            found[k][name] = parts[k][name]
    return found


def _turned(step: Step, lines: Sequence[_Line]) -> set[str]:
    """The Funcs that read a copy in the whole because a step says so."""
    found = {n for x in lines for n in x.turned}
    sources = dict(zip((p.name for p in step.part.pipeline.params), step.part.inputs, strict=True))
    for x in lines:
        given = x.directive.kind == "layout" and x.directive.option("given")
        if given and not isinstance(sources.get(x.directive.operands[0]), Buffer | None):
            found |= {_HEAD.match(a)[0] for a in x.readers}  # type: ignore[index]
    return {step.part.names[n] for n in found if n in step.part.names}


def _read(f: Func) -> set[Tensor]:
    return {t for d in f.definitions for t in loaded(d) if t is not f}


# The directives of a step -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A directive of a part's schedule: the Funcs that it made, and the stages that read its operand before it."""

    directive: Directive
    made: tuple[str, ...]
    readers: tuple[str, ...]
    turned: tuple[str, ...] = ()  # the Funcs of the part that read a copy from now on


def _trace(s: Schedule) -> Iterator[_Line]:
    """The directives of a schedule, carried out once more."""
    again = s.prefix(0)
    arrays: dict[str, Array] = {a.name: a for a in (*s.pipeline.arrays, *s.pipeline.tables)}
    for d in s.directives:
        before = again.state
        tensor = arrays.get(d.operands[0]) if d.kind in ("cache_read", "layout") else None
        readers = () if tensor is None else tuple(before.address(x.key) for x in before.consumers(tensor))
        again.apply(d)
        after = again.state
        turned = tuple(f.name for f in s.pipeline.funcs if d.kind in _COPIES and _changed(before, after, f.name))
        yield _Line(d, _new_funcs(before, after), readers, turned)


def _changed(before: State, after: State, name: str) -> bool:
    return [x.definition for x in before.stages_of(name)] != [x.definition for x in after.stages_of(name)]


def _new_funcs(before: State, after: State) -> tuple[str, ...]:
    return tuple(n for n in after.funcs if n not in before.funcs) if len(after.funcs) > len(before.funcs) else ()


class _Mapper:
    """Carries the directives of one step over to the schedule of the whole.

    A condition on the strides of what passes between steps may be settled there: then one form of the stage is left,
    and what is said of the others, or of Funcs that are computed in their loops, has no meaning (None).
    """

    def __init__(self, s: Schedule, step: Step, clones: Mapping[str, str]):
        self.s, self.part = s, step.part
        self.names: dict[str, str | None] = {**step.part.names, **clones}
        self.forms: dict[str, str | None] = {}  # addresses of stages
        self.ranks = {a.name: a.ndim for a in step.part.pipeline.arrays}
        self.inputs = dict(zip((p.name for p in step.part.pipeline.params), step.part.inputs, strict=True))

    def carry_over(self, line: _Line) -> None:
        d = line.directive
        if d.kind == "layout" and (d.operands[0] in self.inputs or d.option("given")):
            self._laid_out(line)
        elif d.kind == "specialize":
            self._specialized(line)
        elif not (d.kind in ("compute_root", "compute_inline") and self._stands(d)):
            mapped = self._mapped(line)
            if mapped is not None:
                self._apply(mapped, line.made)

    def _mapped(self, line: _Line) -> Directive | None:
        d = line.directive
        given = dict(d.options)
        if d.kind == "cache_read" and not given.keys() & {"at", "for"}:
            given["for"] = line.readers  # in the whole there are others
        if d.kind == "cache_read" and "layout" not in given and isinstance(self.inputs.get(d.operands[0]), Buffer):
            axes = " ".join(f"x{k}" for k in range(self.ranks[d.operands[0]]))
            given["layout"] = (
                f"{axes} -> {axes}"  # a copy of an array has loops of these names, one of a Func the Func's
            )
        if d.kind == "online":
            given.setdefault("name", f"{d.operands[-1]}_online")
        options = {key: self._option(d.kind, key, v) for key, v in given.items()}
        of_tensors = KINDS[d.kind].role in ("func", "tensor")
        operands = tuple(map(self._address, d.operands)) if of_tensors else d.operands
        stage = self._address(d.stage) if d.stage else ""
        if stage is None or None in operands or None in options.values():
            return None
        results = tuple(map(self._fresh, d.results)) if d.kind == "rfactor" else d.results
        return Directive(d.kind, stage, operands, results, tuple(options.items()), d.location)  # type: ignore[arg-type]

    def _apply(self, d: Directive, made: Sequence[str]) -> None:
        before = self.s.state
        self.s.apply(d)
        self.names.update(zip(made, _new_funcs(before, self.s.state), strict=True))

    def _stands(self, d: Directive) -> bool:
        """Whether a Func is placed already as a directive says, by this step or another one."""
        name = self.names[d.operands[0]]
        if name is None:
            return False
        fs = self.s.state.funcs[name]
        return fs.placed and d.kind == f"compute_{fs.compute.kind}"

    def _laid_out(self, line: _Line) -> None:
        """A layout of what a part takes or gives: of the buffer, where steps pass it so; else a copy."""
        d = line.directive
        own, text = d.operands[0], str(d.option("layout"))
        source = self.inputs.get(own)
        if own not in self.inputs or (d.option("given") and isinstance(source, Buffer)):
            self._buffer(self.names[own], text)
            return
        options = (("for", line.readers), ("layout", text))
        made = line.made or (own,)  # what is given so is called by its own name afterwards
        copied = self._mapped(_Line(Directive("cache_read", "", (own,), (), options, d.location), made, ()))
        if copied is not None:
            self._apply(copied, made)

    def _buffer(self, name: str | None, text: str) -> None:
        """The layout of what passes between steps, which both of them say."""
        if name is None:
            return
        wanted, there = parse_index_map(text), self.s.state.funcs[name].layout
        at = [ir.size(f"axis{k}") for k in range(len(wanted.names))]
        if there is None or there.apply(at) != wanted.apply(at):
            self.s.layout(name, text)

    def _specialized(self, line: _Line) -> None:
        d, (form,) = line.directive, line.directive.results
        stage = self._address(d.stage)
        if stage is None:
            self.forms[f"{d.stage}{{{form}}}"] = None
            return
        condition = self._condition(d.operands[0])
        if condition.op != "const":
            self.forms[f"{d.stage}{{{form}}}"] = f"{stage}{{{form}}}"
            operands = (format_condition(condition),)
            self._apply(Directive("specialize", stage, operands, (form,), (), d.location), line.made)
            return
        self.forms[f"{d.stage}{{{form}}}"] = stage if condition.attr else None
        if condition.attr:
            self.forms[d.stage] = None
        for copy in line.made:
            of = re.sub(rf"_{form}(_\d+)?\Z", "", copy)
            self.names[copy] = self.names[of] if condition.attr else None
            if condition.attr:
                self.names[of] = None

    # Names ------------------------------------------------------------------------------------------------------

    def _address(self, text: str) -> str | None:
        """A Func, stage or loop of the part (`C.update.io`) by its address in the whole."""
        stages = [k for k in self.forms if text.startswith(k) and text[len(k) : len(k) + 1] in ("", ".", "{")]
        if stages:
            stage = max(stages, key=len)
            there = self.forms[stage]
            return None if there is None else there + text[len(stage) :]
        head = _HEAD.match(text)
        assert head is not None
        name = self.names.get(head[0], head[0])
        return None if name is None else name + text[head.end() :]

    def _option(self, kind: str, key: str, value: Value) -> Value | None:
        role = next(o.role for o in KINDS[kind].options if o.key == key)
        if role == "stages":
            given = value if isinstance(value, tuple) else (value,)
            return tuple(a for v in given if (a := self._address(str(v))) is not None) or None
        if role == "loop":
            return self._address(str(value))
        return self._fresh(str(value)) if key == "name" else value

    def _fresh(self, own: str) -> str:
        """A name like `own`, which may begin with the name of a Func or array of the part, that nothing has yet."""
        heads = [n for n in self.names if own == n or own.startswith(f"{n}_")]
        head = max(heads, key=len, default="")
        base = (self.names.get(head) or head) + own[len(head) :]
        taken = names_in_use(self.s.state)
        found, k = base, 0
        while found in taken:
            k += 1
            found = f"{base}_{k}"
        return found

    def _condition(self, text: str) -> Node:
        """A condition with the names of the whole; the strides of what passes between steps are those of its rows."""
        p = self.part.pipeline
        arrays = {a.name: a for a in p.arrays}
        outputs = {o.name: b for o, b in zip(p.outputs, self.part.outputs, strict=True)}
        results = {o.name for o in self.s.pipeline.outputs}

        def one(n: Node, args: tuple[Node, ...]) -> Node:
            if n.op == "scalar":
                return ir.node("scalar", n.dtype, (), self.names[n.attr])
            if n.op != "stride":
                return simplify.logic(simplify.build(n.op, n.dtype, args, n.attr)) if args else n
            name, axis = n.attr
            source = self.inputs.get(name, outputs.get(name))
            if not isinstance(source, Buffer) or source.name in results:
                return stride(source.name if source is not None else name, axis)
            extents = arrays[name].extents if name in arrays else next(o.extents for o in p.outputs if o.name == name)
            step = integer(1)
            for e in extents[axis + 1 :]:
                step = simplify.mul(step, e)
            return step

        return ir.transform((expanded(p, parse_condition(p, text)),), one)[0]


__all__ = ["whole_schedule"]
