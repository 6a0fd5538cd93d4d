"""The table of directives: what each kind takes, and the function that carries it out.

`canonical` brings a directive into the one form in which it is stored, printed and compared: addresses in full,
defaults left out, options in the order of the table.
"""

from __future__ import annotations

import keyword
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.schedule.constraints import canonical_constraint
from tilewright.schedule.directive import Directive, KnobRef, Value
from tilewright.schedule.layout import parse_index_map
from tilewright.schedule.state import GUARD, ROUND_UP, SHIFT, Stage, State, find_func, find_loop, find_stage, refuse

Run = Callable[[State, Directive], State]
TAILS = (GUARD, SHIFT, ROUND_UP)
PARTS = ("auto", "always", "never")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Option:
    """One `key value` pair. `role`: factor, factors, tail, loop, stages, flag, memory, layout, name, word, count, counts,
    integer or part.

    A value equal to `default` is left out of the canonical form, or always said where it is `shown`.
    """

    key: str
    role: str
    required: bool = False
    default: Value | None = None
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """What a directive looks like. `operands` and `results` count names; -1: any number, at least one.

    `role` says what the operands are: loop, condition, constraint, func, tensor or name. Loops belong to the stage of
    the directive.
    """

    name: str
    role: str
    operands: int
    results: int
    options: tuple[Option, ...]
    run: Run

    @property
    def of_stage(self) -> bool:
        """Whether it stands under the heading of a stage."""
        return self.role in ("loop", "condition")


KINDS: dict[str, Kind] = {}


def directive(
    name: str, role: str, operands: int = 1, results: int = 0, options: tuple[Option, ...] = ()
) -> Callable[[Run], Run]:
    """Register the function that carries out a kind of directive."""

    def register(run: Run) -> Run:
        KINDS[name] = Kind(name, role, operands, results, options, run)
        return run

    return register


# The canonical form ---------------------------------------------------------------------------------------------


def canonical(state: State, d: Directive) -> Directive:
    """`d` with addresses in full and options in order. Raises ScheduleError for what the kind does not take."""
    kind = KINDS.get(d.kind)
    if kind is None:
        raise refuse(f"there is no directive {d.kind!r}", "unknown-directive", "known: " + ", ".join(sorted(KINDS)))
    stage = _stage(state, kind, d)
    _check_count(kind, "operand", d.operands, kind.operands)
    _check_count(kind, "new name", d.results, kind.results)
    for name in d.results:
        check_name(name)
    operands = tuple(_operand(state, kind, stage, o) for o in d.operands)
    address = state.address(stage.key) if stage else ""
    return replace(d, stage=address, operands=operands, options=_options(state, kind, d))


def _stage(state: State, kind: Kind, d: Directive) -> Stage | None:
    if kind.of_stage:
        return find_stage(state, d.stage)
    if d.stage:
        raise refuse(f"{kind.name} belongs to no stage", "misplaced", "write it on its own, not under a stage")
    return None


def _check_count(kind: Kind, what: str, found: tuple[str, ...], wanted: int) -> None:
    if (wanted < 0 and not found) or 0 <= wanted != len(found):
        needs = f"{wanted} {what}{'s' if wanted != 1 else ''}" if wanted >= 0 else f"at least one {what}"
        raise refuse(f"{kind.name} takes {needs} and is given {len(found)}", "arity", _form(kind))


def _operand(state: State, kind: Kind, stage: Stage | None, text: str) -> str:
    if kind.role == "loop":
        assert stage is not None
        if "." in text:
            owner, name = find_loop(state, text)
            if owner is not stage:
                raise refuse(
                    f"{text} is no loop of {state.address(stage.key)}", "foreign-loop",
                    f"its loops: {', '.join(x.name for x in stage.loops)}",
                )  # fmt: skip
            return name
        return find_loop(state, text, stage)[1]
    if kind.role == "condition":
        from tilewright.schedule.conditions import canonical_condition  # imports the text form of expressions

        return canonical_condition(state.pipeline, text)
    if kind.role == "constraint":
        return canonical_constraint(text)
    if kind.role == "func":
        return find_func(state, text).func.name
    return check_name(text)


