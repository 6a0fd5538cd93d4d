"""Machine files: the presets, the names that schedules use, printing and reading back, every error."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import MachineError, load_machine, machine_names, machine_text, parse_machine
from tilewright.hw.fields import ELEMENT_TYPES, SIZE, show_bytes
from tilewright.hw.machine import Machine
from tilewright.hw.parts import Cache, Compute, Dma, Memory, Provenance, Unit

GOOD = """\
name = "m"
about = "a machine for the tests"
clock_ghz = 2
source = "the tests"
confidence = "assumed"

[compute]
ops = { f32 = 8 }

[[memory]]
name = "big"
kind = "main"
capacity = "unbounded"
read_bandwidth = 8
write_bandwidth = 8

[[memory]]
name = "pad"
kind = "scratchpad"
capacity = "64 KiB"
read_bandwidth = 64
write_bandwidth = 64

[[dma]]
name = "d"
joins = [["big", "pad"]]
bandwidth = 8

[[cache]]
name = "L1"
size = "32 KiB"
line = 64
ways = 8
bandwidth = 64
latency = 4

[[unit]]
name = "mma"
shape = { m = 4, n = 4, k = 4 }
types = { a = "i8", b = "i8", c = "i32" }
memories = { a = "pad", b = "pad", c = "pad" }
interval = 1
"""


def test_presets_load_and_say_where_their_figures_come_from() -> None:
    assert {"toy", "snitch-cluster", "generic-avx2"} <= set(machine_names())
    for name in machine_names():
        machine = load_machine(name)
        assert machine.name == name
        assert machine.main.kind == "main" and machine.memory("main") is machine.main
        assert machine.memory("reg").kind == "registers"
        for figure in machine.provenance:
            assert machine.origin(figure).source
        assert hash(machine) == hash(load_machine(name))


def test_figures_of_the_snitch_cluster() -> None:
    machine = load_machine("snitch-cluster")
    tcdm = machine.memory("tcdm")
    assert (tcdm.capacity, tcdm.banks, tcdm.bank_bytes) == (128 * 1024, 32, 8)
    assert machine.compute.cores == 8 and machine.compute.ops["f64"] == 16
    dma = machine.dma("main", "tcdm")
    assert dma is not None and dma is machine.dma("tcdm", "dram")
    assert dma.bandwidth * 8 == 512
    assert machine.dma("main", "reg") is None
    assert machine.origin("memory.dram.latency").confidence == "assumed"
    assert machine.origin("memory.tcdm.capacity").confidence == "published"


def test_what_lies_in_a_core_of_the_generic_cpu() -> None:
    machine = load_machine("generic-avx2")
    assert [cache.name for cache in machine.caches] == ["L1", "L2", "L3"]
    assert machine.caches[0].sets == 64
    assert machine.compute.lanes(4) == 8 and machine.compute.lanes(64) == 1
    assert machine.memory("reg").capacity == 16 * 32
    assert machine.memory("reg").aligned(1) == 32


@pytest.mark.parametrize("name", machine_names())
def test_presets_survive_printing(name: str) -> None:
    machine = load_machine(name)
    assert parse_machine(machine_text(machine)) == machine


def test_a_file_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD, encoding="utf-8")
    assert load_machine(file) == load_machine(str(file)) == parse_machine(GOOD)


def test_the_origin_of_a_figure_is_the_nearest_one() -> None:
    text = GOOD.replace(
        'capacity = "64 KiB"',
        'source = "the table"\ncapacity = { value = "64 KiB", confidence = "measured" }\nlatency = 3',
    )
    machine = parse_machine(text)
    assert machine.memory("pad").capacity == 65536
    assert machine.origin("memory.pad.capacity") == Provenance("the table", "measured")
    assert machine.origin("memory.pad.latency") == Provenance("the table", "assumed")
    assert machine.origin("memory.big.capacity") == Provenance("the tests", "assumed")
    assert parse_machine(machine_text(machine)) == machine


def with_line(old: str, new: str, nth: int = 0) -> str:
    """GOOD with the nth occurrence of `old` replaced."""
    parts = GOOD.split(old)
    assert len(parts) > nth + 1
    return old.join(parts[: nth + 1]) + new + old.join(parts[nth + 1 :])


BAD = {
    "syntax": ("machine.syntax", with_line("clock_ghz = 2", "clock_ghz = ")),
    "format from the future": ("machine.format", "format = 9\n" + GOOD),
    "unknown key at the top": ("machine.unknown-key", with_line("clock_ghz", "clock_gh")),
    "unknown key in a memory": ("machine.unknown-key", with_line('capacity = "64', 'capacty = "64')),
    "unknown table": ("machine.unknown-key", GOOD + "\n[compte]\nops = { f32 = 1 }\n"),
    "unknown key beside a value": (
        "machine.unknown-key",
        with_line("clock_ghz = 2", 'clock_ghz = { value = 2, sourc = "x" }'),
    ),
    "missing key": ("machine.missing", with_line('capacity = "64 KiB"\n', "")),
    "missing name": ("machine.missing", with_line('name = "pad"\n', "")),
    "missing source": ("machine.missing", with_line('source = "the tests"\n', "")),
    "no compute": ("machine.missing", with_line("[compute]\nops = { f32 = 8 }\n", "")),
    "no memory": (
        "machine.missing",
        GOOD[: GOOD.index("[[memory]]")],
    ),
    "negative capacity": ("machine.bad-value", with_line('"64 KiB"', "-1")),
    "size with a strange unit": ("machine.bad-value", with_line('"64 KiB"', '"64 kB"')),
    "capacity that is true": ("machine.bad-value", with_line('"64 KiB"', "true")),
    "bandwidth of zero": ("machine.bad-value", with_line("bandwidth = 8", "bandwidth = 0")),
    "bandwidth without end": ("machine.bad-value", with_line("bandwidth = 8", "bandwidth = inf")),
    "unknown kind": ("machine.bad-value", with_line('"scratchpad"', '"scratch"')),
    "unknown confidence": ("machine.bad-value", with_line('"assumed"', '"sure"')),
    "unknown element type": ("machine.bad-value", with_line("f32 = 8", "f31 = 8")),
    "empty source": ("machine.bad-value", with_line('"the tests"', '""')),
    "name with a space": ("machine.bad-value", with_line('"pad"', '"my pad"')),
    "line that is no power of two": ("machine.bad-value", with_line("line = 64", "line = 48")),
    "tree of bits over a number of ways that is no power of two": (
        "machine.bad-value",
        with_line('size = "32 KiB"\nline = 64\nways = 8', 'size = "3 KiB"\nline = 64\nways = 12\nreplacement = "plru"'),
    ),
    "cache that has no whole number of sets": ("machine.bad-value", with_line("ways = 8", "ways = 7")),
    "flag that is a number": ("machine.bad-value", with_line("ways = 8", "ways = 8\nwrite_allocate = 1")),
    "copy from a memory to itself": ("machine.bad-value", with_line('"big", "pad"', '"big", "big"')),
    "copy to an unknown memory": ("machine.bad-value", with_line('"big", "pad"', '"big", "pat"')),
    "operand in an unknown memory": ("machine.bad-value", with_line('c = "pad"', 'c = "pat"')),
    "operands that differ": ("machine.bad-value", with_line('c = "i32"', 'd = "i32"')),
    "shape of zero": ("machine.bad-value", with_line("m = 4", "m = 0")),
    "compute as a list": ("machine.bad-value", with_line("[compute]", "[[compute]]")),
    "memory as a table": ("machine.bad-value", "memory = 3\n" + GOOD[: GOOD.index("[[memory]]")]),
    "second main memory": ("machine.bad-value", with_line('"scratchpad"', '"main"')),
    "no main memory": ("machine.bad-value", with_line('"main"', '"scratchpad"')),
    "scratchpad called reg": ("machine.bad-value", with_line('name = "pad"', 'name = "reg"')),
    "two memories of one name": ("machine.duplicate", with_line('name = "pad"', 'name = "big"')),
    "two sets of registers": (
        "machine.duplicate",
        GOOD
        + "".join(
            f'[[memory]]\nname = "{name}"\nkind = "registers"\ncapacity = 64\nread_bandwidth = 1\nwrite_bandwidth = 1\n'
            for name in ("r1", "r2")
        ),
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_errors_have_a_code_and_a_place(what: str) -> None:
    code, text = BAD[what]
    with pytest.raises(MachineError) as caught:
        parse_machine(text, "bad.toml")
    assert caught.value.code == code
    assert caught.value.where[0].file == "bad.toml"
    assert 1 <= caught.value.where[0].line <= text.count("\n") + 1
    assert code == "machine.syntax" or "legal: " in str(caught.value)


def test_the_texts_of_all_errors(golden) -> None:
    texts = []
    for what, (_, text) in BAD.items():
        with pytest.raises(MachineError) as caught:
            parse_machine(text, "bad.toml")
        # The wording of a TOML syntax error is Python's own and differs between versions.
        said = str(caught.value) if caught.value.code != "machine.syntax" else "(a syntax error)"
        texts.append(f"# {what}\n{said}\n")
    golden("\n".join(texts))


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("ways", GOOD[: GOOD.index("ways")].count("\n") + 1),
        ("shape", GOOD[: GOOD.index("shape")].count("\n") + 1),
    ],
)
def test_the_line_of_an_error_is_the_one_of_its_key(key: str, line: int) -> None:
    text = "\n".join(f'{key} = "no"' if row.startswith(key) else row for row in GOOD.split("\n"))
    with pytest.raises(MachineError) as caught:
        parse_machine(text)
    assert caught.value.where[0].line == line


def test_unknown_machines_and_memories_name_what_is_there() -> None:
    with pytest.raises(MachineError, match=r"did you mean toy\?") as caught:
        load_machine("tou")
    assert caught.value.code == "machine.unknown"
    with pytest.raises(MachineError) as caught:
        load_machine("no/such/file.toml")
    assert caught.value.code == "machine.no-file"
    with pytest.raises(MachineError, match=r"main, dram, spm, reg; did you mean spm\?") as caught:
        load_machine("toy").memory("sbm")
    assert caught.value.code == "machine.unknown-memory"


names = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
numbers = st.one_of(st.integers(1, 1 << 40).map(float), st.floats(1e-3, 1e9))
powers = st.integers(0, 20).map(lambda n: 1 << n)
texts = st.text(st.characters(exclude_categories=["C"]), min_size=1).filter(lambda text: text.strip())
origins = st.builds(
    Provenance, source=texts, confidence=st.sampled_from(["measured", "published", "derived", "assumed"])
)
rates = st.dictionaries(st.sampled_from(ELEMENT_TYPES), numbers, min_size=1, max_size=4)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any machine that the format can say."""
    inner = draw(st.lists(names.filter(lambda name: name not in ("main", "reg")), min_size=1, max_size=4, unique=True))

    def memory(name: str, kind: str) -> Memory:
        return Memory(
            name=name,
            kind=kind,
            capacity=draw(st.none() | st.integers(1, 1 << 40)),
            read_bandwidth=draw(numbers),
            write_bandwidth=draw(numbers),
            alignment=draw(powers),
            burst=draw(powers),
            banks=draw(st.integers(1, 64)),
            latency=draw(numbers),
            read_energy=draw(st.none() | numbers),
        )

    memories = (memory(inner[0], "main"), *(memory(name, "scratchpad") for name in inner[1:]))
    pair = st.lists(st.sampled_from(inner), min_size=2, max_size=2, unique=True).map(lambda both: (both[0], both[1]))
    dmas = ()
    if len(inner) > 1:
        joins = tuple(draw(st.lists(pair, min_size=1, max_size=3)))
        dmas = (Dma("engine", joins, draw(numbers), transpose=draw(st.booleans()), contention="fifo"),)
    operands = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    unit = Unit(
        name="unit",
        shape=draw(st.dictionaries(names, st.integers(1, 256), min_size=1, max_size=3)),
        types={name: draw(st.sampled_from(ELEMENT_TYPES)) for name in operands},
        memories={name: draw(st.sampled_from(inner)) for name in operands},
        interval=draw(numbers),
    )
    line, ways, sets = draw(powers), draw(st.integers(1, 16)), draw(st.integers(1, 4096))
    cache = Cache("L1", line * ways * sets, line, ways, draw(numbers), draw(numbers), write="through")
    machine = Machine(
        name=draw(names),
        about=draw(texts),
        clock_ghz=draw(numbers),
        memories=memories,
        compute=Compute(ops=draw(rates), axes=draw(st.none() | st.just({"x": 16, "y": 8}))),
        dmas=dmas,
        caches=(cache,),
        units=(unit,),
        provenance={},
        default_provenance=draw(origins),
    )
    figures = ["clock_ghz", "compute.ops", f"memory.{inner[0]}.capacity", "unit.unit.shape", "cache.L1.write"]
    own = draw(st.dictionaries(st.sampled_from(figures), origins, max_size=3))
    provenance = {key: origin for key, origin in own.items() if origin != machine.default_provenance}
    return dataclasses.replace(machine, provenance=provenance)


@given(machines())
def test_any_machine_survives_printing(machine: Machine) -> None:
    assert parse_machine(machine_text(machine)) == machine


@given(st.integers(1, 1 << 50))
def test_sizes_are_shown_as_they_can_be_read(size: int) -> None:
    assert SIZE.read(show_bytes(size)) == size
