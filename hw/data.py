"""Dataclasses as plain data: their JSON Schema, and values read back with every field checked.

Both follow from the fields' types, so that a new field of an account needs no entry anywhere. What is known: str, int,
float, bool, `X | None`, `tuple[X, ...]`, `Mapping[str, X]` and dataclasses of these.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from .errors import AccountError

T = TypeVar("T")
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def decode(kind: type[T], data: Any, path: str = "") -> T:
    """The value of a dataclass that `dataclasses.asdict` took apart. A field that is missing has its default.

    Raises AccountError `account.bad-value`, which names the place in the data as a path.
    """
    return _decode(kind, data, path)


def _decode(kind: Any, data: Any, path: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast(type, kind), data, path)
    if kind in _PLAIN:
        # bool is an int to Python but not to JSON, and 3 is a good float there.
        accepted = (int, float) if kind is float else (kind,)
        if not isinstance(data, accepted) or (isinstance(data, bool) and kind is not bool):
            raise _wrong(path, data, _WORDS[kind])
        return data
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [a for a in arguments if a is not type(None)]
        return None if data is None else _decode(inner, data, path)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise _wrong(path, data, "a list")
        return tuple(_decode(arguments[0], x, f"{path}[{i}]") for i, x in enumerate(data))
    if not isinstance(data, Mapping):
        raise _wrong(path, data, "an object")
    return {name: _decode(arguments[1], x, _inside(path, name)) for name, x in data.items()}


def _dataclass(kind: type, data: Any, path: str) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong(path, data, "an object")
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for name in data:
        if name not in fields:
            raise AccountError(
                f"{_inside(path, name)} is no field of an account", code="account.bad-value",
                hint=f"fields here: {', '.join(fields)}",
            )  # fmt: skip
    for name, f in fields.items():
        if name not in data and _required(f):
            raise AccountError(f"{_inside(path, name)} is missing", code="account.bad-value")
    return kind(**{name: _decode(hints[name], x, _inside(path, name)) for name, x in data.items()})


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _wrong(path: str, data: Any, wanted: str) -> AccountError:
    return AccountError(f"{path or 'the whole'} is {data!r:.60} and not {wanted}", code="account.bad-value")


def schema(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a dataclass; those inside of it are put into `definitions`."""
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    return {
        "description": _prose(inspect.getdoc(kind) or ""),
        "type": "object",
        "properties": {f.name: _schema(hints[f.name], definitions) for f in fields},
        "required": [f.name for f in fields],
        "additionalProperties": False,
    }


def _prose(text: str) -> str:
    """A docstring with its paragraphs unwrapped."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind):
        name = typing.cast(type, kind).__name__
        if name not in definitions:
            definitions[name] = {}  # taken, should it contain itself
            definitions[name] = schema(typing.cast(type, kind), definitions)
        return {"$ref": f"#/$defs/{name}"}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [_schema(a, definitions) for a in arguments if a is not type(None)]
        if set(inner) == {"type"}:
            return {"type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
