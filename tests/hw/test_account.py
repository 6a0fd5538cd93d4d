"""The account of a run: footprints, totals, JSON and the text that a person reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import Account, LiveBuffer, Traffic, footprints, load_machine

ROWS = (
    Traffic("dram", "A", reads=2_097_152, bytes_read=8_388_608),
    Traffic("dram", "B", reads=2_097_152, bytes_read=8_388_608),
    Traffic("dram", "C", writes=262_144, bytes_written=1_048_576),
    Traffic("spm", "A.spm", reads=134_217_728, writes=2_097_152, bytes_read=536_870_912, bytes_written=8_388_608),
)
POINTS = [
    ("C.update.io", [LiveBuffer("A.spm", "spm", 16_384, 2)]),
    ("C.update.k", [LiveBuffer("A.spm", "spm", 16_384, 2), LiveBuffer("B.spm", "spm", 4_100)]),
    ("C.update.ji", [LiveBuffer("A.spm", "spm", 16_384, 2), LiveBuffer("C.reg", "reg", 384)]),
]


def account() -> Account:
    toy = load_machine("toy")
    return Account("matmul", toy.name, {"M": 512, "N": 512, "K": 512}, ROWS, footprints(toy, POINTS))


def test_the_peak_is_where_most_is_alive_counting_alignment_and_slots() -> None:
    spm, reg = footprints(load_machine("toy"), POINTS)
    assert (spm.memory, spm.peak, spm.where) == ("spm", 2 * 16_384 + 4_128, "C.update.k")
    assert [buffer.name for buffer in spm.buffers] == ["A.spm", "B.spm"]
    assert (reg.memory, reg.peak, reg.capacity) == ("reg", 384, 1024)


def test_main_goes_by_the_name_that_the_machine_gives_it() -> None:
    (main,) = footprints(load_machine("toy"), [("", [LiveBuffer("tmp", "main", 1)])])
    assert (main.memory, main.peak, main.capacity) == ("dram", 64, None)


def test_nothing_alive_is_no_footprint() -> None:
    assert footprints(load_machine("toy"), [("start", [])]) == ()


def test_totals() -> None:
    assert account().of("dram").bytes_read == 2 * 8_388_608
    assert account().of("dram", "C") == ROWS[2]
    assert account().of("dram", "none") == Traffic("dram", "none")


def test_the_text(golden) -> None:
    golden(str(account()))


def test_the_json(golden) -> None:
    golden(account().to_json())


counts = st.integers(0, 1 << 50)
words = st.text(min_size=1, max_size=8)
live = st.builds(LiveBuffer, words, st.sampled_from(["main", "spm", "reg"]), st.integers(0, 1 << 20), st.integers(1, 4))


@given(
    st.lists(st.builds(Traffic, words, words, counts, counts, counts, counts)),
    st.lists(st.tuples(words, st.lists(live, max_size=4)), max_size=4),
    st.dictionaries(words, counts),
)
def test_json_gives_the_account_back(rows, points, sizes) -> None:
    toy = load_machine("toy")
    account = Account("kernel", toy.name, sizes, tuple(rows), footprints(toy, points))
    assert Account.from_json(account.to_json()) == account


@given(st.lists(st.tuples(words, st.lists(live, max_size=4)), max_size=4))
def test_peaks_are_the_largest_sums(points) -> None:
    toy = load_machine("toy")
    found = {footprint.memory: footprint.peak for footprint in footprints(toy, points)}
    for memory in toy.memories:
        sums = [
            sum(memory.aligned(b.size) * b.slots for b in buffers if toy.memory(b.memory) is memory)
            for _, buffers in points
        ]
        assert found.get(memory.name, 0) == max(sums, default=0)
