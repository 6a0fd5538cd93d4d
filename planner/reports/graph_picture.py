"""Pictures of graphs: the steps of a plan with the Funcs in each, equal layers drawn once; and the Funcs of one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.hw import humane
from tilewright.hw.render.tables import cut
from tilewright.planner.reports.layered import Box, Drawing, layered
from tilewright.planner.reports.svg import curve, el, picture, text, titled
from tilewright.planner.reports.words import limit_class, tile_text

_LEAST = 420.0  # of a picture: so that a single box is not as large as a page
_WIDTH, _PAD = 218.0, 10.0  # of the box of a step
_DOT, _DOTS = 11.0, 18  # the mark of a Func, and how many stand in a row
_LONGEST = 60  # steps that a repeated layer may have
MOST = 1500  # boxes that a picture has; what is more would be too small to see


@dataclass(frozen=True)
class Repeat:
    """Steps that come again and again: `times` runs of `length` steps, equal kernel for kernel, from step `first` on."""

    first: int
    length: int
    times: int

    @property
    def end(self) -> int:
        return self.first + self.length * self.times

    def stands_for(self, k: int) -> int:
        """The step of the first run that is drawn for step `k`."""
        return self.first + (k - self.first) % self.length


def repeats(kernels: Sequence[int]) -> tuple[Repeat, ...]:
    """The runs of equal kernels: from the front, each time the one that saves most boxes, the shortest of several."""
    found, k, n = [], 0, len(kernels)
    while k < n:
        best = Repeat(k, 1, 1)
        for length in range(1, min(_LONGEST, (n - k) // 2) + 1):
            times = 1
            while kernels[k + times * length : k + (times + 1) * length] == kernels[k : k + length]:
                times += 1
            if (times - 1) * length > (best.times - 1) * best.length:
                best = Repeat(k, length, times)
        # a single step that comes twice by chance is no layer
        if best.times > 1 and (best.length > 1 or best.times > 2):
            found.append(best)
            k = best.end
        else:
            k += 1
    return tuple(found)


def step_edges(steps: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Which step reads what which step before it makes or updates."""
    made: dict[str, int] = {}
    found: dict[tuple[int, int], None] = {}
    for k, s in enumerate(steps):
        found.update(dict.fromkeys((made[x], k) for x in s["inputs"] if x in made))
        made.update(dict.fromkeys((*s["outputs"], *s["updates"]), k))
    return list(found)


def graph_picture(data: Mapping[str, Any], folded: Sequence[Repeat] = ()) -> str:
    """The steps of a plan; of `folded` ones the first run alone."""
    steps = data["steps"]
    stands = {k: r.stands_for(k) for r in folded for k in range(r.first, r.end)}
    drawn = [k for k in range(len(steps)) if stands.get(k, k) == k][:MOST]
    number = {k: n for n, k in enumerate(drawn)}
    edges = {(stands.get(a, a), stands.get(b, b)) for a, b in step_edges(steps)}
    joined = sorted((number[a], number[b]) for a, b in edges if a < b and a in number and b in number)
    drawing = layered([(_WIDTH, _height(steps[k])) for k in drawn], joined)
    total = sum(s["cycles"] or 0 for s in steps) or 1.0
    results = {o["func"] for o in data["outputs"]}
    parts = []
    for r in folded:
        parts.append(_frame([drawing.boxes[number[k]] for k in range(r.first, r.first + r.length) if k in number], r))
    parts += [_edge(drawing, e, drawn, joined) for e in range(len(joined))]
    parts += [_step(k, steps[k], drawing.boxes[number[k]], total, stands, results) for k in drawn]
    margin, above = 34.0, 66.0  # room for the buttons
    width = max(_LEAST, drawing.width + 2 * margin)
    inner = el("g", "".join(parts), transform=f"translate({(width - drawing.width) / 2:.1f} {above})")
    return picture(inner, width, max(_LEAST, drawing.height + margin + above), "graph zoomable",
                   f"The graph of {len(steps)} steps")  # fmt: skip


