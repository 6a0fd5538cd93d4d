"""rfactor, and vectorised and parallel reductions, which are rfactor over the loop's value.

`C[i] += f(i, k)` with `k` split into `ko, ki`, factored over `ki`:

    before                          after
    for i                           for i
      for ko                          for ki: P[i, ki] = identity
        for ki                        for ko
          C[i] += f(i, ko*8 + ki)       for ki: P[i, ki] += f(i, ko*8 + ki)
                                      for each half: P[i, l] += P[i, l + half]
                                      C[i] += P[i, 0]

Every partial runs over its points in the algorithm's order; partials l and l + ceil(n/2) combine until one is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.lang import ir, simplify
from tilewright.lang.expr import cast_node
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node, integer
from tilewright.lang.symbols import Domain
from tilewright.lang.types import i64, index
from tilewright.schedule import algebra
from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import check_name, directive
from tilewright.schedule.ranges import ONE
from tilewright.schedule.state import (
    FuncState,
    Fuse,
    Loop,
    Partials,
    Place,
    PrefetchMark,
    Split,
    Stage,
    State,
    Steps,
    find_stage,
    make_stage,
    refuse,
    root_name,
    versioned,
)

_MOST_STEPS = 40  # halvings of a number of partials that is known at the call only


@dataclass(frozen=True)
class _Path:
    """How the factored loop's variable makes up its reduction variable."""

    root: Node
    value: Node  # relative to the start, over the partials' Var and the sibling reduction variables
    siblings: tuple[tuple[str, Node], ...]  # name, extent; outermost first
    steps: Steps  # from the reduction variable to the loop
    parts: tuple[tuple[str, Steps], ...]  # and to the siblings
    conditions: tuple[Node, ...]
    extent: Node  # number of partials
    used: tuple[Split, ...]


def rfactor(state: State, stage: Stage, loop: str, name: str, mode: str = "serial") -> State:
    """The state in which the reduction of `stage` over `loop` is computed in partial results of a Func `name`."""
    d = stage.definition
    address = state.address(stage.key)
    if not stage.loop(loop).reduction:
        raise refuse(f"{address}.{loop} is no reduction loop", "rfactor-pure", "vectorize or parallel it as it is")
    found = algebra.match(d)
    if found is None:
        raise refuse(
            f"the update of {d.func.name} is not known to be associative{algebra.conflict(d)}", "not-associative",
            "sum, product, min, max, and, or, xor, argmin/argmax (with an index that grows), complex products and "
            "(maximum, sum of exponentials) pairs with select(m == M, 1, exp(m - M)) are; else keep the loop serial",
            d.location,
        )  # fmt: skip
    if name in state.funcs:
        raise refuse(f"the name {name} is taken", "name-twice", "give another name")
    if stage.write_caches:
        raise refuse(f"{address} has a cache_write", "rfactor-cache", "factor the reduction first")
    domain, moved, path = _factored(stage, loop)
    if algebra.own_elements(d, path.root):
        raise refuse(f"every value of {loop} updates elements of its own: there are no partial results to combine",
                     "rfactor-scatter", "vectorize or parallel it as it is, or factor over another loop")  # fmt: skip
    partial = _partial_func(d, name, loop, found, domain, moved, path, first=mode == "parallel")
    return _install(state, stage, loop, mode, partial, found, path)


