"""Programs that drive the engine while they run: a call for each section, copy and loop that costs time.

One more data pointer, the last one, leads to the engine's memory. What is called is `codegen.skeleton.drive` with the
number of the loop, section or copy among its kind in text order (see `Encoded.sites`), and with the values that the
engine's own walk would work out: slots, places and extents of copies, and the counters as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.codegen.emit.region import Region
from tilewright.codegen.skeleton import layout as E
from tilewright.codegen.skeleton.native import SYMBOL

ENGINE = "engine"


class Steps:
    """Calls of the engine in a program. Without `running`, sites are numbered and nothing is called."""

    def __init__(self, running: bool, barriers: bool):
        self.running, self.barriers = running, barriers
        self.sites = {"loop": 0, "section": 0, "copy": 0}

    def site(self, kind: str) -> int:
        """The number of the next of a kind."""
        self.sites[kind] += 1
        return self.sites[kind] - 1

    def call(self, r: Region, step: int, site: int, values: str | Sequence[str] = "null", count: str = "0") -> None:
        """One step; values are a pointer or some operands."""
        if not self.running:
            return
        f = r.f
        if not isinstance(values, str):
            room = f.alloca(f"[{max(1, len(values))} x i64]", 8)
            for k, x in enumerate(values):
                f.do(f"store i64 {x}, ptr {f.op(f'getelementptr i64, ptr {room}, i64 {k}')}")
            values = room
        f.declare(SYMBOL, "void", "ptr, ptr, i64, i64, i64")
        f.do(f"call void @{SYMBOL}(ptr {r.captured(ENGINE)}, ptr {values}, i64 {step}, i64 {site}, i64 {count})")

    @contextmanager
    def around(self, r: Region, site: int, kind: tuple[int, int, int], bounds: tuple[str, str]) -> Iterator[None]:
        """Around a loop of a `kind` (its steps for begin, iteration and end): nothing where it has no iterations."""
        begin, _, end = kind
        if not self.running:
            yield
            return
        start, stop = bounds
        some = r.f.op(f"icmp slt i64 {start}, {stop}")
        trips = r.f.op(f"sub i64 {stop}, {start}")
        with _only(r, some):
            self.call(r, begin, site, r.captured("counters"), trips)
        yield
        with _only(r, some):
            self.call(r, end, site)


CONCURRENT = (E.STEP_FORK, E.STEP_NEXT, E.STEP_JOIN)
RINGS = (E.STEP_RING, E.STEP_TURN, E.STEP_RINGS_END)


@contextmanager
def _only(r: Region, condition: str) -> Iterator[None]:
    inside, after = r.f.label("begun"), r.f.label("over")
    for name in (ENGINE, "counters"):
        r.captured(name)  # known before the branch
    r.f.branch(condition, inside, after)
    r.f.begin(inside)
    yield
    r.f.br(after)
    r.f.begin(after)


__all__ = ["CONCURRENT", "ENGINE", "RINGS", "Steps"]
