"""Lowering: a straight list of passes from a schedule's state to loop IR. Each is named, timed and can be dumped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.codegen import abi
from tilewright.codegen import loops as L
from tilewright.codegen.bound import bound
from tilewright.codegen.edges import compact
from tilewright.codegen.flatten import flatten
from tilewright.codegen.interface import CONTIGUOUS, argument_roles
from tilewright.codegen.narrow import narrow
from tilewright.codegen.partition import partition
from tilewright.codegen.requirements import requirements
from tilewright.codegen.single import unwrap
from tilewright.codegen.streams import fenced
from tilewright.codegen.work import annotate
from tilewright.lang import ir
from tilewright.lang.ir import Node
from tilewright.schedule.build import build_nest
from tilewright.schedule.state import State

if TYPE_CHECKING:
    from tilewright.hw.machine import Machine

COVERAGE = (
    "TILEWRIGHT_COVERAGE"  # how many calls the check of coverage looks at where nobody asks for it (tests set it)
)
_CALLS = 12  # where somebody does


@dataclass(frozen=True)
class Request:
    """What is to be lowered: the state, the numeric mode, the C symbol, the stride class of every argument; with
    `debug`, promises are checked (see `flatten`); `native`: buffers may be added that only save code; with
    `covered` it is checked that the loops compute every point once (see `coverage`); for a `machine` the program is
    in sections; with `sizes` it is for these alone."""

    state: State
    mode: str
    symbol: str
    classes: tuple[str, ...]
    debug: bool = False
    native: bool = True
    covered: bool = False
    machine: Machine | None = None
    sizes: Mapping[str, int] | None = None

    @property
    def looked_at(self) -> int:
        """How many calls the check of coverage looks at."""
        return _CALLS if self.covered else int(os.environ.get(COVERAGE, "0"))


def as_written(
    state: State, mode: str, purpose: str, machine: Machine | None = None, sizes: Mapping[str, int] | None = None
) -> Request:
    """What is lowered to be counted or exported rather than to be fast: what the schedule says and nothing else, on
    contiguous arguments. The `purpose` is in its symbol."""
    p = state.pipeline
    classes = (CONTIGUOUS,) * len(argument_roles(p))
    return Request(state, mode, abi.symbol(p.name, purpose), classes, native=False, machine=machine, sizes=sizes)


@dataclass
class Lowered:
    """The result, and what every pass gave and took (seconds)."""

    program: L.Program
    results: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)


Pass = Callable[[Any, Request], Any]


def _nest(_: Any, r: Request) -> Any:
    return build_nest(r.state, r.mode)


def _flatten(nest: Any, r: Request) -> Any:
    origins, staging = not r.native or r.looked_at > 0, r.machine is not None
    program = flatten(nest, r.state.pipeline, r.symbol, r.classes, r.debug, origins, staging, r.native)
    return replace(program, requirements=(*requirements(r.state.pipeline), *program.requirements))


def _sizes(p: Any, r: Request) -> Any:
    return bound(p, r.sizes) if r.sizes else p


def _single(p: Any, r: Request) -> Any:
    return replace(p, body=unwrap(p.body))


def _sections(p: Any, r: Request) -> Any:
    if r.machine is None:
        return p
    from tilewright.codegen.sections import sections  # only simulated programs have any

    return sections(p, r.machine)


def _partition(p: Any, r: Request) -> Any:
    if r.machine is None:
        return replace(p, body=partition(p.body))
    from tilewright.codegen.sections import parted

    return replace(p, body=parted(p.body))


def _edges(p: Any, r: Request) -> Any:
    return replace(p, body=compact(p.body)) if r.native else p


def _functions(p: Any, r: Request) -> Any:
    """Mathematical functions by their definitions; `likely` marks and promises have done their work."""
    fuse = r.mode != "strict"
    memo: dict[Node, Node] = {}

    def fn(roots: tuple[Node, ...]) -> tuple[Node, ...]:
        if any(n.op == "call" for n in ir.postorder(roots)):
            from tilewright.lang.math import expand  # only programs that call one pay for the definitions

            roots = expand(roots, fuse)
        return ir.transform(roots, lambda n, a: a[0] if n.op in ("likely", "assume") else ir.rebuild(n, a), memo)

    return replace(p, body=L.map_values(p.body, fn))


def _narrow(p: Any, r: Request) -> Any:
    return replace(p, body=narrow(p.body)) if r.native and r.machine is None else p


def _work(p: Any, r: Request) -> Any:
    return replace(p, body=annotate(fenced(p.body)))


PASSES: tuple[tuple[str, Pass], ...] = (
    ("nest", _nest),
    ("flatten", _flatten),
    ("sizes", _sizes),
    ("single", _single),
    ("sections", _sections),
    ("partition", _partition),
    ("edges", _edges),
    ("functions", _functions),
    ("narrow", _narrow),
    ("work", _work),
)


def lower(request: Request, passes: tuple[tuple[str, Pass], ...] = PASSES) -> Lowered:
    """Run all passes, or some in their order. `TILEWRIGHT_DUMP=all` (or names, separated by commas) prints results to
    stderr.

    Raises CoverageError where the request is checked and the loops do not compute what the Nest promises.
    """
    wanted = os.environ.get("TILEWRIGHT_DUMP", "")
    out = Lowered(None)  # type: ignore[arg-type]
    value: Any = None
    for name, run in passes:
        start = time.perf_counter()
        value = run(value, request)
        out.timings[name] = time.perf_counter() - start
        out.results[name] = value
        if wanted == "all" or name in wanted.split(","):
            from tilewright.codegen.dump import dump

            print(f"--- after {name}\n{dump(value)}", file=sys.stderr)
    out.program = value
    if request.looked_at and not request.sizes:
        from tilewright.codegen.coverage import check

        start = time.perf_counter()
        check(out.program, out.results["nest"], request.state.pipeline, request.looked_at)
        out.timings["coverage"] = time.perf_counter() - start
    return out
