"""Frozen schedules: a `.tw` file with a schedule for each bucket, to be reviewed, versioned and shipped.

    tilewright 1

    #: time in mode contract on AMD EPYC, 2 threads (5f1c09aa)
    #: llvmlite 0.50.0 numba 0.68.1, code generator 9b456a58

    schedule matmul hash 2d92d7b4 for "M=17..24,N=1024,K=1024"
      #: 1.235 ms at M=24,N=1024,K=1024; median 1.301 ms; spread 2.1 %; 2026-11-30
      C.update:
        ...

What was measured stands in comments that begin with `#:`, and is read back from them; figures have four digits. The file
may hold its kernels too. Any reader of `.tw` files reads it, and any writer of such files may have written it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.errors import RecordError
from tilewright.autotune.records.lines import replaced
from tilewright.autotune.records.record import Record
from tilewright.lang.errors import Location, ParseError, TilewrightError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.text import parse_kernel, print_kernel
from tilewright.lang.text.blocks import format_tw, read_tw
from tilewright.schedule.schedule import Schedule, replay
from tilewright.schedule.text import ScheduleText, parse_schedules, print_directives

MARK = "#:"
_TIMES = (("s", 0), ("ms", -3), ("us", -6), ("ns", -9))
_FIGURE = re.compile(r"(?P<figure>\d+(?:\.\d+)?(?:e[+-]?\d+)?) (?P<unit>\w+)(?: at (?P<at>[\w=,]+))?\Z", re.ASCII)
_FIELD = re.compile(r"(?P<name>median|spread|caches|of) (?P<value>.+)\Z")
_STAND_IN = "; stands in: "
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)


@dataclass(frozen=True)
class Measured:
    """What was measured for a schedule: a figure in its unit, at which sizes, the median and spread (a share) of times, the
    mode of caches, and the day. `origin` says what differs where it was not measured for just this case; `earlier` is the
    hash of the version of the algorithm that was measured, where that is not the schedule's."""

    figure: float
    unit: str = "s"
    sizes: Mapping[str, int] = field(default_factory=dict)
    median: float | None = None
    spread: float | None = None
    cache: str = "hot"
    day: str = ""
    origin: str = ""
    earlier: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", dict(self.sizes))
        object.__setattr__(self, "origin", " ".join(self.origin.split()))
        for name in ("figure", "median"):
            number = getattr(self, name)
            if number is not None:
                object.__setattr__(self, name, _read_quantity(*_quantity(number, self.unit)))
        if self.spread is not None:
            object.__setattr__(self, "spread", _scaled(_digits(self.spread * 100), -2))

    def __str__(self) -> str:
        """As the line after the mark."""
        at = ",".join(f"{n}={v}" for n, v in self.sizes.items())
        parts = [" ".join(_quantity(self.figure, self.unit)) + (f" at {at}" if at else "")]
        parts += [f"median {' '.join(_quantity(self.median, self.unit))}"] if self.median is not None else []
        parts += [f"spread {_digits(self.spread * 100)} %"] if self.spread is not None else []
        parts += [f"caches {self.cache}"] if self.cache != "hot" else []
        parts += [self.day] if self.day else []
        parts += [f"of {self.earlier}"] if self.earlier else []
        return "; ".join(parts) + (f"{_STAND_IN}{self.origin}" if self.origin else "")


def read_measured(text: str) -> Measured | None:
    """What a line after the mark says; None where it says something else."""
    text, _, origin = text.partition(_STAND_IN)
    first, *rest = (p.strip() for p in text.split(";"))
    head = _FIGURE.match(first)
    if head is None:
        return None
    found: dict[str, object] = {"origin": origin}
    try:
        sizes = {n: int(v) for n, _, v in (p.partition("=") for p in (head["at"] or "").split(",") if p)}
        for part in rest:
            m = _FIELD.match(part)
            if _DAY.match(part):
                found["day"] = part
            elif m is None:
                return None
            elif m["name"] == "median":
                found["median"] = _read_quantity(*m["value"].split(" "))
            elif m["name"] == "spread":
                found["spread"] = _scaled(m["value"].removesuffix(" %"), -2)
            else:
                found[{"caches": "cache", "of": "earlier"}[m["name"]]] = m["value"]
        unit = "s" if head["unit"] in dict(_TIMES) else head["unit"]
        return Measured(_read_quantity(head["figure"], head["unit"]), unit, sizes, **found)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return None


def _digits(x: float) -> str:
    return f"{x:.4g}" if 1e-4 <= abs(x) < 1e4 or x == 0 else f"{x:.3e}"


def _quantity(x: float, unit: str) -> tuple[str, str]:
    if unit != "s":
        return (f"{x:.0f}" if x == int(x) and x < 1e15 else repr(x)), unit
    name, power = next((t for t in _TIMES if x >= float(f"1e{t[1]}")), _TIMES[-1])
    return _digits(x / 10.0**power), name


def _read_quantity(digits: str, unit: str) -> float:
    return _scaled(digits, dict(_TIMES).get(unit, 0))


def _scaled(digits: str, power: int) -> float:
    """The number that is `digits` times a power of ten, exactly rounded."""
    mantissa, _, exponent = digits.partition("e")
    return float(f"{mantissa}e{int(exponent or 0) + power}")


