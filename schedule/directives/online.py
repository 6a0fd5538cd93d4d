"""online: dependent reductions over one domain in a single pass. What a repair is, is found in the terms themselves."""

from __future__ import annotations

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.online import group
from tilewright.schedule.state import State, refuse


@directive(
    "online", "func", operands=-1,
    options=(Option("over", "name", required=True), Option("by", "factor", required=True), Option("name", "name")),
)  # fmt: skip
def online(state: State, d: Directive) -> State:
    """Reductions, in the order of their uses, in one pass over blocks of a variable: `online m l o over k by 64`.

        for i                                  for i: m[i] = -inf, l[i] = 0, o[i] = 0
          for k: m[i] max= S[i, k]             for k_b
        for i                                    for i: m_before[i] = m[i]
          for k: l[i] += exp(S[i, k] - m[i])     for i
        for i                            =>        for k in the block: m[i] max= S[i, k]
          for k: o[i] += exp(..) * V[k]          for i
                                                   if m_before[i] != m[i]: l[i] *= exp(m_before[i] - m[i])
                                                 for i
                                                   for k in the block: l[i] += exp(S[i, k] - m[i])
                                                 and o as l

    Here m is the maximum of S, l and o sums of exp(S - m) alone and times V. Between blocks every running value is what
    its reduction would give for the points so far. A term must be a product in which m stands in exponentials (or, if
    it grows from 0, as a factor or divisor); for a maximum or minimum, a sum. Reductions that do not depend on each
    other share the pass as well.

    A sum whose terms are a polynomial in other reductions follows by its derivatives: variance, covariance, higher
    moments. `online total squares over k by 64`, where squares sums (x - total/n)**2:

        for k_b
          total over the block
          repair squares += squares_d1 * away + squares_d2 * away**2     from the mean of what was seen to the new one
          squares over the block, about the mean of what was seen
          repair squares_d1 += 2 * squares_d2 * away, then squares_d1, squares_d2 over the block

    squares_d1 and squares_d2 sum the derivatives of the terms (divided by q!). A running sum stands for the share of the
    points that was seen, total * n / seen, so that no term is larger than in the plain text; after the last block that
    is total itself. Such reductions have no where().

    The loop over the blocks is `{name}.update.{k}_b`, where `name` is `{last Func}_online` if not given; what the
    members read can be computed there. `l.repair` is the stage that makes a running value right again, after which
    `l.update` goes over the block; the loops of both can be scheduled. The members stay together: compute_at moves all.

    Numerics: every term is computed with the values of its block, and repaired in each later block where they change;
    the sums' order is the algorithm's where `over` is its outermost variable; else it is that of the blocks. Where either
    changes anything of floats, it is marked as a reassociation. Where
    an earlier reduction is still at its first value (a maximum of -inf) the terms are those of the plain text, and the
    running value starts afresh once that changes: a fully masked row gives what the plain text gives, a masked block
    before the first finite value adds nothing (not even 0 * inf).

    Errors: schedule.online-form, schedule.online-variable, schedule.online-place, schedule.online-domain,
    schedule.online-split, schedule.online-between, schedule.online-blocks, schedule.online-twice,
    schedule.online-storage, schedule.online-loops, schedule.online-before, schedule.name-twice.
    """
    name = str(d.option("name") or f"{d.operands[-1]}_online")
    if name in state.funcs or name in {p.name for p in state.pipeline.params}:
        raise refuse(f"the name {name} is taken", "name-twice", "give another one: name='...'")
    block = d.option("by")
    assert isinstance(block, int)
    return group(state, d.operands, str(d.option("over")), block, name)