def check_name(name: object) -> str:
    """A new name must be an identifier."""
    if not isinstance(name, str) or not _IDENTIFIER.match(name) or keyword.iskeyword(name):
        raise refuse(f"{name!r} is no name", "name", "names are identifiers: letters, digits, _")
    return name


def _options(state: State, kind: Kind, d: Directive) -> tuple[tuple[str, Value], ...]:
    given: dict[str, Value] = {}
    for key, value in d.options:
        if key in given:
            raise refuse(f"{kind.name}: {key} is given twice", "option", _form(kind))
        given[key] = value
    known = {o.key for o in kind.options}
    for key in given:
        if key not in known:
            raise refuse(f"{kind.name} has no option {key!r}", "option", _form(kind))
    out = []
    for o in kind.options:
        if o.key not in given:
            if o.required:
                raise refuse(f"{kind.name} needs {o.key!r}", "option", _form(kind))
            if o.shown and o.default is not None:
                out.append((o.key, o.default))
            continue
        value = given[o.key] if isinstance(given[o.key], KnobRef) else _ROLES[o.role](state, o.key, given[o.key])
        if o.shown or o.default is None or value != o.default:
            out.append((o.key, value))
    return tuple(out)


_VALUES = {
    "factor": "N", "factors": "N ...", "tail": "guard|shift|round_up", "loop": "STAGE.LOOP", "memory": "MEMORY",
    "stages": "STAGE ...", "flag": "", "layout": "INDEX MAP", "name": "NAME", "word": "NAME", "count": "N",
    "counts": "N N", "integer": "N", "part": "auto|always|never",
}  # fmt: skip


def synopsis(kind: Kind) -> str:
    """The text form of a directive: `split LOOP -> NEW, NEW by N [tail guard|shift|round_up]`."""
    word = kind.role.upper()
    words = [kind.name, " ".join([word] * kind.operands) if kind.operands >= 0 else f"{word} ..."]
    if kind.results:
        words += ["->", ", ".join(["NEW"] * kind.results) if kind.results > 0 else "NEW, ..."]
    return " ".join(w for w in [*words, *map(_option_form, kind.options)] if w)


def _option_form(o: Option) -> str:
    text = f"{o.key} {_VALUES.get(o.role, o.role.upper())}".rstrip()
    return text if o.required else f"[{text}]"


def _form(kind: Kind) -> str:
    return f"it is written: {synopsis(kind)}"


LARGEST_FACTOR = 2**31 - 1  # indices are 64 bits wide, and a part's start is computed before its end is cut off


def _factor(state: State, key: str, value: Value) -> Value:
    if isinstance(value, KnobRef):
        return value
    if isinstance(value, tuple):
        raise refuse(f"{_said(key, value)}: one factor is wanted, not {len(value)}", "factor", _POSITIVE)
    n = _whole(value)
    if n is None or n < 1:
        legal = _KNOB if key == "=" else _POSITIVE
        raise refuse(f"{_said(key, value)}: a factor is a positive integer", "factor", legal)
    if n > LARGEST_FACTOR:
        raise refuse(f"{_said(key, value)} is too large for a factor", "factor", f"at most {LARGEST_FACTOR}")
    return n


