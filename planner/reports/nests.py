"""The loop nests of a plan's kernels for the page: with what each line cost where that is known, and plain otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tilewright.codegen.accounts.account import of_skeleton
from tilewright.codegen.accounts.prepared import prepare
from tilewright.hw import Account
from tilewright.hw.annotated import BARS, LEFT, TEXT, Row
from tilewright.hw.render.html import NEST_WORDS
from tilewright.lang.errors import TilewrightError
from tilewright.lang.pipeline import ScalarParam
from tilewright.planner.plan import Plan, Step
from tilewright.planner.reports.svg import el

ANNOTATED = 24  # kernels of which accounts are made: those that take most


def nests(plan: Plan) -> list[str]:
    """The nest of each kernel, as markup."""
    numbers = [f.kernel for f in plan.metrics.steps]
    spent = dict.fromkeys(numbers, 0.0)
    for n, f in zip(numbers, plan.metrics.steps, strict=True):
        spent[n] += f.cycles
    costly = sorted(spent, key=lambda n: (-spent[n], n))[:ANNOTATED]
    first = {n: plan.steps[numbers.index(n)] for n in spent}
    return [_nest(plan, first[n], n in costly) for n in sorted(first)]


def _nest(plan: Plan, s: Step, annotated: bool) -> str:
    account = _account(plan, s) if annotated else None
    if account is None or account.time is None:
        return el("pre", _coloured(str(s.schedule.loops())), cls="nest")
    nest = account.nest
    rows = nest.rows()
    used = [k for k in range(len(nest.head.cells)) if k == TEXT or any(r.cells[k] for r in rows)]
    head = "".join(el("th", escape(nest.head.cells[k]), cls=_side(k)) for k in used)
    body = "".join(el("tr", "".join(_cell(r, k) for k in used), cls="hot" if r.hot else None) for r in rows)
    notes = "".join(el("div", escape(x), cls="note") for x in nest.remarks())
    title = el("div", "<br>".join(map(escape, nest.title().splitlines())), cls="note")
    return title + el("table", el("tr", head) + body, cls="nest") + notes


def _account(plan: Plan, s: Step) -> Account | None:
    """What a kernel costs at the sizes of the plan, by itself; None where that depends on data."""
    p = s.part.pipeline
    values = {n: plan.sizes[n] for n in p.sizes}
    values |= {
        q.name: plan.sizes[s.part.names[q.name]]
        for q in p.params
        if isinstance(q, ScalarParam) and s.part.names[q.name] in plan.sizes
    }  # fmt: skip
    try:
        return of_skeleton(prepare(p, s.schedule, plan.machine, plan.mode), values)
    except TilewrightError:
        return None


def _side(k: int) -> str:
    return "l" if k in LEFT else "r"


def _cell(row: Row, k: int) -> str:
    cell = row.cells[k]
    if k == TEXT:
        return el("td", el("span", "".join(_line(cell)), title=cell.strip()), cls="l code")
    if k == BARS:
        parts = [el("i", "", cls=cls, style=f"width:{0.8 * n:.1f}em")
                 for cls, n in (("busy", cell.count("#")), ("wait", cell.count("."))) if n]  # fmt: skip
        return el("td", "".join(parts), cls="l")
    return el("td", escape(cell), cls=_side(k))


def _coloured(text: str) -> str:
    return "\n".join("".join(_line(x)) for x in text.splitlines())


def _line(text: str) -> Iterator[str]:
    """A line of a nest, its first word in colour where it is one of ours."""
    words = text.split(maxsplit=1)
    word = words[0] if words else ""
    if word in NEST_WORDS:
        at = text.index(word)
        yield text[:at] + el("b", word) + escape(text[at + len(word) :])
    else:
        yield escape(text)


__all__ = ["nests"]
