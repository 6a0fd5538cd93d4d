"""The charts of the report: when steps run, where buffers lie while they live, the roofline, and cliffs of capacity."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.hw import humane
from tilewright.hw.render.tables import cut
from tilewright.planner.reports.svg import el, line, number, picture, text, titled
from tilewright.planner.reports.words import limit_class, seconds

if TYPE_CHECKING:
    from tilewright.planner.cliff import Cliff

_LEFT, _RIGHT, _WIDTH = 78.0, 990.0, 1000.0  # of the plot in the picture, and the picture
_LETTER = 6.3  # the width of one in a small text


# Axes -------------------------------------------------------------------------------------------------------------


def _round_steps(top: float, most: int = 6, base: int = 10) -> Iterator[float]:
    """Round numbers from 0 to `top`, no more than `most`; bytes have powers of two."""
    if top <= 0:
        return
    rough = top / most
    scale = float(base) ** math.floor(math.log(rough, base))
    choices = (1, 2, 4, 8, 16) if base == 2 else (1, 2, 5, 10)
    step = next(c * scale for c in choices if c * scale >= rough)
    for k in range(int(top / step) + 1):
        yield k * step


def _axis_x(ticks: Iterable[tuple[float, str]], top: float, bottom: float, said: str) -> str:
    parts = []
    for x, label in ticks:
        parts.append(line(x, top, x, bottom, "grid"))
        parts.append(text(label, x, bottom + 15, "tick", "middle"))
    parts.append(text(said, (_LEFT + _RIGHT) / 2, bottom + 32, "label", "middle"))
    return "".join(parts)


def _axis_y(ticks: Iterable[tuple[float, str]], said: str, top: float, bottom: float) -> str:
    parts = []
    for y, label in ticks:
        parts.append(line(_LEFT, y, _RIGHT, y, "grid"))
        parts.append(text(label, _LEFT - 6, y + 3.5, "tick", "end"))
    middle = (top + bottom) / 2
    parts.append(el("text", said, x=14.0, y=middle, cls="label", text_anchor="middle",
                    transform=f"rotate(-90 14 {number(middle)})"))  # fmt: skip
    return "".join(parts)


# Steps over time --------------------------------------------------------------------------------------------------


def timeline(data: Mapping[str, Any]) -> str:
    """When each step runs by the model, and below how much of it is arithmetic and how much is moving bytes. Steps that run
    at once stand above each other."""
    steps = data["steps"]
    starts, total, most = _starts(data)
    if not total:
        return ""
    scale = (_RIGHT - _LEFT) / total
    high = 46.0 if most == 1 else 24.0
    lanes = [("steps", 8.0, high)]
    bottom = 8.0 + high * most + 8.0
    if most == 1:
        lanes += [("arithmetic", bottom, 16.0), ("bytes", bottom + 22, 16.0)]
        bottom += 46.0
    ticks = [(_LEFT + scale * c, humane.count(c) if c else "0") for c in _round_steps(total)]
    took = seconds(total / (data["clock_ghz"] * 1e9))
    said = f"cycles by the model ({humane.count(total)} in all, {took} at {data['clock_ghz']:g} GHz)"
    parts = [_axis_x(ticks, 4.0, bottom, said)]
    parts += [text(name, _LEFT - 6, y + h / 2 + 4, "tick", "end") for name, y, h in lanes]
    for k, (s, (start, lane)) in enumerate(zip(steps, starts, strict=True)):
        at, width = _LEFT + scale * start, scale * (s["cycles"] or 0)
        for (name, y, h), took_by in zip(lanes, (s["cycles"] or 0, s["computing"], s["moving"]), strict=False):
            cls = limit_class(s["limit"]) if name == "steps" else "compute" if name == "arithmetic" else "memory"
            hint = titled(
                f"step {k}: {s['name']}\n{humane.count(took_by)} cycles{'' if name == 'steps' else ' of ' + name}"
            )
            top = y + lane * h if name == "steps" else y
            parts.append(el("rect", hint, x=at, y=top,
                            width=max(0.4, min(width, scale * took_by)), height=h,
                            cls=f"bar {cls}{' thin' if width < 3 else ''}",
                            data_step=k))  # fmt: skip
        room = int((width - 8) / _LETTER)
        if room >= min(7, len(s["name"])):
            parts.append(text(cut(s["name"], room), at + 4, 8 + lane * high + high / 2 + 4, "small in"))
    return picture("".join(parts), _WIDTH, bottom + 40, "timeline", "The steps over time")


def _starts(data: Mapping[str, Any]) -> tuple[list[tuple[float, int]], float, int]:
    """When each step begins, with its number among those that run at once; the end of all; and the most at once."""
    found: list[tuple[float, int]] = []
    now = 0.0
    groups = data["order"]["groups"] or [1] * len(data["steps"])
    for n in groups:
        group = data["steps"][len(found) : len(found) + n]
        found += [(now, lane) for lane in range(n)]
        now += max(s["cycles"] or 0.0 for s in group)
    return found, now, max(groups, default=1)


# Buffers ----------------------------------------------------------------------------------------------------------


def buffers_picture(data: Mapping[str, Any]) -> str:
    """Each buffer as a rectangle: the steps in which it lives, and its place in the block of memory."""
    buffers, n = data["buffers"], len(data["steps"])
    size = data["metrics"]["plan"]["memory"]["buffers"]
    if not buffers or not size:
        return ""
    top, bottom = 10.0, 320.0
    across, up = (_RIGHT - _LEFT) / n, (bottom - top) / size
    every = max(1, -(-n // 24))
    x_ticks = [(_LEFT + across * (k + 0.5), str(k)) for k in range(0, n, every)]
    y_ticks = [(bottom - up * b, humane.size(b) if b else "0") for b in _round_steps(size, base=2)]
    parts = [_axis_x(x_ticks, top, bottom, "step"), _axis_y(y_ticks, "place in the block", top, bottom)]
    colours: dict[str, int] = {}  # of equal layers the same
    for b in buffers:
        colour = colours.setdefault(re.sub(r"\d+", "", b["name"]), len(colours)) % 8
        high = up * b["bytes"]
        y = bottom - up * b["offset"] - high
        lies = f", over {b['over']}" if b["over"] else ""
        for first, last in b["spans"]:
            x, wide = _LEFT + across * first, across * (last - first + 1)
            hint = titled(
                f"{b['name']}: {b['dtype']}[{', '.join(map(str, b['shape']))}] {b['layout']}\n"
                f"{humane.size(b['bytes'])} at {b['offset']:,}{lies}; steps {first} to {last}"
            )
            parts.append(el("rect", hint, x=x + 0.5, y=y, width=max(0.5, wide - 1), height=max(0.6, high - 0.8), rx=2.0,
                            cls=f"buffer c{colour}", data_step=first))  # fmt: skip
            room = int((wide - 10) / _LETTER)
            if high >= 13 and room >= min(7, len(b["name"])):
                parts.append(text(cut(b["name"], room), x + 5, y + min(high / 2 + 4, 15), "small in"))
    return picture("".join(parts), _WIDTH, bottom + 40, "buffers", "Buffers over time and memory")


# The roofline -----------------------------------------------------------------------------------------------------


def _decades(low: float, high: float) -> range:
    return range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)


def _log_scale(low: int, high: int, a: float, b: float) -> Callable[[float], float]:
    """From numbers between 10^low and 10^high to places between `a` and `b`."""
    return lambda v: a + (b - a) * (math.log10(v) - low) / (high - low)


def roofline_picture(data: Mapping[str, Any]) -> str:
    """Operations a cycle over operations a byte: a point for each kernel, as large as its share of the time, below the roofs
    of the machine's memories and its arithmetic."""
    points = list(_points(data))
    if not points:
        return ""
    peak = max(s["peak"] for s in data["steps"])
    roofs = data["metrics"]["roofs"]
    xs, ys = [x for _, _, x, _, _ in points], [y for _, _, _, y, _ in points]
    dx = _decades(min([*xs, peak / max(roofs.values())]) / 1.5, max([*xs, peak / min(roofs.values())]) * 1.5)
    dy = _decades(min(ys) / 1.5, peak * 1.5)
    top, bottom = 12.0, 380.0
    place_x = _log_scale(dx[0], dx[-1], _LEFT, _RIGHT)
    place_y = _log_scale(dy[0], dy[-1], bottom, top)
    parts = [
        _axis_x([(place_x(10.0**e), _power(e)) for e in dx], top, bottom, "operations a byte"),
        _axis_y([(place_y(10.0**e), _power(e)) for e in dy], "operations a cycle", top, bottom),
        *_roofs(roofs, peak, dx, dy, place_x, place_y),
    ]
    for cls, k, x, y, (said, radius) in sorted(points, key=lambda p: -p[4][1]):
        at = {"cx": place_x(x), "cy": place_y(y)}
        parts.append(el("circle", titled(said), **at, r=radius, cls=f"point {cls}", data_step=k))
    return picture(
        "".join(parts), _WIDTH, bottom + 40, "roofline", "The roofline of the machine with a point for each kernel"
    )


