"""Promises that need the whole schedule: what `Schedule.check` and every compilation look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.lang import simplify
from tilewright.lang.errors import Location
from tilewright.schedule.build import build_nest
from tilewright.schedule.directive import Directive
from tilewright.schedule.live import live_points
from tilewright.schedule.nest import (
    Allocation,
    Assign,
    LoopNode,
    Nest,
    NestNode,
    Sequence,
    children,
    walk,
)
from tilewright.schedule.printer import print_extents
from tilewright.schedule.report import streams
from tilewright.schedule.state import State, refuse

if TYPE_CHECKING:
    from tilewright.hw import Footprint, Machine, Proposal
    from tilewright.schedule.schedule import Schedule


def check(
    state: State, directives: tuple[Directive, ...] = (), machine: Machine | None = None,
    propose: Callable[[str], tuple[Proposal, ...]] = lambda memory: (),
) -> Nest:  # fmt: skip
    """The nest, if it keeps its promises. `directives` say where in the user's source they were made, `propose` what to
    change where a memory of the machine does not suffice."""
    _check_inlined(state, directives)
    nest = build_nest(state)
    check_nest(nest, directives)
    _check_streams(state, nest, directives)
    if machine is not None:
        from tilewright.hw import check_capacity, footprints

        check_capacity(machine, footprints(machine, live_points(nest)), placed_by(directives), propose)
    return nest


def placed_by(directives: tuple[Directive, ...]) -> Callable[[Footprint], Location | None]:
    """Where the user put the largest buffer of a footprint into its memory."""

    def where(footprint: Footprint) -> Location | None:
        for b in sorted(footprint.buffers, key=footprint.taken, reverse=True):
            for d in reversed(directives):
                names = (d.option("name"), *d.operands, *(f"{t}_tile" for t in d.operands if d.kind == "cache_write"))
                copy = d.kind == "cache_read" and b.name.startswith(f"{d.operands[0]}_")
                if d.option("in", "main") == footprint.memory and (copy or b.name in names):
                    return d.location
        return None

    return where


def reassociated_at(s: Schedule) -> Location | None:
    """The place of the first directive that changes the order of a float reduction."""
    from tilewright.schedule.directives import step
    from tilewright.schedule.state import initial_state

    state = initial_state(s.pipeline)
    for d in s.directives:
        _, state = step(state, d, s.knobs)
        if state.reassociations:
            return d.location
    return None


def check_nest(nest: Nest, directives: tuple[Directive, ...] = ()) -> None:
    """Vector and unrolled loops have constant extents, buffers in registers constant sizes, unrolling has a budget."""
    for n in walk(nest.body):
        if isinstance(n, LoopNode) and n.mode in ("vectorize", "unroll") and n.stop.op != "const":
            word = "vectorized" if n.mode == "vectorize" else "unrolled"
            raise refuse(
                f"{n.address} can't be {word}: its extent is not constant", "extent",
                f"split it first: {n.mode}({n.name!r}, 8) does both", _where(directives, n.mode, n.address),
            )  # fmt: skip
        if isinstance(n, Allocation):
            for s in n.storages:
                if s.memory == "reg" and not s.constant:
                    raise refuse(
                        f"the buffer {s.name}{print_extents(s.extents)} can't be in registers: not of constant size",
                        "register-size", "make the loops inside constant by splits, or keep it in main",
                        _where(directives, "cache_write", s.name),
                    )  # fmt: skip
    _check_unrolled(nest, directives)


def _check_streams(state: State, nest: Nest, directives: tuple[Directive, ...]) -> None:
    """What is to be stored past the caches is stored in vectors."""
    for name, fs in state.funcs.items():
        if fs.stream and not streams(nest, fs.func):
            where = next((d.location for d in directives if d.kind == "stream_stores" and name in d.operands), None)
            raise refuse(f"{name} can't be stored past the caches: no loop stores vectors that lie side by side", "stream",
                         "vectorize the loop over its last axis", where)  # fmt: skip


UNROLLED = 4096  # stores of one Func at the root after unrolling: what takes seconds to compile


def _check_unrolled(nest: Nest, directives: tuple[Directive, ...]) -> None:
    """Unrolling must stay below a budget."""
    body = nest.body
    while isinstance(body, Allocation):
        body = body.body
    for part in body.items if isinstance(body, Sequence) else (body,):
        total, factors = _stores(part)
        if total > UNROLLED:
            largest = sorted(factors.items(), key=lambda f: -f[1])[:3]
            shown = ", ".join(f"{address} ({n} times)" for address, n in largest)
            raise refuse(
                f"unrolling makes {total} stores of one nest, and {UNROLLED} are allowed", "unroll-budget",
                f"unroll less; the largest factors: {shown}", _where(directives, "unroll", largest[0][0]),
            )  # fmt: skip


def _stores(n: NestNode) -> tuple[int, dict[str, int]]:
    """Stores after unrolling, and the unrolled loops with their factors."""
    total, factors = 1 if isinstance(n, Assign) else 0, {}
    for c in children(n):
        inner, found = _stores(c)
        total += inner
        factors.update(found)
    if isinstance(n, LoopNode) and n.mode == "unroll":
        times = max(0, simplify.sub(n.stop, n.start).attr)
        return total * times, factors | ({n.address: times} if times > 1 else {})
    return total, factors


def _check_inlined(state: State, directives: tuple[Directive, ...]) -> None:
    for fs in state.funcs.values():
        if fs.compute.kind != "inline":
            continue
        s = state.stages_of(fs.func.name)[0]
        if s.scheduled or fs.has_region:
            what = "its loops are scheduled" if s.scheduled else "something is said of its buffer"
            name = fs.func.name
            where = next((d.location for d in directives if d.stage == name or name in d.operands), None)
            raise refuse(f"{name} is inlined, but {what}", "inlined",
                         f"say where it is computed: s[{name!r}].compute_root() or compute_at(...)", where)  # fmt: skip


def _where(directives: tuple[Directive, ...], kind: str, what: str) -> Location | None:
    """Where the user asked for it: the last directive of that kind that speaks of the loop or buffer."""
    stage, _, loop = what.rpartition(".")
    names = {loop, loop.removesuffix("_v"), loop.removesuffix("_u")}
    for d in reversed(directives):
        made = d.option("name") or (f"{d.operands[0]}_tile" if d.kind == "cache_write" else None)
        if d.kind == kind and ((d.stage == stage and names & set(d.operands)) or made == what):
            return d.location
    return None
