"""Which buffers a statement of a document reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.codegen.export.expressions import Json


def statements(of: list[Json]) -> Iterator[Json]:
    """Every statement of a list and of the lists in it, in text order."""
    for s in of:
        yield s
        for key in ("body", "then", "else"):
            yield from statements(s.get(key, []))


def reads(s: Json) -> set[str]:
    """Buffers that are read in a statement, those of copies included."""
    return {b for t in statements([s]) for b in _read(t)}


def writes(s: Json) -> set[str]:
    """Buffers that are written in a statement."""
    return {b for t in statements([s]) for b in _written(t)}


def touched(body: list[Json]) -> set[str]:
    """Buffers that a list of statements reads, writes or prefetches."""
    hinted = {s["buffer"] for s in statements(body) if s["do"] == "prefetch"}
    return {b for s in body for b in reads(s) | writes(s)} | hinted


def _read(s: Json) -> Iterator[str]:
    if s["do"] == "copy":
        yield s["source"]["buffer"]
    for key, value in s.items():
        if key not in ("body", "then", "else"):
            yield from _loaded(value)


def _loaded(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for v in value:
            yield from _loaded(v)
    elif isinstance(value, dict):
        if "load" in value:
            yield value["load"]
        for v in value.values():
            if isinstance(v, (dict, list)):
                yield from _loaded(v)


def _written(s: Json) -> Iterator[str]:
    if s["do"] == "copy":
        yield s["target"]["buffer"]
    if s["do"] == "store":
        yield from (t["buffer"] for t in s["targets"])


def mentions(value: Any, kind: str, name: str) -> bool:
    """Whether a leaf such as {"var": name} stands somewhere in plain data."""
    if isinstance(value, list):
        return any(mentions(v, kind, name) for v in value)
    if isinstance(value, dict):
        return value.get(kind) == name or any(mentions(v, kind, name) for v in value.values())
    return False


def without_lets(e: Json, lets: list[Json]) -> Json:
    """An expression with the values of these lets in place of their names."""
    known: dict[str, Json] = {}
    for v in lets:
        known[v["let"]] = _put_in(v["value"], known)
    return _put_in(e, known)


def _put_in(e: Json, known: dict[str, Json]) -> Json:
    if "let" in e:
        return known.get(e["let"], e)
    out = dict(e)
    for key in ("at", "where"):
        if key in e:
            out[key] = _put_in(e[key], known)
    if "of" in e:
        out["of"] = [_put_in(a, known) for a in e["of"]]
    return out


__all__ = ["mentions", "reads", "statements", "touched", "without_lets", "writes"]
