"""What `fast.explain()` says: the inner loops of the machine code, what is odd about them, how near to the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.codegen import loops as L
from tilewright.codegen import target
from tilewright.codegen.emit.builder import loop_label
from tilewright.codegen.machine_code import InnerLoop, inner_loops
from tilewright.lang import ir
from tilewright.lang.errors import CompileError, TilewrightError
from tilewright.lang.types import index
from tilewright.schedule.registers import Registers, host_registers

if TYPE_CHECKING:
    from tilewright.codegen.bound_call import Ready
    from tilewright.codegen.compile import Compiled

_SECONDS = 0.5  # of runs that are timed
_LIMIT_SECONDS = 0.1  # of each measurement of what the processor can do
_MANY_INSTRUCTIONS = 2000  # of a loop: more than some processors keep decoded
_FEW_LANES = 4
_LONG_WAIT = 4  # cycles: of one operation with floats
_WAITS = 1.5  # times as long as its instructions take at least
_ARITHMETIC = frozenset((
    "add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "neg", "abs", "fma", "sqrt", "shl", "shr", "and", "or",
    "xor", "select",
))  # fmt: skip
_SIDE_BY_SIDE = "let lanes lie side by side: another vector loop, or a layout of what is read"


@dataclass(frozen=True)
class Remark:
    """What is odd about an inner loop, and what may help."""

    text: str
    hint: str


@dataclass(frozen=True)
class Distance:
    """Seconds of a run (the best of several), and the least that arithmetic and memory allow, as measured just after.

    `operations` by type (a multiply-add is two, a division or a function one) are None where they can't be counted without
    data; `bytes` are those of all arguments, each once. `rates` are operations and bytes a second at best, by type (floats
    alone) and by `copy` or `read`."""

    seconds: float
    operations: dict[str, int] | None
    bytes: int
    rates: dict[str, float]

    @property
    def limits(self) -> dict[str, float]:
        """Seconds at least, by what limits."""
        found = {f"peak {t}": n / self.rates[t] for t, n in (self.operations or {}).items() if t in self.rates}
        memory = next(k for k in ("copy", "read") if k in self.rates)
        return found | {memory: self.bytes / self.rates[memory]}

    def __str__(self) -> str:
        name, least = max(self.limits.items(), key=lambda item: item[1])
        text = f"{1e3 * self.seconds:.3g} ms, {least / self.seconds:.0%} of the limit by {name} ({1e3 * least:.3g} ms)"
        if self.operations is None:
            text += "; operations can't be counted without data"
        return text


@dataclass(frozen=True)
class Explanation:
    """The inner loops of a compiled kernel in the order of the machine code, and (where it ran) its distance to the
    limit.

    A loop of the schedule has several forms in the code: the one that most of the work is done in, and those of edges and
    tails. `computing` names the loops that compute with numbers (others copy, or fill), `lanes` those that are vectors in
    other forms, so that a loop over them is a tail."""

    kernel: str
    loops: tuple[InnerLoop, ...]
    registers: Registers
    distance: Distance | None = None
    computing: frozenset[str] = frozenset()
    lanes: frozenset[str] = frozenset()

    def remarks(self, loop: InnerLoop) -> tuple[Remark, ...]:
        """What is odd about a loop."""
        return () if loop.loop in self.lanes else tuple(_remarks(loop, self.registers, loop.loop in self.computing))

    @property
    def forms(self) -> dict[str | None, list[InnerLoop]]:
        """The loops of the code by the loop of the schedule, of each the one that does most at a time first."""
        found: dict[str | None, list[InnerLoop]] = {}
        for loop in self.loops:
            found.setdefault(loop.loop, []).append(loop)
        return {k: sorted(v, key=_doing, reverse=True) for k, v in found.items()}

    def as_json(self) -> dict[str, Any]:
        """Plain data: every loop with its counts and remarks."""
        loops = [
            {
                "loop": x.loop, "function": x.function, "depth": x.depth, "instructions": x.instructions, "bits": x.bits,
                **x.counts, "calls": list(x.calls), "waits": x.turn, "cycles": x.least,
                "remarks": [{"text": r.text, "hint": r.hint} for r in self.remarks(x)],
            }
            for x in self.loops
        ]  # fmt: skip
        d = self.distance
        distance = None if d is None else {
            "seconds": d.seconds, "operations": d.operations, "bytes": d.bytes, "rates": d.rates, "limits": d.limits,
        }  # fmt: skip
        return {"kernel": self.kernel, "loops": loops, "distance": distance}

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {len(self.loops)} inner loops in the machine code"]
        if self.distance is not None:
            lines.append(str(self.distance))
        for name, (most, *others) in self.forms.items():
            tail = " (a tail)" if name in self.lanes else ""
            lines.append(f"{name or 'loops that LLVM made'}{tail}: {_facts(most)}")
            lines += [f"    {r.text}: {r.hint}" for r in self.remarks(most)]
            lines += [f"    {_others(others)}"] if others else []
        return "\n".join(lines)


def _doing(loop: InnerLoop) -> tuple[float, float]:
    """The multiply-adds of a turn, then arithmetic an instruction: edges and tails have less, for masks and moves."""
    c, lanes = loop.counts, loop.bits or 32
    return lanes * c["fused"], lanes * (c["vector"] + c["scalar"]) / loop.instructions


def _others(loops: Sequence[InnerLoop]) -> str:
    """Edges and tails in a few words."""
    sizes = sorted(x.instructions for x in loops)
    many = f"{sizes[0]} to {sizes[-1]}" if sizes[0] < sizes[-1] else str(sizes[0])
    spills = sum(x.counts["spills"] + x.counts["reloads"] for x in loops)
    more = f", {spills} accesses to registers that had to be stored" if spills else ""
    return f"and {len(loops)} more for edges and tails: {many} instructions{more}"


def explain(fast: Compiled, ready: Ready | None) -> Explanation:
    """Read the machine code of a kernel's variant for contiguous arrays; with arguments, run and time it too."""
    if not target.host().triple.startswith("x86_64"):
        raise CompileError(
            f"machine code of {target.host().triple} can't be read here: x86-64 only", code="compile.explain"
        )
    program = fast._built.lowered.program
    names = {loop_label(s.var.attr): s.var.attr for s in _all_loops(program)}
    # loops that are none of the schedule's and compute nothing hand out tasks, or write zeros
    found = tuple(x for x in inner_loops(fast.asm, names) if x.loop or x.bits or x.scalar)
    distance = None if ready is None else _distance(fast, ready)
    loops = list(_all_loops(program))
    return Explanation(
        fast.pipeline.name, found, host_registers(), distance,
        frozenset(s.var.attr for s in loops if _computes(s)),
        frozenset(s.var.attr for s in loops if s.mode == L.VECTORIZE),
    )  # fmt: skip


