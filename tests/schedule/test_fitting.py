"""What is proposed where buffers do not fit: it is legal, it fits, it can be pasted, and it is small."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.kernels import matmul
from tilewright.hw import CapacityError, Footprint, Machine, footprints, load_machine
from tilewright.schedule.build import build_nest
from tilewright.schedule.fitting import proposals
from tilewright.schedule.live import live_points
from tilewright.schedule.schedule import Schedule


def toy(capacity: int) -> Machine:
    machine = load_machine("toy")
    memories = (dataclasses.replace(m, capacity=capacity) if m.name == "spm" else m for m in machine.memories)
    return dataclasses.replace(machine, memories=tuple(memories))


def staged(machine: Machine, rows: int = 128, columns: int = 128, depth: int = 128, slots: int = 1) -> Schedule:
    """Tiles of all three matrices in the scratchpad."""
    s = matmul.schedule(machine=machine)
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", rows, columns).split("k", "ko", "ki", depth)
    C.reorder("io", "jo", "ko", "ii", "ki", "ji")
    a = s.cache_read("A", at="C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm")
    s.cache_write("C", at="C.update.jo", memory="spm")
    if slots > 1:
        a.double_buffer(slots)
    return s


def refused(s: Schedule) -> CapacityError:
    with pytest.raises(CapacityError) as e:
        s.check()
    return e.value


def pasted(s: Schedule, lines: tuple[str, ...]) -> Schedule:
    """The schedule's text with the proposed lines in the place of those that speak of the same."""
    text, kept = str(s).splitlines(), []
    new = {key(x): x for x in lines if not x.strip().startswith("#") and not x.endswith(":")}
    gone = {key(x.strip().removeprefix("# without ").rpartition(", ")[0]) for x in lines if "# without" in x}
    for line in text:
        if key(line) not in gone:
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(indent + new.pop(key(line)).strip() if key(line) in new else line)
    assert not new
    return tw.parse_schedule("\n".join(kept) + "\n", matmul)


def key(line: str) -> str:
    """What a line speaks of: its kind and operands."""
    return line.split("#")[0].split(" by ")[0].strip()


extents = st.sampled_from([7, 16, 24, 60, 64, 100, 128, 250])


@settings(max_examples=6)
@given(extents, extents, extents, st.sampled_from([1, 2, 3]), st.sampled_from([3000, 16_384, 40_000, 65_536]))
def test_the_first_proposal_fits(rows: int, columns: int, depth: int, slots: int, capacity: int) -> None:
    machine = toy(capacity)
    s = staged(machine, rows, columns, depth, slots)
    try:
        s.check()
        return
    except CapacityError as e:
        error = e
    assert error.proposals, "one by one by one fits"
    for proposal in error.proposals:
        assert proposal.peak <= capacity
        proposal.schedule.check()
    first = error.proposals[0]
    again = pasted(s, first.lines)
    assert again == first.schedule
    matmul.simulate(again, machine=machine, sizes={"M": 9, "N": 10, "K": 11})
    assert all(line in str(error) for line in first.lines)


def test_the_smallest_change_of_a_factor_comes_first(golden) -> None:
    error = refused(staged(toy(65_536), depth=32, slots=2))
    first, second = error.proposals
    assert (
        "tile i, j -> io, jo, ii, ji by 64 128" in str(first) and first.peak == 64 * 128 * 4 + (2 * 64 + 128) * 32 * 4
    )
    assert "by 128 48" in str(second)
    golden(re.sub(r"test_fitting\.py:\d+", "PLACE", "\n".join(str(error).splitlines()[2:])))


def test_a_ring_may_be_what_goes() -> None:
    """Two factors can't be smaller (they are one), so the ring is dropped."""
    machine = toy(2100)
    s = matmul.schedule(machine=machine)
    s["C.update"].split("i", "io", "ii", 1).reorder("io", "j", "k", "ii").split("k", "ko", "ki", 512)
    s.cache_read("A", at="C.update.ko", memory="spm").double_buffer()
    found = refused(s).proposals
    assert any("# without double_buffer A_C" in str(p) for p in found)
    assert any("split k -> ko, ki by 256" in str(p) for p in found)


