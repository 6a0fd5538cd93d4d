"""`sweep`: one schedule on many machines, each with other figures: a table, the Pareto front, and a picture.

tw.sweep(s, machine="snitch-cluster", sizes=..., over={"memory.tcdm.capacity": ["64 KiB", "128 KiB"],
                                                       "dma.dma.bandwidth": [16, 32, 64]})
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.hw import Account, CapacityError, Machine, SimulationError, humane
from tilewright.hw.annotated import what_ran
from tilewright.hw.fields import show_bytes
from tilewright.hw.render.tables import Table
from tilewright.hw.variants import changed, figure
from tilewright.lang.binding import check_all_sizes
from tilewright.lang.errors import ArgumentError, user_location
from tilewright.schedule.schedule import Schedule
from tilewright.views.accounts import account_of, as_machine, as_schedule
from tilewright.views.explain import Measured, busy_of, measured, too_large, waits_of

if TYPE_CHECKING:
    from tilewright.kernels import Kernel

MOST = 10_000  # points


@dataclass(frozen=True, slots=True)
class Point:
    """One machine: the values of the figures that are swept, as the machine has them (bytes as numbers, None where a
    capacity is unbounded), and what the schedule costs there. `problem` says why it does not run there; `account` is None
    then."""

    values: Mapping[str, Any]
    figures: Measured
    account: Account | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What `sweep` found, a point for each machine in the order of `over`. `cost` is the figure that the front weighs
    cycles against; all that are swept where it is empty."""

    kernel: str
    machine: str
    sizes: Mapping[str, int]
    main: str
    names: tuple[str, ...]
    points: tuple[Point, ...]
    cost: str = ""

    @property
    def measure(self) -> str:
        """What is to be small: `cycles`, or the bytes of main memory where the accounts have no time."""
        timed = any(p.figures.cycles is not None for p in self.points)
        return "cycles" if timed else f"{self.main} bytes"

    def value(self, p: Point) -> float:
        """The measure at a point, infinite where the schedule does not run."""
        if p.problem:
            return math.inf
        return p.figures.cycles if p.figures.cycles is not None else p.figures.bytes.get(self.main, 0)

    @property
    def front(self) -> tuple[Point, ...]:
        """The Pareto front: points that no other point beats, one that costs no more and is faster, or costs less and is no
        slower. Figures that are no numbers (`compute.sync`) count only as equal or not."""
        good = [p for p in self.points if not p.problem]
        return tuple(p for p in good if not any(self._beats(q, p) for q in good))

    def _beats(self, q: Point, p: Point) -> bool:
        names = (self.cost,) if self.cost else self.names
        pairs = [(self.value(q), self.value(p)), *((_number(q.values[n]), _number(p.values[n])) for n in names)]
        words = all(q.values[n] == p.values[n] for n in names if _number(q.values[n]) is None)
        numbers = [(a, b) for a, b in pairs if a is not None and b is not None]
        return words and all(a <= b for a, b in numbers) and any(a < b for a, b in numbers)

    # Out --------------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[dict[str, Any]]:
        """A point as plain data, one key for each column."""
        front = {id(p) for p in self.front}
        for p in self.points:
            f = p.figures
            yield {
                **p.values, "cycles": f.cycles, "busy": f.busy, **{f"waits {c}": w for c, w in f.waits.items()},
                **{f"bytes {m}": n for m, n in f.bytes.items()}, **{f"peak {m}": n for m, n in f.peak.items()},
                "ops/byte": f.intensity, "front": id(p) in front, "problem": p.problem or None,
            }  # fmt: skip

    def to_json(self) -> str:
        """Everything but the accounts themselves."""
        head = {"kernel": self.kernel, "machine": self.machine, "sizes": dict(self.sizes), "over": list(self.names)}
        return json.dumps(
            head | {"measure": self.measure, "cost": self.cost or None, "points": list(self.rows())}, indent=2
        )

    def to_csv(self) -> str:
        """A line for each point, under a line of heads; what a point does not have is empty."""
        rows = list(self.rows())
        heads = list(dict.fromkeys(key for row in rows for key in row))
        last = [h for h in ("ops/byte", "front", "problem") if h in heads]
        out = io.StringIO()
        writer = csv.DictWriter(out, [*(h for h in heads if h not in last), *last], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def plot(self, path: str | Path) -> None:
        """A picture of the measure over the cost (or the first figure that is swept), a line for each combination of the
        others: PNG, SVG or PDF by the end of the name.

        Raises AccountError `account.plot` where matplotlib (the extra `plot`) is missing, or the end is another one;
        OSError where the file can't be written.
        """
        from tilewright.hw.render.pictures import draw
        from tilewright.views.sweep_picture import paint

        draw(path, 5.5, lambda figure: paint(self, figure))

    def title(self) -> str:
        return what_ran(self.kernel, self.machine, self.sizes)

    def notes(self) -> list[str]:
        """What the marks in the table mean, what is missing, and what the accounts say that a reader must know."""
        costs = self.cost or " or ".join(self.names)
        lost = sum(bool(p.problem) for p in self.points)
        notes = [f"* on the Pareto front: fewer {self.measure} take a larger {costs}"] if self.front else []
        said = dict.fromkeys(note for p in self.points if p.account is not None for note in p.account.notes)
        return [*notes, *[f"{lost} of {len(self.points)} do not run"] * bool(lost), *(f"note: {note}" for note in said)]

    def table(self) -> Table:
        """A row for each point."""
        head, *rows = self._rows()
        return Table("", head, tuple(rows), left=0)

    def __str__(self) -> str:
        return "\n\n".join([self.title(), str(self.table()), "\n".join(self.notes())]).rstrip()

    def _repr_html_(self) -> str:
        from tilewright.hw.render.html import page

        return page(self.title(), [self.table()], self.notes())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        moved = tuple(dict.fromkeys(m for p in self.points for m in p.figures.bytes if m != "reg"))
        taken = tuple(dict.fromkeys(m for p in self.points for m in p.figures.peak if m not in (self.main, "reg")))
        front = {id(p) for p in self.front}
        rows = [
            (
                *self.names,
                "",
                "cycles",
                "busy",
                "waits for",
                *(f"{m} bytes" for m in moved),
                *(f"peak in {m}" for m in taken),
            )
        ]
        for p in self.points:
            f = p.figures
            rows.append((
                *(shown(n, p.values[n]) for n in self.names), "*" if id(p) in front else "",
                "" if f.cycles is None else humane.count(f.cycles), busy_of(f), p.problem or waits_of(f),
                *(humane.size(f.bytes[m]) if m in f.bytes else "" for m in moved),
                *(humane.size(f.peak[m]) if m in f.peak else "" for m in taken),
            ))  # fmt: skip
        widest = max(len(row[len(self.names) + 3]) for row in rows)
        used = [k for k in range(len(rows[0])) if any(row[k] for row in rows[1:])]
        for row in rows:
            padded = [c.ljust(widest) if k == len(self.names) + 3 else c for k, c in enumerate(row)]
            yield tuple(padded[k] for k in used)


def shown(name: str, value: Any) -> str:
    """A value of a figure as a person reads it."""
    if value is None:
        return "unbounded"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return show_bytes(int(value)) if name.rpartition(".")[2] in ("capacity", "size") else f"{value:g}"
    return str(value)


def _number(value: Any) -> float | None:
    """A value as a number that may be compared, None for a word."""
    if value is None:  # an unbounded capacity
        return math.inf
    return float(value) if isinstance(value, (int, float)) else None


# Sweeping -------------------------------------------------------------------------------------------------------


def sweep(
    schedule: Schedule | Kernel,
    *,
    machine: Machine | str | None = None,
    over: Mapping[str, Sequence[Any]],
    sizes: Mapping[str, int],
    zipped: bool = False,
    cost: str = "",
    mode: str = "contract",
    inputs: Mapping[str, Any] | None = None,
) -> Sweep:
    """The account of a schedule on machines with other figures: every combination of the values in `over`, or, `zipped`, the
    first values of all, then the second ones, and so on.

    Figures are named as in `hw.variants.changed`, values given as in a machine file (16, "64 KiB"). `cost` names the figure
    that the Pareto front weighs cycles against. Every machine is checked before anything runs; a point at which buffers
    do not fit is one with a `problem`.

    Raises MachineError for figures or values that are not legal, ArgumentError `argument.sweep` for an empty sweep, lists of
    different lengths that are zipped, or a `cost` that is not swept, and what making an account raises.
    """
    own = as_schedule(schedule)
    on = as_machine(machine, own)
    check_all_sizes(own.pipeline, sizes)
    names, values = _combined(over, zipped)
    if cost and cost not in names:
        raise _wrong(f"the cost {cost} is none of the figures that are swept", f"they are {', '.join(names)}")
    machines = [changed(on, dict(zip(names, row, strict=True))) for row in values]
    points = tuple(_point(own, m, names, sizes, mode, inputs) for m in machines)
    return Sweep(own.pipeline.name, on.name, dict(sizes), on.main.name, names, points, cost)


def _combined(over: Mapping[str, Sequence[Any]], zipped: bool) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    listed = {n: list(v) if isinstance(v, Sequence) and not isinstance(v, str) else [v] for n, v in over.items()}
    empty = [n for n, v in listed.items() if not v]
    if not listed or empty:
        raise _wrong(
            f"there are no values for {empty[0]}" if empty else "no figure is swept", 'over={"compute.cores": [1, 2]}'
        )
    lengths = {n: len(v) for n, v in listed.items()}
    if zipped and len(set(lengths.values())) > 1:
        shown = ", ".join(f"{n} has {k}" for n, k in lengths.items())
        raise _wrong(f"lists that go together are of different lengths: {shown}", "as many values for each figure")
    if not zipped and math.prod(lengths.values()) > MOST:
        raise _wrong(f"{math.prod(lengths.values()):,} points", f"at most {MOST:,}")
    rows = zip(*listed.values(), strict=True) if zipped else itertools.product(*listed.values())
    return tuple(listed), list(rows)


def _wrong(problem: str, legal: str) -> ArgumentError:
    return ArgumentError(f"sweep: {problem}", code="argument.sweep", where=user_location(), hint=legal)


def _point(
    s: Schedule, machine: Machine, names: tuple[str, ...], sizes: Mapping[str, int], mode: str,
    inputs: Mapping[str, Any] | None,
) -> Point:  # fmt: skip
    values = {n: figure(machine, n) for n in names}
    try:
        account = account_of(s, machine, sizes, mode, inputs)
    except CapacityError as e:
        return Point(values, Measured(peak={e.footprint.memory: e.footprint.peak}), None, too_large(e.footprint))
    except SimulationError as e:
        return Point(values, Measured(), None, e.message)
    return Point(values, measured(account, machine), account)


__all__ = ["Point", "Sweep", "sweep"]