def _all_loops(program: L.Program) -> Iterator[L.For]:
    return (s for s in L.walk(program.body) if isinstance(s, L.For))


def _computes(loop: L.For) -> bool:
    """Whether it has arithmetic with numbers, beside that of indices."""
    values = [v for s in L.walk(loop.body) if isinstance(s, L.Store) for v in s.values]
    return any(n.op in _ARITHMETIC and n.dtype is not index for n in ir.postorder(values))


def _facts(loop: InnerLoop) -> str:
    c = loop.counts
    vectors = f"{loop.bits}-bit vectors" if loop.bits else "no vectors"
    parts = [f"{loop.instructions} instructions", vectors]
    for k, what in (("fused", "multiply-add"), ("vector", "vector operation"), ("loads", "load")):
        parts += [f"{c[k]} {what}{'s' * (c[k] > 1)}"] if c[k] else []
    return ", ".join(parts)


def _remarks(loop: InnerLoop, registers: Registers, computes: bool) -> Iterator[Remark]:
    c = loop.counts
    if loop.scalar or (computes and loop.bits == 0):
        yield Remark("its arithmetic is scalar", "vectorize a loop whose elements lie side by side")
    elif 0 < loop.bits < 8 * registers.width and c["vector"]:
        yield Remark(
            f"vectors of {loop.bits} bits where the processor has {8 * registers.width}",
            "more lanes: vectorize by a multiple of tw.host_registers().width bytes",
        )
    yield from _of_registers(loop)
    yield from _of_memory(loop)
    if c["divisions"]:
        yield Remark(f"divisions or roots ({c['divisions']})", "multiply by a reciprocal that is computed once outside")
    if c["whole_divisions"]:
        yield Remark(
            f"divisions of whole numbers ({c['whole_divisions']}), some 10 to 20 cycles each",
            "divide by a number that is known (a static parameter), or let loops over tiles do it: split, or a layout",
        )
    if loop.calls:
        yield Remark(f"calls {', '.join(loop.calls)}", "each call saves and loads registers: move it out of the loop")
    if loop.instructions > _MANY_INSTRUCTIONS:
        yield Remark("the loop is longer than what some processors keep decoded", "unroll less")


