"""Accounts as Hypothesis makes them: every field filled, names that need escaping included."""

from __future__ import annotations

from hypothesis import strategies as st

from tilewright.hw import (
    Account,
    CopyStream,
    Footprint,
    Interval,
    Line,
    LiveBuffer,
    Region,
    Stall,
    Tensor,
    Time,
    Traffic,
    Use,
    load_machine,
)
from tilewright.hw.cache_counts import CacheCounts, Level
from tilewright.hw.timing import CAUSES

TOY = load_machine("toy")
MEMORIES = tuple(m.name for m in TOY.memories)
counts = st.integers(0, 1 << 50)
cycles = st.integers(0, 1 << 50).map(lambda ticks: ticks / 1024)
words = st.text(min_size=1, max_size=8) | st.sampled_from(["A", "C.update", "<b>&'\"", "a|b", "\x7f\\\n", "日本"])
memories = st.sampled_from(MEMORIES)


def _many(of: st.SearchStrategy, most: int = 3) -> st.SearchStrategy[tuple]:
    return st.lists(of, max_size=most).map(tuple)


def _table(keys: st.SearchStrategy, values: st.SearchStrategy) -> st.SearchStrategy[dict]:
    return st.dictionaries(keys, values, max_size=3)


traffic = st.builds(Traffic, memories, words, *[counts] * 8, of=words)
copies = st.builds(CopyStream, words, words, memories, memories, words, *[counts] * 7, reason=st.just("") | words)
live = st.builds(LiveBuffer, words, memories, st.integers(0, 1 << 20), st.integers(1, 4), st.integers(1, 8),
                 st.none() | st.integers(0, 1 << 20))  # fmt: skip
prints = st.builds(Footprint, memories, counts, st.none() | st.integers(1, 1 << 40), st.sampled_from([1, 8, 64]), words,
                   _many(live), st.none() | counts)  # fmt: skip
regions = st.builds(Region, words, st.sampled_from(["compute", "copy"]), _table(st.sampled_from(["f32", "i8"]), counts),
                    _table(words, cycles), _table(memories, counts), _table(memories, counts))  # fmt: skip
levels = st.builds(Level, words, _table(words, st.builds(CacheCounts, *[counts] * 9)))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    start, length = draw(cycles), draw(cycles)
    track = draw(st.sampled_from(["compute", "wait", "dma.0", "dma.1", *(f"memory.{m}" for m in MEMORIES)]))
    cause = draw(st.sampled_from(CAUSES)) if track == "wait" else ""
    return Interval(track, draw(words), start, start + length, cause, draw(st.integers(0, 1 << 30)))


stalls = st.builds(Stall, st.sampled_from(CAUSES), words, st.just("") | words, cycles)
lines = st.builds(Line, st.sampled_from(["loop", "copy", "compute", "buffer"]), st.integers(0, 5), words, words, counts,
                  counts, counts, cycles, _table(st.sampled_from(CAUSES), cycles), cycles, _table(memories, counts),
                  words)  # fmt: skip
uses = st.builds(Use, st.sampled_from(["ops", "dma.0", "tcdm.read"]) | words, cycles)


@st.composite
def times(draw: st.DrawFn) -> Time:
    busy, waited = draw(cycles), draw(_many(stalls))
    return Time(
        busy + sum(s.cycles for s in waited), busy, draw(st.sampled_from(["decoupled", "barrier"])), draw(cycles),
        waited, draw(_many(uses)), draw(_many(lines)), draw(_many(intervals(), 6)),
    )  # fmt: skip


def accounts() -> st.SearchStrategy[Account]:
    tensors = st.builds(Tensor, words, counts, counts)
    return st.builds(
        Account, words, st.just(TOY.name), _table(words, counts), _many(traffic, 4), _many(prints), _many(copies),
        _table(st.sampled_from(["f32", "i8"]), counts), _many(regions), _many(tensors), _many(levels), st.none() | times(),
        _table(memories, cycles), st.sampled_from(["execution", "skeleton"]), _many(words),
    )  # fmt: skip