def _factored(stage: Stage, loop: str) -> tuple[Domain, dict[Node, Node], _Path]:
    """The partials' reduction domain, the substitution for the old variables, and the path."""
    d = stage.definition
    assert d.rdom is not None
    path = _path(stage, loop)
    ranges: dict[str, tuple[Node, Node]] = {}
    for n, r in d.rdom.ranges.items():
        if d.rdom.rvar(n) is path.root:
            ranges.update({s: (integer(0), e) for s, e in path.siblings})
        else:
            ranges[n] = r
    domain = Domain(ranges, d.rdom.location)
    rename = {ir.node("rvar", index, (), (None, s)): domain.rvar(s) for s, _ in path.siblings}
    moved = {d.rdom.rvar(n): domain.rvar(n) for n in d.rdom.ranges if n in ranges and d.rdom.rvar(n) is not path.root}
    start = d.rdom.ranges[root_name(path.root)][0]
    (value,) = ir.substitute((path.value,), rename)
    moved[path.root] = simplify.add(start, value)
    # partial 0 is always there (its identity is what an empty reduction adds), also where it has no points
    some = (
        ()
        if path.extent.op == "const" and path.extent.attr > 0
        else (simplify.compare("lt", ir.var(loop), path.extent),)
    )
    domain.predicates = (*ir.substitute(d.predicates, moved), *ir.substitute(path.conditions, rename), *some)
    domain.frozen = True
    return domain, moved, path


def _path(stage: Stage, loop: str) -> _Path:
    d = stage.definition
    assert d.rdom is not None
    unique, shown = versioned(stage)
    extents: dict[str, Node] = {n: simplify.sub(b, a) for n, (a, b) in d.rdom.ranges.items()}
    for t in unique.transforms:
        if isinstance(t, Split) and t.parent in extents:
            e, f = extents[t.parent], integer(t.factor)
            extents[t.outer] = simplify.floordiv(simplify.add(e, integer(t.factor - 1)), f)
            extents[t.inner] = f
        elif isinstance(t, Fuse) and t.outer in extents and t.inner in extents:
            extents[t.fused] = simplify.mul(extents[t.outer], extents[t.inner])
    name, value = next(x.name for x in unique.loops if shown[x.name] == loop), ir.var(loop)
    count = extents.get(name)
    siblings: list[tuple[str, Node]] = []
    conditions: list[Node] = []
    used: list[Split] = []
    taken: list[tuple[str, str, str, int]] = []  # of each split: what was taken, what is left, its name, the factor
    while name not in d.rdom.ranges:
        k, t = next(
            (k, t) for k, t in enumerate(unique.transforms)
            if name in ((t.outer, t.inner) if isinstance(t, Split) else (t.fused,))
        )  # fmt: skip
        if isinstance(t, Fuse):
            raise refuse(f"{loop} comes from a fused loop", "rfactor-fused", "factor before fusing")
        f = integer(t.factor)
        other = t.outer if name == t.inner else t.inner
        sibling = ir.node("rvar", index, (), (None, shown[other]))
        outer, inner = (sibling, value) if name == t.inner else (value, sibling)
        value = simplify.add(simplify.mul(outer, f), inner)
        if simplify.mod(extents[t.parent], f) is not integer(0):
            start, stop = d.rdom.ranges.get(t.parent, (integer(0), extents[t.parent]))
            # about the variable itself, as indices have it: the analysis of regions knows it again
            conditions.append(simplify.compare("lt", simplify.add(start, value), stop))
        siblings.insert(0, (shown[other], extents[other]))
        took, left = ("mod", "div") if name == t.inner else ("div", "mod")
        taken.insert(0, (took, left, shown[other], t.factor))
        step = stage.transforms[k]
        assert isinstance(step, Split)
        used.append(step)
        name = t.parent
    assert count is not None
    if not used and (count.op != "const" or count.attr < 1):  # one partial is read even where there are no points
        conditions.append(simplify.compare("lt", ir.var(loop), count))
    steps = tuple((how, f) for how, _, _, f in taken)
    parts = tuple((sibling, (*steps[:k], (how, f))) for k, (_, how, sibling, f) in enumerate(taken))
    return _Path(d.rdom.rvar(name), value, tuple(siblings), steps, parts, tuple(conditions), count, tuple(used))


