"""Where a random directive goes: stages, loops, Funcs, tensors, drawn by `choose(n)` (which gives 0..n-1); and the register
of moves, the functions that try one directive each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.lang.errors import ScheduleError
from tilewright.schedule.directives.staging import tensors_of
from tilewright.schedule.handle import Handle
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Stage

Choose = Callable[[int], int]
Move = Callable[[Schedule, Choose, int], None]
LAYOUTS = {
    1: ["a -> a", "a -> a//4 a%4", "a -> a//3 a%3", "a -> a//2 a%2"],
    2: ["a b -> b a", "a b -> b//4 a b%4", "a b -> a//2 b//4 a%2 b%4", "a b -> b a//3 a%3", "a b -> a//5 b a%5"],
    3: ["a b c -> c a b", "a b c -> b//2 a c b%2", "a b c -> a b//3 c//2 b%3 c%2"],
}
TAILS = ("guard", "shift", "round_up")
CONDITIONS = [
    "N % 2 == 0", "N >= 4", "(M % 4 == 0) & (N > 2)", "M == N", "N == 5", "contiguous(A0)", "K < 3", "stride(A0, 0) == 1",
    "K % 2 == 1", "M > N", "alpha >= 1", "contiguous(out0)", "stride(out0, 0) == 1", "N % 4 == 1",
]  # fmt: skip
MOVES: dict[str, list[Move]] = {}


def move(kind: str, weight: int = 1) -> Callable[[Move], Move]:
    """Register a move of a kind of directive; `weight` times as likely as another one of that kind."""

    def register(fn: Move) -> Move:
        MOVES.setdefault(kind, []).extend([fn] * weight)
        return fn

    return register


def pick(choose: Choose, items: Iterable[Any]) -> Any:
    """One of the items. Raises ScheduleError (nothing was drawn) where there is none."""
    items = list(items)
    if not items:
        raise ScheduleError("there is nothing to choose from", code="schedule.nothing-drawn")
    return items[choose(len(items))]


def stages(s: Schedule, where: Callable[[Stage], bool] = lambda x: True) -> list[Stage]:
    """Stages with loops that are not inlined."""
    placed = {n for n, f in s.state.funcs.items() if f.compute.kind != "inline"}
    return [x for x in s.state.stages.values() if x.loops and x.key[0] in placed and where(x)]


def a_stage(s: Schedule, choose: Choose, where: Callable[[Stage], bool] = lambda x: True) -> Stage:
    return pick(choose, stages(s, where))


def handle(s: Schedule, x: Stage) -> Handle:
    return s[s.state.address(x.key)]


def now(s: Schedule, x: Stage) -> Stage:
    """A stage as later directives have left it."""
    return s.state.stages[x.key]


def a_loop(s: Schedule, choose: Choose) -> tuple[Handle, str]:
    x = a_stage(s, choose)
    return handle(s, x), pick(choose, x.loops).name


def site(s: Schedule, choose: Choose) -> str:
    x = a_stage(s, choose)
    return s.state.loop_address(x.key, pick(choose, x.loops).name)


def pure_loops(x: Stage) -> list[str]:
    return [y.name for y in x.loops if not y.reduction]


def made(s: Schedule) -> list[str]:
    """Funcs that others read."""
    return [n for n, f in s.state.funcs.items() if n not in s.state.outputs and s.state.consumers(f.func)]


def tensors(s: Schedule) -> list[str]:
    return [a.name for a in s.pipeline.arrays] + list(s.state.funcs)


def rank_of(s: Schedule, name: str) -> int:
    f = s.state.funcs.get(name)
    return f.func.rank if f is not None else next(a.ndim for a in s.pipeline.arrays if a.name == name)


def a_layout(s: Schedule, choose: Choose, name: str) -> str:
    return pick(choose, LAYOUTS.get(rank_of(s, name), []))


def materialised(s: Schedule, name: str) -> None:
    if s.state.funcs[name].compute.kind == "inline":
        s[name].compute_root()


def reads(x: Stage) -> dict[str, Any]:
    found = tensors_of((*x.definition.lhs, *x.definition.values))
    found.pop(x.key[0], None)
    return found
