"""How the region of a Func or input came about, in words."""

from __future__ import annotations

from tilewright.lang.errors import DefinitionError, user_location
from tilewright.lang.func import InoutFunc
from tilewright.lang.intervals import Interval
from tilewright.lang.pipeline import Output, Pipeline
from tilewright.lang.regions import required
from tilewright.lang.text import format_node


def explain_bounds(p: Pipeline, name: str) -> str:
    """Which part of a Func or input is needed, and what needs it: one line a use, with the place of its definition.

    Raises DefinitionError (`definition.unknown-func`) for a name that the pipeline does not have.
    """
    found = required(p)
    boxes = {f.name: box for f, box in found.funcs.items()} | {a.name: box for a, box in found.inputs.items()}
    if name not in boxes:
        raise DefinitionError(
            f"{p.name} has no Func or input {name!r}",
            code="definition.unknown-func",
            where=user_location(),
            hint="it has: " + ", ".join(boxes),
        )
    lines = [f"{name}{_box(boxes[name])}"]
    for u in found.uses:
        tensor = u.tensor.inout if isinstance(u.tensor, InoutFunc) else u.tensor
        if tensor is None or tensor.name != name:
            continue
        if isinstance(u.consumer, Output):
            lines.append(f"  {_box(u.box)} is returned")
        else:
            d = u.consumer
            what = f"reads {format_node(u.load)}" if u.load is not None else "writes it"
            where = f" ({d.location})" if d.location else ""
            lines.append(f"  {_box(u.box)}: {d.func.name} {what}{where}")
    return "\n".join(lines)


def _box(box: tuple[Interval, ...]) -> str:
    return "[" + ", ".join(f"{_end(r.lo)}..{_end(r.hi)}" for r in box) + "]"


def _end(n: object) -> str:
    return "?" if n is None else format_node(n)  # type: ignore[arg-type]
