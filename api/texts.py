"""Kernels and schedules from their text form, and `.tw` files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.kernels import Kernel, from_pipeline
from tilewright.lang.errors import Location, ParseError
from tilewright.lang.extern import Extern
from tilewright.lang.extern_stage import ExternStage
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.causes import refuse

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule
    from tilewright.schedule.text import ScheduleText


@dataclass(frozen=True, slots=True)
class TwFile:
    """What a `.tw` file holds: kernels by name, and the schedules as they were read, in the order of the file."""

    path: Path
    kernels: Mapping[str, Kernel]
    schedules: tuple[ScheduleText, ...]

    def schedule(self, kernel: Kernel | Pipeline | None = None, sizes: Mapping[str, int] | None = None) -> Schedule:
        """The one schedule of a kernel (by default: of the file's only kernel), carried out and checked. Of several, each
        for a bucket of sizes, the one whose bucket holds `sizes` or is the nearest to them.

        Raises ScheduleError `schedule.none` or `schedule.several` where the file has not exactly one for it.
        """
        from tilewright.schedule.schedule import replay

        p = _pipeline(kernel if kernel is not None else self._only_kernel())
        found = [s for s in self.schedules if s.kernel == p.name]
        if len(found) > 1 and sizes and all(s.sizes is not None for s in found):
            found = [_nearest(found, sizes)]
        if len(found) == 1:
            return replay(found[0], p)
        buckets = [f'"{s.sizes}"' for s in found if s.sizes is not None]
        if len(buckets) > 1:
            raise refuse(
                f"{self.path} has {len(found)} schedules of {p.name}, each for other sizes: {', '.join(buckets)}", "several",
                "say at which sizes it is wanted", Location(str(self.path), 1),
            )  # fmt: skip
        others = ", ".join(dict.fromkeys(s.kernel for s in self.schedules))
        raise refuse(
            f"{self.path} has {len(found) or 'no'} schedule{'s' * (len(found) != 1)} of {p.name}, and one is wanted",
            "several" if found else "none", f"it has schedules of {others}" if others else "it has no schedules",
            Location(str(self.path), 1),
        )  # fmt: skip

    def _only_kernel(self) -> Kernel:
        if len(self.kernels) != 1:
            raise ParseError(
                f"{self.path} has {len(self.kernels)} kernels", code="parse.kernels", where=Location(str(self.path), 1),
                hint="say of which kernel the schedule is wanted",
            )  # fmt: skip
        return next(iter(self.kernels.values()))


def _nearest(found: Sequence[ScheduleText], sizes: Mapping[str, int]) -> ScheduleText:
    """The schedule whose bucket is the nearest to some sizes."""
    from tilewright.autotune.buckets import Buckets

    by_text = {Buckets.read([s.sizes or ""]).all[0].text: s for s in found}
    return by_text[Buckets.read(by_text).find(sizes)[0].text]


def parse_kernel(text: str, origin: str = "<text>", externs: Iterable[Extern | ExternStage] = ()) -> Kernel:
    """The kernel that a text describes; `externs` are the functions (`tw.extern`, `tw.extern_stage`) that it names.

    Nothing in the text is evaluated as Python.
    """
    from tilewright.lang.text import parse_kernel as parse

    return from_pipeline(parse(text, origin, externs=externs))


def parse_schedule(text: str, kernel: Any, origin: str = "<text>") -> Any:
    """The schedule that a text describes, for `kernel`; every directive is checked as if written by hand."""
    from tilewright.schedule.schedule import parse_schedule as parse

    return parse(text, _pipeline(kernel), origin=origin)


def write(path: Path | str, *items: Kernel | Pipeline | Schedule) -> None:
    """A `.tw` file of kernels and schedules, which `read` gives back; a file that is there already is replaced.

    A schedule is written with its algorithm's hash, so that it is refused for any other version of it. Raises OSError
    where the file can't be written, DefinitionError for a kernel whose static values or types are still open.
    """
    from tilewright.lang.text.blocks import format_tw

    Path(path).write_text(format_tw(map(_block, items)), encoding="utf-8")


def _block(item: Kernel | Pipeline | Schedule) -> str:
    from tilewright.lang.text import print_kernel
    from tilewright.schedule.schedule import Schedule
    from tilewright.schedule.text import print_directives

    if isinstance(item, Schedule):
        machine = None if item.machine is None else item.machine.name
        return print_directives(item.pipeline.name, item.directives, item.pipeline.digest, machine)
    return print_kernel(_pipeline(item))


def read(path: Path | str, externs: Iterable[Extern | ExternStage] = ()) -> TwFile:
    """The kernels and schedules of a `.tw` file; `externs` are the functions (`tw.extern`) that its kernels name.

    Raises OSError where the file can't be read, and ParseError (file, line, column, what was expected).
    """
    from tilewright.lang.text import parse_kernel as parse
    from tilewright.lang.text.blocks import read_tw
    from tilewright.schedule.text import parse_schedules

    path = Path(path)
    kernels: dict[str, Kernel] = {}
    schedules: list[ScheduleText] = []
    try:
        blocks = read_tw(path)
    except UnicodeDecodeError:
        raise ParseError(f"{path} is no UTF-8 text", code="parse.encoding", where=Location(str(path), 1)) from None
    known = tuple(externs)
    for block in blocks:
        if block.kind == "schedule":
            schedules += parse_schedules(block.text, block.origin, block.first_line)
            continue
        p = parse(block.text, block.origin, block.first_line, known)
        if p.name in kernels:
            raise ParseError(
                f"there are two kernels {p.name}",
                code="parse.name-twice",
                where=Location(block.origin, block.first_line, 1),
            )
        kernels[p.name] = from_pipeline(p)
    return TwFile(path, kernels, tuple(schedules))


def _pipeline(kernel: Any) -> Pipeline:
    return kernel.pipeline() if isinstance(kernel, Kernel) else kernel
