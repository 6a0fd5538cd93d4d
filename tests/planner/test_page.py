"""The report of a plan in a real browser: it opens from disk, asks for nothing, complains of nothing, and its parts work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tilewright as tw
from tests.browser import BROWSER, Page, browser
from tilewright import ops
from tilewright.planner.doctor import diagnose
from tilewright.planner.plan import Plan
from tilewright.planner.reports.charts import timeline
from tilewright.planner.reports.data import plan_data
from tilewright.planner.reports.page import page

T = tw.sizes("T")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH (see CONTRIBUTING.md)")


@tw.kernel
def deep(x: tw.f32[T, 48], up: tw.f32[48, 96], down: tw.f32[96, 48]):
    for k in range(12):
        with tw.scope(f"layer{k}"):
            x = ops.value(x) + ops.linear(ops.softmax(ops.linear(x, up)), down)
    return x


@pytest.fixture(scope="module")
def plan() -> Plan:
    return tw.plan(deep, "skylake-sp", sizes={"T": 64}, budget_s=1e-9, tokens="T")  # nothing is fused: many steps


@pytest.fixture(scope="module")
def opened(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file = tmp_path_factory.mktemp("report") / "plan with ünusual name.html"
    plan.html(file)
    with browser() as found:
        found.open(file)
        found.wait("document.documentElement.dataset.ready === 'yes'")
        yield found


@pytest.fixture(scope="module")
def text(plan: Plan) -> str:
    return page(plan)


class _Names(HTMLParser):
    """What a page refers to."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [str(v) for k, v in attrs if k in ("src", "href", "xlink:href", "srcset", "action", "data")]
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_refers_to_nothing_outside(text: str) -> None:
    names = _Names(text)
    assert not names.open
    assert all(x.startswith(("#", "data:")) for x in names.found)
    style, script = re.search(r"<style>(.*?)</style>", text, re.S), re.search(r"<script>(.*)</script>", text, re.S)
    assert style and script
    assert "url(" not in style[1] and "@import" not in style[1]
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket|https?://", script[1])


def test_the_page_is_the_same_for_equal_plans(text: str) -> None:
    again = page(tw.plan(deep, "skylake-sp", sizes={"T": 64}, budget_s=1e-9, tokens="T"))
    both = [re.sub(r"(planned|compiled) in [^<]*", "", t) for t in (text, again)]
    assert both[0] == both[1]


def test_names_are_escaped() -> None:
    p = tw.Pipeline("odd", A=tw.f32[T])
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = p.A[i] * 2.0
    plan = tw.plan(p.returns(out[:T]), "skylake-sp", sizes={"T": 5})
    object.__setattr__(plan.pipeline, "name", "</script><b>&odd")
    text = page(plan)
    assert "</script><b>" not in text
    assert "&lt;/script&gt;&lt;b&gt;&amp;odd on skylake-sp" in text


@needs_browser
def test_it_opens_from_disk_without_a_network_or_a_complaint(opened: Page) -> None:
    assert opened.problems == []
    assert opened.requests == []
    assert opened.run("document.title") == "deep on skylake-sp, T=64, for latency"


@needs_browser
@pytest.mark.parametrize("name", ["graph", "timeline", "buffers", "roofline", "funcs"])
def test_the_pictures_are_there(opened: Page, name: str) -> None:
    box = opened.run(
        f"(() => {{ const e = [...document.querySelectorAll('svg.{name}')].find((e) => e.getBoundingClientRect().width);"
        "const r = e.getBoundingClientRect(); return [r.width, r.height, e.querySelectorAll('*').length]; })()"
    )
    assert box[0] > 100 and box[1] > 60 and box[2] > 3


@needs_browser
def test_every_step_is_in_every_picture(opened: Page, plan: Plan) -> None:
    n = len(plan.steps)
    for where in (".timeline .bar", "#steps tr", "svg.graph:not([data-folds]) .step"):
        found = opened.run(f"new Set([...document.querySelectorAll('{where}')].map((e) => e.dataset.step)).size")
        assert found in (n, n + 1), where  # the head of the table has none
    assert opened.run("document.querySelectorAll('.buffer').length") == len(plan.buffers)
    assert opened.run("document.querySelectorAll('.point[data-step]').length") == plan.metrics.plan.kernels


