"""Reading and printing the tables of a machine file, driven by the fields that the dataclasses declare.

A quantity may be a plain value, or `{ value = ..., source = "...", confidence = "..." }`; a table may give
`source` and `confidence` for all of its quantities. What it does not say is inherited from the top of the
file.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tilewright.lang.errors import Location

from . import fields as f
from .errors import MachineError
from .parts import Provenance

T = TypeVar("T")
_ORIGIN_KEYS = ("source", "confidence")


def closest(given: str, legal: Iterable[str]) -> str:
    """`; did you mean x?` where a legal word is near the given one, else nothing."""
    near = difflib.get_close_matches(given, list(legal), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _kinds(cls: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(cls)}


class Source:
    """A machine file being read: its tables, and the origin of every quantity met so far."""

    def __init__(self, text: str, origin: str):
        self.text = text
        self.origin = origin
        self.default: Provenance | None = None
        self.provenance: dict[str, Provenance] = {}
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            at = re.search(r"at line (\d+), column (\d+)", str(error))
            where = Location(origin, int(at[1]), int(at[2])) if at else Location(origin, text.count("\n") + 1)
            raise MachineError(f"not a TOML text: {error}", code="machine.syntax", where=where) from error

    def error(
        self, code: str, problem: str, legal: str, *, table: str = "", index: int = 0, key: str = ""
    ) -> MachineError:
        """A MachineError at the line of a key (or of its table), with what is legal as the hint."""
        where = Location(self.origin, self._line(table, index, key))
        return MachineError(problem, code=f"machine.{code}", where=where, hint=f"legal: {legal}")

    def _line(self, table: str, index: int, key: str) -> int:
        """The line of a key in the index-th table of a name; that of the table if the key is not there."""
        current, seen, fallback = "", {}, 1
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[+\s*([\w.-]+)\s*\]+", line)
            if header:
                current = header[1]
                seen[current] = seen.get(current, -1) + 1
                if (current == table and seen[current] == index) or (not table and current == key):
                    fallback = number
            if current == table and seen.get(current, 0) == index and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line):
                return number
        return fallback

    def read_top(self, cls: type[T], tables: tuple[str, ...]) -> T:
        """The keys outside any table; `tables` are the names that may stand beside them."""
        plain = {key: value for key, value in self.tables.items() if key not in tables}
        return self._read(cls, plain, "", 0, "the top of the file", extra=tables)

    def read_one(self, table: str, cls: type[T]) -> T:
        """The table `[table]`, which must be there."""
        given = self.tables.get(table)
        if given is None:
            raise self.error("missing", f"there is no table [{table}]", f"[{table}] with {', '.join(_kinds(cls))}")
        if not isinstance(given, dict):
            raise self.error("bad-value", f"{table} is not a table", f"[{table}]", table=table, key=table)
        return self._read(cls, given, table, 0, f"[{table}]")

    def read_list(self, table: str, cls: type[T]) -> tuple[T, ...]:
        """The tables `[[table]]` in their order; each has a name of its own."""
        given = self.tables.get(table, [])
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            raise self.error("bad-value", f"{table} is not a list of tables", f"[[{table}]]", table=table)
        found: dict[str, T] = {}
        for index, entry in enumerate(given):
            name = entry.get("name")
            part = self._read(cls, entry, table, index, f"[[{table}]] {name if name else f'number {index + 1}'}")
            if name in found:
                raise self.error(
                    "duplicate",
                    f"a second [[{table}]] called {name!r}",
                    "each name once",
                    table=table,
                    index=index,
                )
            found[str(name)] = part
        return tuple(found.values())

    def _read(
        self,
        cls: type[T],
        given: Mapping[str, Any],
        table: str,
        index: int,
        label: str,
        extra: tuple[str, ...] = (),
    ) -> T:
        kinds = _kinds(cls)
        legal = [*kinds, *(key for key in _ORIGIN_KEYS if key not in kinds), *extra]
        for key in given:
            if key not in legal:
                raise self.error(
                    "unknown-key",
                    f"{label} has no key {key!r}",
                    ", ".join(legal) + closest(key, legal),
                    table=table,
                    index=index,
                    key=key,
                )
        missing = [key for key, field in kinds.items() if field.default is dataclasses.MISSING and key not in given]
        if missing:
            kind = kinds[missing[0]].metadata["kind"]
            raise self.error("missing", f"{label} does not say `{missing[0]}`", kind.legal, table=table, index=index)
        path = f"{table}.{given['name']}" if table and "name" in kinds else table
        values: dict[str, Any] = {}
        inherited = self._origin(given, self.default, label, table, index, "") if table else None
        for key, raw in given.items():
            if key not in kinds:
                continue
            field = kinds[key]
            origin = inherited
            if field.metadata["figure"] and isinstance(raw, dict) and "value" in raw:
                unknown = [name for name in raw if name not in ("value", *_ORIGIN_KEYS)]
                if unknown:
                    raise self.error(
                        "unknown-key",
                        f"{label}, {key} has no key {unknown[0]!r}",
                        "value, source, confidence" + closest(unknown[0], ("value", *_ORIGIN_KEYS)),
                        table=table,
                        index=index,
                        key=key,
                    )
                origin = self._origin(raw, inherited, label, table, index, key)
                raw = raw["value"]
            values[key] = self._value(field.metadata["kind"], raw, f"{label}, `{key}`", table, index, key)
            if field.metadata["figure"] and origin is not None and origin != self.default:
                self.provenance[f"{path}.{key}" if path else key] = origin
        return cls(**values)

    def _origin(
        self, given: Mapping[str, Any], outer: Provenance | None, label: str, table: str, index: int, key: str
    ) -> Provenance | None:
        """What `given` says about source and confidence, completed from outside."""
        own = {
            name: self._value(field.metadata["kind"], given[name], f"{label}, `{name}`", table, index, key or name)
            for name, field in _kinds(Provenance).items()
            if name in given
        }
        if outer is not None:
            return dataclasses.replace(outer, **own)
        return Provenance(**own) if len(own) == len(_ORIGIN_KEYS) else None

    def _value(self, kind: f.Kind, raw: Any, label: str, table: str, index: int, key: str) -> Any:
        try:
            return kind.read(raw)
        except ValueError:
            raise self.error(
                "bad-value", f"{label} is {raw!r}", kind.legal, table=table, index=index, key=key
            ) from None


def write_table(header: str, path: str, part: Any, provenance: Mapping[str, Provenance]) -> str:
    """One table as TOML: what differs from the defaults, and the origin of a quantity that has its own."""
    lines = [header] if header else []
    for name, field in _kinds(type(part)).items():
        value = getattr(part, name)
        figure = f"{path}.{name}" if path else name
        if figure not in provenance and field.default is not dataclasses.MISSING and value == field.default:
            continue
        text = field.metadata["kind"].write(value)
        if field.metadata["figure"] and figure in provenance:
            origin = provenance[figure]
            source, confidence = f.quoted(origin.source), f.quoted(origin.confidence)
            text = f"{{ value = {text}, source = {source}, confidence = {confidence} }}"
        lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"
