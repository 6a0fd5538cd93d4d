"""How full each memory was over time, by buffer, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.hw import humane
from tilewright.hw.errors import AccountError
from tilewright.hw.fields import show_bytes

from .account_tables import heading
from .lives import occupancy, timeline
from .pictures import INK, cycles_axis, draw, literal, shades, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.hw.account import Account
    from tilewright.hw.machine import Machine

_Steps = list[tuple[float, dict[str, int]]]
_NAMED = 9  # buffers with a colour of their own; the others are one
_OTHERS = "other buffers"
_SHOWN = 0.3  # a capacity is drawn as a line where this part of it is taken at least


def draw_occupancy(account: Account, machine: Machine, path: str | Path) -> None:
    """Save the picture; Raises AccountError `account.timeline` where nothing is known of the lives of buffers."""
    found = {memory: _few(steps) for memory, steps in occupancy(timeline(account)).items()}
    if not found:
        raise AccountError(
            f"no memory of {account.machine} holds a buffer of {account.kernel}", code="account.timeline",
            hint="what a schedule stages (cache_read, cache_write, store_in) can be drawn",
        )  # fmt: skip
    draw(path, 1.3 + 2.5 * len(found), lambda figure: _paint(figure, account, machine, found))


def _few(steps: _Steps) -> _Steps:
    """The same with the largest buffers by name and the others together."""
    most: dict[str, int] = {}
    for _, buffers in steps:
        for name, size in buffers.items():
            most[name] = max(most.get(name, 0), size)
    named = sorted(most, key=lambda name: -most[name])[:_NAMED]
    if len(named) == len(most):
        return steps
    return [
        (at, {n: b[n] for n in b if n in named} | {_OTHERS: sum(s for n, s in b.items() if n not in named)})
        for at, b in steps
    ]


def _paint(figure: Figure, account: Account, machine: Machine, found: dict[str, _Steps]) -> None:
    rows = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
    first, last = min(s[0][0] for s in found.values()), max(s[-1][0] for s in found.values())
    capacities = {m.name: m.capacity for m in machine.memories}
    for axes, (memory, steps) in zip(rows, found.items(), strict=True):
        _memory(axes, memory, steps, capacities.get(memory))
        axes.set_xlim(first, max(last, first + 1))
    figure.suptitle(title(heading(account)), x=0.012, ha="left", fontsize=12.5, fontweight="bold")
    cycles_axis(rows[-1], None)
    rows[-1].set_xlabel(f"cycles (at {machine.clock_ghz:g} GHz)")


def _memory(axes: Axes, memory: str, steps: _Steps, capacity: int | None) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    names = list(steps[0][1])
    at = [t for t, _ in steps]
    colours = shades(names)
    axes.stackplot(at, [[b[n] for _, b in steps] for n in names], step="post", labels=[literal(n) for n in names],
                   colors=[colours[n] for n in names], edgecolor="white", linewidth=0.5)  # fmt: skip
    peak = max(sum(b.values()) for _, b in steps)
    said = f"{memory}: peak {humane.size(peak)}"
    top = peak
    if capacity is not None:
        said += f" of {show_bytes(capacity)} ({humane.share(peak / capacity)})"
        if peak >= _SHOWN * capacity:
            top = max(peak, capacity)
            axes.axhline(capacity, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), label="capacity")
    axes.set_title(literal(said), fontsize=11, fontweight="normal")
    axes.set_ylim(0, 1.08 * top if top else 1)
    axes.set_ylabel("bytes")
    # Steps in powers of two: 16 KiB, 32 KiB and not 20,000.
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 4, 5, 10]) if top < 1024 else _binary_steps(top))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: humane.size(round(y))))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, reverse=True)


def _binary_steps(top: int):
    from matplotlib.ticker import MultipleLocator

    return MultipleLocator(2.0 ** (top.bit_length() - 3))
