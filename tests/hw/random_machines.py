"""Random machines, all that the format can say: for whoever needs some."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from tilewright.hw.fields import ELEMENT_TYPES, OPERATION_CLASSES
from tilewright.hw.formulas import parse_formula
from tilewright.hw.machine import Machine
from tilewright.hw.parts import Cache, Compute, Dma, Memory, Provenance, Unit

names = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
numbers = st.one_of(st.integers(1, 1 << 40).map(float), st.floats(1e-3, 1e9))
amounts = st.just(0.0) | numbers
powers = st.integers(0, 12).map(lambda n: 1 << n)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip())
origins = st.builds(
    Provenance, source=texts, confidence=st.sampled_from(["measured", "published", "derived", "assumed"])
)
types = st.sampled_from(ELEMENT_TYPES)


def tables(keys: st.SearchStrategy[str], values: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[Any]:
    """A few entries."""
    return st.dictionaries(keys, values, min_size=least, max_size=4)


@st.composite
def memories(draw: st.DrawFn, name: str, kind: str, array: bool) -> Memory:
    alignment = draw(powers)
    owners = ["machine"] if kind == "main" else ["machine", "core", "element"] if array else ["machine", "core"]
    return Memory(
        name=name,
        kind=kind,
        capacity=draw(st.none() | st.integers(alignment, 1 << 40)),
        read_bandwidth=draw(numbers),
        write_bandwidth=draw(numbers),
        alignment=alignment,
        burst=draw(powers),
        banks=draw(st.integers(1, 64)),
        bank_bytes=draw(powers),
        latency=draw(amounts),
        read_energy=draw(st.none() | amounts),
        ports=draw(st.sampled_from(["separate", "shared"])),
        per=draw(st.sampled_from(owners)),
    )


@st.composite
def engines(draw: st.DrawFn, found: list[Memory]) -> tuple[Dma, ...]:
    """No engine, or some that join all the memories to a tree: each with one that stands before it."""
    pads = [memory.name for memory in found if memory.kind != "registers"]
    if len(pads) == 1 or draw(st.booleans()):
        return ()
    groups: dict[int, list[tuple[str, str]]] = {}
    for i in range(1, len(pads)):
        pair = (pads[draw(st.integers(0, i - 1))], pads[i])
        several = draw(st.sets(st.integers(0, 2), min_size=1, max_size=2))
        for engine in several:
            groups.setdefault(engine, []).append(pair if draw(st.booleans()) else (pair[1], pair[0]))
    return tuple(
        Dma(
            name=f"Engine{engine}",
            joins=tuple(joins),
            bandwidth=draw(numbers),
            channels=draw(st.integers(1, 4)),
            issue=draw(amounts),
            latency=draw(amounts),
            queue=draw(st.integers(1, 16)),
            burst=draw(powers),
            dims=draw(st.integers(1, 5)),
            transpose=draw(st.booleans()),
            convert=draw(st.booleans()),
            contention=draw(st.sampled_from(["independent", "fifo", "partitioned"])),
        )
        for engine, joins in sorted(groups.items())
    )


@st.composite
def hierarchies(draw: st.DrawFn, cores: int) -> tuple[Cache, ...]:
    caches: list[Cache] = []
    line, sets, ways, shared = 1 << draw(st.integers(0, 7)), 1, 1, 1
    for level in range(draw(st.integers(0, 3))):
        line *= draw(st.sampled_from([1, 1, 2]))
        sets *= draw(st.integers(1, 64))
        ways *= draw(st.sampled_from([1, 2, 3]))
        shared = draw(st.integers(shared, cores))
        replacement = draw(st.sampled_from(["lru", "fifo", "random", *["plru"] * (ways & (ways - 1) == 0)]))
        caches.append(
            Cache(
                f"L{level}", line * ways * sets, line, ways, draw(numbers), draw(amounts), replacement=replacement,
                write=draw(st.sampled_from(["back", "through"])), write_allocate=draw(st.booleans()),
                inclusion=draw(st.sampled_from(["neither", "inclusive", "exclusive"])), shared_by=shared,
            )
        )  # fmt: skip
    return tuple(caches)


@st.composite
def units(draw: st.DrawFn, name: str, found: list[Memory]) -> Unit:
    operands = "abc"
    places = st.sampled_from([memory.name for memory in found])
    return Unit(
        name=name,
        shape=draw(tables(st.sampled_from("mnk"), st.one_of(st.none(), st.integers(1, 256)))),
        types={operand: draw(types) for operand in operands},
        memories={operand: draw(places) for operand in operands},
        interval=draw(st.one_of(numbers, st.just(parse_formula("7 + 2 * 3")))),
        latency=draw(amounts),
        energy=draw(st.none() | amounts),
    )


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any machine that the format can say."""
    array = draw(st.booleans())
    taken = st.lists(names.filter(lambda name: name not in ("main", "reg")), min_size=1, max_size=4, unique=True)
    kinds = ["main", *["scratchpad"] * 9]
    found = [draw(memories(name, kind, array)) for name, kind in zip(draw(taken), kinds, strict=False)]
    if draw(st.booleans()):
        found.append(draw(memories("reg", "registers", array)))
    ops = draw(tables(types, numbers))
    cores = draw(st.integers(1, 64))
    compute = Compute(
        ops=ops,
        vector_bytes=draw(powers),
        cores=cores,
        axes={"X": draw(st.integers(1, 256)), "Y": 8} if array else None,
        energy=draw(st.none() | tables(st.sampled_from(list(ops)), amounts)),
        classes=draw(st.none() | tables(st.sampled_from(OPERATION_CLASSES), numbers)),
        latency=draw(amounts),
        sync=draw(st.sampled_from(["decoupled", "barrier"])),
        barrier=draw(amounts),
    )
    machine = Machine(
        name=draw(names),
        about=draw(texts),
        clock_ghz=draw(numbers),
        memories=tuple(found),
        compute=compute,
        dmas=draw(engines(found)),
        caches=draw(hierarchies(cores)),
        units=tuple(draw(units(f"Unit{i}", found)) for i in range(draw(st.integers(0, 2)))),
        provenance={},
        default_provenance=draw(origins),
    )
    figures = ["clock_ghz", "compute.ops", "compute.sync", f"memory.{found[0].name}.capacity"]
    figures += [f"cache.{cache.name}.write" for cache in machine.caches]
    figures += [f"unit.{unit.name}.shape" for unit in machine.units]
    own = draw(st.dictionaries(st.sampled_from(figures), origins, max_size=3))
    provenance = {key: origin for key, origin in own.items() if origin != machine.default_provenance}
    return dataclasses.replace(machine, provenance=provenance)
