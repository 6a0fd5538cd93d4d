"""From a kernel and a schedule to an export: the one lowering that all forms of it share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from tilewright.codegen import loops as L
from tilewright.codegen.accounts.footprint import footprints_at, live_points
from tilewright.codegen.accounts.prepared import registers_of
from tilewright.codegen.compile import completed
from tilewright.codegen.export.document import About, document
from tilewright.codegen.export.expressions import Json
from tilewright.codegen.export.placement import place
from tilewright.codegen.export.printing import dumps
from tilewright.codegen.lower import as_written, lower
from tilewright.codegen.tidy import tidy
from tilewright.hw import Compute, Dma, Machine, Memory, Provenance, Unit, check_capacity, load_machine
from tilewright.lang import ir
from tilewright.lang.binding import check_sizes
from tilewright.lang.errors import ArgumentError, BoundsError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.build import build_nest
from tilewright.schedule.check import placed_by
from tilewright.schedule.machines import check_arrays, check_state
from tilewright.schedule.nest import Allocation, LoopNode, walk
from tilewright.schedule.state import State

FORMS = ("json", "c")
ALIGNMENT = 64  # bytes, where no machine says more


@dataclass(frozen=True)
class Export:
    """An exported kernel: texts by the name of their file, the one that matters first. `str()` is all of them as one.

    `document` is the JSON document as plain data, of C as well.
    """

    files: Mapping[str, str]
    document: Json

    def __str__(self) -> str:
        first, *others = self.files
        text = self.files[first]
        for name in others:
            text = text.replace(f'#include "{name}"\n', self.files[name])
        return text.rstrip("\n")

    def write(self, path: str | Path) -> tuple[Path, ...]:
        """Write the files: the first one is called `path`, a header of its own like it, others stand beside it."""
        first = Path(path)
        source, *others = self.files
        own = Path(source).with_suffix(".h").name
        named = {n: first.with_suffix(".h").name if n == own else n for n in others}
        if len({first.name, *named.values()}) <= len(named):
            raise ArgumentError(
                f"{first.name} would take the place of a header", code="argument.export", where=user_location(),
                hint="give another name",
            )  # fmt: skip
        texts = {first: self.files[source].replace(f'#include "{own}"', f'#include "{named.get(own, own)}"')}
        texts |= {first.with_name(named[n]): self.files[n] for n in others}
        for p, text in texts.items():
            p.write_text(text, encoding="utf-8")
        return tuple(texts)


def export(
    p: Pipeline,
    schedule: Any,
    to: str = "json",
    sizes: Mapping[str, int] | None = None,
    machine: Machine | str | None = None,
    mode: str = "contract",
) -> Export:
    """The lowered nest of `p` under `schedule` (None: the default) as versioned JSON, or as C.

    With `sizes` it is made for these alone, and buffers get their places in the memories; with a `machine` the memories
    have its alignments, and what does not fit is refused. Raises ArgumentError for another form or sizes that are not
    the kernel's, CompileError (export.*) for what can't be exported.
    """
    if to not in FORMS:
        raise ArgumentError(
            f"there is no form {to!r}", code="argument.export", where=user_location(), hint="forms: " + ", ".join(FORMS)
        )
    made = made_document(p, schedule, sizes, machine, mode)
    if to == "c":
        from tilewright.codegen.export.c_files import files

        return Export(files(made), made)
    return Export({f"{p.name}.json": dumps(made)}, made)


def made_document(
    p: Pipeline, schedule: Any, sizes: Mapping[str, int] | None, machine: Machine | str | None, mode: str
) -> Json:
    """The document of a kernel under a schedule."""
    if sizes:
        check_sizes(p, sizes)
        missing = [n for n in p.sizes if n not in sizes]
        if missing:
            raise ArgumentError(
                f"{p.name}: the size {missing[0]} is not given", code="argument.size-open", where=user_location(),
                hint="give all sizes, or none: " + ", ".join(p.sizes),
            )  # fmt: skip
    given = machine if machine is not None else getattr(schedule, "machine", None)
    on = load_machine(given) if isinstance(given, str) else given
    full = completed(p, schedule, mode, None if on is None else registers_of(on))
    if on is not None and sizes:
        check_arrays(full.state, on, sizes)
    elif on is not None:
        check_state(full.state, on)
    known = on or any_machine(full.state, mode)
    lowered = lower(as_written(full.state, mode, "export", known, sizes))
    program = replace(lowered.program, body=tidy(lowered.program.body))
    _check_requirements(p, program)
    whole: L.Program = lowered.results["sections"]  # its loops are not parted: every buffer is made at one place
    if on is not None and sizes:
        bounded = list(live_points(whole, on, sizes, bounded=True))
        check_capacity(on, footprints_at(bounded, on), placed_by(full.directives))
    about = About(p, full.state, mode, str(full), dict(sizes or {}), on.name if on else None)
    return document(program, about, place(whole, known, dict(sizes or {})))


def _check_requirements(p: Pipeline, program: L.Program) -> None:
    """Raise the error of a call with sizes for which a requirement does not hold."""
    if any(c is ir.FALSE for c in program.requirements):
        raise BoundsError(
            f"{p.name} can't run at these sizes: an input is too small, or the schedule asks for more",
            code="bounds.schedule", where=user_location(), hint="export it without sizes, or for others",
        )  # fmt: skip


def any_machine(state: State, mode: str) -> Machine:
    """A machine with the memories of a schedule and an engine between any two, for exports without a machine."""
    nodes = list(walk(build_nest(state, mode).body))
    storages = [s for n in nodes if isinstance(n, Allocation) for s in n.storages]
    inner = [m for m in dict.fromkeys(s.memory for s in storages) if m not in ("main", "reg")]
    kinds = {"main": "main", **dict.fromkeys(inner, "scratchpad"), "reg": "registers"}
    memories = tuple(Memory(name, kind, None, 1.0, 1.0, alignment=ALIGNMENT) for name, kind in kinds.items())
    called = dict.fromkeys(n.call.unit for n in nodes if isinstance(n, LoopNode) and n.call is not None)
    operands = dict.fromkeys("abc", "main")
    units = tuple(Unit(name, {}, dict.fromkeys("abc", "f32"), operands, 1.0) for name in called)
    engine = Dma("dma", tuple(combinations(("main", *inner), 2)), 1.0)
    about = "memories as a schedule names them, and an engine between any two"
    return Machine(
        "any", about, 1.0, memories, Compute({}), (engine,), (), units, {}, Provenance("made for an export", "assumed")
    )


__all__ = ["Export", "export", "made_document"]
