"""Expressions as a table of nodes, each once; variables are those of one loop, so that equal names of two loops differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.codegen.skeleton import layout as L
from tilewright.hw.errors import SimulationError
from tilewright.lang import ir
from tilewright.lang.ir import Node
from tilewright.lang.types import bool_, i64, index

Env = Mapping[Node, int]  # the table's node of every variable in scope
_OPS = {
    "add": L.ADD, "sub": L.SUB, "mul": L.MUL, "floordiv": L.FLOORDIV, "mod": L.MOD, "min": L.MIN, "max": L.MAX,
    "neg": L.NEG, "abs": L.ABS, "eq": L.EQ, "ne": L.NE, "lt": L.LT, "le": L.LE, "gt": L.GT, "ge": L.GE, "and": L.AND,
    "or": L.OR, "xor": L.XOR, "not": L.NOT, "shr": L.SHR, "select": L.SELECT,
}  # fmt: skip
_TYPES = (index, i64, bool_)
_SAME = ("likely", "assume", "cast")  # the value of their first argument


def expressible(n: Node) -> bool:
    """Whether a table can say an expression: arithmetic of 64 bits, which does not wrap at what sizes reach, and conditions,
    over loop variables, sizes and scalars."""
    return all(
        m.op in ("size", "scalar") or (m.dtype in _TYPES and (m.op in ("var", "const") or m.op in _OPS))
        or (m.dtype in _TYPES and m.op in _SAME and len(m.args) > 0)
        for m in ir.postorder((n,))
    )  # fmt: skip


class Graph:
    """Nodes (operation and three arguments), sinks and their cones. Arguments come before users."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int, int]] = []
        self.sinks: list[tuple[int, int, int, int, int]] = []
        self.cones: list[int] = []
        self.leaves: dict[str, int] = {}
        self._known: dict[tuple, int] = {}
        self._sinks: dict[int, int] = {}
        self._moving: list[bool] = []  # depends on a variable
        self._bounds: dict[int, tuple[int, int]] = {}  # of a variable's loop: start and stop

    def _add(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self.nodes.append((op, a, b, c))
        arguments = (a, b, c) if op >= L.ADD else ()
        self._moving.append(op in (L.VAR, L.LANE, L.ROLE) or any(self._moving[x] for x in arguments))
        return len(self.nodes) - 1

    def variable(self, loop: int, start: int, stop: int) -> int:
        """A node for the variable of a loop."""
        k = self._add(L.VAR, loop)
        self._bounds[k] = (start, stop)
        return k

    def lane(self, lanes: int) -> int:
        """A node for the number of a lane."""
        return self._add(L.LANE, lanes)

    def roles(self, count: int) -> int:
        """The first of so many nodes in a row for a unit's extents."""
        at = len(self.nodes)
        for _ in range(count):
            self._add(L.ROLE)
        return at

    def of(self, n: Node, env: Env) -> int:
        """The node of an expression. Raises SimulationError `skeleton.data`."""
        found: dict[Node, int] = {}
        for x in ir.postorder((n,)):
            scope = tuple(sorted(env[v] for v in ir.variables(x) if v in env))
            key = (x, scope)
            if key not in self._known:
                self._known[key] = self._make(x, [found[a] for a in x.args], env)
            found[x] = self._known[key]
        return found[n]

    def _make(self, n: Node, args: list[int], env: Env) -> int:
        if n.op == "const" and n.dtype in _TYPES:
            return self._constant(int(n.attr))
        if n.op == "var" and n in env:
            return env[n]
        if n.op in ("size", "scalar"):
            if n.attr not in self.leaves:
                self.leaves[n.attr] = self._add(L.LEAF)
            return self.leaves[n.attr]
        if n.op in _SAME and args:
            return args[0]
        if n.op in _OPS:
            # Of two arguments the second one is there in any case, which the engine may then read.
            return self._add(_OPS[n.op], *(args if len(args) > 1 else args * 2))
        raise SimulationError(
            f"how often something happens depends on {n.op}, which is known only when the program runs",
            code="skeleton.data",
            hint="run it on data: kernel.simulate",
        )

    def _constant(self, value: int) -> int:
        key = ("const", value)
        if key not in self._known:
            self._known[key] = self._add(L.CONST, value)
        return self._known[key]

    def constants(self) -> list[int]:
        """Initial values: those of constants."""
        return [a if op == L.CONST else 0 for op, a, _, _ in self.nodes]

    def first_nodes(self) -> list[int]:
        """What does not depend on variables, in order."""
        return [k for k, moving in enumerate(self._moving) if not moving]

    def _arguments(self, k: int) -> tuple[int, ...]:
        op, *args = self.nodes[k]
        return tuple(args) if op == L.SELECT else tuple(args[:2]) if op >= L.ADD else ()

    def below(self, roots: Iterable[int], bounds: bool = True) -> list[int]:
        """The nodes that depend on variables, in order; with `bounds` also those of variables' ends."""
        seen: set[int] = set()
        todo = list(roots)
        while todo:
            k = todo.pop()
            if k not in seen and self._moving[k]:
                seen.add(k)
                todo += self._arguments(k)
                if bounds:
                    todo += self._bounds.get(k, ())
        return sorted(seen)

    def affected(self, variable: int, roots: Iterable[int]) -> set[int]:
        """Of what is below the roots, what a variable may change, by the ends of loops inside too."""
        out = {variable}
        for k in self.below(roots):
            if any(a in out for a in (*self._arguments(k), *self._bounds.get(k, ()))):
                out.add(k)
        return out

    def sink(self, k: int) -> int:
        """A place that asks for the value of a node."""
        cone = self.below([k], bounds=False)
        cone = [x for x in cone if self.nodes[x][0] >= L.ADD]
        self.sinks.append((k, len(self.cones), len(cone), -1, 0))
        self.cones.extend(cone)
        return len(self.sinks) - 1
