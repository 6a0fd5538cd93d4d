"""What a value in a machine file may be: each kind reads, describes and prints one sort of value.

The dataclasses of `parts.py` declare a kind for each field; reading, checking and printing follow from that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any

from .formulas import LEGAL as LEGAL_FORMULA
from .formulas import Formula, parse_formula

# Element types that a machine may state a rate for, by their names in the language.
ELEMENT_TYPES = (
    *("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"),
    *("i64", "i32", "i16", "i8", "i4", "u64", "u32", "u16", "u8", "u4", "bool"),
)
_SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of value. `read` raises ValueError (with the part that is wrong, of what has parts); `legal` says in words
    what it accepts."""

    legal: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str]


def spec(kind: Kind, default: Any = MISSING, *, about: str, figure: bool = False) -> Any:
    """A dataclass field read by `kind`; a `figure` is a quantity that carries a source and a confidence.

    `about` says in a few words what it means: for the documentation, and for files that we write.
    """
    metadata = {"kind": kind, "figure": figure, "about": about}
    return field(default=default, metadata=metadata) if default is not MISSING else field(metadata=metadata)


def figure(kind: Kind, default: Any = MISSING, *, about: str) -> Any:
    """A field that is a quantity of the machine."""
    return spec(kind, default, about=about, figure=True)


def show_bytes(count: int) -> str:
    """`65536` as `64 KiB`; in bytes where it is no whole number of a unit."""
    for unit, scale in reversed(_SIZE_UNITS.items()):
        if count and count % scale == 0:
            return f"{count // scale} {unit}"
    return f"{count} B"


def quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


def show_value(value: Any, longest: int = 60) -> str:
    """A value of a TOML text as a message gives it: as it stands there, and not without end."""
    if isinstance(value, dict):
        text = "{ " + ", ".join(f"{key} = {show_value(part)}" for key, part in value.items()) + " }"
    elif isinstance(value, list):
        text = "[" + ", ".join(show_value(part) for part in value) + "]"
    elif isinstance(value, str):
        text = quoted(value)
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


OPERATION_CLASSES = ("add", "mul", "fma", "div", "sqrt", "compare", "bit", "special")


# What the engine can count with: times are 64-bit numbers of 2**-20 cycles, and sizes are added up.
LARGEST_SIZE = 1 << 50
LARGEST_COUNT = 1 << 31
SMALLEST, LARGEST = 1e-9, 2.0**40


def _integer(value: Any, least: int, most: int = LARGEST_COUNT) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool) and least <= value <= most)
    return value


def _number(value: Any, zero: bool) -> float:
    _require(isinstance(value, (int, float)) and not isinstance(value, bool))
    _require(SMALLEST <= value <= LARGEST or (zero and value == 0))
    return float(value)


def _size(value: Any) -> int:
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,18}) ?(B|KiB|MiB|GiB|TiB)", value)
        if match is None:
            raise ValueError
        value = int(match[1]) * _SIZE_UNITS[match[2]]
    return _integer(value, 1, LARGEST_SIZE)


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


def _owner(value: Any) -> str:
    _require(isinstance(value, str))
    names = [_identifier(x.strip()) for x in value.split(",")]
    _require(len(set(names)) == len(names) and (len(names) == 1 or not {"machine", "core", "element"} & set(names)))
    return ", ".join(names)


def _list_of(item: Kind, least: int, legal: str) -> Kind:
    def read(value: Any) -> tuple[Any, ...]:
        _require(isinstance(value, list) and len(value) >= least)
        return tuple(item.read(part) for part in value)

    return Kind(legal, read, lambda value: "[" + ", ".join(item.write(part) for part in value) + "]")


def _table_of(key: Kind, item: Kind, legal: str) -> Kind:
    def read(value: Any) -> dict[str, Any]:
        _require(isinstance(value, dict) and bool(value))
        found: dict[str, Any] = {}
        for name, part in value.items():
            try:
                found[key.read(name)] = item.read(part)
            except ValueError:
                raise ValueError(f"{name} = {show_value(part)}" if len(value) > 1 else "") from None
        return found

    def write(value: dict[str, Any]) -> str:
        return "{ " + ", ".join(f"{name} = {item.write(part)}" for name, part in value.items()) + " }"

    return Kind(legal, read, write)


def _read_pair(value: Any) -> tuple[str, str]:
    _require(isinstance(value, list) and len(value) == 2)
    first, second = (_identifier(part) for part in value)
    _require(first != second)
    return first, second


OWNER = Kind('one of "machine", "core", "element", or names of axes, as in "x" or "x, y"', _owner, quoted)
IDENTIFIER = Kind("a name of letters, digits, `_` and `-`", _identifier, quoted)
TEXT = Kind("a non-empty text", _text, quoted)
CONFIDENCES = ("measured", "published", "derived", "assumed")
CONFIDENCE = choice(*CONFIDENCES)
FLAG = Kind("true or false", _flag, lambda value: str(value).lower())
COUNT = Kind("a whole number of at least 1", lambda value: _integer(value, 1), str)
_UNITS = "B, KiB, MiB, GiB, TiB"


def _quantity(unit: str, zero: bool = False) -> Kind:
    legal = f"a number{f' of {unit}' * bool(unit)} {'of at least' if zero else 'above'} 0 (and up to 2**40)"
    return Kind(legal, lambda value: _number(value, zero), _write_number)


POSITIVE = _quantity("")
NOT_NEGATIVE = _quantity("", zero=True)
GIGAHERTZ = _quantity("GHz")
BANDWIDTH = _quantity("bytes a cycle")
CYCLES = _quantity("cycles", zero=True)
_CYCLES_OF_CALLS = _quantity("cycles")
INTERVAL = Kind(
    f'{_CYCLES_OF_CALLS.legal}, or {LEGAL_FORMULA}, such as "k + m + n - 2"',
    lambda value: parse_formula(str(value)) if isinstance(value, str | Formula) else _CYCLES_OF_CALLS.read(value),
    lambda value: quoted(str(value)) if isinstance(value, Formula) else _write_number(value),
)
ENERGY_OF_BYTES = _quantity("picojoules a byte", zero=True)
ENERGY_OF_CALLS = _quantity("picojoules a call", zero=True)
SIZE = Kind(f'a size of at least one byte, such as 65536 or "64 KiB" (units: {_UNITS})', _size, _write_size)
POWER_OF_TWO = Kind('a power of two in bytes, such as 64 or "4 KiB"', _power_of_two, _write_size)
CAPACITY = Kind(
    f'a size of at least one byte, such as 65536 or "64 KiB" (units: {_UNITS}), or "unbounded"',
    lambda value: None if value == "unbounded" else _size(value),
    lambda value: '"unbounded"' if value is None else _write_size(value),
)
ELEMENT_TYPE = choice(*ELEMENT_TYPES)
_TYPES = "a table from element types (" + ", ".join(ELEMENT_TYPES) + ")"
RATES = _table_of(ELEMENT_TYPE, POSITIVE, f"{_TYPES} to numbers above 0")
ENERGIES = _table_of(ELEMENT_TYPE, NOT_NEGATIVE, f"{_TYPES} to numbers of picojoules of at least 0")
EXTENTS = _table_of(IDENTIFIER, COUNT, "a table from names to whole numbers of at least 1")
SHAPE = _table_of(
    IDENTIFIER,
    Kind(
        "", lambda value: None if value in (None, "any") else COUNT.read(value),  # None: read before, see `variants`
        lambda value: '"any"' if value is None else str(value),
    ),
    'a table from roles to whole numbers of at least 1, or "any"',
)  # fmt: skip
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