def _points(data: Mapping[str, Any]) -> Iterator[tuple[str, int | None, float, float, tuple[str, float]]]:
    """Class, step, operations a byte, operations a cycle, and what is said with how large a mark."""
    steps = data["steps"]
    total = sum(s["cycles"] or 0 for s in steps) or 1.0
    for x in data["kernels"]:
        k = x["steps"][0]
        s = steps[k]
        took = sum(steps[n]["cycles"] or 0 for n in x["steps"])
        if s["intensity"] and s["cycles"]:
            more = f" and {len(x['steps']) - 1} more" if len(x["steps"]) > 1 else ""
            said = (
                f"{s['name']}{more}\n"
                f"{humane.count(s['intensity'])} operations a byte, {humane.count(s['flops'] / s['cycles'])} a cycle, "
                f"{humane.share(took / total)} of the time; limited by {s['limit']}"
            )
            yield limit_class(s["limit"]), k, s["intensity"], s["flops"] / s["cycles"], (
                said, 4 + 16 * math.sqrt(took / total),
            )  # fmt: skip
    for name, cls in (("plan", "whole"), ("naive", "naive")):
        t = data["metrics"][name]
        if t["intensity"] and t["cycles"]:
            said = "the whole plan" if name == "plan" else "op by op"
            yield cls, None, t["intensity"], t["flops"] / t["cycles"], (said, 5.0)


