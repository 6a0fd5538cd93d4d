"""Schedules as text and back: `parse_schedules(print_directives(...))` gives equal directives.

The form of a line is the same for every directive (see directive.py), so nothing here knows what a kind means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.lang.errors import Location, ScheduleError
from tilewright.schedule.causes import refuse
from tilewright.schedule.directive import Directive, KnobRef, Value

if TYPE_CHECKING:
    from tilewright.lang.text.reader import Source

KEYS = ("by", "tail", "at", "in", "pad", "name", "offset", "of", "over", "for", "on", "=")
FLAG, LAYOUT = "given", "layout"  # `given` stands alone for 1; the value of `layout` is an index map
WORDS = frozenset([*KEYS, FLAG, LAYOUT])
_WORD = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[[0-9]+\]|\{[A-Za-z_]\w*\})*\Z", re.ASCII)
_FIELD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class ScheduleText:
    """A schedule as it was read: the kernel's name; if they are said, the algorithm's hash, the machine, and the sizes
    that it is for (such as "M=17..24,N=1024"); and where the text stands."""

    kernel: str
    hash: str | None
    machine: str | None
    directives: tuple[Directive, ...]
    location: Location | None = field(default=None, compare=False)
    sizes: str | None = None


# Writing --------------------------------------------------------------------------------------------------------


def print_directives(
    kernel: str, directives: Iterable[Directive], hash: str | None = None, machine: str | None = None,
    sizes: str | None = None,
) -> str:  # fmt: skip
    """The schedule block: the order of the text is the order of the directives.

    Raises ScheduleError for what has no text form (an option with an unknown key, a kind that is no name).
    """
    head = f"schedule {_string(kernel)}"
    if hash is not None:
        head += f" hash {_field(hash, 'hash')}"
    if machine is not None:
        head += f" machine {machine if _FIELD.match(machine) else json.dumps(machine)}"
    if sizes is not None:
        head += f" for {json.dumps(sizes, ensure_ascii=False)}"
    lines, stage = [head], ""
    for d in directives:
        if d.stage and d.stage != stage:
            lines.append(f"  {_address(d.stage)}:")
        stage = d.stage
        lines.append(("    " if stage else "  ") + format_directive(d))
    return "\n".join(lines) + "\n"


def format_directive(d: Directive) -> str:
    """A directive as one line, without its stage."""
    if not _NAME.match(d.kind):
        raise _no_form(f"the directive {d.kind!r}")
    words = [d.kind]
    if d.operands:
        words.append((", " if d.results else " ").join(map(_string, d.operands)))
    if d.results:
        words.append("-> " + ", ".join(map(_string, d.results)))
    words.extend(_option(key, value) for key, value in d.options)
    return " ".join(words)


def _option(key: str, value: Value) -> str:
    if key not in WORDS:
        raise _no_form(f"the option {key!r}", "known keys: " + " ".join(sorted(WORDS)))
    if key == FLAG and value == 1 and not isinstance(value, tuple):
        return key
    if key == LAYOUT:
        if not isinstance(value, str):
            raise _no_form(f"the layout {value!r}", "give an index map")
        plain = value and canonical_map(value) == value and not (_words(value) & WORDS or set(value) & set('"#\n'))
        return f"{key} {value if plain else json.dumps(value)}"
    return f"{key} {format_value(value)}"


def format_value(value: Value) -> str:
    """A value: the items of a tuple are separated by spaces, a tuple of one ends in a comma."""
    if not isinstance(value, tuple):
        return _item(value)
    if not value:
        return "()"
    return " ".join(map(_item, value)) + ("," if len(value) == 1 else "")


def _item(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({format_value(value)})" if value else "()"
    if isinstance(value, KnobRef):
        if not _WORD.match(value.name):
            raise _no_form(f"the knob {value.name!r}")
        return f"${value.name}"
    if isinstance(value, int):
        return str(int(value))
    if not isinstance(value, str):
        raise _no_form(f"the value {value!r}", "values are integers, names, knobs and tuples of them")
    return _string(value)


def _string(text: str) -> str:
    return text if _WORD.match(text) and text not in WORDS else json.dumps(text)


def _address(text: str) -> str:
    if not _WORD.match(text):
        raise _no_form(f"the address {text!r}")
    return text


def _field(text: str, what: str) -> str:
    if not _FIELD.match(text):
        raise _no_form(f"the {what} {text!r}")
    return text


def _no_form(what: str, hint: str = "names are letters, digits and _, joined by dots") -> ScheduleError:
    return refuse(f"{what} has no text form", "text", hint)


def _words(text: str) -> set[str]:
    return set(text.split())


def canonical_map(text: str) -> str:
    """An index map in canonical spacing: `k j -> j//16 k j%16`."""
    text = " ".join(text.split())
    text = re.sub(r" ?(//|[%*+]|-(?!>)) ?", r"\1", text)
    return re.sub(r" ?-> ?", " -> ", re.sub(r"\( ", "(", re.sub(r" \)", ")", text))).strip()


# Reading --------------------------------------------------------------------------------------------------------


def parse_schedules(text: str, origin: str = "<text>", first_line: int = 1) -> list[ScheduleText]:
    """The schedules of a text, each directive with its location. `origin` and `first_line` are for error messages.

    Raises ParseError: line, column, what was found and what was expected.
    """
    from tilewright.lang.text.reader import Source, check_version, grammar  # imports Lark

    source = Source(text, origin, first_line)
    names = {
        "KEY": "an option", "FLAG": "an option", "LAYOUT": "an option", "WORD": "a name", "MAP": "an index map",
        "FIELD": "a value", "HASH": '"hash"', "MACHINE": '"machine"', "FOR": '"for"', "DOLLAR": "a knob",
    }  # fmt: skip
    out = []
    for t in source.tree(grammar("tilewright.schedule", "schedule.lark"), names).children:
        if t.data == "version":
            check_version(t, source)
        else:
            out.append(_schedule(t, source))
    return out


def _schedule(t: Any, source: Source) -> ScheduleText:
    fields: dict[str, str] = {}
    directives: list[Directive] = []
    parts = iter([c for c in t.children[1:] if c is not None])
    for c in parts:
        if not hasattr(c, "data"):
            if str(c) in fields:
                source.fail(f"{c} is given twice", c)
            fields[str(c)] = _text(next(parts), source)
        elif c.data == "heading":
            stage = str(c.children[0])
            directives.extend(_directive(d, stage, source) for d in c.children[1:])
        else:
            directives.append(_directive(c, "", source))
    kernel = _strings(t.children[0], source)[0]
    place = source.location(t.children[0])
    return ScheduleText(kernel, fields.get("hash"), fields.get("machine"), tuple(directives), place, fields.get("for"))


def _directive(t: Any, stage: str, source: Source) -> Directive:
    kind, operands, arrow, results, *options = t.children
    if not _NAME.match(str(kind)):
        source.fail(f"found {str(kind)!r}, expected a directive", kind, "a word such as split or reorder")
    return Directive(
        str(kind),
        stage,
        _names(operands, source),
        _names(results, source) if arrow is not None else (),
        tuple(_read_option(o, source) for o in options),
        source.location(t),
    )


def _names(t: Any, source: Source) -> tuple[str, ...]:
    return () if t is None else tuple(_strings(c, source)[0] for c in t.children)


def _strings(t: Any, source: Source) -> list[str]:
    return [_text(c, source) for c in t.children]


def _text(token: object, source: Source) -> str:
    text = str(token)
    if not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except ValueError as e:
        source.fail(f"the string {text} can't be read: {e}", token)


def _read_option(t: Any, source: Source) -> tuple[str, Value]:
    key, value = t.children
    if str(key) == LAYOUT:
        text = _text(value, source)
        return LAYOUT, text if str(value).startswith('"') else canonical_map(text)
    return str(key), 1 if value is None else _values(value, source)


def _values(t: Any, source: Source) -> Value:
    *items, comma = t.children
    values = tuple(_read_item(i, source) for i in items)
    return values[0] if len(values) == 1 and comma is None else values


def _read_item(t: Any, source: Source) -> Value:
    if t.data == "int":
        token = str(t.children[0])
        if len(token) > 40:
            source.fail("the number has more than 40 digits", t)
        return int(token)
    if t.data == "knob":
        return KnobRef(str(t.children[0]))
    if t.data == "group":
        inner = t.children[0]
        if inner is None:
            return ()
        value = _values(inner, source)
        return value if isinstance(value, tuple) else (value,)
    return _strings(t, source)[0]