def _partial_func(
    d: Definition, name: str, loop: str, found: algebra.Reduction, domain: Domain, moved: dict[Node, Node],
    path: _Path, first: bool,
) -> Func:  # fmt: skip
    """The Func of partial results: identity, the steps, then the halvings. Its axes are C's and the partial's."""
    f = Func(name, found.dtypes or d.func.dtypes)
    args = _args(d)
    u = ir.var(loop)
    if u in args:
        raise refuse(f"{loop} is both a Var and a loop here", "name-twice", "split with another name")

    def at(indices: tuple[Node, ...], k: Node) -> tuple[Node, ...]:
        return (k, *indices) if first else (*indices, k)

    def load(indices: tuple[Node, ...], k: Node) -> tuple[Node, ...]:
        return tuple(ir.node("load", t.compute, at(indices, k), (f, c)) for c, t in enumerate(f.dtypes))

    f.init = Definition(f, -1, at(args, u), found.identity, None, d.location)
    lhs = ir.substitute(d.lhs, moved)
    mine = load(d.lhs, u)
    own = {algebra.self_load(d, c): n for c, n in enumerate(mine)}
    values = ir.substitute(ir.substitute(d.values, own) if found.steps is None else found.steps(mine), moved)
    rdom = domain if domain.ranges or domain.predicates else None
    f.updates.append(Definition(f, 0, at(lhs, u), tuple(values), rdom, d.location))
    for rdom, left, right in _halvings(path.extent, loop):
        a, b = load(args, left), load(args, right)
        f.updates.append(Definition(f, len(f.updates), at(args, left), found.combine(a, b), rdom, d.location))
    return f


def _args(d: Definition) -> tuple[Node, ...]:
    """Vars for the axes of the reduced Func: those of the update where it has them, else those of the pure definition."""
    own = d.func.args
    names = [i if i.op == "var" else o for i, o in zip(d.lhs, own, strict=True)]
    return tuple(names) if len(set(names)) == len(names) else tuple(own)


def _halvings(count: Node, loop: str) -> list[tuple[Domain, Node, Node]]:
    """(domain, left, right) of the steps that combine partials l and l + ceil(n/2) until one is left."""
    out = []
    if count.op == "const":
        n = count.attr
        while n > 1:
            half = (n + 1) // 2
            domain = Domain({loop: (integer(0), integer(n - half))})
            domain.frozen = True
            left = domain.rvar(loop)
            out.append((domain, left, simplify.add(left, integer(half))))
            n = half
        return out
    step = f"{loop}_half"
    domain = Domain({step: (integer(0), integer(_MOST_STEPS)), loop: (integer(0), count)})
    left = domain.rvar(loop)

    def remaining(shift: int) -> Node:
        """ceil(count / 2**(step + shift)), as floor((count - 1) / 2**(step + shift)) + 1"""
        s = cast_node(simplify.add(domain.rvar(step), integer(shift)), i64)
        last = cast_node(simplify.sub(count, ONE), i64)
        return simplify.add(ir.node("cast", index, (ir.node("shr", i64, (last, s)),)), ONE)

    several = simplify.compare("gt", count, ONE)  # known before any loop: one partial alone costs nothing
    domain.predicates = (several, simplify.compare("lt", left, simplify.sub(remaining(0), remaining(1))))
    domain.frozen = True
    # the bounds are there for the analysis: where the predicates hold, the index lies between them anyway
    right = simplify.maximum(simplify.minimum(simplify.add(left, remaining(1)), simplify.sub(count, ONE)), integer(0))
    return [(domain, left, right)]


