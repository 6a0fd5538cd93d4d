"""Where Funcs are computed: groups of Funcs around loops of one of them, the head.

Consumers first: the loops of a head (an output, or what is computed as a whole) are written before it is decided in which
of them those that it reads are computed: in a strip, a tile or a row of it, kept from row to row (a sliding window) or
in registers. Of long pipelines the same is chosen for all Funcs of one form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tilewright.autotune.generate.draft import Draft, Form
from tilewright.autotune.generate.pure import Levels, in_registers, is_pure, overlaps, strips
from tilewright.lang import ir, simplify
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.schedule.default_loops import apply, cost, lanes_of, shape
from tilewright.schedule.default_places import in_memory_by_default
from tilewright.schedule.online import between
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.sites import legal_sites

FEW = 6  # Funcs about each of which it is decided alone
_COSTLY = 40  # operations of an element that is never computed anew for each of its uses
_INLINE = ("usual", "none", "8", "16")  # of many Funcs: up to how many operations
_DEPTHS = (0, 1, 2, 4, 8)  # of many Funcs: stages of a group (0: as many as there are)
_KEPT = 1024  # bytes of a buffer that is worth being allocated once for a whole strip
_GROWN = (
    1  # times that Funcs of one chain are read beyond edges or in other steps: what is known of regions grows with it
)


def grouped(d: Draft, name: str) -> Sequence[Form]:
    """Rule: all places at once, by groups."""
    if name or any(between(d.s.state, n) is not None for n in d.s.state.order):
        return ()
    kept, costs = in_memory_by_default(d.s)
    if not kept and not any(costs.values()):
        return ()
    return (Form("groups", _Groups(d).write),)


class _Groups:
    """One choice of places. `windows`: Funcs of which rows are kept, and the heads in whose rows they are computed."""

    def __init__(self, d: Draft):
        self.d = d
        self.levels: dict[str, Levels] = {}
        self.windows: dict[str, str] = {}
        self.points: dict[tuple[str, str], tuple[int | None, ...]] = {}
        self.many = False
        self.depth: dict[str, int] = {}  # of an output 0, of what it reads 1, and so on
        self.grown: dict[str, int] = {}  # how often something in a chain of a group is read otherwise than as it lies
        self.apart = 0

    def write(self, d: Draft) -> None:
        self.d = d
        stored = self._inlined()
        self.many = len(stored) > FEW
        if self.many:
            self.apart = d.number("groups.stages", _DEPTHS)
            d.alike = self._alike([*d.s.state.outputs, *reversed(stored)])
        before = len(d.s)
        for name in stored:  # what is not decided yet: inlined into each other, they would grow without end
            apply(d.s, "compute_root", "", (name,))
        for name in reversed(d.s.state.order):
            if name in d.s.state.outputs:
                self.depth[name] = self.grown[name] = 0
                self._head(name)
            elif name in stored:
                readers = self._readers(name)
                self.depth[name] = 1 + max((self.depth[r] for r in readers), default=0)
                self.grown[name] = self._grows(name) + max((self.grown[r] for r in readers), default=0)
                self._place(name)
        self._fold()
        self._tidy(before, len(stored))

    # Inlined --------------------------------------------------------------------------------------------------

    def _inlined(self) -> list[str]:
        """Decide what is inlined; the others, producers first."""
        d = self.d
        kept, costs = in_memory_by_default(d.s)
        pure = [n for n in kept if not d.func(n).updates and is_pure(d, n) and cost(d.func(n), costs) <= _COSTLY]
        cheap = [n for n, c in costs.items() if c > 0]
        stored = set(kept)
        if len(pure) + len(cheap) > FEW:
            most = d.choose("groups.inline", _INLINE)
            for n in (*pure, *cheap) if most != "usual" else ():
                inline = most != "none" and cost(d.func(n), costs) <= int(str(most))
                stored = stored - {n} if inline else stored | {n}
        else:
            for n in (*pure, *cheap):
                if d.flag(f"{n}.inline", n in cheap and not self._read_across(n)):
                    stored -= {n}
                else:
                    stored |= {n}
        for n in pure:
            if n not in stored:
                apply(d.s, "compute_inline", "", (n,))
        return [n for n in d.s.state.order if n in stored]

    def _alike(self, names: Sequence[str]) -> dict[str, str]:
        """For each Func the first one whose last definition has the same form."""
        first: dict[tuple, str] = {}
        found: dict[str, str] = {}
        for n in names:
            f = self.d.func(n).definitions[-1]
            found[n] = first.setdefault((shape(f, set()).kind, len(f.lhs), n in self.d.s.state.outputs), n)
        return found

    # Places ---------------------------------------------------------------------------------------------------

    def _place(self, name: str) -> None:
        d = self.d
        sites = self._sites(name)
        if sites and (self.depth[name] % self.apart if self.apart else self.many or not d.flag(f"{name}.root")):
            chosen = str(d.choose(f"{name}.at", [*sites]))
            with suppress(ScheduleError):
                self._put(name, chosen, sites)
                return
        self.grown[name] = 0
        self._head(name)

    def _readers(self, name: str) -> set[str]:
        """The Funcs in memory that read a Func, or something inlined that does."""
        found, seen, todo = set[str](), {name}, [name]
        while todo:
            for stage in self.d.s.state.consumers(self.d.func(todo.pop())):
                reader = stage.key[0]
                if reader in self.depth:
                    found.add(reader)
                elif reader not in seen:
                    seen.add(reader)
                    todo.append(reader)
        return found

    def _grows(self, name: str) -> bool:
        """Whether a Func is read beyond its edges, or in other steps than it is computed."""
        f = self.d.func(name)
        readers = self.d.s.state.consumers(f)
        loads = [n for k in readers for n in ir.leaves(k.definition.values, "load") if n.attr[0] is f]
        return any(not _plain(i) for n in loads for i in n.args)

    def _tidy(self, at: int, n: int) -> None:
        """Leave out that what is computed in loops was at the root before."""
        s = self.d.s
        first, placed = s.directives[at : at + n], s.directives[at + n :]
        moved: dict[str, bool] = {}
        for x in placed:
            for name in {*x.operands, x.stage.split(".")[0]}:
                moved.setdefault(name, x.kind == "compute_at")
        first = tuple(x for x in first if not moved.get(x.operands[0]))
        made = Schedule(s.pipeline, s.machine)
        with made.together():
            for x in (*s.directives[:at], *first, *placed):
                made.apply(x)
        s.directives, s.state = made.directives, made.state

    def _head(self, name: str) -> None:
        """Write the loops of a Func at the root, so that others can be computed in them."""
        d = self.d
        if is_pure(d, name):
            self.levels[name] = strips(d, name)
        else:
            d.form(name)
            stage = d.stages(name)[-1]
            at = d.s.state.address(stage.key)
            self.levels[name] = Levels({x.name: f"{at}.{x.name}" for x in stage.loops[:3] if not x.reduction}, ())

    def _sites(self, name: str) -> dict[str, str]:
        """The loops in which a Func can be computed, by what an iteration of them is."""
        d, f = self.d, self.d.func(name)
        legal = legal_sites(d.s.state, f)
        head = legal[0].split(".")[0] if legal else ""
        levels = self.levels[head].sites if head in self.levels else {}
        found = {k: a for k, a in levels.items() if a in legal}
        if self.grown[name] > (_GROWN if "tile" not in levels else 0):
            return {}
        if not is_pure(d, name) or not self._in_registers(name, head):
            found.pop("column", None)
        if not is_pure(d, name):
            return found
        if "row" in found and ("strip" in found or "tile" in found) and self._read_across(name):
            found["window"] = found["row"]
        likely = _ACROSS if self._read_across(name) else _ALONG
        return dict(sorted(found.items(), key=lambda k: likely.index(k[0]) if k[0] in likely else len(likely)))

    def _read_across(self, name: str) -> bool:
        """Whether some reader of a Func reads several rows of it."""
        f = self.d.func(name)
        readers = [k.definition for k in self.d.s.state.consumers(f)]
        return f.rank > 1 and any(overlaps(g, v) for g in readers for v in g.pure_vars[:-1])

    def _put(self, name: str, kind: str, sites: dict[str, str]) -> None:
        d, s, at = self.d, self.d.s, sites[kind]
        before = s.directives, s.state
        apply(s, "compute_at", "", (name,), at=at)
        points = self._points(name, at.split(".")[0])
        if kind == "window" or (kind == "row" and len(points) > 1 and points[-2] == 1):
            d.lines.add(name)
        try:
            if kind == "window":
                apply(s, "store_at", "", (name,), at=sites.get("tile", sites.get("strip", at)))
                self.windows[name] = at.split(".")[0]
            elif kind == "column":
                in_registers(d, name, points[-1:] == (lanes_of(d.func(name).definitions[0], d.at.registers),))
            elif kind != "strip" and "strip" in sites and self._size(name) >= _KEPT:
                apply(s, "hoist_storage", "", (name,), at=sites["strip"])
        except ScheduleError:
            s.directives, s.state = before
            self.windows.pop(name, None)
            d.lines.discard(name)
            rest = {k: a for k, a in sites.items() if k != kind}
            if not rest:
                raise
            self._put(name, next(iter(rest)), rest)

    def _size(self, name: str) -> int:
        """Bytes of a row of a Func of which rows are read; 0 where single elements are."""
        f = self.d.func(name)
        for g in (k.definition for k in self.d.s.state.consumers(f)):
            along = {*(g.rdom.rvars if g.rdom is not None else ()), *g.lhs[-1:]}
            if any(along & set(ir.postorder(n.args[-1:])) for n in ir.leaves(g.values, "load") if n.attr[0] is f):
                return sum(t.bytes for t in f.dtypes) * self.d.extent(f.definitions[0], f.args[-1])
        return 0

    def _in_registers(self, name: str, head: str) -> bool:
        """Whether what a column of the head needs of a Func is little enough."""
        d, f = self.d, self.d.func(name)
        points = self._points(name, head)
        if not points or None in points:
            return False
        lanes = lanes_of(f.definitions[0], d.at.registers)
        *rows, last = (n or 0 for n in points)
        if last != lanes and self._readers(name) != {head}:
            return False  # how much is needed would depend on where a row ends
        return math.prod(rows) * -(-last // lanes) <= d.at.registers.count

    def _points(self, name: str, head: str) -> tuple[int | None, ...]:
        """How many points of each axis of a Func a column of the head needs, or what is computed in it for that."""
        if name == head:
            return self.levels[head].points
        known = self.points.get((name, head))
        if known is None:
            f = self.d.func(name)
            parts = [self._needed(k.definition, f, head) for k in self.d.s.state.consumers(f)]
            known = tuple(None if None in p else max(p) for p in zip(*parts, strict=True))
            self.points[name, head] = known
        return known

    def _needed(self, reader: Definition, f: Func, head: str) -> list[int | None]:
        """The same for one reader."""
        have = dict(zip(reader.lhs, self._points(reader.func.name, head), strict=False))
        found: list[int | None] = []
        for k in range(f.rank):
            spans = [_span(n.args[k], have) for n in ir.leaves(reader.values, "load") if n.attr[0] is f]
            known = [r for r in spans if r is not None]
            found.append(
                max(b for _, b in known) - min(a for a, _ in known) + 1 if known and len(known) == len(spans) else None
            )
        return found

    def _fold(self) -> None:
        """Of what is kept from row to row no more than is in use, in a ring of rows."""
        d = self.d
        for name, head in self.windows.items():
            f = d.func(name)
            n = self._points(name, head)[-2]
            if n is not None:
                with suppress(ScheduleError):
                    apply(d.s, "fold_storage", "", (name,), over=f.args[-2].attr, by=1 << (n - 1).bit_length())


def _plain(i: Node) -> bool:
    """Whether an index is made of variables as they are."""
    return all(v.op in ("var", "rvar", "size") and k == 1 for v, k in simplify.linear(i)[0].items())


def _span(i: Node, have: Mapping[Node, int | None]) -> tuple[int, int] | None:
    """The least and the largest value of an index, where variables start at 0 and have some points each."""
    if i.op == "select":  # beyond an edge it is less
        return _span(i.args[1], have)
    coefs, c = simplify.linear(i)
    low = high = c
    for v, k in coefs.items():
        n = have.get(v)
        if n is None:
            return None
        low, high = low + min(0, k * (n - 1)), high + max(0, k * (n - 1))
    return low, high


_ACROSS = ("column", "window", "strip", "tile", "row")  # places of what several rows are read of, the likely ones first
_ALONG = ("row", "strip", "tile", "column")

__all__ = ["grouped"]
