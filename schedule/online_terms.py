"""Terms of reductions with respect to other reductions that they use: their factors, and sums as linear forms."""

from __future__ import annotations

from collections import Counter

from tilewright.lang import ir
from tilewright.lang.ir import Node

EXPONENTIALS = ("exp", "exp2")
Symbols = tuple[tuple[Node, int], ...]  # (node without reduction variables, power), in the order of their digests
Linear = dict[tuple[Node | None, Symbols], float]  # sum of value * symbols * node; None stands for 1


class NoSplitError(Exception):
    """Why a term does not split, in words."""


class Uses:
    """Terms with respect to the loads of earlier reductions."""

    def __init__(self, loads: list[Node]):
        self.loads = loads
        self._depends: dict[Node, bool] = {}

    def depends(self, n: Node) -> bool:
        if n not in self._depends:
            for m in ir.postorder((n,)):
                if m not in self._depends:
                    self._depends[m] = m in self.loads or any(self._depends[a] for a in m.args)
        return self._depends[n]

    def factors(self, n: Node) -> Counter:
        """The factors that depend on the loads, as (load, kind, its factor in an exponent, symbols) -> how often."""
        if not self.depends(n):
            return Counter()
        if n in self.loads:
            return Counter({(n, "value", 1.0, ()): 1})
        if n.op in ("mul", "div"):
            a, b = map(self.factors, n.args)
            return _sum(a, b, 1 if n.op == "mul" else -1)
        if n.op == "neg" or widens(n):
            return self.factors(n.args[0])
        if n.op in ("add", "sub"):
            a, b = map(self.factors, n.args)
            if a == b:
                return a
            raise NoSplitError("its term adds parts that change differently")
        if n.op == "select" and not self.depends(n.args[0]):
            arms = [a for a in n.args[1:] if not _zero(a)]
            found = [self.factors(a) for a in arms]
            if all(f == found[0] for f in found[1:]):
                return found[0]
            raise NoSplitError("its term is a select whose arms change differently")
        if n.op == "call" and n.attr in EXPONENTIALS:
            return self._exponent(n)
        raise NoSplitError(f"its term uses {self._shown(n)} inside {n.attr if n.op == 'call' else n.op}")

    def _exponent(self, n: Node) -> Counter:
        out: Counter = Counter()
        for (atom, symbols), c in self.linear(n.args[0]).items():
            if atom is not None and atom in self.loads:
                out = _sum(out, Counter({(atom, n.attr, c, symbols): 1}), 1)
            elif atom is not None and self.depends(atom):
                raise NoSplitError(f"its exponent is not linear in {self._shown(atom)}")
        return out

    def _shown(self, n: Node) -> str:
        return next(m for m in self.loads if m in ir.leaves((n,), "load")).attr[0].name

    def linear(self, n: Node) -> Linear:
        """A float expression as a sum of nodes with factors that do not run with the reduction."""
        if n.op == "const":
            return {(None, ()): float(n.attr)}
        if n.op in ("add", "sub"):
            a, b = map(self.linear, n.args)
            sign = 1.0 if n.op == "add" else -1.0
            out = dict(a)
            for k, c in b.items():
                out[k] = out.get(k, 0.0) + sign * c
            return {k: c for k, c in out.items() if c != 0.0}
        if n.op == "neg":
            return {k: -c for k, c in self.linear(n.args[0]).items()}
        if widens(n):
            return self.linear(n.args[0])
        if n.op in ("mul", "div"):
            a, b = n.args
            if self._fixed(b):
                return _scaled(self.linear(a), b, 1 if n.op == "mul" else -1)
            if n.op == "mul" and self._fixed(a):
                return _scaled(self.linear(b), a, 1)
        return {(n, ()): 1.0}

    def _fixed(self, n: Node) -> bool:
        return not self.depends(n) and not ir.leaves((n,), "rvar")


def _sum(a: Counter, b: Counter, sign: int) -> Counter:
    out = Counter(a)
    for k, c in b.items():
        out[k] += sign * c
    return Counter({k: c for k, c in out.items() if c})


def _scaled(x: Linear, f: Node, power: int) -> Linear:
    while widens(f):
        f = f.args[0]
    if f.op == "const":
        c = float(f.attr)
        if c == 0.0:
            raise NoSplitError("its exponent is multiplied or divided by 0")
        return {k: v * c if power > 0 else v / c for k, v in x.items()}
    return {(atom, joined(s, ((f, power),))): v for (atom, s), v in x.items()}


def joined(a: Symbols, b: Symbols) -> Symbols:
    powers: Counter = Counter()
    for n, p in (*a, *b):
        powers[n] += p
    return tuple(sorted(((n, p) for n, p in powers.items() if p), key=lambda e: e[0].digest))


def times(n: Node, symbols: Symbols) -> Node:
    for s, power in symbols:
        s = s if s.dtype is n.dtype else ir.node("cast", n.dtype, (s,))
        for _ in range(abs(power)):
            n = ir.node("mul" if power > 0 else "div", n.dtype, (n, s))
    return n


def widens(n: Node) -> bool:
    return n.op == "cast" and n.dtype.is_float and n.args[0].dtype.is_float


def _zero(n: Node) -> bool:
    return n.op == "const" and n.attr == 0