def _install(
    state: State, stage: Stage, loop: str, mode: str, partial: Func, found: algebra.Reduction, path: _Path
) -> State:
    d = stage.definition
    start = next(k for k, x in enumerate(stage.loops) if x.reduction)
    around = [x.name for x in stage.loops[:start]]
    args = _args(d)
    zero = integer(0)
    at = (zero, *args) if mode == "parallel" else (*args, zero)
    mine = tuple(ir.node("load", t.compute, args, (d.func, c)) for c, t in enumerate(d.func.dtypes))
    theirs = tuple(ir.node("load", t.compute, at, (partial, c)) for c, t in enumerate(partial.dtypes))
    merge_in = found.merge or found.combine
    merged = Definition(d.func, d.number, args, merge_in(mine, theirs), None, d.location)
    bare = all(i.op == "var" for i in d.lhs)
    if bare:
        pure = {t for t in stage.transforms if not _of_reduction(stage, t)}
        loops = tuple(x for x in stage.loops if not x.reduction)
        merge = replace(
            stage,
            definition=merged,
            loops=loops,
            transforms=tuple(t for t in stage.transforms if t in pure),
            scheduled=True,
        )
    else:
        fresh, threads = make_stage(merged), _threads(stage)
        loops = tuple(replace(x, mode="parallel") if x.name in threads else x for x in fresh.loops)
        merge = replace(fresh, key=stage.key, loops=loops, branches=stage.branches, scheduled=True)
        around = []
    stay = {x.name for x in merge.loops}
    merge = replace(merge, prefetches=tuple(m for m in stage.prefetches if m.loop in stay))
    stages = {**state.stages, stage.key: merge}
    for k in partial.definitions:
        made = make_stage(k)
        if k.number == 0:
            made = _partial_loops(stage, made, loop, mode, start, path)
            made = replace(made, prefetches=_moved_prefetches(stage, stay, made, d.func.name))
        elif mode == "vectorize":
            made = _vector_over(made, loop)
        stages[made.key] = replace(made, scheduled=True)
    group = state.block_of(stage.key)
    outside = state.funcs[d.func.name].compute if group is None else Place("at", group.key, group.loop)
    place = Place("at", stage.key, around[-1]) if around else outside
    kept = Partials(stage.key, root_name(path.root), path.steps, path.parts, path.extent)
    funcs = {**state.funcs, partial.name: FuncState(partial, place, origin="rfactor", placed=True, partials=kept)}
    marks = state.reassociations
    if not found.exact:
        marks = (*marks, f"{state.address(stage.key)}.{loop}")
    return replace(state, funcs=funcs, stages=stages, reassociations=marks)


def _moved_prefetches(stage: Stage, stay: set[str], made: Stage, name: str) -> tuple[PrefetchMark, ...]:
    """What is prefetched at loops that go to the partials."""
    marks = tuple(m for m in stage.prefetches if m.loop not in stay)
    lost = next((m for m in marks if m.tensor == name or not any(x.name == m.loop for x in made.loops)), None)
    if lost is not None:
        raise refuse(f"{lost.tensor} is prefetched at the loop {lost.loop}, which goes", "prefetch-lost",
                     "prefetch after the reduction has its partial results")  # fmt: skip
    return marks


def _of_reduction(stage: Stage, t: Split | Fuse) -> bool:
    """Whether a transform is about a reduction variable."""
    names = set(stage.definition.rdom.ranges) if stage.definition.rdom is not None else set()
    for x in stage.transforms:
        if isinstance(x, Split) and x.parent in names:
            names |= {x.outer, x.inner}
        elif isinstance(x, Fuse) and (x.outer in names or x.inner in names):
            names.add(x.fused)
    return (t.parent if isinstance(t, Split) else t.fused) in names


def _vector_over(made: Stage, loop: str) -> Stage:
    """The loop over partials in vectors (a single partial needs none)."""
    rdom = made.definition.rdom
    if rdom is not None and (rdom.ranges[loop][1].op != "const" or rdom.ranges[loop][1].attr == 1):
        return made
    return made.with_loop(loop, mode="vectorize")


