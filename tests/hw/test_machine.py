"""Machine files: the presets, the names that schedules use, printing and reading back, every error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hw.random_machines import machines
from tilewright.hw import MachineError, load_machine, machine_names, machine_text, parse_machine
from tilewright.hw.fields import SIZE, show_bytes
from tilewright.hw.machine import Machine, machine_problems
from tilewright.hw.parts import Provenance

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


def memory(name: str, kind: str = "scratchpad", more: str = "") -> str:
    """One more memory."""
    return f'\n[[memory]]\nname = "{name}"\nkind = "{kind}"\ncapacity = 64\nread_bandwidth = 1\nwrite_bandwidth = 1\n{more}'


def engine(name: str, joins: str) -> str:
    """One more engine."""
    return f'\n[[dma]]\nname = "{name}"\njoins = [{joins}]\nbandwidth = 1\n'


def cache(name: str, size: str, line: int = 64, more: str = "") -> str:
    """One more cache, further out."""
    return f'\n[[cache]]\nname = "{name}"\nsize = {size}\nline = {line}\nways = 1\nbandwidth = 1\nlatency = 1\n{more}'


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
    "no value beside its source": (
        "machine.missing",
        with_line("bandwidth = 8", 'bandwidth = { source = "x" }'),
    ),
    "formula with a strange sign": ("machine.bad-value", with_line("interval = 1", 'interval = "k / 0"')),
    "formula that goes on": ("machine.bad-value", with_line("interval = 1", 'interval = "m (k)"')),
    "formula that breaks off": ("machine.bad-value", with_line("interval = 1", 'interval = "min(m, k + "')),
    "formula without end": ("machine.bad-value", with_line("interval = 1", f'interval = "{"(" * 300}"')),
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
        GOOD + memory("r1", "registers") + memory("r2", "registers"),
    ),
    "negative bandwidth": ("machine.bad-value", with_line("bandwidth = 8", "bandwidth = -8")),
    "a figure of a text": ("machine.bad-value", with_line("bandwidth = 8", 'bandwidth = "8 GB/s"')),
    "number beyond all bounds": ("machine.bad-value", with_line("bandwidth = 8", "bandwidth = 1" + 400 * "0")),
    "energy that is no number": (
        "machine.bad-value",
        with_line('kind = "main"', 'kind = "main"\nread_energy = "100 pJ"'),
    ),
    "energy of a type without a rate": (
        "machine.bad-value",
        with_line("ops = { f32 = 8 }", "ops = { f32 = 8 }\nenergy = { f32 = 1, f64 = 2 }"),
    ),
    "rate of one of several types": ("machine.bad-value", with_line("f32 = 8", "f32 = 8, f64 = -4")),
    "class of operations that is none": (
        "machine.bad-value",
        with_line("ops = { f32 = 8 }", "ops = { f32 = 8 }\nclasses = { mod = 2 }"),
    ),
    "ring of memories": (
        "machine.cycle",
        GOOD + memory("far") + engine("e", '["pad", "far"]') + engine("f", '["far", "big"]'),
    ),
    "ring in one engine": (
        "machine.cycle",
        with_line('"big", "pad"', '"big", "pad"], ["pad", "far"], ["big", "far"') + memory("far"),
    ),
    "pair that is joined twice": ("machine.duplicate", with_line('"big", "pad"', '"big", "pad"], ["pad", "big"')),
    "engine that joins nothing": ("machine.bad-value", with_line('[["big", "pad"]]', "[]")),
    "engine that joins what main does not reach": (
        "machine.unreached",
        GOOD + memory("a") + memory("b") + engine("e", '["a", "b"]'),
    ),
    "engine that joins registers": (
        "machine.bad-value",
        GOOD + memory("reg", "registers") + engine("e", '["pad", "reg"]'),
    ),
    "memory that nothing reaches": ("machine.unreached", GOOD + memory("island")),
    "memory before the one that it is filled from": (
        "machine.bad-value",
        GOOD.replace('[["big", "pad"]]', '[["big", "late"], ["late", "pad"]]') + memory("late"),
    ),
    "memory of an element without an array": ("machine.bad-value", GOOD + memory("own", more='per = "element"\n')),
    "main memory in every core": ("machine.bad-value", with_line('kind = "main"', 'kind = "main"\nper = "core"')),
    "memory smaller than its alignment": ("machine.bad-value", with_line('"64 KiB"', '"64 B"\nalignment = 128')),
    "axis with the name of a memory": (
        "machine.duplicate",
        with_line("ops = { f32 = 8 }", "ops = { f32 = 8 }\naxes = { x = 4, pad = 4 }"),
    ),
    "axis given twice": (
        "machine.syntax",
        with_line("ops = { f32 = 8 }", "ops = { f32 = 8 }\naxes = { x = 4, x = 4 }"),
    ),
    "unit with the name of an engine": ("machine.duplicate", with_line('name = "mma"', 'name = "d"')),
    "cache smaller than its line": ("machine.bad-value", with_line('size = "32 KiB"', "size = 32")),
    "cache smaller than the one before": ("machine.bad-value", GOOD + cache("L2", '"16 KiB"')),
    "line smaller than the one before": ("machine.bad-value", GOOD + cache("L2", '"64 KiB"', 32)),
    "cache shared by more cores than there are": (
        "machine.bad-value",
        GOOD + cache("L2", '"64 KiB"', more="shared_by = 2\n"),
    ),
    "cache shared by fewer than the one before": (
        "machine.bad-value",
        GOOD.replace("ops = {", "cores = 4\nops = {").replace("ways = 8", "ways = 8\nshared_by = 4")
        + cache("L2", '"64 KiB"', more="shared_by = 2\n"),
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


@given(machines())
def test_any_machine_survives_printing(machine: Machine) -> None:
    assert parse_machine(machine_text(machine)) == machine


@given(st.integers(1, 1 << 50))
def test_sizes_are_shown_as_they_can_be_read(size: int) -> None:
    assert SIZE.read(show_bytes(size)) == size


def test_all_problems_are_found_at_once() -> None:
    text = (
        with_line('capacity = "64 KiB"', 'capacity = "64 kB"')
        .replace("ways = 8", "ways = 7")
        .replace('"big", "pad"', '"big", "pat"')
        .replace("clock_ghz", "clock_gz")
    )
    found = machine_problems(text, "bad.toml")
    assert [problem.where[0].line for problem in found] == sorted(
        1 + text[: text.index(what)].count("\n") for what in ("clock_gz", '"64 kB"', '"pat"', "size =")
    )
    with pytest.raises(MachineError) as caught:
        parse_machine(text, "bad.toml")
    assert str(caught.value) == str(found[0])
    assert machine_problems(GOOD) == []
    assert [problem.code for problem in machine_problems("name = ")] == ["machine.syntax"]
    # The place stands once, in front.
    (problem,) = machine_problems("name = 1\nabout = = 2", "x.toml")
    assert str(problem).startswith("x.toml:2:9: ") and "at line" not in str(problem)


def test_engines_on_one_pair_are_no_ring() -> None:
    machine = parse_machine(GOOD + engine("e", '["pad", "big"]') + memory("more") + engine("f", '["pad", "more"]'))
    assert [dma.name for dma in machine.dmas if dma.connects("big", "pad")] == ["d", "e"]


def test_without_engines_cores_reach_every_memory() -> None:
    text = GOOD[: GOOD.index("[[dma]]")] + memory("island")
    assert parse_machine(text).dmas == ()


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "marked.toml"
    file.write_text(GOOD, encoding="utf-8-sig")
    assert load_machine(file) == parse_machine(GOOD)


def test_the_origin_of_a_figure_at_the_top() -> None:
    machine = parse_machine(with_line("clock_ghz = 2", 'clock_ghz = { value = 2, source = "its sheet" }'))
    assert machine.origin("clock_ghz") == Provenance("its sheet", "assumed")


TOML = st.sampled_from(
    ["0", "-1", "3", "48", "64", "1e400", "nan", "inf", "true", '""', '"x"', '"64 KiB"', '"64 kB"', '"unbounded"', "[]",
     "{}", "[[]]", '[["big", "pad"]]', '[["pad", "pad"]]', "{ x = 1 }", "{ value = 1 }", "{ value = 8, source = 3 }",
     "{ f32 = 0 }", "{ f32 = 1e300 }", "1979-05-27", '"main"', '"element"', '"core"', '"random"', '"barrier"', "9" * 5000,
     "{ a = \"pad\" }", '{ a = "f32" }', '"big"', "[" * 2000]
)  # fmt: skip


@given(machines(), st.data())
def test_no_file_is_beyond_our_errors(machine: Machine, data: st.DataObject) -> None:
    """A valid file with a few lines lost, doubled, swapped or given another value: our error, or a machine."""
    lines = (machine_text(machine) if data.draw(st.booleans()) else GOOD).split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        match data.draw(st.sampled_from(["lose", "double", "swap", "move", "value", "key", "cut", "any"])):
            case "lose":
                del lines[at : at + 1]
            case "double":
                lines.insert(other, line)
            case "swap":
                lines[at], lines[other] = lines[other], line
            case "move":
                lines.insert(other, lines.pop(at))
            case "value":
                lines[at] = line.partition("=")[0] + "= " + data.draw(TOML)
            case "key":
                lines[at] = lines[other].partition("=")[0] + "=" + line.partition("=")[2]
            case "cut":
                lines[at] = line[: data.draw(st.integers(0, len(line)))]
            case _:
                lines[at] = data.draw(st.text(max_size=12))
        lines = lines or [""]
    text = "\n".join(lines)
    problems = machine_problems(text, "fuzz.toml")
    for problem in problems:
        place = problem.where[0]
        assert problem.code.startswith("machine.") and place.file == "fuzz.toml"
        assert 1 <= place.line <= len(text.splitlines()) + 1
        assert problem.code == "machine.syntax" or "legal: " in str(problem)
    if not problems:
        found = parse_machine(text)
        assert parse_machine(machine_text(found)) == found
