"""Plans that are kept on disk, by what they were made of: a graph that has not changed is not planned again.

A record lies in the cache of compiled kernels and under its rules (who may write the folder, whole files only). It has
each field of a plan and of its steps apart, and the parts' pipelines: what nobody asks for is not read, nor are the
modules imported that it takes. So a program whose kernels are in the cache as well starts without planning, scheduling
or compiling anything.

The key is a hash of the algorithm, the machine, sizes, goal, what else the caller says, and the code of the planner.
Fields are pickled; what belongs to the whole pipeline (its Funcs, arrays, tables) and to the machine is there by number.
Records that are damaged, or refer to what there is not, count as missing.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright.codegen import cache
from tilewright.lang import ir
from tilewright.lang.binding import regions_passed
from tilewright.lang.ir import Node
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.records import Rows, nodes_of, nodes_record, pipeline_of, pipeline_record
from tilewright.lang.regions import region, remember
from tilewright.lang.symbols import Domain
from tilewright.lang.tensors import Tensor
from tilewright.planner.plan import Plan, Step
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.hw import Machine

_UNKEPT = ("seconds",)  # what one run took


def planned(
    p: Pipeline, machine: Machine | str, asked: Mapping[str, Any], make: Callable[[], Plan], load: Callable[[], Machine]
) -> Plan:
    """The plan of a pipeline from disk, or else from `make`, which is kept then.

    `asked` is all else that a plan goes by (sizes, goal, options), as values whose `repr` says what they are. `machine`
    is a Machine, or a text that says which (a preset's name, what "host" is): `load` makes one of it when somebody wants
    to look. A plan that the clock ended early is not kept: another run may find a better one.
    """
    name = key(p, machine, asked)
    found = find(name, p, load)
    if found is None:
        found = make()
        if not found.late:
            keep(name, found)
    return found


def key(p: Pipeline, machine: Machine | str, asked: Mapping[str, Any]) -> str:
    """The key of a plan."""
    return cache.key(
        {
            "what": "plan",
            "algorithm": p.digest,
            "machine": repr(machine),
            "asked": repr(sorted(asked.items())),
            "planner": cache.sources_hash("planner", "hw"),
        }
    )


def keep(name: str, plan: Plan) -> None:
    """Write the record of a plan."""
    try:
        record = _Writer(plan).record()
    except (pickle.PicklingError, TypeError, AttributeError) as problem:
        cache.refuse(f"the plan of {plan.pipeline.name} is not kept: {problem}")
        return
    cache.put(name, cache.Entry(record, {"kind": "plan", "kernel": plan.pipeline.name, "mode": plan.mode}))


def find(name: str, p: Pipeline, load: Callable[[], Machine]) -> Plan | None:
    """The plan of a record, if there is one."""
    entry = cache.get(name)
    if entry is None:
        return None
    try:
        return _Record(entry.image, p, load).plan()
    except (pickle.UnpicklingError, EOFError, KeyError, IndexError, ValueError, TypeError, AttributeError, ImportError):
        return None  # of another form than this version writes


# Writing ----------------------------------------------------------------------------------------------------------


class _Writer:
    """A plan as a record."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.known: dict[int, tuple[str, int, Pipeline | None]] = {
            id(x): (kind, k, None) for kind, k, x in _belongings(plan.pipeline)
        }
        for p in (s.part.pipeline for s in plan.steps):
            for kind, k, x in _belongings(p):
                self.known.setdefault(id(x), (kind, k, p))  # tables and functions are those of the whole
        self.parts: dict[str, int] = {}
        self.records: list[bytes] = []

    def record(self) -> bytes:
        plan, p = self.plan, self.plan.pipeline
        shown = {*(b.func for b in plan.buffers), *(o.func for o in p.outputs)}
        content = {
            "plan": {
                f.name: self.data(getattr(plan, f.name))
                for f in fields(Plan)
                if f.name not in ("pipeline", "machine", "steps", *_UNKEPT)
            },
            "steps": {
                n: self.data([getattr(s, n) for s in plan.steps]) for n in ("name", *(f.name for f in fields(Step)))
            },
            "count": len(plan.steps),
            "regions": self.data({f: region(p, f) for f in p.funcs if f in shown}),
            "passed": self.data(tuple(regions_passed(p))),
            "parts": self.records,
        }
        return pickle.dumps(content, protocol=5)

    def data(self, value: Any) -> bytes:
        out = io.BytesIO()
        _Pickler(out, self).dump(value)
        return out.getvalue()

    def part(self, p: Pipeline) -> int:
        """The number of a part's pipeline; equal ones have one."""
        if p.digest not in self.parts:
            record = self.data(pipeline_record(p))
            self.parts[p.digest] = len(self.records)
            self.records.append(record)
        return self.parts[p.digest]


