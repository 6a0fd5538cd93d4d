"""Reading and printing the tables of a machine file, driven by the fields that the dataclasses declare.

A quantity may be a plain value, or `{ value = ..., source = "...", confidence = "..." }`; a table may give
`source` and `confidence` for all of its quantities. What it does not say is inherited from the top of the
file. What is wrong is collected, so that a user sees all of it at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from tilewright.lang.errors import Location, TilewrightError

from . import fields as f
from .errors import MachineError
from .parts import Provenance

T = TypeVar("T")
_ORIGIN_KEYS = ("source", "confidence")


class NotGiven(Exception):
    """A value that can't be read; the problem has been reported."""


def toml_tables(text: str, origin: str, error: type[TilewrightError], code: str) -> dict[str, Any]:
    """What a TOML text says. Raises `error` with the code and the place where it is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as e:  # a number of 5,000 digits is a plain ValueError
        at = re.search(r"at line (\d+), column (\d+)", str(e))
        where = Location(origin, int(at[1]), int(at[2])) if at else Location(origin, max(1, len(text.splitlines())))
        said = (
            "too deeply nested" if isinstance(e, RecursionError) else str(e).removesuffix(f" ({at[0]})" if at else "")
        )
        raise error(f"not a TOML text: {said}", code=code, where=where) from e


def closest(given: str, legal: Iterable[str]) -> str:
    """`; did you mean x?` where a legal word is near the given one, else nothing."""
    near = difflib.get_close_matches(given, list(legal), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def field_kinds(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """The keys of a table, by name."""
    return {field.name: field for field in dataclasses.fields(cls)}


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A table of a file, by its name and its number among those of that name, as messages call it."""

    table: str
    index: int
    label: str


class Source:
    """A machine file being read: its tables, the problems found so far, and the origin of every quantity met.

    `broken` has the tables in which something could not be read: what depends on all of a table can't be checked then.
    """

    def __init__(self, text: str, origin: str):
        self.text = text
        self.origin = origin
        self.default: Provenance | None = None
        self.provenance: dict[str, Provenance] = {}
        self.problems: list[MachineError] = []
        self.broken: set[str] = set()
        self.tables = toml_tables(text, origin, MachineError, "machine.syntax")

    def report(self, code: str, problem: str, legal: str, *, table: str = "", index: int = 0, key: str = "") -> None:
        """A problem at the line of a key (or of its table), with what is legal as the hint."""
        where = Location(self.origin, self._line(table, index, key))
        self.problems.append(MachineError(problem, code=f"machine.{code}", where=where, hint=f"legal: {legal}"))

    def first_problem(self) -> MachineError | None:
        """The problem that stands first in the file."""
        return min(self.problems, key=lambda problem: problem.where[0].line, default=None)

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
                if key and current == f"{table}.{key}" and seen.get(table, 0) == index:
                    return number
            elif not current and table and re.match(rf"\s*{re.escape(table)}\s*=", line):
                fallback = number
            if current == table and seen.get(current, 0) == index and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line):
                return number
        return fallback

    def read_top(self, cls: type[T], tables: tuple[str, ...]) -> T | None:
        """The keys outside any table; `tables` are the names that may stand beside them."""
        plain = {key: value for key, value in self.tables.items() if key not in tables}
        return self._read(cls, plain, Place("", 0, "the top of the file"), extra=tables)

    def read_one(self, table: str, cls: type[T]) -> T | None:
        """The table `[table]`, which must be there."""
        given = self.tables.get(table)
        if isinstance(given, dict):
            return self._read(cls, given, Place(table, 0, f"[{table}]"))
        keys = ", ".join(field_kinds(cls))
        self.broken.add(table)
        if given is None:
            self.report("missing", f"there is no table [{table}]", f"[{table}] with {keys}")
        else:
            self.report("bad-value", f"{table} is not a table", f"[{table}] with {keys}", table=table, key=table)
        return None

    def read_list(self, table: str, cls: type[T]) -> dict[int, T]:
        """The tables `[[table]]` by their number, in order, as far as they can be read; each has a name of its own."""
        given = self.tables.get(table, [])
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            self.broken.add(table)
            self.report("bad-value", f"{table} is not a list of tables", f"[[{table}]]", table=table)
            return {}
        found: dict[int, T] = {}
        names: set[str] = set()
        for index, entry in enumerate(given):
            name = entry.get("name")
            shown = name if isinstance(name, str) and name else f"number {index + 1}"
            part = self._read(cls, entry, Place(table, index, f"[[{table}]] {shown}"))
            if part is None:
                continue
            if name in names:
                self.broken.add(table)
                self.report(
                    "duplicate", f"a second [[{table}]] called {name!r}", "each name once", table=table, index=index
                )
                continue
            names.add(str(name))
            found[index] = part
        return found

    def _read(self, cls: type[T], given: Mapping[str, Any], at: Place, extra: tuple[str, ...] = ()) -> T | None:
        before = len(self.problems)
        kinds = field_kinds(cls)
        legal = [*kinds, *(key for key in _ORIGIN_KEYS if key not in kinds), *extra]
        meant: set[str] = set()  # keys that are there, misspelled
        for key in given:
            if key not in legal:
                self._report(at, "unknown-key", f"{at.label} has no key {key!r}", legal, key)
                meant.update(difflib.get_close_matches(key, legal, n=1))
        for key, field in kinds.items():
            if field.default is dataclasses.MISSING and key not in given and key not in meant:
                self._report(at, "missing", f"{at.label} does not say `{key}`", field.metadata["kind"].legal)
        values = dict(self._values(kinds, given, at))
        if len(self.problems) > before:
            self.broken.add(at.table)
            return None
        return cls(**values)

    def _values(
        self, kinds: Mapping[str, dataclasses.Field[Any]], given: Mapping[str, Any], at: Place
    ) -> Iterator[tuple[str, Any]]:
        """The values that can be read, and where they come from noted."""
        path = f"{at.table}.{given.get('name')}" if at.table and "name" in kinds else at.table
        inherited = self._origin(given, self.default, at, "") if at.table else _top_origin(given)
        usual = self.default if at.table else inherited
        for key, raw in given.items():
            if key not in kinds:
                continue
            field, origin = kinds[key], inherited
            try:
                if field.metadata["figure"] and _has_origin(raw):
                    raw, origin = self._figure(raw, inherited, at, key)
                value = self._value(field.metadata["kind"], raw, f"{at.label}, `{key}`", at, key)
            except NotGiven:
                continue
            if field.metadata["figure"] and origin is not None and origin != usual:
                self.provenance[f"{path}.{key}" if path else key] = origin
            yield key, value

    def _figure(
        self, raw: Mapping[str, Any], outer: Provenance | None, at: Place, key: str
    ) -> tuple[Any, Provenance | None]:
        """A quantity that comes as a table with its origin."""
        known = ("value", *_ORIGIN_KEYS)
        for name in raw:
            if name not in known:
                self._report(at, "unknown-key", f"{at.label}, {key} has no key {name!r}", known, key, given=name)
        if "value" not in raw:
            self._report(at, "missing", f"{at.label}, `{key}` does not say its `value`", ", ".join(known), key)
            raise NotGiven
        return raw["value"], self._origin(raw, outer, at, key)

    def _origin(self, given: Mapping[str, Any], outer: Provenance | None, at: Place, key: str) -> Provenance | None:
        """What `given` says about source and confidence, completed from outside."""
        own: dict[str, Any] = {}
        for name, field in field_kinds(Provenance).items():
            if name in given:
                try:
                    label = f"{at.label}, `{name}`" if not key else f"{at.label}, `{name}` of `{key}`"
                    own[name] = self._value(field.metadata["kind"], given[name], label, at, key or name)
                except NotGiven:
                    continue
        if outer is not None:
            return dataclasses.replace(outer, **own)
        return Provenance(**own) if len(own) == len(_ORIGIN_KEYS) else None

    def _value(self, kind: f.Kind, raw: Any, label: str, at: Place, key: str) -> Any:
        try:
            return kind.read(raw)
        except ValueError as error:
            inside = f", and has {error}" if str(error) else ""
            self._report(at, "bad-value", f"{label} is {f.show_value(raw)}{inside}", kind.legal, key)
            raise NotGiven from None

    def _report(
        self, at: Place, code: str, problem: str, legal: str | Iterable[str], key: str = "", given: str = ""
    ) -> None:
        words = legal if isinstance(legal, str) else ", ".join(legal) + closest(given or key, legal)
        self.report(code, problem, words, table=at.table, index=at.index, key=key)


