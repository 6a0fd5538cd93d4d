"""What accounts look like: the text of a full one, HTML that no name can break, pictures that are what they say."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, product

import pytest
from hypothesis import given, settings

from tests.hw.random_accounts import TOY, accounts
from tests.hw.sample_account import SNITCH, sample
from tilewright.hw import Account, AccountError, Traffic
from tilewright.hw.render.account_tables import account_tables, energy_text
from tilewright.hw.render.html import code_html
from tilewright.hw.render.pictures import CAUSE_COLOURS, COMPUTE, COPY_COLOURS, title
from tilewright.hw.roofline import roofline

ALLOWED = {"div", "b", "br", "table", "tr", "th", "td", "ul", "li", "pre", "span"}


class Strict(HTMLParser):
    """Raises where a tag is not closed in its order, is not one of ours, or has an attribute but style."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED and {name for name, _ in attrs} <= {"style"}, (tag, attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def texts(html: str) -> str:
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return "\n".join(parser.text)


def test_the_text_of_a_full_account(golden) -> None:
    golden(str(sample()))


def test_the_text_of_its_roofline(golden) -> None:
    golden(str(sample().roofline()))


def test_no_line_of_a_text_is_wider_than_a_terminal() -> None:
    assert max(map(len, str(sample()).splitlines())) <= 120


def test_an_empty_account_has_a_heading_only() -> None:
    assert str(Account("k", "toy")) == "k on toy"
    assert texts(Account("k", "toy")._repr_html_()) == "k on toy"


def test_html_names_that_need_escaping() -> None:
    name = '<script>alert("1")</script>&amp;\''
    account = Account(name, "toy", {name: 1}, (Traffic("dram", name, reads=1, of="</td>"),), notes=(name,))
    html = account._repr_html_()
    assert "<script" not in html
    assert texts(html).count(name) == 4


@settings(max_examples=30)
@given(accounts())
def test_any_account_has_text_and_html(account: Account) -> None:
    line = roofline(account, TOY)
    for thing in (account, line):
        assert str(thing)
        assert "\x00" in str(thing) or texts(thing._repr_html_())
    for t in account_tables(account):
        assert all(len(row) == len(t.head) for row in t.rows)
        assert all(any(row[i] for row in t.rows) for i in range(1, len(t.head)))  # no column is empty


def test_code() -> None:
    text = "for i in 0..N\n  produce <b> & for\n  forward"
    html = code_html(text, ("for", "produce"))
    assert texts(html).replace("\n", "") == text.replace("\n", "")
    assert html.count("<span") == 2  # only where a line begins with one of the words


def test_the_annotated_nest() -> None:
    account = replace(sample(), kernel="<k>")
    html = account.nest._repr_html_()
    said = texts(html)
    for line in ("<k> on snitch-cluster", "jo in 0..N//8", "load A_C", "compute C.update", "trips"):
        assert line.replace("load ", "") in said
    assert html.count("<tr>") == len(account.nest.rows()) + 1
    assert "width:" in html  # bars


def test_energy_has_units() -> None:
    assert [energy_text(x) for x in (0.0, 12.5, 999.6, 7.21e8, 5e15)] == [
        "0 pJ",
        "12.5 pJ",
        "1 nJ",
        "721 µJ",
        "5e+03 J",
    ]


# Pictures ---------------------------------------------------------------------------------------------------------


def save(account: Account, kind: str, path) -> None:
    if kind == "roofline":
        account.roofline(SNITCH).save(path)
    else:
        getattr(account, f"save_{kind}")(path, SNITCH)


KINDS = ("roofline", "timeline", "occupancy")


def test_no_title_is_wider_than_its_picture() -> None:
    sizes = ", ".join(f"size_{n}={10**n}" for n in range(12))
    lines = title(f"kernel on machine ({sizes})", "memory bound ($dram$)").split("\n")
    assert max(map(len, lines)) < 90
    assert " ".join(lines) == f"kernel on machine ({sizes}) memory bound (\\$dram\\$)"
    assert lines[-1] == "memory bound (\\$dram\\$)"


@pytest.mark.parametrize("kind", KINDS)
def test_svg_has_the_words_and_is_the_same_every_time(kind: str, tmp_path) -> None:
    account = replace(sample(), kernel="a$b$ <c> & d")
    save(account, kind, tmp_path / "one.svg")
    save(account, kind, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    words = " ".join(t for e in ET.parse(tmp_path / "one.svg").iter() for t in [e.text or ""])
    assert "a$b$ <c> & d on snitch-cluster" in words
    wanted = {
        "roofline": ["operations per byte", "operations per cycle", "dram: ", "tcdm: ", "compute bound", "compulsory"],
        "timeline": ["cycles", "compute", "waits", "dma.0", "A_C.load", "wait: data under way"],
        "occupancy": ["cycles", "bytes", "tcdm: peak 2 KiB of 128 KiB", "A_C", "B_C"],
    }
    assert [w for w in wanted[kind] if w not in words] == []


@pytest.mark.parametrize("kind", KINDS)
def test_png_is_large_enough_to_read(kind: str, tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    save(sample(), kind, tmp_path / "a.png")
    with image.open(tmp_path / "a.png") as picture:
        assert picture.width == 1500
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


def test_copies_have_other_colours_than_waits() -> None:
    def channels(colour: str) -> list[int]:
        return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]

    others = [*CAUSE_COLOURS.values(), COMPUTE]
    for copy, other in product(COPY_COLOURS, others):
        assert sum(abs(a - b) for a, b in zip(channels(copy), channels(other), strict=True)) > 90, (copy, other)
    for one, other in combinations([*COPY_COLOURS, *others], 2):
        assert one != other


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_no_picture_is_refused(kind: str, tmp_path) -> None:
    with pytest.raises(AccountError) as e:
        save(sample(), kind, tmp_path / "a.txt")
    assert e.value.code == "account.plot"


@pytest.mark.parametrize("kind", ["timeline", "occupancy"])
def test_pictures_of_nothing_are_refused(kind: str, tmp_path) -> None:
    with pytest.raises(AccountError) as e:
        save(replace(sample(), time=None), kind, tmp_path / "a.png")
    assert e.value.code == "account.timeline"


def test_a_roofline_without_operations_is_not_drawn(tmp_path) -> None:
    with pytest.raises(AccountError) as e:
        save(replace(sample(), operations={}), "roofline", tmp_path / "a.png")
    assert e.value.code == "account.plot"


def test_nothing_but_pictures_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    account = sample()
    assert str(account) and account._repr_html_() and str(account.roofline()) and account.trace()
    with pytest.raises(AccountError) as e:
        account.save_timeline(tmp_path / "a.png")
    assert e.value.code == "account.plot"