def _of_registers(loop: InnerLoop) -> Iterator[Remark]:
    c = loop.counts
    if n := c["spills"] + c["reloads"]:
        yield Remark(
            f"vector registers that had to be stored (accesses to them: {n})",
            "a smaller register tile, or less unrolling",
        )
    if n := c["in_memory"]:
        yield Remark(
            f"results that are read and written again in every turn ({n}): each waits for the store before it",
            'keep them in registers: cache_write(..., memory="reg") outside of the loop, or another order of loops',
        )
    elif loop.turn >= _LONG_WAIT and loop.turn > _WAITS * loop.least:
        yield Remark(
            f"a turn waits {loop.turn} cycles for the one before it, and has work for {loop.least:.0f}",
            "more sums side by side: a larger register tile, or a reduction in parts (vectorize, rfactor)",
        )


def _of_memory(loop: InnerLoop) -> Iterator[Remark]:
    c = loop.counts
    if c["gathers"]:
        yield Remark(f"gathers ({c['gathers']})", _SIDE_BY_SIDE)
    elif c["inserts"] > _FEW_LANES:
        yield Remark(f"{c['inserts']} lanes are put together one by one", _SIDE_BY_SIDE)
    if c["scatters"] or c["extracts"] > _FEW_LANES:
        n = c["scatters"] or c["extracts"]
        yield Remark(
            f"stores lane by lane ({n})" if c["extracts"] else f"scattered stores ({n})",
            "vectorize the loop along which what is written lies side by side, or give it a layout",
        )
    if loop.turn and c["loads"] > c["fused"] >= c["vector"] / 2 > 0:
        yield Remark(
            f"{c['loads']} loads for {c['fused']} multiply-adds, where as many of both go at a time",
            "a larger register tile uses each value more often, where they are used more than once",
        )


def _distance(fast: Compiled, ready: Ready) -> Distance:
    from tilewright.codegen import runtime
    from tilewright.codegen.probe import measure

    written = [a for a, role in zip(ready.arrays, fast._roles, strict=False) if role[1] in ("out", "inout")]
    held = [a.copy() for a in written]
    context = runtime.context(1)
    fast.run(ready, context)  # raises what there is to raise
    run = fast._caller(ready, context)
    seconds = measure.best(lambda repeats: [run() for _ in range(repeats)], _SECONDS)
    for array, before in zip(written, held, strict=True):
        array[...] = before
    run()
    operations = _operations(fast, ready.env)
    used = [a.nbytes for a in ready.arrays]
    kind = "read" if sum(a.nbytes for a in written) < sum(used) / 8 else "copy"
    width = host_registers().width
    room = max(sum(used), 64 * width)
    rates = {kind: measure.bandwidth(kind, measure.aligned(room + 64 * width), room, width, _LIMIT_SECONDS)}
    for t in operations or ():
        # the peak of integers is that of multiplications, which sums, shifts and dot products are faster than
        if t in measure.kernels.TYPES and t.startswith("f") and (rate := measure.peak(t, width, _LIMIT_SECONDS)):
            rates[t] = rate
    return Distance(seconds, operations, sum(used), rates)


def _operations(fast: Compiled, env: Mapping[str, Any]) -> dict[str, int] | None:
    """Operations by type at these sizes and scalars, whatever would fit into the machine they are counted on; None where
    they can't be counted without data."""
    from tilewright.codegen.accounts.account import assembled
    from tilewright.codegen.accounts.assemble import Counted
    from tilewright.codegen.accounts.prepared import Prepared
    from tilewright.hw import load_machine

    machine = load_machine("generic-avx2")
    # a division counts as one operation: what it takes more is not what the arithmetic allows at best
    alike = replace(machine, compute=replace(machine.compute, classes={"fma": 2.0}))
    prepared = Prepared(fast.pipeline, fast._state(), alike, fast.mode)
    try:
        counted = Counted(prepared.ledger, prepared.result(env).counters)
    except TilewrightError:
        return None
    return dict(assembled(prepared, counted, env, (), "skeleton").operations)


__all__ = ["Distance", "Explanation", "Remark", "explain"]