def _height(step: Mapping[str, Any]) -> float:
    rows = -(-min(len(step["funcs"]), 3 * _DOTS) // _DOTS)
    return 50.0 + _DOT * rows + 12.0


def _edge(drawing: Drawing, e: int, drawn: Sequence[int], joined: Sequence[tuple[int, int]]) -> str:
    a, b = joined[e]
    return curve(drawing.paths[e], "edge", data_from=drawn[a], data_to=drawn[b])


def _frame(boxes: Sequence[Box], r: Repeat) -> str:
    """A frame around the first run of equal layers."""
    if not boxes:
        return ""
    x, y = min(b.x for b in boxes) - 12, min(b.y for b in boxes) - 20
    right, bottom = max(b.x + b.width for b in boxes) + 12, max(b.y + b.height for b in boxes) + 12
    frame = el("rect", x=x, y=y, width=right - x, height=bottom - y, rx=10.0, cls="frame")
    return frame + text(f"{r.times} \u00d7: steps {r.first} to {r.end - 1}", x + 10, y + 13, "framed")


def _step(k: int, s: Mapping[str, Any], box: Box, total: float, stands: Mapping[int, int], results: set[str]) -> str:
    runs = sum(1 for x in stands.values() if x == k) or 1
    share = runs * (s["cycles"] or 0) / total
    cls = limit_class(s["limit"])
    intensity = "no bytes" if s["intensity"] is None else f"{humane.count(s['intensity'])} op/B"
    said = f"{_plural(len(s['funcs']))} \u00b7 kernel {s['kernel']} \u00b7 {intensity}"
    parts = [
        titled(f"step {k}: {s['name']}\n{tile_text(s['tile'])}\n{humane.share(share)} of the time, limited by {s['limit']}"),
        el("rect", width=box.width, height=box.height, rx=6.0,
           cls=f"box {cls}{' result' if results & set(s['funcs']) else ''}"),
        text(cut(s["name"], 27), _PAD, 18.0, "name"),
        text(cut(said, 38), _PAD, 33.0, "small"),
        *_dots(s),
        el("rect", x=_PAD, y=box.height - 9, width=box.width - 2 * _PAD, height=3.0, cls="rail"),
        el("rect", x=_PAD, y=box.height - 9, width=share * (box.width - 2 * _PAD), height=3.0, cls=f"fill {cls}"),
    ]  # fmt: skip
    return el("g", "".join(parts), cls="step", transform=f"translate({box.x:.1f} {box.y:.1f})", data_step=k, tabindex=0)


def _plural(n: int) -> str:
    return f"{n} Func{'' if n == 1 else 's'}"


def _dots(s: Mapping[str, Any]) -> Iterator[str]:
    """A mark for each Func: full for what is stored, half for what lives in a tile, hollow for what is inlined."""
    tiled, inlined = set(s["tiled"]), set(s["inlined"])
    for n, name in enumerate(s["funcs"][: 3 * _DOTS]):
        how = "tiled" if name in tiled else "inlined" if name in inlined else "stored"
        x, y = _PAD + 4.5 + _DOT * (n % _DOTS), 46.0 + _DOT * (n // _DOTS)
        yield el("circle", titled(f"{name}: {how}"), cx=x, cy=y, r=3.6, cls=f"dot {how}")


# The Funcs of a step ----------------------------------------------------------------------------------------------


def funcs_picture(data: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """The Funcs of one step, with what they read from outside above them."""
    by_name = {f["name"]: f for f in data["funcs"]}
    inside = step["funcs"][:MOST]
    outside = list(dict.fromkeys(x for f in inside for x in by_name[f]["reads"] if x not in set(inside)))
    names = [*outside, *inside]
    number = {n: k for k, n in enumerate(names)}
    edges = sorted({(number[x], number[f]) for f in inside for x in by_name[f]["reads"] if x in number and x != f})
    edges = [(a, b) for a, b in edges if a < b]
    drawing = layered([(max(54.0, 7.2 * min(len(n), 24) + 20), 26.0) for n in names], edges, gap=14.0, row_gap=26.0)
    tiled, inlined = set(step["tiled"]), set(step["inlined"])
    parts = [curve(path, "edge") for path in drawing.paths]
    for name, box in zip(names, drawing.boxes, strict=True):
        how = (
            "outside" if name in outside else "tiled" if name in tiled else "inlined" if name in inlined else "stored"
        )  # fmt: skip
        shape = by_name[name]["shape"] if name in by_name else None
        extents = "" if shape is None else f" [{', '.join(map(str, shape))}]"
        inner = titled(f"{name}{extents}: {_HOW[how]}")
        inner += el("rect", width=box.width, height=box.height, rx=13.0, cls=f"func {how}")
        inner += text(cut(name, 24), box.width / 2, 17.0, "small", "middle")
        parts.append(el("g", inner, transform=f"translate({box.x:.1f} {box.y:.1f})"))
    margin = 8.0
    return picture(
        el("g", "".join(parts), transform=f"translate({margin} {margin})"), drawing.width + 2 * margin,
        drawing.height + 2 * margin, "funcs", f"The Funcs of {step['name']}",
        style=f"max-width:{drawing.width + 2 * margin:.0f}px",
    )  # fmt: skip


_HOW = {
    "outside": "comes from outside", "stored": "stored whole", "tiled": "lives in a tile",
    "inlined": "computed where it is used",
}  # fmt: skip

__all__ = ["MOST", "Repeat", "funcs_picture", "graph_picture", "repeats", "step_edges"]
