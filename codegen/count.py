"""What a schedule does, in exact numbers: evaluations, loads, stores and allocations of an instrumented run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tilewright.codegen import instrumented
from tilewright.codegen import loops as L
from tilewright.codegen.emit import Tally
from tilewright.hw.render.tables import columns
from tilewright.lang.binding import check_sizes
from tilewright.lang.errors import UnknownNameError, user_location
from tilewright.lang.pipeline import Pipeline


class Named(dict[str, Any]):
    """A dictionary whose KeyError says what there is; `known` names that nothing was counted for have 0."""

    def __init__(self, kind: str, items: Mapping[str, Any], known: Iterable[str] = ()):
        super().__init__(items)
        self.kind, self.known = kind, frozenset(known)

    def __missing__(self, name: str) -> Any:
        if name in self.known:
            return 0
        raise UnknownCountError(
            f"nothing was counted for {name!r}", code="count.unknown", where=user_location(),
            hint=f"{self.kind}: {', '.join(sorted({*self, *self.known}))} (what is inlined is a part of the stages that "
            "use it)",
        )  # fmt: skip


class UnknownCountError(UnknownNameError, KeyError):
    """A stage or tensor is asked for that did not run under this name."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes

    default_code = "count.unknown"


@dataclass(frozen=True, slots=True)
class StageCounts:
    """What one stage did. `evaluations`: points of its definition that were computed, of which `spare` were computed
    beyond what is needed there, or once more, by a tail (`shift`, `round_up`), `bound`, `align`, or in a private tile.
    `loads` and `stores`: elements by tensor."""

    evaluations: int
    spare: int
    loads: Mapping[str, int]
    stores: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Allocations:
    """How often a buffer was made, and the bytes that the largest one took (all slots of a ring together)."""

    count: int
    bytes: int


@dataclass(frozen=True)
class Counts:
    """What a run of `kernel` did at the given sizes.

    `stages` by address, as in a schedule (`C.init`, `C.update`, `across`; `C.update{small}` for a specialised form;
    copies that a schedule adds by what they do: `C_tile.load`, `C_tile.store`). `loads` and `stores` are elements by
    tensor over all stages, with what loop bounds and conditions read. `allocations` by buffer; an output that is
    copied from a buffer of its own is called `out.NAME` there and in `stores`, the buffer has the name. `peak`: the
    most bytes of buffers that lived at once, by memory. `result` is what the kernel returns.

    Evaluations are points of a definition that are computed: lanes that a mask switches off are none. What is inlined
    is a part of the stages that use it and has no entry. A load is one that the code executes: an element that a
    register holds since the same straight-line code (unrolled loops included) loaded it is not loaded again; one
    element counts where it is the same in all lanes of a vector.
    """

    kernel: str
    sizes: Mapping[str, int]
    stages: Mapping[str, StageCounts]
    loads: Mapping[str, int]
    stores: Mapping[str, int]
    allocations: Mapping[str, Allocations]
    peak: Mapping[str, int]
    result: Any = field(repr=False, compare=False)

    @property
    def evaluations(self) -> Mapping[str, int]:
        """Evaluations by stage."""
        return Named("stages", {name: s.evaluations for name, s in self.stages.items()})

    def to_json(self) -> str:
        """All but the result."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "result"}
        return json.dumps(parts, indent=2, default=lambda x: {f.name: getattr(x, f.name) for f in fields(x)})

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        rows: list[tuple[str, ...]] = [("stage", "evaluations", "spare", "loads", "stores")]
        for name, s in self.stages.items():
            rows.append((name, *map(_number, (s.evaluations, s.spare, sum(s.loads.values()), sum(s.stores.values())))))
        parts = [f"{self.kernel}{f' ({sizes})' if sizes else ''}", columns(rows, left=1)]
        rows: list[tuple[str, ...]] = [("tensor", "loads", "stores", "allocated", "bytes")]
        for name in dict.fromkeys((*self.loads, *self.stores, *self.allocations)):
            a = self.allocations.get(name)
            made = ("", "") if a is None else (_number(a.count), _number(a.bytes))
            rows.append((name, _number(self.loads.get(name, 0)), _number(self.stores.get(name, 0)), *made))
        parts.append(columns(rows, left=1))
        parts += [f"peak in {memory}: {n:,} bytes" for memory, n in self.peak.items()]
        return "\n\n".join(parts[:2]) + "\n\n" + "\n".join(parts[2:])


def _number(n: int) -> str:
    return f"{n:,}"


def count(
    p: Pipeline,
    schedule: Any,
    sizes: Mapping[str, int],
    mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
) -> Counts:
    """Count what `p` does under `schedule` (None: the default) at the given sizes.

    `inputs` are arrays and scalars by name; what is missing is made up (repeatable random values). Raises
    ScheduleError, CompileError, ArgumentError and BoundsError as compiling and calling do.
    """
    from tilewright.schedule.default import complete
    from tilewright.schedule.schedule import Schedule

    check_sizes(p, sizes)
    full = complete(Schedule(p) if schedule is None else schedule, mode)
    full.check()
    run = instrumented.run(p, full.state, sizes, mode, dict(inputs or {}))
    names = _names(run.program)
    t = run.tally
    stages = {
        name: StageCounts(n, t.spare.get(name, 0), _of(t.loads, name, names), _of(t.stores, name, names))
        for name, n in t.evaluations.items()
    }
    return Counts(
        p.name, dict(run.bound.sizes), Named("stages", stages),
        _of(t.loads, None, names), _of(t.stores, None, names), _allocations(t, names), dict(t.peak), run.result,
    )  # fmt: skip


def _names(program: L.Program) -> dict[str, str]:
    """What buffers are called: by their tensor. The array of an output is told apart from a buffer of its Func."""
    temporary = {s.buffer.name for s in L.walk(program.body) if isinstance(s, L.Allocate)}
    names = {n: n.partition("~")[0] for n in temporary}
    for b in program.arguments:
        plain = b.name.removeprefix("out.")
        names[b.name] = b.name if plain in names.values() else plain
    return names


def _of(counts: Mapping[tuple[str, str], int], stage: str | None, names: Mapping[str, str]) -> Mapping[str, int]:
    """The elements of every tensor, by one stage or by all."""
    out: dict[str, int] = {}
    for (s, b), n in counts.items():
        if stage in (None, s) and n:
            out[names[b]] = out.get(names[b], 0) + n
    return Named("tensors", out, names.values())


def _allocations(t: Tally, names: Mapping[str, str]) -> Mapping[str, Allocations]:
    out: dict[str, Allocations] = {}
    for b, n in t.made.items():
        old = out.get(names[b], Allocations(0, 0))
        out[names[b]] = Allocations(old.count + n, max(old.bytes, t.largest[b]))
    return Named("buffers", out)


__all__ = ["Allocations", "Counts", "StageCounts", "UnknownCountError", "count"]
