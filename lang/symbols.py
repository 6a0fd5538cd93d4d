"""What definitions are written with: names, Vars, sizes, reduction domains."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tilewright.lang import ir
from tilewright.lang.errors import DefinitionError, Location, UnknownNameError, user_location
from tilewright.lang.expr import Expr, to_node, type_name, wrap
from tilewright.lang.ir import Node
from tilewright.lang.types import index

_IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def bad(message: str, code: str, hint: str | None = None, where: Any = None) -> DefinitionError:
    return DefinitionError(message, code=f"definition.{code}", hint=hint, where=where or user_location())


def check_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _IDENT.match(name) or keyword.iskeyword(name):
        raise bad(f"{name!r} is no name for a {what}", "name", "names are identifiers: letters, digits, _")
    return name


# Names ----------------------------------------------------------------------------------------------------------


@dataclass
class Naming:
    """The names given so far while one kernel is traced; keeps automatic names distinct and repeatable.

    `conditional`: the reduction domains that have a where().
    """

    used: dict[str, int] = field(default_factory=dict)
    conditional: list[Domain] = field(default_factory=list)

    def fresh(self, base: str) -> str:
        n = self.used.get(base, 0)
        self.used[base] = n + 1
        return base if n == 0 else f"{base}_{n}"


_naming: ContextVar[Naming | None] = ContextVar("naming", default=None)
_prefix: ContextVar[str] = ContextVar("prefix", default="")


@contextmanager
def naming(table: Naming | None = None) -> Iterator[Naming]:
    """A new table of names for the extent of a trace."""
    table = table or Naming()
    token, outer = _naming.set(table), _prefix.set("")
    try:
        yield table
    finally:
        _naming.reset(token)
        _prefix.reset(outer)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Prefix the names of Funcs that are made inside: `with tw.scope("layer0")` makes `layer0_C` of `C`."""
    token = _prefix.set(_prefix.get() + check_name(name, "scope") + "_")
    try:
        yield
    finally:
        _prefix.reset(token)


def automatic_name(base: str) -> str:
    table = _naming.get()
    return table.fresh(_prefix.get() + base) if table else _prefix.get() + base


def given_name(name: str, what: str) -> str:
    """A name that the user gave, with the prefixes of the scopes around; automatic names keep off it."""
    full = _prefix.get() + check_name(name, what)
    table = _naming.get()
    if table:
        table.used.setdefault(full, 1)
    return full


# Vars and sizes -------------------------------------------------------------------------------------------------


class Var(Expr):
    """A coordinate of a Func's infinite grid. Two Vars of one name are the same Var."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = check_name(name, "Var")
        super().__init__(ir.var(name))


def vars(names: str) -> Any:
    """Vars by name: `i, j = tw.vars("i j")`; a single name gives one Var."""
    made = tuple(Var(n) for n in _words(names, "Vars"))
    return made[0] if len(made) == 1 else made


def _words(names: Any, what: str) -> list[str]:
    found = names.split() if isinstance(names, str) else []
    if not found:
        raise bad(f"{names!r} gives no names for {what}", "name", 'names stand in one text: "i j"')
    return found


class Size(Expr):
    """A symbol for an extent, shared by all inputs that name it and checked at the call. Never negative."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = check_name(name, "size")
        super().__init__(ir.size(name))


def sizes(names: str) -> Any:
    """Size symbols by name: `M, N = tw.sizes("M N")`; a single name gives one symbol."""
    made = tuple(Size(n) for n in _words(names, "sizes"))
    return made[0] if len(made) == 1 else made


def to_index(value: Any, what: str) -> Node:
    """`value` as a node of type index: an index expression as it is, other integers converted."""
    n = to_node(value)
    if n.dtype is index:
        return n
    if not n.dtype.is_int:
        raise bad(
            f"{what} has type {type_name(n.dtype)}", "index-type", "an index must be an integer: tw.cast(tw.i64, x)"
        )
    return ir.node("cast", index, (n,))


# Reduction domains ----------------------------------------------------------------------------------------------


class Domain:
    """The reduction domain behind an `RDom`: ranges (start, stop nodes) by name, the last innermost; predicates."""

    def __init__(self, ranges: dict[str, tuple[Node, Node]], location: Location | None = None):
        self.ranges = ranges
        self.predicates: tuple[Node, ...] = ()
        self.location = location
        self.frozen = False

    def rvar(self, name: str) -> Node:
        return ir.node("rvar", index, (), (self, name))

    @property
    def rvars(self) -> tuple[Node, ...]:
        """The nodes of the variables, outermost first."""
        return tuple(self.rvar(n) for n in self.ranges)


class RDom(Expr):
    """A reduction domain: named ranges, the last one innermost, and predicates that points must satisfy.

    With one range it is itself the expression of its variable; with several, use `r.x` or unpack it.
    """

    __slots__ = ("domain",)

    def __init__(self, domain: Domain):
        self.domain = domain

    @property
    def node(self) -> Node:
        names = list(self.domain.ranges)
        if len(names) != 1:
            raise bad(
                "a reduction domain of several variables is used as a value", "rdom-value",
                "use one of its variables: " + ", ".join(f"r.{n}" for n in names), self.domain.location,
            )  # fmt: skip
        return self.domain.rvar(names[0])

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("__") or name not in self.domain.ranges:
            raise UnknownNameError(
                f"this reduction domain has no variable {name!r}", where=user_location(),
                hint=f"it has: {', '.join(self.domain.ranges)}",
            )  # fmt: skip
        return wrap(self.domain.rvar(name))

    def __iter__(self) -> Iterator[Expr]:
        if len(self.domain.ranges) == 1:
            return super().__iter__()
        return iter([wrap(n) for n in self.domain.rvars])

    def where(self, condition: Any) -> RDom:
        """Only points where `condition` holds are executed. May name the update's Vars; must come before first use."""
        if self.domain.frozen:
            raise bad(
                "where() after the reduction domain was used", "rdom-frozen", "call where() first", user_location()
            )
        c = to_node(condition)
        if not c.dtype.is_bool:
            raise bad(f"where() needs a condition, got {type_name(c.dtype)}", "rdom-where", "compare it: x != 0")
        self.domain.predicates = (*self.domain.predicates, c)
        table = _naming.get()
        if table is not None:
            table.conditional.append(self.domain)
        return self


def rdom(*unnamed: Any, **ranges: Any) -> RDom:
    """A reduction domain: `tw.rdom(k=K)`, `tw.rdom(y=(-1, 2), x=(-1, 2))`. Stops or (start, stop); last is innermost."""
    if unnamed or not ranges:
        what = "with variables that have no names" if unnamed else "without variables"
        raise bad(f"a reduction domain {what}", "rdom-empty", "name every range: tw.rdom(k=K)")
    made = {}
    for name, r in ranges.items():
        check_name(name, "reduction variable")
        if hasattr(RDom, name):
            raise bad(f"{name!r} can't name a reduction variable", "name", "choose another name")
        if isinstance(r, tuple) and len(r) != 2:
            raise bad(f"the range of {name} is {r!r}", "rdom-range", "give its stop, or (start, stop)")
        start, stop = r if isinstance(r, tuple) else (0, r)
        bounds = (to_index(start, f"start of {name}"), to_index(stop, f"stop of {name}"))
        for n in ir.postorder(bounds):
            if n.op in ("var", "rvar", "load", "assume"):
                raise bad(
                    f"the range of {name} depends on {n!r}", "rdom-range",
                    "ranges are made of sizes, scalars and numbers; use where() for the rest",
                )  # fmt: skip
        made[name] = bounds
    return RDom(Domain(made, user_location()))
