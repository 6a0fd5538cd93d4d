"""Records that are made up: of one kernel, of given keys, and by Hypothesis."""

from __future__ import annotations

import string
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.kernels import matmul
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.records import Key, Record, key_of
from tilewright.autotune.records.record import CACHES, STAGES, STATUSES

HERE = Fingerprint("Some CPU", ("avx2", "fma"), (32768, 1 << 20), 2)
OTHER = Fingerprint("Other CPU", ("avx2",), (32768, 1 << 21), 2)
KEY = key_of(matmul.pipeline(), fingerprint=HERE)
SIZES = {"M": 24, "N": 64, "K": 64}
DAY = "2026-01-02T03:04:05Z"


def text(rows: int = 4) -> str:
    """A schedule of `matmul`."""
    return f"schedule matmul\n  C.update:\n    split i -> io, ii by {rows}\n    reorder io k ii j"


def record(figure: float | None = 1e-3, key: Key = KEY, rows: int = 4, **more: Any) -> Record:
    """A record of `matmul`; one that failed where there is no figure."""
    status = {} if figure is not None else {"status": "crash", "message": "SIGSEGV"}
    given = {"sizes": SIZES, "schedule": text(rows), "figure": figure, "when": DAY, **status, **more}
    return Record(key, **given)


def at(bucket: str, **more: Any) -> Key:
    return replace(KEY, bucket=bucket, **more)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text(string.ascii_letters, min_size=1, max_size=3)
FIGURES = st.floats(0, 1e300, allow_nan=False)
KEYS = st.builds(
    replace, st.just(KEY), bucket=st.sampled_from(["", "M=1..16", "M=17..24", 'M="x\n"']),
    objective=st.sampled_from(["time", "cycles"]), machine=WORDS, threads=st.integers(0, 4), code=st.sampled_from("ab"),
)  # fmt: skip
VALUES = st.one_of(st.booleans(), st.integers(), WORDS, st.lists(st.one_of(st.integers(), WORDS)).map(tuple))


@st.composite
def records(draw: st.DrawFn, keys: st.SearchStrategy[Key] = KEYS) -> Record:
    """Any record that there may be."""
    status = draw(st.sampled_from([*STATUSES, "ok", "ok", "ok"]))
    return Record(
        draw(keys), draw(st.dictionaries(NAMES, st.integers(0, 1 << 40), max_size=3)), draw(WORDS), status,
        draw(FIGURES) if status == "ok" else None, draw(st.sampled_from(["s", "cycles"])),
        tuple(draw(st.lists(FIGURES, max_size=3))), draw(st.none() | FIGURES), draw(st.none() | FIGURES),
        draw(st.sampled_from(CACHES)), draw(st.sampled_from([DAY, "2025-12-31T00:00:00Z", ""])),
        draw(st.sampled_from(STAGES)), draw(WORDS), draw(WORDS), draw(st.dictionaries(NAMES, VALUES, max_size=3)),
    )  # fmt: skip
