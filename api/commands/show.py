"""`show`: a kernel's algorithm, its schedule, the nest that they lead to, and the buffers in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import Target, check_sizes, find_target
from tilewright.kernels import Kernel
from tilewright.lang.errors import ArgumentError
from tilewright.lang.intervals import bounds
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.text import print_kernel
from tilewright.lang.values import index_value
from tilewright.schedule.printer import print_extents
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.view import BufferFacts, LoopView

if TYPE_CHECKING:
    from tilewright.hw import Account, Machine

__all__ = ["BufferRow", "LoopRow", "Shown", "show"]


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop: `extent` as text, `at` is the loop around it (None: outermost)."""

    address: str
    mode: str
    reduction: bool
    extent: str
    at: str | None


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A buffer: `extents` as text, `at` is the loop in which it lives (None: the whole run).

    `bytes` is None where the sizes that it depends on are not given, or change from one iteration to the next.
    """

    name: str
    dtype: str
    extents: str
    memory: str
    layout: str | None
    at: str | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """What `show` finds. `default` are the directives that the default schedule adds, as text; `account` is what the nest
    costs on the machine that was named."""

    kernel: str
    digest: str
    mode: str
    algorithm: str
    schedule_name: str
    schedule: str
    default: str
    nest: str
    loops: tuple[LoopRow, ...]
    buffers: tuple[BufferRow, ...]
    account: Account | None = None

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None, colour: bool = False) -> str:
        """What is to be seen: with a machine the nest alone, and what each of its lines cost there (as `AnnotatedNest.text`
        has it)."""
        if self.account is not None:
            return self.account.nest.text(*([] if width is None else [width]), colour=colour)
        parts = [self.algorithm.rstrip()]
        if self.schedule_name != "default":
            parts.append(f"# schedule: {self.schedule_name}\n{self.schedule}")
        if self.default:
            head = "# the default schedule" + (" for what is left alone" if self.schedule_name != "default" else "")
            parts.append(f"{head}\n{self.default}")
        parts.append(f"# loop nest\n{self.nest}")
        parts.append("# buffers\n" + (_table(self.buffers) if self.buffers else "none besides the arrays of the call"))
        return "\n\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self)


def show(
    target: str | Path | Kernel,
    *,
    schedule: str | Path | Schedule | None = None,
    sizes: Mapping[str, int] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
    machine: Machine | str | None = None,
) -> Shown:
    """Algorithm, schedule, loop nest and buffers of `FILE[:KERNEL]` or a kernel. With all `sizes`, buffers have bytes. On a
    `machine` (then all sizes are needed) the nest is shown with what each line cost.

    Raises what `find_target` does, what checking the schedule raises, and with a machine what making an account raises.
    """
    from tilewright.schedule.text import print_directives

    t = find_target(target, schedule, statics, dtypes, sizes)
    known = check_sizes(t.pipeline, sizes or {}) if sizes or machine is not None else None
    full = t.complete(mode)
    own = len(t.schedule) if t.schedule is not None else 0
    added = full.directives[own:]
    view = full.loops()
    loops = tuple(
        LoopRow(x.address, x.mode, x.reduction, print_extents((x.extent,))[1:-1], x.parent) for x in view.loops
    )
    return Shown(
        kernel=t.pipeline.name,
        digest=t.pipeline.digest,
        mode=mode or t.kernel.mode,
        algorithm=print_kernel(t.pipeline),
        schedule_name=t.schedule_name,
        schedule=str(t.schedule) if t.schedule is not None else f"schedule {t.pipeline.name}",
        default=print_directives(t.pipeline.name, added).rstrip("\n") if added else "",
        nest=str(view),
        loops=loops,
        buffers=tuple(_buffer(b, view, t.pipeline, known) for b in view.buffers),
        account=None if machine is None or known is None else _account(t, machine, known, mode),
    )


def _account(t: Target, machine: Machine | str, sizes: Mapping[str, int], mode: str | None) -> Account:
    from tilewright.views.accounts import account_of, as_machine

    return account_of(t.start, as_machine(machine, t.start), sizes, mode or t.kernel.mode)


def _buffer(b: BufferFacts, view: LoopView, p: Pipeline, sizes: Mapping[str, int] | None) -> BufferRow:
    s = b.storage
    extents = s.extents if s.layout is None else s.layout.extents(s.extents)
    elements: int | None = 1
    for e in extents:
        hi = bounds(e, {}).hi if e.op != "const" else e
        try:
            n = index_value(hi, sizes or {}) if hi is not None else None
        except ArgumentError:  # it depends on a size that is not given, or on a loop
            n = None
        elements = None if elements is None or n is None else elements * max(0, n)
    size = None if elements is None else elements * s.dtype.bytes
    layout = str(s.layout) if s.layout is not None else None
    return BufferRow(s.name, s.dtype.name, print_extents(s.extents), s.memory, layout, b.at, size)


def _table(rows: tuple[BufferRow, ...]) -> str:
    from tilewright.hw.render.tables import columns

    head = ("buffer", "type", "memory", "lives in", "bytes")
    cells = [
        (
            r.name + (f" (layout {r.layout})" if r.layout else ""), f"{r.dtype}{r.extents}", r.memory,
            f"one iteration of {r.at}" if r.at else "the whole run", f"{r.bytes:,}" if r.bytes is not None else "?",
        )
        for r in rows
    ]  # fmt: skip
    return columns([head, *cells], left=4)
