"""Elements of SVG and HTML as text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any


def el(tag: str, content: str = "", /, **attributes: Any) -> str:
    """An element. `content` is markup; attributes are escaped, `cls` is the class, `_` stands for `-`, and None is left
    out."""
    said = "".join(
        f' {"class" if k == "cls" else k.replace("_", "-")}="{_value(v)}"'
        for k, v in attributes.items()
        if v is not None
    )
    return f"<{tag}{said}>{content}</{tag}>"


def _value(v: Any) -> str:
    return number(v) if isinstance(v, float) else escape(str(v))


def number(x: float) -> str:
    """To a hundredth, which is finer than a pixel."""
    return f"{x:.2f}".rstrip("0").rstrip(".")


def text(said: str, x: float, y: float, cls: str = "", anchor: str | None = None) -> str:
    return el("text", escape(said), x=x, y=y, cls=cls or None, text_anchor=anchor)


def titled(said: str) -> str:
    """What is shown while the pointer is over an element."""
    return el("title", escape(said))


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def curve(points: Sequence[tuple[float, float]], cls: str, **more: Any) -> str:
    """A smooth way through points from above to below: it leaves and meets each of them upright."""
    parts = [f"M{number(points[0][0])} {number(points[0][1])}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = (y1 - y0) / 2
        if x0 == x1:
            parts.append(f"V{number(y1)}")
        else:
            parts.append(
                f"C{number(x0)} {number(y0 + bend)} {number(x1)} {number(y1 - bend)} {number(x1)} {number(y1)}"
            )
    return el("path", d="".join(parts), cls=cls, **more)


def picture(content: str, width: float, height: float, cls: str = "", label: str = "", **more: Any) -> str:
    """An SVG that fills the width that it is given, and says what it is to those who can't see it."""
    return el("svg", content, viewBox=f"0 0 {number(width)} {number(height)}", cls=cls or None, role="img",
              aria_label=label, preserveAspectRatio="xMidYMid meet", **more)  # fmt: skip


__all__ = ["curve", "el", "line", "number", "picture", "text", "titled"]