@needs_browser
def test_a_click_shows_what_is_in_a_step(opened: Page, plan: Plan) -> None:
    for k in (1, len(plan.steps) - 2):
        opened.click(f"#steps tr[data-step='{k}']")
        assert opened.run("document.getElementById('chosen').textContent") == f"Step {k}: {plan.steps[k].name}"
        shown = opened.run(
            "[...document.querySelectorAll('.panel')].filter((e) => !e.hidden).map((e) => e.dataset.kernel)"
        )
        assert shown == [str(plan.metrics.steps[k].kernel)]
        assert opened.run(f"document.querySelector(\".timeline .bar[data-step='{k}']\").classList.contains('on')")
        assert opened.run("document.querySelectorAll('svg[data-folds] .step.on').length") == 1  # of its layer
        assert opened.run("document.querySelector('.panel:not([hidden]) .nest').textContent").count("for ") > 1
    opened.click(".graph .step")
    assert opened.run("document.querySelectorAll('#steps tr.on').length") == 1
    assert opened.problems == []


@needs_browser
def test_equal_layers_are_drawn_once_and_can_be_unfolded(opened: Page, plan: Plan) -> None:
    def seen() -> int:
        return opened.run(
            "[...document.querySelectorAll('svg.graph')].filter((e) => getComputedStyle(e).display !== 'none')"
            ".reduce((n, e) => n + e.querySelectorAll('.step').length, 0)"
        )

    assert seen() < len(plan.steps)
    opened.click("#fold")
    assert seen() == len(plan.steps)
    opened.click("#fold")
    assert seen() < len(plan.steps)


@needs_browser
def test_the_graph_is_moved_and_zoomed(opened: Page) -> None:
    def view() -> list[float]:
        return [
            float(x) for x in opened.run("document.querySelector('svg[data-folds]').getAttribute('viewBox')").split()
        ]

    start = view()
    x, y = opened.place(".stage")
    opened.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
    opened.wait(f"document.querySelector('svg[data-folds]').getAttribute('viewBox').split(' ')[2] < {start[2]}")
    near = view()
    opened.mouse("mouseMoved", x, y)
    opened.mouse("mousePressed", x, y, button="left", clickCount=1)
    opened.mouse("mouseMoved", x + 60, y + 40, button="left", buttons=1)
    opened.mouse("mouseReleased", x + 60, y + 40, button="left", clickCount=1)
    moved = view()
    assert moved[0] < near[0] and moved[1] < near[1] and moved[2:] == near[2:]
    opened.click("button[data-act='out']")
    assert view()[2] > moved[2]
    opened.click("button[data-act='fit']")
    assert view()[:2] == [0, 0]
    opened.click("button[data-act='top']")
    assert view() == start


@needs_browser
def test_it_can_be_used_by_keyboard(opened: Page) -> None:
    opened.run("document.querySelector('svg[data-folds] .step[data-step=\"2\"]').focus()")
    opened.run(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}))"
    )
    assert opened.run("document.getElementById('chosen').textContent").startswith("Step 2: ")


@needs_browser
@pytest.mark.parametrize("width", [420, 1400])
def test_nothing_hangs_over_the_edge(opened: Page, width: int) -> None:
    opened.resize(width, 900)
    assert opened.run("document.documentElement.scrollWidth") <= width
    opened.resize(1400, 1000)


def test_data_in_the_page_can_be_read(plan: Plan, text: str) -> None:
    found = re.search(r'<script type="application/json" id="plan">(.*?)</script>', text, re.S)
    assert found
    assert len(json.loads(found[1])["steps"]) == len(plan.steps)


def test_steps_that_run_at_once_stand_above_each_other(plan: Plan) -> None:
    data = plan_data(plan)
    n = len(data["steps"])
    data["order"]["groups"] = [2, 1, 3, *[1] * (n - 6)]
    bars = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"[^>]*data-step="(\d+)"', timeline(data))
    assert len(bars) == n
    places = {int(k): (float(x), float(y)) for x, y, k in bars}
    assert places[0][0] == places[1][0] and places[0][1] < places[1][1]
    assert places[2][0] > places[1][0]
    assert len({places[k][0] for k in (3, 4, 5)}) == 1
    assert places[6][0] > places[5][0] and places[6][1] == places[0][1]


def test_a_scratchpad_has_its_cliff() -> None:
    p = tw.Pipeline("products", A=tw.f32[T, 64], B=tw.f32[64, 64])
    i, j = tw.vars("i j")
    k = tw.rdom(k=64)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += p.A[i, k] * p.B[k, j]
    text = page(tw.plan(p.returns(C[:T, :64]), "toy", sizes={"T": 256}, budget_s=60.0))
    assert 'id="capacity"' in text
    assert 'class="cliffs"' in text


def test_what_the_doctor_finds_is_told(plan: Plan, text: str) -> None:
    found = diagnose(plan)
    assert found  # so many small steps
    assert text.count('class="finding ') == len(found)
    assert all(escape(f.fix) in text for f in found)


def test_a_page_of_nothing(tmp_path: Path) -> None:
    tw.plan(deep, "skylake-sp", sizes={"T": 0}, budget_s=1e-9).html(tmp_path / "empty.html")
    assert (tmp_path / "empty.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
