"""A dispatch computes what its kernel computes, with the schedule of the right bucket, and says which and why."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.autotune.buckets import Bucket
from tilewright.autotune.dispatch import Dispatch
from tilewright.autotune.errors import RecordError, TuneError
from tilewright.autotune.frozen import entry_of, frozen
from tilewright.autotune.records import Record, Records, key_of
from tilewright.autotune.records.record import OBJECTIVES
from tilewright.hw import load_machine
from tilewright.lang.errors import ArgumentError, ParseError

M, N, K = tw.sizes("M N K")
T = tw.dtype_var("T", tw.f32, tw.f64)


@tw.kernel
def product(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j, k = *tw.vars("i j"), tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def scaled(x: T[N], *, times: int = 2):
    v = tw.vars("v")
    y = tw.func("y")
    y[v] = x[v] * times
    return y[:N]


def rows(height: int):
    """A schedule that can be told by its height of tiles."""
    s = product.schedule()
    s["C.update"].split("i", "io", "ii", height).vectorize("j", 8)
    return s


SMALL, LARGE = rows(2), rows(4)
TWO = {"M=1..4": SMALL, "M=5..64": LARGE}


def inputs(m: int, k: int = 5, n: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m)
    return rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (k, n)).astype(np.float32)


@pytest.fixture(scope="module")
def d() -> Dispatch:
    return tw.dispatch(product, TWO)


def schedule_of(d: Dispatch, **sizes: int) -> str:
    found = d.explain(sizes=sizes)
    return "default" if found.schedule is None else found.schedule.hash


# Calls --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 4, 5, 37, 64, 100])
def test_calls_of_all_kinds_compute_the_kernel(d: Dispatch, m: int) -> None:
    a, b = inputs(m)
    expected = a @ b
    out = np.zeros_like(expected)
    assert d(a, b, out=out) is out and np.array_equal(out, expected)
    wide = np.zeros((m, 10), np.float32)
    wide[:, ::2] = a
    for found in (
        d(a, b), d(A=a, B=b), d(a, B=b), d(B=b, A=a), d(wide[:, ::2], np.asfortranarray(b)), d(a, b, threads=2),
        d(a, b, sizes={"M": m}), d(memoryview(a), b),
    ):  # fmt: skip
        assert np.array_equal(found, expected)


def test_the_bucket_of_the_sizes_decides(d: Dispatch) -> None:
    assert schedule_of(d, M=4, K=1, N=1) == SMALL.hash and schedule_of(d, M=5, K=9, N=9) == LARGE.hash
    assert d.kernel(d.entry({"M": 4})) is not d.kernel(d.entry({"M": 5}))
    for m in (4, 5):
        d(*inputs(m))
        assert d._table[m] is d.kernel(d.entry({"M": m}))


def test_wrong_calls_are_refused_as_the_kernel_refuses_them(d: Dispatch) -> None:
    a, b = inputs(3)
    wrong = [((), {}), ((a,), {}), ((a, b, b), {}), ((a, b), {"C": b}), ((a, b[:-1]), {}), ((a.astype(np.float64), b), {}),
             ((5, b), {}), ((a[0], b), {}), ((a, b), {"threads": 0}), (([1.0], b), {})]  # fmt: skip
    kernel = product.compile(SMALL)
    for args, kwargs in wrong:
        with pytest.raises(ArgumentError) as ours:
            d(*args, **kwargs)
        with pytest.raises(ArgumentError) as theirs:
            kernel(*args, **kwargs)
        assert (ours.value.code, ours.value.message) == (theirs.value.code, theirs.value.message)
        assert ours.value.__context__ is None  # nothing of ours in the traceback


def test_several_axes_decide_and_axes_that_no_bucket_names_do_not() -> None:
    four = {"M=1..8,N=1..8": rows(1), "M=9..99,N=1..8": rows(2), "M=1..8,N=9..99": rows(3), "M=9..99,N=9..99": rows(4)}
    d = tw.dispatch(product, four)
    for m, n, text in (
        (3, 3, "M=1..8,N=1..8"),
        (9, 3, "M=9..99,N=1..8"),
        (3, 9, "M=1..8,N=9..99"),
        (99, 98, "M=9..99,N=9..99"),
    ):
        for k in (1, 6):
            a, b = inputs(m, k, n)
            assert np.array_equal(d(a, b), a @ b) and np.array_equal(d(B=b, A=a), a @ b)
            assert str(d.explain(a, b).bucket) == text
    assert len(d._table) == 8


def test_sizes_that_no_plain_extent_says() -> None:
    p = tw.Pipeline("padded", x=tw.f32[N + 2])
    v = tw.vars("v")
    f = tw.func("f")
    f[v] = p.x[v] + p.x[v + 2]
    kernel = p.returns(f[:N])
    d = tw.dispatch(kernel, {"N=1..4": kernel.schedule(), "N=5..9": kernel.schedule()})
    x = np.arange(9, dtype=np.float32)
    assert np.array_equal(d(x), x[:-2] + x[2:]) and np.array_equal(d(x=x[:4]), x[:2] + x[2:4])
    assert str(d.explain(x).bucket) == "N=5..9" and str(d.explain(x=x[:4]).bucket) == "N=1..4"


def test_sizes_that_only_the_call_says() -> None:
    p = tw.Pipeline("ramp", a=tw.f32)
    v = tw.vars("v")
    f = tw.func("f")
    f[v] = p.a + tw.cast(tw.f32, v)
    kernel = p.returns(f[:N])
    d = tw.dispatch(kernel, {"N=1..4": kernel.schedule(), "N=5..99": kernel.schedule()})
    out = np.zeros(7, np.float32)
    assert np.array_equal(d(2.0, sizes={"N": 3}), [2, 3, 4]) and d(1.0, out=out) is out and out[-1] == 7
    assert str(d.explain(2.0, out=out).bucket) == "N=5..99" and str(d.explain(2.0, sizes={"N": 3}).bucket) == "N=1..4"


def test_dicts_and_lists_of_arguments() -> None:
    p = tw.Pipeline("layer", w={"up": tw.f32[N, K], "rest": [tw.f32[N]]}, x=tw.f32[K])
    v, k = tw.vars("v"), tw.rdom(k=K)
    f = tw.func("f")
    f[v] = p.w["rest"][0][v]
    f[v] += p.w["up"][v, k] * p.x[k]
    kernel = p.returns(f[:N])
    d = tw.dispatch(kernel, {"N=1..4": kernel.schedule(), "N=5..99": kernel.schedule()})
    for n in (3, 8):
        up, rest, x = (np.arange(s, dtype=np.float32) for s in (n * 5, n, 5))
        w = {"up": up.reshape(n, 5), "rest": [rest]}
        expected = w["up"] @ x + rest
        assert np.array_equal(d(w, x), expected) and np.array_equal(d(x=x, w=w), expected)
        assert np.array_equal(d(w_up=w["up"], w_rest_0=rest, x=x), expected)
        assert str(d.explain(w, x).bucket) == ("N=1..4" if n == 3 else "N=5..99")


def test_packed_inputs() -> None:
    s = rows(4)
    s.layout("B", "k j -> j//8 k j%8")
    d = tw.dispatch(product, {"M=1..4": s, "M=5..64": s})
    a, b = inputs(6)
    packed = d.kernel(d.entry({"M": 6})).prepack("B", b)
    for m in (6, 3):
        assert np.array_equal(d(a[:m], packed), a[:m] @ b) and np.array_equal(d(a[:m], B=packed), a[:m] @ b)
    assert str(d.explain(a, packed).bucket) == "M=5..64"


def test_types_and_static_values_are_those_of_the_call() -> None:
    d = tw.dispatch(scaled, {"N=1..4": scaled.schedule(dtypes={"T": tw.f32})})
    for t in (np.float32, np.float64):
        x = np.arange(4, dtype=t)
        assert np.array_equal(d(x), x * 2) and np.array_equal(d(x, times=5), x * 5) and d(x).dtype == t
    assert d.explain(np.ones(3, np.float32)).schedule is not None
    assert d.explain(np.ones(3), times=2).schedule is None
    assert "another algorithm" in d.report()
    one = tw.dispatch(scaled, {}, dtypes={"T": tw.f64}, statics={"times": 7})
    assert np.array_equal(one(np.ones(3)), [7, 7, 7])
    with pytest.raises(ArgumentError):
        d(np.ones(3, ml_dtypes.bfloat16))


def test_many_threads_compile_a_kernel_once() -> None:
    d = tw.dispatch(product, TWO)
    made, begun, compiled = [], threading.Barrier(6), d._compile
    d._compile = lambda entry: made.append(entry) or compiled(entry)
    wrong = []

    def run(n: int) -> None:
        begun.wait()
        for m in (n % 2 * 8 + 1, n, 9):
            a, b = inputs(max(m, 1))
            if not np.array_equal(d(a, b), a @ b):
                wrong.append(m)

    workers = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong and len(made) == 2


def test_many_sizes_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.autotune.dispatch._MANY", 5)
    d = tw.dispatch(product, TWO)
    for m in range(1, 20):
        d(*inputs(m))
        assert len(d._table) <= 5


# What stands in -----------------------------------------------------------------------------------------------------


def test_sizes_outside_of_all_buckets_get_the_nearest_one(d: Dispatch) -> None:
    found = d.explain(sizes={"M": 1000, "N": 1, "K": 1})
    assert found.schedule == LARGE and not found.inside and "the nearest one is M=5..64" in str(found)


def test_a_report_has_buckets_by_their_sizes() -> None:
    found = tw.dispatch(product, {"M=10": SMALL, "M=2": LARGE, "M=11..200": SMALL, "M=1": SMALL})
    assert [line.split()[0] for line in found.report().splitlines()[1:]] == ["M=1", "M=2", "M=10", "M=11..200"]


def test_caches_that_no_record_could_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError) as e:
        tw.dispatch(product, records_of(tmp_path), cache="warm")
    assert e.value.code == "records.cache"
    assert e.value.hint == "hot or cold"


def test_without_schedules_the_default_one_is_used() -> None:
    d = tw.dispatch(product, {})
    a, b = inputs(3)
    assert np.array_equal(d(a, b), a @ b)
    found = d.explain(a, b)
    assert found.schedule is None and found.bucket is None and found.compiled
    assert "no schedule for any bucket" in str(found) and "the default schedule" in d.report()


def test_a_schedule_that_asks_more_of_the_sizes_than_they_are_gives_way() -> None:
    s = rows(2)
    s["C"].bound("i", 0, 4)
    d = tw.dispatch(product, {"M=1..8": s, "M=9..64": LARGE})
    for m in (4, 5, 5, 9):
        a, b = inputs(m)
        assert np.array_equal(d(a, b), a @ b) and np.array_equal(d(A=a, B=b), a @ b)
    assert d.explain(*inputs(4)).schedule == s
    found = d.explain(*inputs(5))
    assert found.schedule is None and "does not take these sizes" in found.why


def test_a_schedule_that_can_not_be_compiled_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.codegen import compile as module
    from tilewright.lang.errors import CompileError

    d = tw.dispatch(product, TWO)
    original = module.compile_schedule

    def failing(p, schedule, *more):
        if schedule is not None and schedule.hash == SMALL.hash:
            raise CompileError("it is too large")
        return original(p, schedule, *more)

    monkeypatch.setattr(module, "compile_schedule", failing)
    a, b = inputs(2)
    assert np.array_equal(d(a, b), a @ b)
    assert d.explain(a, b).schedule is None and "it is too large" in d.explain(a, b).why
    assert "can't be compiled" in d.report()


def test_what_is_illegal_or_of_another_kernel_is_left_out_and_told() -> None:
    text = str(SMALL).replace("split i", "split nowhere")
    given = tw.parse_schedule("schedule product\n  C.update:\n    vectorize j by 8\n", product)
    laid = product.schedule()
    laid.layout("B", "k j -> j k", given=True)
    d = tw.dispatch(product, {"M=1..4": text, "M=5..9": given, "M=10..20": laid})
    assert [x.bucket for x in d.left] == ["M=1..4", "M=10..20"] and len(d.entries) == 1
    assert "nowhere" in d.explain(sizes={"M": 2, "N": 1, "K": 1}).why
    assert "nowhere" not in d.explain(sizes={"M": 7, "N": 1, "K": 1}).why
    assert "left out M=1..4" in d.report() and "a layout of its own" in d.report()


# Sources ------------------------------------------------------------------------------------------------------------


def records_of(tmp_path: Path) -> Records:
    records = Records(tmp_path / "r.db")
    p = product.pipeline()
    for text, s, figure in (("M=1..4", SMALL, 2e-6), ("M=1..4", LARGE, 3e-6), ("M=5..64", LARGE, 4e-6)):
        key = key_of(p, bucket=f"{text},N=7,K=5")
        records.add(Record(key, {"M": 3 if s is SMALL else 4, "K": 5, "N": 7}, str(s), figure=figure))
    return records


def test_records_and_files_of_them(tmp_path: Path) -> None:
    records = records_of(tmp_path)
    entries = [entry_of("M=1..4,N=7,K=5", SMALL), entry_of("M=5..64,N=7,K=5", LARGE)]
    path = tmp_path / "product.tw"
    frozen(entries).write(path)
    for source in (records, tmp_path / "r.db", str(path), frozen(entries)):
        d = tw.dispatch(product, source)
        a, b = inputs(3)
        assert np.array_equal(d(a, b), a @ b)
        found = d.explain(a, b)
        assert found.schedule == SMALL and found.inside
        assert schedule_of(d, M=9, K=5, N=7) == LARGE.hash
    told = str(tw.dispatch(product, records).explain(a, b))
    assert "record " in told and "2 us at M=3, K=5, N=7" in told
    assert f"{path}:" in tw.dispatch(product, path).report()


def test_records_of_other_objectives_do_not_count(tmp_path: Path) -> None:
    d = tw.dispatch(product, records_of(tmp_path), objective="cycles", machine="snitch-cluster")
    assert not d.entries


@pytest.mark.parametrize("objective", ["cycles", "bytes", "energy"])
def test_records_of_a_simulated_machine(tmp_path: Path, objective: str) -> None:
    records, machine = records_of(tmp_path), load_machine("snitch-cluster")
    key = key_of(product.pipeline(), bucket="M=1..64", objective=objective, machine=machine)
    records.add(Record(key, {"M": 4, "K": 5, "N": 7}, str(rows(3)), figure=1234.0, unit=OBJECTIVES[objective]))
    d = tw.dispatch(product, records, objective=objective, machine="snitch-cluster")
    a, b = inputs(3)
    assert np.array_equal(d(a, b), a @ b)
    assert d.explain(a, b).schedule == rows(3) and len(d.entries) == 1 and "1,234" in d.report()
    assert tw.dispatch(product, records).explain(a, b).schedule == SMALL


def test_a_record_that_is_illegal_is_left_out(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.db")
    key = key_of(product.pipeline(), bucket="M=1..4,N=7,K=5")
    records.add(Record(key, {"M": 4, "K": 5, "N": 7}, str(SMALL).replace("split i", "split nowhere"), figure=1.0))
    d = tw.dispatch(product, records)
    assert not d.entries and "nowhere" in d.left[0].why
    a, b = inputs(3)
    assert np.array_equal(d(a, b), a @ b)


@pytest.mark.parametrize(
    "bucket", ["M=zz", "M=4..1,N=7,K=5", f"M={'9' * 5000}", "Q=3", "M = 5..64, N=7,K=5", "K=5,M=5..64,N=7", "[" * 3000]
)
@pytest.mark.parametrize("fingerprint", ["", "[" * 100_000])
def test_records_with_odd_keys_change_nothing_for_others(tmp_path: Path, bucket: str, fingerprint: str) -> None:
    """Keys come from files of lines too: there their texts may be anything."""
    records = records_of(tmp_path)
    key = key_of(product.pipeline(), bucket="M=5..64,N=7,K=5")
    key = replace(key, bucket=bucket, fingerprint=fingerprint or key.fingerprint)
    records.add(Record(key, {"M": 4, "K": 5, "N": 7}, str(LARGE), figure=5e-6))
    d = tw.dispatch(product, records)
    assert {e.bucket.ranges for e in d.entries.values()} == {
        e.bucket.ranges for e in tw.dispatch(product, records_of(tmp_path / "others")).entries.values()
    }
    a, b = inputs(3)
    assert np.array_equal(d(a, b), a @ b) and d.explain(a, b).schedule == SMALL
    str(records.explain(product, {"M": 9, "K": 5, "N": 7}))


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    for source in (17, {"M=1..4": 3}):
        with pytest.raises(TuneError) as e:
            tw.dispatch(product, source)
        assert e.value.code == "tune.source"
    for source, code in (
        ({"M=4..1": SMALL}, "tune.bucket"),
        ({"L=1": SMALL}, "tune.sizes"),
        ({"M=1": SMALL, "M = 1": SMALL}, "tune.bucket"),
    ):
        with pytest.raises(TuneError) as e:
            tw.dispatch(product, source)
        assert e.value.code == code
    with pytest.raises(TuneError) as e:
        tw.dispatch(product, TWO, order="any")
    assert e.value.code == "tune.order"
    with pytest.raises(TuneError) as e:
        tw.dispatch(print, TWO)
    assert e.value.code == "tune.kernel"
    with pytest.raises(FileNotFoundError):
        tw.dispatch(product, tmp_path / "none.tw")
    (tmp_path / "bad.tw").write_text("tilewright 1\n\nschedule product\n  split split split (\n")
    with pytest.raises(ParseError):
        tw.dispatch(product, tmp_path / "bad.tw")


def test_a_dispatch_is_not_pickled_and_says_what_to_do(d: Dispatch) -> None:
    with pytest.raises(TypeError, match="Make it again"):
        pickle.dumps(d)


def test_warm_compiles_all(d: Dispatch) -> None:
    e = tw.dispatch(product, TWO)
    assert "not compiled yet" in e.report() and e.warm() is e and "not compiled" not in e.report()
    assert repr(d) == "<product with schedules for 2 buckets>"
    with pytest.raises(TuneError) as problem:
        d.explain(sizes={"L": 3})
    assert problem.value.code == "tune.sizes"
    assert d.bucket({"M": 3})[0] == Bucket.read("M=1..4")
