"""The probe: its kernels compute what they should, its figures are consistent, its machine is one; nothing about speed."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.codegen import jit, target
from tilewright.codegen.data_caches import CacheSize, data_caches, processor_name
from tilewright.codegen.probe import LevelFigures, Probe, kernels, measure, probe
from tilewright.hw import MachineError, parse_machine
from tilewright.hw.writing import commented_text
from tilewright.schedule.registers import Registers, host_registers

WIDTH = host_registers().width
WIDTHS = sorted({32, WIDTH})
P, N = ctypes.c_void_p, ctypes.c_int64


def call(text: str, name: str, result: object, *arguments: object) -> object:
    """A kernel's result."""
    library = jit.load(target.optimize_and_emit(text, "none"), (name,)).pin()
    types = [N if isinstance(a, int) else P for a in arguments]
    given = [a if isinstance(a, int) else a.ctypes.data for a in arguments]
    return ctypes.CFUNCTYPE(result, *types)(library.address(name))(*given)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("turns", [1, 3])
def test_the_streams_do_what_they_say(turns: int, width: int) -> None:
    size = kernels.UNROLL * width
    a, b, c = (measure.aligned(turns * size + size) for _ in range(3))
    rng = np.random.default_rng(turns)
    b.view(np.float64)[:] = rng.integers(-9, 9, len(b) // 8)
    c.view(np.float64)[:] = rng.integers(-9, 9, len(b) // 8)
    a[:] = 7
    sink = measure.aligned(size)
    end = turns * size
    text = kernels.streams(width)
    call(text, kernels.symbol("copy"), None, a, b, c, end, 2, sink)
    assert (a[:end] == b[:end]).all() and (a[end:] == 7).all()
    call(text, kernels.symbol("triad"), None, a, b, c, end, 1, sink)
    assert (a.view(np.float64)[: end // 8] == (b.view(np.float64) + 3 * c.view(np.float64))[: end // 8]).all()
    assert (a[end:] == 7).all()
    call(text, kernels.symbol("read"), None, a, b, c, end, 2, sink)
    words = b[:end].view(np.uint64).reshape(turns, -1)
    assert (sink.view(np.uint64) == 2 * words.sum(axis=0)).all()


def test_the_chase_goes_from_line_to_line() -> None:
    nodes = np.arange(8, dtype=np.uint64)
    places = nodes.ctypes.data + 8 * np.roll(np.arange(8), -3).astype(np.uint64)
    nodes[:] = places
    ended = call(kernels.chase(), kernels.symbol("chase"), P, nodes, 3)
    assert ended == nodes.ctypes.data + 8 * (3 * 3 * kernels.HOPS % 8)
    at = 0
    for _ in range(3 * kernels.HOPS):
        at = (at + 3) % 8
    assert ended == nodes.ctypes.data + 8 * at


def test_a_chase_visits_every_line_once_around() -> None:
    memory = measure.aligned(1 << 14)
    measure.latency(memory, 1 << 14, 64, 0.001)
    at, seen = memory.ctypes.data, set()
    for _ in range((1 << 14) // 64):
        seen.add(at)
        at = int(memory[at - memory.ctypes.data :][:8].view(np.uint64)[0])
    assert at == memory.ctypes.data
    assert seen == {memory.ctypes.data + 64 * i for i in range(256)}


def test_the_clock_is_a_chain() -> None:
    x = 0
    for _ in range(2 * kernels.CHAIN):
        x = (x + 3) ^ 5
    assert call(kernels.clock(), kernels.symbol("clock"), N, 3, 5, 2) == x


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("type_", kernels.TYPES)
def test_arithmetic_is_that_of_the_type(type_: str, width: int) -> None:
    """s = s x + y, three times, from s = x."""
    dtype = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2"}.get(type_, "i" + str(kernels.TYPES[type_][1]))
    pair = measure.aligned(2 * width)
    values = (0x3F40, 0x3E80) if type_ == "bf16" else (0.75, 0.25) if type_[0] == "f" else (3, 1)
    pair[:width].view(dtype)[:], pair[width:].view(dtype)[:] = values
    if type_ == "f16" and not measure._converts_halves():
        pytest.skip("this processor has no conversions from and to f16")
    sink = measure.aligned(kernels.ACCUMULATORS * width)
    call(kernels.arithmetic(type_, width), kernels.symbol("peak", type_), None, pair, 3, sink)
    if type_[0] == "i":
        expected = int(np.array(3 * 27 + 9 + 3 + 1).astype(dtype))
    else:
        import ml_dtypes

        kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}.get(type_, np.float64)
        s = 0.75
        for _ in range(3):
            s = float(kind(s * 0.75 + 0.25))
        expected = int(kind(s).view(np.uint16)) if type_ == "bf16" else s
    n = kernels.lanes(type_, width)
    size = np.dtype(dtype).itemsize
    for k in range(kernels.ACCUMULATORS):
        assert (sink[k * width :][: n * size].view(dtype) == expected).all()


def test_a_short_probe_is_consistent() -> None:
    found = probe(0.15)
    assert found.clock > 1e8
    assert all(rate > 0 for rate in found.rates.values()) and {"f32", "f64", "i8"} <= set(found.rates)
    assert found.levels[-1].cache is None
    for level in found.levels:
        assert min(level.read, level.copy, level.triad, level.latency) > 0
        assert level.cache is None or level.walked <= level.cache.size
    machine = found.machine
    assert machine.compute.vector_bytes == WIDTH and machine.memory("reg").capacity == WIDTH * host_registers().count
    assert len(machine.caches) == len(found.levels) - 1
    origin = machine.origin("memory.dram.read_bandwidth")
    assert origin.confidence == "measured" and found.date in origin.source and found.processor in origin.source
    assert parse_machine(commented_text(machine, found.heading)) == machine
    assert json.loads(json.dumps(found.as_json()))["clock"] == found.clock
    for level, cache in itertools.zip_longest(found.levels[:-1], machine.caches):
        assert (level.cache.size, level.cache.line, level.cache.ways) == (cache.size, cache.line, cache.ways)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "2"])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(MachineError, match="number of seconds above 0") as caught:
        probe(seconds)
    assert caught.value.code == "machine.probe" and caught.value.where[0].file == __file__


def made_up(*levels: LevelFigures) -> Probe:
    return Probe("A Processor @ 2 GHz", "2026-01-02", 2e9, levels, {"f64": 32e9, "f32": 64e9}, Registers(32, 16))


def test_figures_become_cycles(golden) -> None:
    found = made_up(
        LevelFigures("L1", CacheSize(1, 32768, 64, 8), 16384, 128e9, 96e9, 100e9, 2e-9),
        LevelFigures("dram", None, 1 << 26, 10e9, 12e9, 11e9, 90e-9),
    )
    machine = found.machine
    assert (machine.clock_ghz, machine.compute.ops) == (2, {"f64": 16, "f32": 32})
    assert (machine.main.read_bandwidth, machine.main.write_bandwidth, machine.main.latency) == (5, 3, 180)
    assert (machine.caches[0].bandwidth, machine.caches[0].latency) == (64, 4)
    assert machine.memory("reg").read_bandwidth == 2 * 3 * 32
    golden(str(found), "probe")
    golden(commented_text(machine, found.heading), "machine")


def test_without_caches_there_is_still_a_machine() -> None:
    machine = made_up(LevelFigures("dram", None, 1 << 26, 10e9, 12e9, 11e9, 90e-9)).machine
    assert machine.caches == () and machine.main.burst == 64


def system(folder: Path, *caches: tuple[str, str, str, str, str]) -> Path:
    for i, cache in enumerate(caches):
        place = folder / "cpu0" / "cache" / f"index{i}"
        place.mkdir(parents=True)
        for name, value in zip(
            ("level", "type", "size", "coherency_line_size", "ways_of_associativity"), cache, strict=True
        ):
            if value:
                (place / name).write_text(value + "\n")
    return folder


def test_caches_as_the_system_gives_them(tmp_path: Path) -> None:
    found = data_caches(
        0,
        system(
            tmp_path, ("2", "Unified", "1024K", "64", "8"), ("1", "Data", "32K", "64", "8"),
            ("1", "Instruction", "64K", "64", "8"), ("3", "Unified", "33M", "64", "11"),
        ),
    )  # fmt: skip
    assert found == [CacheSize(1, 32768, 64, 8), CacheSize(2, 1 << 20, 64, 8), CacheSize(3, 33 << 20, 64, 11)]


@pytest.mark.parametrize(
    ("cache", "ways"),
    [
        (("1", "Data", "32K", "64", "0"), 16), (("1", "Data", "48K", "64", "11"), 8), (("1", "Data", "1K", "64", "99"), 16),
        (("1", "Data", "", "64", "8"), None), (("1", "Data", "32X", "64", "8"), None),
        (("1", "Data", "32K", "48", "8"), None),
        (("1", "Data", "0K", "64", "8"), None), (("one", "Data", "32K", "64", "8"), None),
    ],
)  # fmt: skip
def test_nonsense_of_a_system_is_made_sensible_or_left_out(
    tmp_path: Path, cache: tuple[str, ...], ways: int | None
) -> None:
    found = data_caches(0, system(tmp_path, cache))
    assert [c.ways for c in found] == ([] if ways is None else [ways])
    assert all(c.size % (c.line * c.ways) == 0 for c in found)


def test_levels_that_shrink_are_left_out(tmp_path: Path) -> None:
    found = data_caches(0, system(tmp_path, ("1", "Data", "64K", "64", "8"), ("2", "Unified", "32K", "64", "8")))
    assert [c.level for c in found] == [1]
    assert data_caches(7, tmp_path) == []


def test_the_name_of_the_processor(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz  \nflags: x\n")
    assert processor_name(info) == "Some CPU @ 3 GHz"
    assert processor_name(tmp_path / "none")


def test_the_best_sample_counts() -> None:
    """Repetitions grow until a sample is long enough; a kernel that does nothing ends too."""
    asked: list[int] = []
    assert measure.best(asked.append, 0.001) >= 0
    assert asked[0] == 1 and len(asked) >= 3 and max(asked) == asked[-1]


def test_a_probe_is_a_value() -> None:
    one = made_up(LevelFigures("dram", None, 1 << 26, 10e9, 12e9, 11e9, 90e-9))
    assert dataclasses.replace(one) == one