def _partial_loops(stage: Stage, made: Stage, loop: str, mode: str, start: int, path: _Path) -> Stage:
    """The loops of the steps: those that were inside the first reduction loop, over the partials' own variables."""
    inside = stage.loops[start:]
    names = {x.name for x in inside}
    roots = {root_name(r) for r in made.roots}
    kept: list[Split | Fuse] = []
    split: set[str] = set()  # loops of variables that run inside with all their parts
    whole: dict[str, str] = {}  # a loop that stands for a whole variable now
    for root in made.definition.pure_vars:
        r = root.attr
        if r == loop:
            continue
        parts, transforms = _parts(stage, r)
        if all(p in names for p in parts):
            kept += transforms
            split.update(parts)
        else:
            within = [p for p in parts if p in names]
            if within:
                whole[within[-1]] = r
    split_again = [t for t in stage.transforms if _of_reduction(stage, t) and t not in path.used]
    kept += split_again
    loops: list[Loop] = []
    for x in inside:
        if x.name == loop:
            loops.append(Loop(loop, False, mode))
        elif x.name in whole:
            loops.append(replace(x, name=whole[x.name], reduction=False))
        elif x.reduction or x.name in split:
            loops.append(x)
    have = {x.name for x in loops} | {
        p for t in kept for p in ([t.parent] if isinstance(t, Split) else [t.outer, t.inner])
    }
    threads = () if all(i.op == "var" for i in stage.definition.lhs) else _threads(stage)  # those stand around then
    left = [r for r in (root_name(v) for v in made.roots) if r in roots and r not in have]
    missing = [Loop(r, False, "parallel" if r in threads else "serial") for r in left]
    return replace(made, loops=(*missing, *loops), transforms=tuple(t for t in stage.transforms if t in kept))


def _threads(stage: Stage) -> set[str]:
    """The pure variables of a stage that are parallel loops as they are."""
    return {v.attr for v in stage.definition.pure_vars for x in stage.loops
            if x.name == v.attr and x.mode == "parallel" and not _parts(stage, v.attr)[1]}  # fmt: skip


def _parts(stage: Stage, root: str) -> tuple[list[str], list[Split | Fuse]]:
    """The loops that make up a pure variable, and the transforms that made them."""
    parts, transforms = [root], []
    for t in stage.transforms:
        if isinstance(t, Split) and t.parent in parts:
            parts[parts.index(t.parent) : parts.index(t.parent) + 1] = [t.outer, t.inner]
            transforms.append(t)
        elif isinstance(t, Fuse) and t.outer in parts:
            parts = [p for p in parts if p not in (t.outer, t.inner)] + [t.fused]
            transforms.append(t)
    return parts, transforms


def vectorize_reduction(state: State, stage: Stage, loop: str) -> State:
    """`vectorize` of a reduction loop: partial results in the lanes of a vector."""
    _constant_count(state, stage, loop)
    return rfactor(state, stage, loop, _name(state, stage, loop), "vectorize")


def parallel_reduction(state: State, stage: Stage, loop: str) -> State:
    """`parallel` of a reduction loop: a partial result a task."""
    return rfactor(state, stage, loop, _name(state, stage, loop), "parallel")


def _constant_count(state: State, stage: Stage, loop: str) -> None:
    n = _path(stage, loop).extent
    if n.op != "const":
        raise refuse(
            f"{state.loop_address(stage.key, loop)} can't be vectorized: its extent is known only at the call", "extent",
            f"split it first: vectorize({loop!r}, 8) does both",
        )  # fmt: skip


def _name(state: State, stage: Stage, loop: str) -> str:
    base = f"{stage.key[0]}_{loop}"
    name, k = base, 1
    while name in state.funcs:
        name, k = f"{base}_{k}", k + 1
    return name


@directive("rfactor", "loop", results=1)
def rfactor_directive(state: State, d: Directive) -> State:
    """Partial results over one reduction loop, in a Func of their own: `rfactor ki -> P`. The nest is shown above.

    For sums, products, min, max, and, or, xor; complex products; (maximum, sum of exponentials) pairs; and for updates of
    a (value, index) pair that select the better one, however they are written: `v > best` or `best <= v`, with or without
    `at < 0` and NaN, the first or the last of equal values (the index must grow from point to point), or the smaller or
    larger index of equal values.
    Errors: schedule.not-associative, schedule.rfactor-pure, schedule.rfactor-fused, schedule.rfactor-cache,
    schedule.name-twice.
    """
    return rfactor(state, find_stage(state, d.stage), d.operands[0], check_name(d.results[0]))