# Files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """The schedule of a bucket. `text` says its kernel, hash and directives; `remarks` are other lines with the mark."""

    text: ScheduleText
    measured: Measured | None = None
    remarks: tuple[str, ...] = ()

    @property
    def kernel(self) -> str:
        return self.text.kernel

    @property
    def bucket(self) -> str:
        """The bucket's text; "" where the schedule is for any sizes."""
        return self.text.sizes or ""

    @property
    def place(self) -> Location | None:
        return self.text.location

    def box(self) -> Bucket:
        """The bucket. Raises RecordError `records.bucket` with the place in the file."""
        from tilewright.autotune.errors import TuneError

        try:
            return Bucket.read(self.bucket)
        except TuneError as e:
            raise RecordError(e.message, code="records.bucket", where=self.place, hint=e.hint) from None

    def schedule(self, p: Pipeline, stale: bool = False) -> Schedule:
        """Carried out for a pipeline, every directive checked; with `stale` also for another version of the algorithm than
        it was written for. Raises ScheduleError."""
        return replay(replace(self.text, hash=None) if stale else self.text, p)

    def block(self) -> str:
        """As it is written."""
        t = self.text
        head, *rest = print_directives(t.kernel, t.directives, t.hash, t.machine, t.sizes).rstrip("\n").split("\n")
        said = [*([str(self.measured)] if self.measured else []), *self.remarks]
        return "\n".join([head, *(f"  {MARK} {line}" for line in said), *rest]) + "\n"


@dataclass(frozen=True)
class Frozen:
    """A file of frozen schedules: remarks for all of them (without the mark), kernels, if it has any, and the entries."""

    entries: tuple[Entry, ...]
    remarks: tuple[str, ...] = ()
    kernels: tuple[Pipeline, ...] = ()

    def text(self) -> str:
        """The file. Entries are in the order of kernels and buckets, so that equal contents are equal files."""
        head = "\n".join(f"{MARK} {r}" for r in self.remarks)
        blocks = [*([head] if head else []), *map(print_kernel, self.kernels), *(e.block() for e in self.entries)]
        return format_tw(blocks)

    def of(self, kernel: str) -> tuple[Entry, ...]:
        """The entries of a kernel."""
        return tuple(e for e in self.entries if e.kernel == kernel)

    def pipeline(self, name: str) -> Pipeline | None:
        """The kernel of that name that the file holds."""
        return next((p for p in self.kernels if p.name == name), None)

    def write(self, path: str | Path) -> None:
        """Write the file; one that is there is replaced when the new one is whole. Raises OSError."""
        with replaced(Path(path)) as file:
            file.write(self.text())


def read_frozen(path: str | Path) -> Frozen:
    """The frozen schedules of a `.tw` file. Raises OSError, and ParseError (file, line, column, what was expected)."""
    path = Path(path)
    try:
        blocks = read_tw(path)
        before = path.read_text(encoding="utf-8").split("\n")[: blocks[0].first_line - 1 if blocks else None]
    except UnicodeDecodeError:
        raise ParseError(f"{path} is no UTF-8 text", code="parse.encoding", where=Location(str(path), 1)) from None
    kernels: list[Pipeline] = []
    entries: list[Entry] = []
    for b in blocks:
        if b.kind == "kernel":
            kernels.append(parse_kernel(b.text, b.origin, b.first_line))
        else:
            entries += (_entry(t, b.text) for t in parse_schedules(b.text, b.origin, b.first_line))
    return Frozen(tuple(entries), tuple(_marked(before)), tuple(kernels))


def _marked(lines: Iterable[str]) -> list[str]:
    return [line.strip()[len(MARK) :].strip() for line in lines if line.strip().startswith(MARK)]


def _entry(text: ScheduleText, block: str) -> Entry:
    measured, remarks = None, []
    for line in _marked(block.split("\n")):
        found = read_measured(line) if measured is None else None
        measured = measured or found
        remarks += [line] if found is None else []
    return Entry(text, measured, tuple(remarks))


# Making ---------------------------------------------------------------------------------------------------------


def entry_of(bucket: str, schedule: Schedule, measured: Measured | None = None) -> Entry:
    """The entry of a schedule for a bucket ("" for any sizes)."""
    p = schedule.pipeline
    machine = None if schedule.machine is None else schedule.machine.name
    return Entry(ScheduleText(p.name, p.digest, machine, schedule.directives, None, bucket or None), measured)


def measured_of(r: Record, origin: str = "") -> Measured | None:
    """What a record says, as files have it."""
    if r.figure is None:
        return None
    return Measured(r.figure, r.unit, r.sizes, r.median, r.spread or None, r.cache, r.when[:10], origin)


def frozen(entries: Iterable[Entry], remarks: Sequence[str] = (), kernels: Sequence[Pipeline] = ()) -> Frozen:
    """A file's contents, in order. Kernels that a text alone does not tell (they call functions of the user's) are left
    out."""
    told = (p for p in kernels if _is_told(p))
    return Frozen(tuple(sorted(entries, key=place_of)), tuple(remarks), tuple(sorted(told, key=lambda p: p.name)))


def _is_told(p: Pipeline) -> bool:
    try:
        return parse_kernel(print_kernel(p)).digest == p.digest
    except TilewrightError:
        return False


def place_of(e: Entry) -> tuple:
    """Where an entry stands in a file."""
    try:
        return e.kernel, 0, [(r.name, r.low, r.high) for r in e.box().ranges], e.bucket
    except RecordError:
        return e.kernel, 1, [], e.bucket


__all__ = [
    "MARK", "Entry", "Frozen", "Measured", "entry_of", "frozen", "measured_of", "place_of", "read_frozen", "read_measured",
]  # fmt: skip
