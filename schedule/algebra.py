"""Which updates are reductions over an associative and commutative operator: a small table, matched structurally.

sum, product, minimum, maximum, and, or, xor over any type; the (value, index) pairs of argmin and argmax in all their
spellings (schedule.pairs); the product of complex numbers as (real, imaginary) pairs; and the (maximum, sum) pairs of a
sum of exponentials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.lang import expr, ir, simplify
from tilewright.lang.expr import Expr, cast_node, wrap
from tilewright.lang.func import Definition
from tilewright.lang.ir import Node
from tilewright.lang.reduce import identity
from tilewright.lang.types import DType
from tilewright.schedule.pairs import match_pair
from tilewright.schedule.wording import write

Values = tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Reduction:
    """An update of the form C = C op term. `identity` leaves a value unchanged bit for bit, `combine` merges two
    partial results, `exact` says that the order of the steps can't change the bits.

    `merge` takes a partial result into what was there before (None: as `combine` does). `steps` gives the values of a
    partial's steps in terms of its own element (None: those of the update), which has the types `dtypes`. `ordered`: the
    steps of one partial must come in the algorithm's order.
    """

    operator: str
    identity: Values
    combine: Callable[[Values, Values], Values]
    exact: bool
    merge: Callable[[Values, Values], Values] | None = None
    steps: Callable[[Values], Values] | None = None
    dtypes: tuple[DType, ...] = ()
    ordered: bool = False


def self_load(d: Definition, component: int = 0) -> Node:
    """The element that an update writes, as it reads it."""
    return ir.node("load", d.func.dtypes[component].compute, d.lhs, (d.func, component))


def reads_self(d: Definition, n: Node) -> bool:
    return any(x.attr[0] is d.func for x in ir.leaves((n,), "load"))


def own_elements(d: Definition, rvar: Node) -> bool:
    """Whether every value of a reduction variable updates elements of its own: there is nothing to combine."""
    return any(_tells_apart(i, rvar) for i in d.lhs)


def _tells_apart(index: Node, rvar: Node, held: frozenset[Node] = frozenset()) -> bool:
    """Whether an index is another one for every value of a reduction variable, whatever others but `held` ones are."""
    coefs, _ = simplify.linear(index)
    return bool(coefs.get(rvar, 0)) and _made_of(index, held | {rvar})


def _made_of(index: Node, rvars: frozenset[Node]) -> bool:
    """Whether an index depends on no other reduction variables and on no data."""
    return all(n in rvars for n in ir.postorder((index,)) if n.op in ("rvar", "load"))


def free(d: Definition, rvar: Node, held: frozenset[Node] = frozenset()) -> bool:
    """Whether the steps of an update over a reduction variable may run in any order, or at once.

    So it is where each of its values updates elements of its own and reads no others: for what is written, and for each
    element of the Func that is read, an index along some axis tells the values apart, or what is written and what is
    read lie apart there. With `held`, while these other variables stand still: `f[t - j, j] = g(f[t - 1 - j, j], ...)`
    depends on other diagonals t, so that the points j of one diagonal may run at once.
    """
    if d.number < 0 or any(reads_self(d, i) for i in d.lhs):
        return False
    own = dict.fromkeys(n.args for n in ir.leaves(d.values, "load") if n.attr[0] is d.func)
    return all(
        any(_apart(i, k, rvar, held) for i, k in zip(d.lhs, at, strict=True)) for at in dict.fromkeys((d.lhs, *own))
    )


def _apart(written: Node, read: Node, rvar: Node, held: frozenset[Node]) -> bool:
    """Whether two values of a reduction variable never meet along an axis."""
    if written is read:
        return _tells_apart(written, rvar, held)
    gap = simplify.sub(written, read)
    return gap.op == "const" and gap.attr != 0 and _made_of(written, held) and not ir.leaves((written,), "var")


def conflict(d: Definition) -> str:
    """What an update reads of the Func itself besides what it writes, for messages: ", and p[y, x] needs p[y - 1, x]"."""
    own = dict.fromkeys(n for n in ir.leaves(d.values, "load") if n.attr[0] is d.func and n.args != d.lhs)
    if not own:
        return ""
    written, *read = (f"{d.func.name}[{', '.join(map(write, i))}]" for i in (d.lhs, *(n.args for n in own)))
    return f", and {written} needs {', '.join(dict.fromkeys(read))}"


def match(d: Definition) -> Reduction | None:
    """The reduction that an update is, or None."""
    if d.number < 0 or any(reads_self(d, i) for i in d.lhs):
        return None
    if len(d.values) == 1:
        return _match_single(d)
    if len(d.values) == 2:
        return _match_index_pair(d) or _match_complex_product(d) or _match_log_sum_exp(d)
    return None


def _match_single(d: Definition) -> Reduction | None:
    t = d.func.dtypes[0]
    value = d.values[0]
    if t.is_storage_only and value.op == "round_to":
        value = value.args[0]
    if value.op not in ("add", "sub", "mul", "min", "max", "and", "or", "xor"):
        return None
    me = self_load(d)
    a, b = value.args
    if (a is me and not reads_self(d, b)) or (b is me and not reads_self(d, a) and value.op != "sub"):
        pass
    else:
        return None
    op = "add" if value.op == "sub" else value.op
    if op in ("min", "max") and t.is_float and a is not me:
        return None  # maximum(a, b) takes a's NaN first: only the order (partial, term) is in the table
    return Reduction(op, (_identity(op, t),), _combine(op, t), not t.is_float)


def _identity(op: str, t: DType) -> Node:
    c = t.compute
    if op == "add":
        return ir.const(-0.0 if t.is_float else 0, c)
    if op == "mul":
        return ir.const(1, c)
    if op in ("min", "max"):
        return ir.const(identity(op, t), c)
    if t.is_bool:
        return ir.const(op == "and", c)
    return ir.const((-1 if t.kind == "i" else t.high) if op == "and" else 0, c)


def _combine(op: str, t: DType) -> Callable[[Values, Values], Values]:
    def combine(a: Values, b: Values) -> Values:
        return (cast_node(ir.node(op, t.compute, (a[0], b[0])), t),)

    return combine


def _match_index_pair(d: Definition) -> Reduction | None:
    """argmax, argmin and their relatives: see schedule.pairs."""
    found = match_pair(d, self_load(d, 0), self_load(d, 1))
    if found is None:
        return None
    name = f"{'arg' if found.ordered else 'pair '}{'max' if found.top else 'min'}"
    return Reduction(
        name, found.identity, found.combine, found.exact, found.merge, found.steps, found.dtypes, found.ordered
    )


# Complex numbers ------------------------------------------------------------------------------------------------


def _match_complex_product(d: Definition) -> Reduction | None:
    """(re, im) = (re*c - im*s, re*s + im*c): associative and commutative, with the identity (1, 0)."""
    t = d.func.dtypes[0]
    first, second = (_unrounded(v) for v in d.values)
    if d.func.dtypes[1] is not t or first.op != "sub" or second.op != "add":
        return None
    re, im = self_load(d, 0), self_load(d, 1)
    c, s = _factor(d, first.args[0], re), _factor(d, first.args[1], im)
    for left, right in (second.args, second.args[::-1]):
        if c is not None and s is not None and _factor(d, left, re) is s and _factor(d, right, im) is c:
            return Reduction("complex mul", _constants(t, 1, 0), _complex_product(t), not t.is_float)
    return None


def _unrounded(n: Node) -> Node:
    return n.args[0] if n.op == "round_to" else n


def _factor(d: Definition, n: Node, me: Node) -> Node | None:
    """x of me * x, where x does not depend on what is updated."""
    if n.op != "mul" or me not in n.args:
        return None
    x = n.args[1] if n.args[0] is me else n.args[0]
    return None if reads_self(d, x) else x


def _constants(t: DType, *values: float) -> Values:
    return tuple(ir.const(float(v) if t.is_float else int(v), t.compute) for v in values)


def _complex_product(t: DType) -> Callable[[Values, Values], Values]:
    def combine(a: Values, b: Values) -> Values:
        (x, y), (u, v) = (tuple(map(wrap, p)) for p in (a, b))
        return tuple(cast_node(e.node, t) for e in (x * u - y * v, x * v + y * u))

    return combine


# Sums of exponentials -------------------------------------------------------------------------------------------


def _match_log_sum_exp(d: Definition) -> Reduction | None:
    """(m, s) = (M, s * e(m, M) + w * e(x, M)) with M = max(m, x), which keeps s * exp(m) the sum of w * exp(x).

    e(u, M) is exp(u - M), and 1 where u == M: `select(u == M, 1, exp(u - M))`. Without that the identity (-inf, 0) is
    none: -inf - -inf is no number. exp2 in place of exp is matched as well; w may be left out.
    """
    t = d.func.dtypes[0]
    if not t.is_float or t.is_storage_only or d.func.dtypes[1] is not t:
        return None  # a maximum that is rounded when it is stored is not the one that the sum was scaled by
    m, s = self_load(d, 0), self_load(d, 1)
    top, total = d.values
    if top.op != "max" or top.args[0] is not m or reads_self(d, top.args[1]) or total.op != "add":
        return None
    x = top.args[1]
    for kind in ("exp", "exp2"):
        mine, theirs = (_scale(kind, wrap(u), wrap(top)).node for u in (m, x))
        for a, b in (total.args, total.args[::-1]):
            weight = ir.TRUE if b is theirs else _other(b, theirs)
            if _other(a, mine) is s and weight is not None and not reads_self(d, weight):
                start = (ir.const(float("-inf"), t.compute), ir.const(0.0, t.compute))
                return Reduction(f"log-sum-{kind}", start, _combine_sums(kind, t), False)
    return None


def _scale(kind: str, u: Expr, top: Expr) -> Expr:
    """e(u, top), as a user writes it."""
    power = wrap(ir.node("call", u.node.dtype, ((u - top).node,), kind))
    return expr.select(u == top, 1, power)


def _other(n: Node, factor: Node) -> Node | None:
    """The other operand of a product with `factor`."""
    if n.op != "mul" or factor not in n.args:
        return None
    return n.args[1] if n.args[0] is factor else n.args[0]


def _combine_sums(kind: str, t: DType) -> Callable[[Values, Values], Values]:
    def combine(a: Values, b: Values) -> Values:
        (m, s), (n, r) = (tuple(map(wrap, p)) for p in (a, b))
        top = expr.maximum(m, n)
        total = s * _scale(kind, m, top) + r * _scale(kind, n, top)
        return tuple(cast_node(e.node, t) for e in (top, total))

    return combine
