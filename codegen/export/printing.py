"""Documents as JSON text that people can read: a statement a paragraph, an expression a line."""

from __future__ import annotations

import json
from typing import Any

from tilewright.codegen.export.expressions import Json

LISTS = ("body", "then", "else")  # lists of statements


def dumps(document: Json) -> str:
    """The text of a document."""
    return "".join(_object(document, "")) + "\n"


def _object(value: Json, pad: str) -> list[str]:
    """An object with its parts on lines of their own; what is no statement or list of them stays on one."""
    inner = pad + " "
    parts = []
    for key, v in value.items():
        nested = key in LISTS and v
        parts.append(f"{inner}{json.dumps(key)}: " + (_list(v, inner) if nested else _line(key, v, inner)))
    return ["{\n", ",\n".join(parts), f"\n{pad}}}"]


def _line(key: str, value: Any, pad: str) -> str:
    """Lists of objects of the head: one a line."""
    if key in ("arguments", "buffers", "memories", "sizes", "scalars", "functions", "let") and len(value) > 1:
        lines = ",\n".join(f"{pad} {json.dumps(v)}" for v in value)
        return f"[\n{lines}\n{pad}]"
    return json.dumps(value)


def _list(statements: list[Json], pad: str) -> str:
    inner = pad + " "
    texts = []
    for s in statements:
        long = any(s.get(k) for k in LISTS) or s["do"] == "copy"
        texts.append(inner + ("".join(_object(s, inner)) if long else json.dumps(s)))
    return "[\n" + ",\n".join(texts) + f"\n{pad}]"


__all__ = ["dumps"]
