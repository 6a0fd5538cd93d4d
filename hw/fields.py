"""What a value in a machine file may be: each kind reads, describes and prints one sort of value.

The dataclasses of `parts.py` declare a kind for each field; reading, checking and printing follow from that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any

# Element types that a machine may state a rate for, by their names in the language.
ELEMENT_TYPES = (
    *("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"),
    *("i64", "i32", "i16", "i8", "i4", "u64", "u32", "u16", "u8", "u4", "bool"),
)
_SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of value. `read` raises ValueError; `legal` says in words what it accepts."""

    legal: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str]


def spec(kind: Kind, default: Any = MISSING, *, figure: bool = False) -> Any:
    """A dataclass field read by `kind`; a `figure` is a quantity that carries a source and a confidence."""
    metadata = {"kind": kind, "figure": figure}
    return field(default=default, metadata=metadata) if default is not MISSING else field(metadata=metadata)


def figure(kind: Kind, default: Any = MISSING) -> Any:
    """A field that is a quantity of the machine."""
    return spec(kind, default, figure=True)


def show_bytes(count: int) -> str:
    """`65536` as `64 KiB`; in bytes where it is no whole number of a unit."""
    for unit, scale in reversed(_SIZE_UNITS.items()):
        if count and count % scale == 0:
            return f"{count // scale} {unit}"
    return f"{count} B"


def quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


OPERATION_CLASSES = ("add", "mul", "fma", "div", "sqrt", "compare", "bit", "special")


def _integer(value: Any, least: int) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool) and value >= least)
    return value


def _number(value: Any, zero: bool) -> float:
    _require(isinstance(value, (int, float)) and not isinstance(value, bool))
    _require(0 < value < float("inf") or (zero and value == 0))
    return float(value)


def _size(value: Any) -> int:
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+) ?(B|KiB|MiB|GiB|TiB)", value)
        if match is None:
            raise ValueError
        value = int(match[1]) * _SIZE_UNITS[match[2]]
    return _integer(value, 1)


def _power_of_two(value: Any) -> int:
    size = _size(value)
    _require(size & (size - 1) == 0)
    return size


def _text(value: Any) -> str:
    _require(isinstance(value, str) and bool(value.strip()))
    return value


def _identifier(value: Any) -> str:
    _require(isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", value) is not None)
    return value


def _flag(value: Any) -> bool:
    _require(isinstance(value, bool))
    return value


def _write_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _write_size(value: int) -> str:
    text = show_bytes(value)
    return str(value) if text.endswith(" B") else quoted(text)


def choice(*words: str) -> Kind:
    """One of a few words."""

    def read(value: Any) -> str:
        _require(value in words)
        return value

    return Kind("one of " + ", ".join(quoted(word) for word in words), read, quoted)


def _list_of(item: Kind, least: int, legal: str) -> Kind:
    def read(value: Any) -> tuple[Any, ...]:
        _require(isinstance(value, list) and len(value) >= least)
        return tuple(item.read(part) for part in value)

    return Kind(legal, read, lambda value: "[" + ", ".join(item.write(part) for part in value) + "]")


def _table_of(key: Kind, item: Kind, legal: str) -> Kind:
    def read(value: Any) -> dict[str, Any]:
        _require(isinstance(value, dict) and bool(value))
        return {key.read(name): item.read(part) for name, part in value.items()}

    def write(value: dict[str, Any]) -> str:
        return "{ " + ", ".join(f"{name} = {item.write(part)}" for name, part in value.items()) + " }"

    return Kind(legal, read, write)


def _read_pair(value: Any) -> tuple[str, str]:
    _require(isinstance(value, list) and len(value) == 2)
    first, second = (_identifier(part) for part in value)
    _require(first != second)
    return first, second


IDENTIFIER = Kind("a name of letters, digits, `_` and `-`", _identifier, quoted)
TEXT = Kind("a non-empty text", _text, quoted)
CONFIDENCE = choice("measured", "published", "derived", "assumed")
FLAG = Kind("true or false", _flag, lambda value: str(value).lower())
COUNT = Kind("a whole number of at least 1", lambda value: _integer(value, 1), str)
POSITIVE = Kind("a number above 0", lambda value: _number(value, zero=False), _write_number)
NOT_NEGATIVE = Kind("a number of at least 0", lambda value: _number(value, zero=True), _write_number)
SIZE = Kind('a size of at least one byte, such as 65536 or "64 KiB"', _size, _write_size)
POWER_OF_TWO = Kind('a power of two in bytes, such as 64 or "4 KiB"', _power_of_two, _write_size)
CAPACITY = Kind(
    'a size of at least one byte, such as 65536 or "64 KiB", or "unbounded"',
    lambda value: None if value == "unbounded" else _size(value),
    lambda value: '"unbounded"' if value is None else _write_size(value),
)
ELEMENT_TYPE = choice(*ELEMENT_TYPES)
RATES = _table_of(
    ELEMENT_TYPE, POSITIVE, "a table from element types (" + ", ".join(ELEMENT_TYPES) + ") to numbers above 0"
)
EXTENTS = _table_of(IDENTIFIER, COUNT, "a table from names to whole numbers of at least 1")
CLASSES = _table_of(
    choice(*OPERATION_CLASSES), POSITIVE,
    "a table from classes of operations (" + ", ".join(OPERATION_CLASSES) + ") to numbers above 0",
)  # fmt: skip
NAMES_OF_MEMORIES = _table_of(IDENTIFIER, IDENTIFIER, "a table from operands to names of memories")
NAMES_OF_TYPES = _table_of(IDENTIFIER, ELEMENT_TYPE, "a table from operands to element types")
PAIRS = _list_of(
    Kind("", _read_pair, lambda pair: "[" + ", ".join(quoted(name) for name in pair) + "]"),
    1,
    'a list of pairs of different memories, such as [["dram", "spm"]]',
)