# Where in a pipeline that belongs to it which records refer to, by its place there.
_WHERE: dict[str, Callable[[Pipeline], Sequence[Any]]] = {
    "whole": lambda p: (p,),
    "parameter": lambda p: p.params,
    "array": lambda p: p.arrays,  # of `inout` parameters too
    "func": lambda p: p.funcs,
    "table": lambda p: p.tables,
    "function": lambda p: list(dict.fromkeys(_functions(p))),
    "domain": lambda p: list(dict.fromkeys(d.rdom for d in p.definitions() if d.rdom is not None)),
}


def _belongings(p: Pipeline) -> Iterator[tuple[str, int, Any]]:
    return ((kind, k, x) for kind, of in _WHERE.items() for k, x in enumerate(of(p)))


def _functions(p: Pipeline) -> Iterator[Any]:
    """The user's functions that a pipeline calls."""
    for n in ir.postorder(p.roots()):
        if n.op == "stage":
            yield n.attr[0]
        elif n.op == "call_extern":
            yield n.attr


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, writer: _Writer):
        super().__init__(out, protocol=5)
        self.writer = writer

    def persistent_id(self, x: Any) -> Any:
        w = self.writer
        if isinstance(x, Pipeline) and x is not w.plan.pipeline:
            return "whole", 0, w.part(x)
        if x is not None and id(x) in w.known:
            kind, k, p = w.known[id(x)]
            return kind, k, None if p is None else w.part(p)
        return ("machine", 0, None) if x is w.plan.machine else None

    def reducer_override(self, x: Any) -> Any:
        if isinstance(x, Node):
            rows, _ = nodes_record((x,))
            return _node, (rows,)
        if isinstance(x, Schedule):
            directives = tuple(replace(d, location=None) for d in x.directives)
            return Schedule.recorded, (x.pipeline, directives, x.hash, x.added, x.machine)
        if isinstance(x, MappingProxyType):
            return MappingProxyType, (dict(x),)
        if isinstance(x, (Tensor, Domain)):
            raise pickle.PicklingError(f"{x!r} is no part of the pipeline that is planned")
        return NotImplemented


def _node(rows: Rows) -> Node:
    return nodes_of(rows)[-1]


# Reading ----------------------------------------------------------------------------------------------------------


class _Record:
    """What a record says of a pipeline, read piece by piece."""

    def __init__(self, data: bytes, p: Pipeline, load: Callable[[], Machine]):
        self.pipeline, self.load = p, load
        self.content: dict[str, Any] = pickle.loads(data)
        self.known: dict[tuple[str, int | None], Sequence[Any]] = {}
        self.parts: dict[int, Pipeline] = {}
        self.columns: dict[str, list[Any]] = {}  # of the steps, those that were read

    def plan(self) -> Plan:
        made = object.__new__(_KeptPlan)
        steps = tuple(_KeptStep.of(self, k) for k in range(self.content["count"]))
        made.__dict__.update(_record=self, pipeline=self.pipeline, steps=steps, seconds={})
        remember(self.pipeline, self.value(self.content["regions"]))
        regions_passed(self.pipeline).update(self.value(self.content["passed"]))
        return made

    def value(self, data: bytes) -> Any:
        return _Unpickler(io.BytesIO(data), self).load()

    @functools.cached_property
    def machine(self) -> Machine:
        return self.load()

    def belonging(self, kind: str, number: int, part: int | None) -> Any:
        if (kind, part) not in self.known:
            self.known[kind, part] = _WHERE[kind](self.pipeline if part is None else self.part(part))
        return self.known[kind, part][number]

    def of_step(self, number: int, name: str) -> Any:
        if name not in self.columns:
            self.columns[name] = self.value(self.content["steps"][name])
        return self.columns[name][number]

    def of_plan(self, name: str) -> Any:
        return self.machine if name == "machine" else self.value(self.content["plan"][name])

    def part(self, number: int) -> Pipeline:
        if number not in self.parts:
            self.parts[number] = pipeline_of(self.value(self.content["parts"][number]))
        return self.parts[number]


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, record: _Record):
        super().__init__(data)
        self.record = record

    def persistent_load(self, pid: tuple[str, int, int | None]) -> Any:
        return self.record.machine if pid[0] == "machine" else self.record.belonging(*pid)


class _Field:
    """A field that is read from the record when it is asked for first."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        found = owner.__dict__[self.name] = owner._read(self.name)
        return found


def _lazily(kind: type, *more: str) -> Any:
    """The class with fields that are read from a record."""
    return type(kind.__name__, (kind,), {n: _Field() for n in (*(f.name for f in fields(kind)), *more)})


class _KeptPlan(_lazily(Plan)):
    _record: _Record

    def _read(self, name: str) -> Any:
        return self._record.of_plan(name)


class _KeptStep(_lazily(Step, "name")):
    _record: _Record
    _number: int

    @classmethod
    def of(cls, record: _Record, number: int) -> Step:
        made = object.__new__(cls)
        made.__dict__.update(_record=record, _number=number)
        return made

    def _read(self, name: str) -> Any:
        return self._record.of_step(self._number, name)


__all__ = ["find", "keep", "key", "planned"]