def _whole(value: Any) -> int | None:
    """An integer of Python's or NumPy's; None for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except Exception:  # symbols refuse it with an error of their own
        return None


_POSITIVE = "1, 2, 3, ...: constants or knobs; sizes are known at the call only"
_KNOB = "a knob has one value now, of those that it may have: s.knob('t', 8, choices=(4, 8, 16))"


def _said(key: str, value: Value) -> str:
    """An option as it was given: `by 0`; a sign for a key reads as a word of its own."""
    return f"the value {value!r}" if key == "=" else f"{key} {value!r}"


def _count(state: State, key: str, value: Value) -> Value:
    n = _whole(value)
    if n is None or n < 0:
        raise refuse(f"{key} {value!r}: a number of iterations is an integer >= 0", "factor", "0, 1, 2, ...")
    return n


def _integer(state: State, key: str, value: Value) -> Value:
    n = _whole(value)
    if n is None:
        raise refuse(f"{key} {value!r} is no integer", "factor", "such as -1, 0 or 16")
    return n


def _factors(state: State, key: str, value: Value) -> Value:
    if not isinstance(value, tuple):
        raise refuse(f"{key} {value!r}: several factors are wanted", "factor", "such as (8, 16)")
    return tuple(_factor(state, key, v) for v in value)


def _counts(state: State, key: str, value: Value) -> Value:
    if not isinstance(value, tuple):
        raise refuse(f"{key} {value!r}: two numbers of iterations are wanted", "factor", "such as (1, 1)")
    return tuple(_count(state, key, v) for v in value)


def _part(state: State, key: str, value: Value) -> Value:
    if value not in PARTS:
        raise refuse(f"a loop is not parted {value!r}", "partition", "one of: " + ", ".join(PARTS))
    return value


def _tail(state: State, key: str, value: Value) -> Value:
    if value not in TAILS:
        raise refuse(f"there is no tail {value!r}", "tail", "tails: " + ", ".join(TAILS))
    return value


def _loop(state: State, key: str, value: Value) -> Value:
    if not isinstance(value, str):
        raise refuse(f"{key} {value!r} is no address of a loop", "unknown-loop", "such as 'C.update.io'")
    stage, name = find_loop(state, value)
    return state.loop_address(stage.key, name)


def _stages(state: State, key: str, value: Value) -> Value:
    """Stages in the order of the program: one by itself, several as a tuple."""
    given = value if isinstance(value, tuple) else (value,)
    if not given or not all(isinstance(v, str) for v in given):
        raise refuse(f"{key} {value!r} is no address of a stage", "unknown-stage", "such as 'C.update'")
    keys = {find_stage(state, str(v)).key for v in given}
    found = tuple(state.address(k) for k in state.stages if k in keys)
    return found[0] if len(found) == 1 else found


def _flag(state: State, key: str, value: Value) -> Value:
    if value != 1 or isinstance(value, (tuple, str)):
        raise refuse(f"{key} {value!r}: {key} is there or not", "option", f"{key} stands alone: leave the value out")
    return 1


def _name(state: State, key: str, value: Value) -> Value:
    return check_name(value)


def _word(state: State, key: str, value: Value) -> Value:
    """A name of a machine's own: it may have hyphens."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", value):
        raise refuse(f"{key} {value!r} is no name", "name", "letters, digits, _ and -")
    return value


def _layout(state: State, key: str, value: Value) -> Value:
    return str(parse_index_map(str(value)))


_ROLES: Mapping[str, Callable[[State, str, Value], Value]] = {
    "factor": _factor, "count": _count, "counts": _counts, "integer": _integer, "part": _part,
    "factors": _factors, "tail": _tail, "loop": _loop, "stages": _stages, "flag": _flag,
    "memory": _name, "name": _name, "word": _word, "layout": _layout,
}  # fmt: skip


# Knobs ----------------------------------------------------------------------------------------------------------


def resolved(d: Directive, knobs: Mapping[str, Value]) -> Directive:
    """`d` with the current values of knobs in place of their names."""

    def value(v: Value) -> Value:
        if isinstance(v, tuple):
            return tuple(value(x) for x in v)
        if not isinstance(v, KnobRef):
            return v
        if v.name not in knobs:
            raise refuse(
                f"there is no knob {v.name!r}", "unknown-knob",
                f"known: {', '.join(knobs)}" if knobs else "make it first: t = s.knob('t', 8)",
            )  # fmt: skip
        return knobs[v.name]

    return replace(d, options=tuple((k, value(v)) for k, v in d.options))