def _roofs(
    roofs: Mapping[str, float], peak: float, dx: range, dy: range,
    place_x: Callable[[float], float], place_y: Callable[[float], float],
) -> Iterator[str]:  # fmt: skip
    """Slanted lines of the memories up to the flat one of the arithmetic."""
    low_x, low_y = 10.0 ** dx[0], 10.0 ** dy[0]
    ridge = peak / max(roofs.values())
    yield line(place_x(max(low_x, ridge)), place_y(peak), _RIGHT, place_y(peak), "roof")
    yield text(f"arithmetic: {humane.count(peak)} operations a cycle", _RIGHT - 4, place_y(peak) - 6, "small", "end")
    for name, bandwidth in roofs.items():
        x0 = max(low_x, low_y / bandwidth)
        x1 = peak / bandwidth
        if x0 >= x1:
            continue
        yield line(place_x(x0), place_y(x0 * bandwidth), place_x(x1), place_y(peak), "roof")
        x, y = place_x(x0) + 8, place_y(x0 * bandwidth)
        slope = math.degrees(math.atan2(place_y(peak) - y, place_x(x1) - place_x(x0)))
        yield el("text", f"{name}: {bandwidth:.3g} B/cycle", x=x, y=y - 8, cls="small",
                 transform=f"rotate({number(slope)} {number(place_x(x0))} {number(y)})")  # fmt: skip


def _power(e: int) -> str:
    return f"{10**e:,}" if 0 <= e < 7 else f"{10.0**e:g}"


# Cliffs -----------------------------------------------------------------------------------------------------------


def cliff_picture(cliff: Cliff) -> str:
    """What a region takes with tiles of these widths: green where they fit, orange where something is left in main memory.
    The ring is the plan's width, the dashed line the capacity."""
    points = [p for p in cliff.points if p.cycles]
    if not points:
        return ""
    top, bottom = 14.0, 210.0
    high = 1.08 * max(p.cycles or 0 for p in points)
    across = (_RIGHT - _LEFT) / len(points)
    places = [
        (_LEFT + across * (k + 0.5), bottom - (bottom - top) * (p.cycles or 0) / high) for k, p in enumerate(points)
    ]
    x_ticks = [(x, f"{p.width:,}") for (x, _), p in zip(places, points, strict=True)]
    y_ticks = [(bottom - (bottom - top) * y / high, humane.count(y) if y else "0") for y in _round_steps(high, 4)]
    parts = [
        _axis_x(x_ticks, top, bottom, f"width of a tile along {cliff.axis}"),
        _axis_y(y_ticks, "cycles", top, bottom),
    ]
    fitting = [at for at, p in zip(places, points, strict=True) if p.fits]
    if len(fitting) > 1:
        parts.append(el("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y in fitting), cls="cliff"))
    if fitting and len(fitting) < len(points):
        edge = _LEFT + across * len(fitting)
        parts.append(line(edge, top, edge, bottom, "edge limit"))
        parts.append(text(f"{cliff.memory}: {humane.size(cliff.capacity)}", edge + 6, top + 12, "small"))
    for (x, y), p in zip(places, points, strict=True):
        lies = "" if p.fits else f", {p.spilled} stays in main memory" if p.spilled else ", which does not fit"
        hint = titled(
            f"{p.width:,}: {humane.count(p.cycles or 0)} cycles; {humane.size(p.peak)} of {cliff.memory}{lies}"
        )
        if p.width == cliff.chosen:
            parts.append(el("circle", cx=x, cy=y, r=9.0, cls="point naive"))
        parts.append(el("circle", hint, cx=x, cy=y, r=5.0, cls=f"point {'compute' if p.fits else 'memory'}"))
    return picture(
        "".join(parts), _WIDTH, bottom + 40, "cliffs", f"What {cliff.region} takes with tiles of other widths"
    )


__all__ = ["buffers_picture", "cliff_picture", "roofline_picture", "timeline"]
