"""The check of capacities: what is refused, with which table, and whether the proposed changes really fit."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import (
    CapacityError,
    LiveBuffer,
    changes_that_fit,
    check_capacity,
    footprints,
    load_machine,
)
from tilewright.hw.account import Footprint

TOY = load_machine("toy")


def without_place(error: CapacityError) -> str:
    """The text of an error without the file and line that it starts with (they differ from clone to clone)."""
    place, _, text = str(error).partition(": ")
    assert place.rpartition(":")[0].endswith("test_capacity.py")
    return text


def peak(*buffers: LiveBuffer) -> tuple[Footprint, ...]:
    return footprints(TOY, [("C.update.io", buffers)])


def test_what_fits_exactly_is_accepted() -> None:
    check_capacity(TOY, peak(LiveBuffer("A", "spm", 32 * 1024, 2), LiveBuffer("T", "main", 1 << 40)))


def test_one_byte_too_many_is_refused_with_its_table(golden) -> None:
    with pytest.raises(CapacityError) as caught:
        check_capacity(TOY, peak(LiveBuffer("A.spm", "spm", 16 * 1024, 2), LiveBuffer("B.spm", "spm", 32 * 1024 + 1)))
    assert caught.value.code == "capacity.exceeded"
    assert caught.value.footprint.peak == 64 * 1024 + 32
    smallest = caught.value.changes[0]
    assert (smallest.buffer.name, smallest.size, smallest.slots) == ("B.spm", 32 * 1024, 1)
    golden(without_place(caught.value))


def test_fewer_slots_may_be_the_change(golden) -> None:
    with pytest.raises(CapacityError) as caught:
        check_capacity(TOY, peak(LiveBuffer("A.spm", "spm", 20 * 1024, 3), LiveBuffer("B.spm", "spm", 16 * 1024)))
    assert any(change.slots == 2 and change.size == 20 * 1024 for change in caught.value.changes)
    golden(without_place(caught.value))


def test_no_single_change_is_enough(golden) -> None:
    with pytest.raises(CapacityError) as caught:
        check_capacity(TOY, peak(LiveBuffer("A.spm", "spm", 70_000), LiveBuffer("B.spm", "spm", 70_000)))
    assert caught.value.changes == ()
    golden(without_place(caught.value))


buffers = st.lists(
    st.builds(LiveBuffer, st.just("b"), st.just("spm"), st.integers(0, 80_000), st.integers(1, 4), st.integers(1, 4)),
    min_size=1,
    max_size=4,
).map(lambda found: [dataclasses.replace(buffer, name=f"b{index}") for index, buffer in enumerate(found)])


@given(buffers)
def test_every_change_fits_and_none_could_be_smaller(live: list[LiveBuffer]) -> None:
    (footprint,) = peak(*live)
    assert footprint.capacity is not None
    changes = changes_that_fit(footprint)
    if footprint.peak <= footprint.capacity:
        check_capacity(TOY, [footprint])
        assert changes == ()
        return
    with pytest.raises(CapacityError):
        check_capacity(TOY, [footprint])
    for change in changes:

        def after(size: int, slots: int, name: str = change.buffer.name) -> int:
            changed = [dataclasses.replace(b, size=size, slots=slots) if b.name == name else b for b in live]
            return peak(*changed)[0].peak

        assert after(change.size, change.slots) <= footprint.capacity
        if change.slots == change.buffer.slots:
            assert after(change.size + 1, change.slots) > footprint.capacity
        else:
            assert after(change.size, change.slots + 1) > footprint.capacity