def test_several_numbers_where_no_single_one_is_enough() -> None:
    error = refused(staged(toy(65_536), slots=2))
    (only,) = error.proposals
    assert "by 64 64" in str(only) and "split k -> ko, ki by 64" in str(only) and "double_buffer" not in str(only)


def test_knobs_change_by_their_choices_and_keep_constraints() -> None:
    s = matmul.schedule(machine=toy(16_384))
    t = s.knob("t", 128, [8, 48, 128])
    s["C.update"].split("i", "io", "ii", t).split("k", "ko", "ki", 64).reorder("io", "ko", "j", "ii", "ki")
    s.cache_read("A", at="C.update.ko", memory="spm")
    found = refused(s).proposals
    assert any("knob t = 48" in str(p) for p in found)
    s.constrain("t >= 100")
    assert not any("knob" in str(p) for p in refused(s).proposals)


def test_lanes_of_vectors_stay_and_what_is_split_further_keeps_its_parts() -> None:
    s = matmul.schedule(machine=toy(8192))
    s["C.update"].split("j", "jo", "ji", 96).split("ji", "jv", "jl", 24).split("k", "ko", "ki", 40)
    s["C.update"].reorder("jo", "ko", "i", "ki", "jv", "jl").vectorize("jl", 8)
    s.cache_read("B", at="C.update.ko", memory="spm")
    found = refused(s).proposals
    found = [str(p) for p in found]
    assert any("split j -> jo, ji by 48" in x for x in found), found  # a multiple of 24
    assert not any("jl by" in x or "vectorize" in x for x in found)


def test_at_the_sizes_of_a_run_what_is_not_constant_counts_too() -> None:
    machine = toy(8192)
    s = matmul.schedule(machine=machine)
    s["C.update"].split("i", "io", "ii", 16).reorder("io", "j", "k", "ii")
    s.cache_read("A", at="C.update.io", memory="spm")
    s.check()  # K is open
    sizes = {"M": 32, "N": 4, "K": 500}
    with pytest.raises(CapacityError) as e:
        matmul.simulate(s, machine=machine, sizes=sizes)
    first = e.value.proposals[0]
    assert "split i -> io, ii by 4" in str(first)
    matmul.simulate(first.schedule, machine=machine, sizes=sizes)


def test_nothing_is_proposed_where_nothing_helps() -> None:
    s = matmul.schedule(machine=toy(1024))
    s.cache_read("A", memory="spm")
    sizes = {"M": 32, "N": 4, "K": 500}
    with pytest.raises(CapacityError) as e:
        matmul.simulate(s, machine=toy(1024), sizes=sizes)
    assert e.value.proposals == ()
    assert "shrink" in str(e.value)


def test_where_the_quick_measure_is_blind_the_other_one_leads() -> None:
    s = staged(toy(1 << 20), 64, 64, 32)

    def taken(t: Schedule) -> Iterable[Footprint]:
        return footprints(toy(20_000), live_points(build_nest(t.state)))

    found = proposals(s, "spm", lambda t: (), taken)
    assert found and found == proposals(s, "spm", taken)


def test_the_default_schedule_is_not_what_changes() -> None:
    s = matmul.schedule(machine=toy(8192))
    s["C.update"].split("k", "ko", "ki", 64).split("j", "jo", "ji", 64).reorder("jo", "ko", "i", "ki", "ji")
    s.cache_read("B", at="C.update.ko", memory="spm")
    with pytest.raises(CapacityError) as e:
        matmul.compile(s)
    lines = [line for p in e.value.proposals for line in p.lines]
    assert any("split k -> ko, ki by 32" in line for line in lines)
    assert all(line.split()[0] in ("C.update:", "split") for line in lines)
    matmul.compile(e.value.proposals[0].schedule)


def test_every_slot_of_a_ring_counts_when_a_schedule_is_checked() -> None:
    staged(toy(3 * 65_536), slots=1).check()
    assert refused(staged(toy(3 * 65_536), slots=2)).footprint.peak == 4 * 65_536
