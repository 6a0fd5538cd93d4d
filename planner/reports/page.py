"""A plan as a page: one file with everything in it, which a browser opens from disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tilewright.hw import humane
from tilewright.hw.render.tables import Table
from tilewright.planner.doctor import Finding, diagnose
from tilewright.planner.plan import Plan
from tilewright.planner.reports.charts import buffers_picture, cliff_picture, roofline_picture, timeline
from tilewright.planner.reports.data import plan_data
from tilewright.planner.reports.graph_picture import MOST, funcs_picture, graph_picture, repeats
from tilewright.planner.reports.nests import nests
from tilewright.planner.reports.svg import el
from tilewright.planner.reports.text import metrics_table, notes
from tilewright.planner.reports.words import limit_class, seconds, tile_text, title

_HERE = Path(__file__).parent
_LEADS = {
    "graph": "A box is a step: Funcs that run together, a dot for each. Drag to move, turn the wheel to zoom, click to see "
    "what is in a step.",
    "timeline": "The steps in the order in which they run, as long as the model thinks that they take. Below, how much of "
    "each is arithmetic and how much moving bytes: they overlap in part.",
    "memory": "What passes between steps lies in one block: each buffer over the steps in which it lives, at its place in "
    "the block.",
    "roofline": "A point for each kernel, as large as its share of the time. Green ones are limited by the arithmetic, "
    "orange ones by the memory that their bytes come from. The full black point is the whole plan, the ring is the "
    "pipeline op by op.",
    "capacity": "What regions take with other tiles than the plan's (the ring): wider ones copy less, until they do not fit "
    "the scratchpad any more. Orange: the largest tensor is left in main memory then.",
    "findings": "By the figures of the plan alone; `tilewright doctor --run` runs it as well.",
    "figures": "Counted from the algorithm and the plan; times are a model of the machine.",
}


def page(plan: Plan) -> str:
    """The page of a plan."""
    data = plan_data(plan)
    parts = [
        _part("graph", _LEADS["graph"], _graph(data, nests(plan))),
        _part("timeline", _LEADS["timeline"], timeline(data) or "<p>Nothing takes any time.</p>"),
        _part(
            "memory",
            _LEADS["memory"],
            (buffers_picture(data) or "<p>Nothing passes between steps.</p>") + _memory(data),
        ),
        _part("roofline", _LEADS["roofline"], roofline_picture(data) or "<p>Nothing is computed.</p>"),
        _part("figures", _LEADS["figures"], _table(metrics_table(plan.metrics)) + _notes(plan)),
        _part("findings", _LEADS["findings"], _findings(plan)),
        _part("steps", "", _steps(data)),
    ]
    if shown := _cliffs(plan):
        parts.insert(-3, _part("capacity", _LEADS["capacity"], shown))
    names = (
        "graph",
        "timeline",
        "memory",
        "roofline",
        *(["capacity"] if shown else []),
        "figures",
        "findings",
        "steps",
    )
    nav = "".join(el("a", n.capitalize(), href=f"#{n}") for n in names)
    head = el("h1", escape(title(plan))) + el("div", escape(_what(data)), cls="lead") + _cards(data)
    body = el("header", head) + el("nav", el("div", nav)) + el("main", "".join(parts) + _foot(data)) + _scripts(data)
    return _document(title(plan), body)


def _document(name: str, body: str) -> str:
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    # No icon: a browser asks for one otherwise.
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(name)}</title><style>{style}</style>'
        "<noscript><style>[hidden] { display: block !important; } .tools { display: none; }</style></noscript>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _scripts(data: Mapping[str, Any]) -> str:
    shown = {"steps": data["steps"], "kernels": [{"steps": k["steps"]} for k in data["kernels"]]}
    plain = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return f'<script type="application/json" id="plan">{plain}</script><script>{script}</script>'


def _part(name: str, lead: str, content: str) -> str:
    said = el("p", escape(lead)) if lead else ""
    return el("section", el("h2", name.capitalize()) + said + content, cls="part", id=name)


def _what(data: Mapping[str, Any]) -> str:
    t = data["metrics"]["plan"]
    return (
        f"{_plural(t['funcs'], 'Func')} in {_plural(t['steps'], 'step')} of {_plural(t['kernels'], 'kernel')}; "
        f"algorithm {data['digest'][:12]}"
    )


def _plural(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


# Figures ----------------------------------------------------------------------------------------------------------


def _cards(data: Mapping[str, Any]) -> str:
    plan, naive = data["metrics"]["plan"], data["metrics"]["naive"]
    tokens = data["metrics"]["bytes_per_token"]
    moved = f"{humane.size(tokens)} by {data['tokens']}" if tokens is not None else ""
    cards = [
        ("time by the model", seconds(data["metrics"]["seconds"]), _gain(plan["cycles"], naive["cycles"])),
        ("bytes moved", humane.size(plan["bytes"]), _gain(plan["bytes"], naive["bytes"]) + el("span", escape(moved))),
        ("fusion rate", humane.share(plan["fusion_rate"]), f"{plan['stored']} of {plan['funcs']} stored"),
        ("peak memory", humane.size(plan["memory"]["peak"]), _gain(plan["memory"]["peak"], naive["memory"]["peak"])),
        ("buffers", humane.size(plan["memory"]["buffers"]),
         _gain(plan["memory"]["buffers"], naive["memory"]["buffers"])),
        ("utilisation", humane.share(plan["utilisation"]), f"op by op: {humane.share(naive['utilisation'])}"),
    ]  # fmt: skip
    return el("div", "".join(el("div", el("span", n) + el("b", v) + el("span", more), cls="card") for n, v, more in cards),
              cls="cards")  # fmt: skip


def _gain(after: float | None, before: float | None) -> str:
    """How many times as much it is op by op."""
    if not after or not before:
        return ""
    said = f"op by op: {before / after:.3g} \u00d7"
    return el("span", said, cls="gain") if before > 1.005 * after else said


def _memory(data: Mapping[str, Any]) -> str:
    plan, naive = data["metrics"]["plan"]["memory"], data["metrics"]["naive"]["memory"]
    said = {
        "weights": "inputs whose shape no size changes", "inputs": "the other inputs", "caches": "updated in place",
        "outputs": "", "buffers": "between steps", "peak": "all of it at once",
    }  # fmt: skip
    rows = tuple(
        (n, humane.size(plan[n]), humane.size(naive[n]), what) for n, what in said.items() if plan[n] or naive[n]
    )
    return _table(Table("", ("memory", "plan", "op by op", ""), rows))


def _table(t: Table, last: str = "l") -> str:
    """A table; what stands in its last column is words."""
    sides = ["l" if k < t.left else "r" for k in range(len(t.head))]
    sides[-1] = last
    head = "".join(el("th", escape(c), cls=side) for c, side in zip(t.head, sides, strict=True))
    rows = "".join(
        el("tr", "".join(el("td", escape(c), cls=s) for c, s in zip(row, sides, strict=True))) for row in t.rows
    )
    return el("table", el("thead", el("tr", head)) + el("tbody", rows))


def _notes(plan: Plan) -> str:
    return el("h3", "What it holds for") + "".join(el("div", escape(x), cls="note") for x in notes(plan))


def _steps(data: Mapping[str, Any]) -> str:
    head = ("", "region of", "Funcs", "tile", "kernel", "operations", "bytes", "op/byte", "limit", "cycles")
    sides = ("r", "l", "r", "l", "r", "r", "r", "r", "l", "r")
    rows = []
    for k, s in enumerate(data["steps"]):
        cells = (
            str(k), s["name"], str(len(s["funcs"])), tile_text(s["tile"]), str(s["kernel"]), humane.count(s["flops"]),
            humane.size(s["bytes"]), "-" if s["intensity"] is None else humane.count(s["intensity"]), s["limit"],
            "-" if s["cycles"] is None else humane.count(s["cycles"]),
        )  # fmt: skip
        rows.append(
            el("tr", "".join(el("td", escape(c), cls=x) for c, x in zip(cells, sides, strict=True)), data_step=k)
        )
    top = el("tr", "".join(el("th", c, cls=x) for c, x in zip(head, sides, strict=True)))
    return el("div", el("table", el("thead", top) + el("tbody", "".join(rows))), cls="scroll")


def _findings(plan: Plan) -> str:
    """What the doctor has to say."""
    found = [
        el("div", el("b", f"{f.severity}: {escape(f.cause)}") + el("div", escape(f.fix)) + el("code", escape(_evidence(f))),
           cls=f"finding {f.severity}")
        for f in diagnose(plan)
    ]  # fmt: skip
    return "".join(found) or el("div", "Nothing found.")


def _evidence(f: Finding) -> str:
    return ", ".join(
        f"{name}: {f'{v:.3g}' if isinstance(v, float) else f'{v:,}' if isinstance(v, int) else v}"
        for name, v in f.evidence.items()
    )


def _cliffs(plan: Plan) -> str:
    """How regions fare with tiles around the capacity of a scratchpad."""
    if all(s.staged is None for s in plan.steps):
        return ""
    from tilewright.planner.cliff import cliffs

    drawn = ((c, cliff_picture(c)) for c in cliffs(plan))
    return "".join(el("h3", escape(c.region)) + picture for c, picture in drawn if picture)


# The graph and what is in it --------------------------------------------------------------------------------------


_KEY = (
    ('<circle cx="7" cy="7" r="4.5" class="dot stored"/>', "stored whole"),
    ('<circle cx="7" cy="7" r="4.5" class="dot tiled"/>', "lives in a tile"),
    ('<circle cx="7" cy="7" r="4.5" class="dot inlined"/>', "computed where it is used"),
    ('<rect x="1" y="2" width="12" height="10" rx="2" class="box compute"/>', "limited by the arithmetic"),
    ('<rect x="1" y="2" width="12" height="10" rx="2" class="box memory"/>', "limited by a memory"),
)


def _graph(data: Mapping[str, Any], nests: Sequence[str]) -> str:
    folds = repeats([s["kernel"] for s in data["steps"]])
    pictures, many = graph_picture(data, folds), len(data["steps"]) > MOST
    buttons = [("in", "+", "nearer"), ("out", "\u2212", "farther"), ("top", "top", "the beginning, in readable size"),
               ("fit", "all", "all of it")]  # fmt: skip
    tools = "".join(el("button", sign, data_act=act, title=hint, type="button") for act, sign, hint in buttons)
    if folds:
        said = json.dumps([[r.first, r.length, r.times] for r in folds])
        pictures = pictures.replace("<svg ", f'<svg data-folds="{said}" ', 1)
        if not many:
            pictures += graph_picture(data).replace("<svg ", "<svg hidden ", 1)
            tools = el("button", "all steps", id="fold", type="button", aria_pressed="false") + tools
    left = len(data["steps"]) - sum(r.length * (r.times - 1) for r in folds) - MOST
    more = el("span", f"{left:,} boxes more would be too small to see") if left > 0 else ""
    key = more + "".join(
        el("span", f'<svg viewBox="0 0 14 14" aria-hidden="true">{mark}</svg>{what}') for mark, what in _KEY
    )
    stage = el("div", el("div", tools, cls="tools") + pictures, cls="stage")
    chosen = el("h3", "", id="chosen", style="margin-top:0") + el("dl", "", cls="facts", id="facts")
    detail = el("div", chosen + "".join(_panels(data, nests)), cls="detail")
    return el("div", key, cls="key") + el("div", stage + detail, cls="split")


def _panels(data: Mapping[str, Any], nests: Sequence[str]) -> Iterator[str]:
    """What is said of each kernel."""
    for n, (kernel, nest) in enumerate(zip(data["kernels"], nests, strict=True)):
        s = data["steps"][kernel["steps"][0]]
        facts = {
            "tile": tile_text(s["tile"]), "limit": s["limit"],
            "arithmetic": f"{humane.count(s['flops'])} operations, {humane.count(s['computing'])} cycles",
            "bytes": f"{humane.size(s['read'])} read, {humane.size(s['written'])} written, "
            f"{humane.count(s['moving'])} cycles",
            "operations a byte": "no bytes" if s["intensity"] is None else
            f"{humane.count(s['intensity'])}; from {humane.count(s['ridge'])} on main memory is no limit",
        }  # fmt: skip
        listed = "".join(el("dt", k) + el("dd", escape(v)) for k, v in facts.items())
        parts = [
            el("dl", listed, cls="facts"),
            el("h3", f"Funcs of kernel {n}"), funcs_picture(data, s),
            el("h3", "Loop nest"), nest,
            el("details", el("summary", "Schedule") + el("pre", escape(kernel["schedule"]))),
        ]  # fmt: skip
        yield el("div", "".join(parts), cls=f"panel {limit_class(s['limit'])}", data_kernel=n, hidden="")


def _foot(data: Mapping[str, Any]) -> str:
    return el("footer", f"{data['format']} {data['version']}. The same figures as data: <code>plan.to_json()</code>.")


__all__ = ["page"]