def _has_origin(raw: Any) -> bool:
    """Whether a quantity comes as a table with its origin, with a `value` or without one that should be there."""
    if not isinstance(raw, dict):
        return False
    return "value" in raw or any(isinstance(raw.get(key), str) for key in _ORIGIN_KEYS)


def _top_origin(given: Mapping[str, Any]) -> Provenance | None:
    """The origin that the top of a file gives (whether it may is checked with its other keys)."""
    source, confidence = (given.get(key) for key in _ORIGIN_KEYS)
    return Provenance(source, confidence) if isinstance(source, str) and isinstance(confidence, str) else None


def left_out(field: dataclasses.Field[Any], value: Any, figure: str, provenance: Mapping[str, Provenance]) -> bool:
    """Whether a file need not say a value: it is the default, and has no origin of its own."""
    return figure not in provenance and field.default is not dataclasses.MISSING and value == field.default


def write_table(header: str, path: str, part: Any, provenance: Mapping[str, Provenance]) -> str:
    """One table as TOML: what differs from the defaults, and the origin of a quantity that has its own."""
    lines = [header] if header else []
    for name, field in field_kinds(type(part)).items():
        value = getattr(part, name)
        figure = f"{path}.{name}" if path else name
        if not left_out(field, value, figure, provenance):
            lines.append(f"{name} = {figure_text(field, value, provenance.get(figure))}")
    return "\n".join(lines) + "\n"


def figure_text(field: dataclasses.Field[Any], value: Any, origin: Provenance | None) -> str:
    """A value as TOML, with its origin where it has one of its own."""
    text = field.metadata["kind"].write(value)
    if field.metadata["figure"] and origin is not None:
        source, confidence = f.quoted(origin.source), f.quoted(origin.confidence)
        text = f"{{ value = {text}, source = {source}, confidence = {confidence} }}"
    return text
