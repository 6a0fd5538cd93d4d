"""Native code of a schedule against the reference, bit for bit."""

from __future__ import annotations

from tests.kernels import same
from tests.schedule.algorithms import arguments
from tests.schedule.helpers import flat
from tilewright.codegen.compile import compile_schedule
from tilewright.lang.binding import bind
from tilewright.lang.reference import run
from tilewright.schedule.schedule import Schedule


def natively(s: Schedule, *sizes: dict[str, int], mode: str = "strict") -> None:
    """Compiled once, the schedule gives the reference's values at every one of these sizes."""
    p = s.pipeline
    compiled = compile_schedule(p, s, mode)
    for k, z in enumerate(sizes):
        ours = arguments(p, {n: v for n, v in z.items() if n in p.sizes}, k)
        theirs = [a.copy() for a in ours]
        expected = run(p, bind(p, theirs, {}, {n: v for n, v in z.items() if n in p.sizes}))
        got = compiled(*ours)
        for a, b in zip(flat(expected), flat(got), strict=True):
            assert same(a, b), f"at {z}:\n{a}\nis not\n{b}\nwith\n{s}\n{s.loops()}"
        for a, b in zip(theirs, ours, strict=True):
            assert same(a, b), f"inout at {z}"
