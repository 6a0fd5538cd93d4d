"""Random tables for the engine: nests of loops with rings, copies, sections and machines of all kinds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tilewright.codegen.skeleton import tree as T
from tilewright.lang import ir, simplify
from tilewright.lang.ir import integer, size, var
from tilewright.lang.types import i64, index

SIZES = ("N", "M")


@dataclass
class _Making:
    draw: st.DrawFn
    barrier: bool
    engines: tuple[T.Engine, ...]
    buffers: list[T.Buffer] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    counters: list[T.Counter] = field(default_factory=list)
    resources: tuple[T.Resource, ...] = ()
    loops: int = 0
    cores: bool = False

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(1, 100)) <= percent

    def counter(self, section: int | None = None) -> int:
        weights = ()
        if section is not None and self.resources:
            some = self.draw(st.lists(st.sampled_from(range(len(self.resources))), max_size=2, unique=True))
            weights = tuple((r, self.draw(st.integers(1, 5))) for r in some)
        self.counters.append(T.Counter(len(self.counters), section, weights))
        return len(self.counters) - 1

    def extent(self, variables) -> ir.Node:
        """A constant, a size, or a tail."""
        kind = self.pick("constant", "constant", "size", "tail", "triangle", "halves")
        if kind == "size":
            return size(self.pick(*SIZES))
        if kind == "tail" and variables:
            return simplify.minimum(
                integer(2), simplify.sub(size("N"), simplify.mul(self.pick(*variables), integer(2)))
            )
        if kind == "triangle" and variables:
            return simplify.add(self.pick(*variables), integer(self.pick(0, 1)))
        if kind == "halves" and variables:
            n = simplify.add(self.pick(size("N"), *variables), integer(self.pick(-3, 0, 6)))
            count = simplify.add(self.pick(*variables), integer(self.pick(-2, 0, 1, 62)))
            return simplify.minimum(ir.node("cast", index, (ir.node("shr", i64, (n, count)),)), integer(7))
        return integer(self.pick(0, 1, 2, 3, 5, 6, 7))

    def condition(self, variables) -> ir.Node:
        if not variables:
            return simplify.compare("lt", integer(1), size("N"))
        v = self.pick(*variables)
        kind = self.pick("below", "tail", "odd", "two")
        if kind == "below":
            return simplify.compare("lt", v, integer(self.pick(1, 2, 4)))
        if kind == "tail":
            return simplify.compare("lt", simplify.mul(v, integer(2)), size(self.pick(*SIZES)))
        if kind == "odd":
            return simplify.compare("eq", simplify.mod(v, integer(self.pick(2, 3))), integer(0))
        w = self.pick(*variables)
        return simplify.compare("le", v, simplify.add(w, integer(self.pick(0, 1))))

    def variable(self) -> ir.Node:
        self.loops += 1
        return var(self.pick("i", "j", f"v{self.loops}"))

    # Inside of sections

    def work(self, section: int, variables, depth: int) -> T.Step:
        kind = self.pick("charge", "charge", "product", "lanes", "loop", "branch", "sequence", "unit")
        if depth == 0 and kind in ("loop", "branch", "sequence"):
            kind = "charge"
        if kind == "charge":
            condition = self.condition(variables) if self.chance(30) else None
            return T.Charge(self.counter(section), integer(self.pick(0, 1, 2, 3)), condition)
        if kind == "product":
            factors = tuple(self.extent(variables) for _ in range(self.pick(1, 2)))
            return T.Product(self.counter(section), factors, self.condition(variables) if self.chance(20) else None)
        if kind == "lanes":
            lane = var("lane")
            v = self.pick(lane, *(simplify.add(simplify.mul(v, integer(4)), lane) for v in variables))
            return T.Charge(self.counter(section), integer(2), simplify.compare("lt", v, size("N")), lane, 4)
        if kind == "loop":
            return self.loop(variables, lambda vs: self.work(section, vs, depth - 1), self.pick(*self.modes()), section)
        if kind == "branch":
            no = self.work(section, variables, depth - 1) if self.chance(50) else None
            return T.Branch(self.condition(variables), self.work(section, variables, depth - 1), no)
        if kind == "unit" and self.resources:
            return T.Unit(0, (self.extent(variables), self.extent(variables)))
        return T.Sequence(
            tuple(self.work(section, variables, depth - 1) for _ in range(self.pick(0, 2, 3) if depth else 0))
        )

    def modes(self) -> tuple[str, ...]:
        return (T.SERIAL, T.SERIAL, T.PARALLEL, T.SPATIAL)

    def loop(self, variables, body, mode: str, section: int | None = None, ring: bool = False) -> T.Loop:
        visits, trips = self.counter(section), self.counter(section)
        v = self.variable()
        outside = [w for w in variables if w is not v]
        start = self.pick(integer(0), integer(0), integer(2), *(simplify.mul(w, integer(2)) for w in outside))
        stop = simplify.add(start, self.extent(outside))
        return T.Loop(v, start, stop, mode, body([*outside, v]), visits, trips, ring, self.pick("x", "y"))

    # Outside of sections

    def buffer(self, memory: str, slots: int = 1) -> int:
        self.buffers.append(T.Buffer(f"b{len(self.buffers)}", memory, slots))
        return len(self.buffers) - 1

    def section(self) -> int:
        self.sections.append(f"s{len(self.sections)}")
        return len(self.sections) - 1

    def compute(self, variables, tiles) -> T.Compute:
        section = self.section()
        chosen = self.draw(st.lists(st.sampled_from(tiles), max_size=3)) if tiles else []
        uses = []
        for b, slot in chosen:
            reads, writes = self.pick((True, False), (False, True), (True, True))
            uses.append(T.Use(b, None if self.chance(10) else slot, reads, writes))
        return T.Compute(section, tuple(uses), self.work(section, variables, 1))

    def side(self, b: int, slot, variables, rank: int, element: int) -> T.Side:
        first = integer(self.pick(0, 1, 3, 4))
        for v in variables:
            first = simplify.add(first, simplify.mul(v, integer(self.pick(0, 1, 2, 4, 8))))
        strides = {1: ((1,), (2,)), 2: ((8, 1), (4, 1), (1, 8), (7, 1), (6, 2))}[rank]
        return T.Side(b, slot, first, tuple(integer(s) for s in self.pick(*strides)), element)

    def copy(self, variables, outer, inner, inward: bool, asynchronous: bool) -> T.Copy:
        rank = self.pick(1, 2)
        element = self.pick(1, 2, 4)
        extents = tuple(
            self.extent(variables) if self.chance(30) else integer(self.pick(1, 2, 3, 4)) for _ in range(rank)
        )
        out, into = (self.side(b, slot, variables, rank, element) for b, slot in (outer, inner))
        source, target = (out, into) if inward else (into, out)
        engine = self.pick(*range(len(self.engines)))
        return T.Copy(
            self.section(),
            source,
            target,
            extents,
            asynchronous,
            engine,
            inward,
            self.pick(1, 2),
            self.pick(1, 1, 4, 8),
        )

    def ring(self, variables, outer, tiles, depth: int) -> T.Step:
        """A ring, the loop that turns it, and what goes on in it."""
        slots = self.pick(1, 2, 2, 3)
        b = self.buffer(f"l{depth}", slots)
        inward = self.chance(70)
        both = self.chance(25)

        def body(vs) -> T.Step:
            v = vs[-1]
            slot = simplify.mod(v, integer(slots)) if slots > 1 else None
            tile = (b, slot)
            items: list[T.Step] = []
            if inward or both:
                items.append(self.copy(vs, self.pick(*outer), tile, True, self.chance(85)))
            items.append(self.items([*vs], [*outer, tile], [*tiles, tile], depth - 1))
            if not inward or both:
                items.append(self.copy(vs, self.pick(*outer), tile, False, self.chance(85)))
            return T.Sequence(tuple(items))

        return T.Life(b, self.loop(variables, body, T.SERIAL, ring=True))

    def items(self, variables, outer, tiles, depth: int) -> T.Step:
        return T.Sequence(tuple(self.item(variables, outer, tiles, depth) for _ in range(self.pick(1, 1, 2))))

    def item(self, variables, outer, tiles, depth: int) -> T.Step:
        kinds = ["compute"] if depth == 0 else ["compute", "ring", "ring", "ring", "copy", "loop", "branch", "cores"]
        kind = self.pick(*kinds)
        if kind == "compute":
            return self.compute(variables, tiles)
        if kind == "ring":
            return self.ring(variables, outer, tiles, depth)
        if kind == "copy":
            tile = (self.buffer(f"l{depth}"), None)
            load = self.copy(variables, self.pick(*outer), tile, True, False)
            rest = self.items(variables, [*outer, tile], [*tiles, tile], depth - 1)
            store = (self.copy(variables, self.pick(*outer), tile, False, False),) if self.chance(40) else ()
            return T.Sequence((load, rest, *store))
        if kind == "branch":
            then = self.items(variables, outer, tiles, depth - 1)
            other = self.items(variables, outer, tiles, depth - 1) if self.chance(40) else None
            return T.Branch(self.condition(variables), then, other)
        cores = kind == "cores" and self.cores
        # What comes into rings outside stays outside: iterations that run at once share no slots.
        inside = [(b, slot) for b, slot in outer if self.buffers[b].memory == "main"]
        mode = self.pick(T.PARALLEL, T.SPATIAL) if cores else T.SERIAL
        return self.loop(
            variables, lambda vs: self.items(vs, inside if cores else outer, [] if cores else tiles, depth - 1), mode
        )


@st.composite
def tables(draw: st.DrawFn, barrier: bool = False, cores: bool = True, copies: bool = False) -> T.Table:
    """A table of up to three levels of rings. `copies`: nothing takes time but those of a single channel."""
    engines = tuple(
        T.Engine(
            f"dma{k}", draw(st.integers(1, 2)), draw(st.sampled_from([0, 0, 1, 3])), draw(st.sampled_from([0, 0, 2, 20])),
            draw(st.sampled_from([1, 2, 3, 16])), draw(st.sampled_from([1, 1, 4])), draw(st.integers(1, 3)),
            draw(st.booleans()), draw(st.sampled_from(["independent", "independent", "fifo", "partitioned"])),
        )
        for k in range(draw(st.integers(1, 2)))
    )  # fmt: skip
    if copies:
        engines = (replace(engines[0], channels=1, latency=0),)
    m = _Making(draw, barrier, engines, cores=cores)
    m.resources = tuple(
        T.Resource(f"r{k}", draw(st.sampled_from([T.MACHINE, T.CORE, T.ELEMENT, "x", "y, x"])),
                   draw(st.sampled_from([T.BUSY, T.BUSY, T.CONFLICT])))
        for k in range(0 if copies else draw(st.integers(0, 3)))
    )  # fmt: skip
    m.buffers += [T.Buffer("X", "main"), T.Buffer("Y", "main")]
    tree = m.items([], [(0, None), (1, None)], [], draw(st.integers(1, 3)))
    a, b = var("a"), var("b")
    interval = simplify.add(simplify.mul(a, b), integer(draw(st.integers(0, 3))))
    units = (T.UnitCost("unit", 0, (a, b), interval, draw(st.integers(0, 4))),) if m.resources else ()
    return T.Table(
        tree, tuple(m.counters), m.resources, tuple(m.sections), tuple(m.buffers), engines, units,
        draw(st.integers(1, 3)), "barrier" if barrier else "decoupled", 0 if copies else draw(st.integers(0, 4)),
        draw(st.integers(0, 3)),
    )  # fmt: skip


values = st.fixed_dictionaries({name: st.integers(0, 9) for name in SIZES})
