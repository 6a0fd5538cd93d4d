"""The call from Python: what the builtin hands to the kernel, and all that must go to the slow callable."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.entry_support import (
    ADD,
    REPORT,
    Slow_,
    add_signature,
    array,
    build,
    code_kernel,
    probed,
    two_outputs,
    vector,
)
from tilewright.codegen import entry, jit, runtime, target
from tilewright.codegen.runtime import layout, table
from tilewright.codegen.signature import ScalarParam, Signature

pytestmark = pytest.mark.skipif(not layout.usable(), reason="objects are laid out in another way here")


@pytest.fixture(scope="module")
def add_library() -> jit.Library:
    return jit.load(target.optimize_and_emit(ADD), ("tw_add",))


@pytest.fixture
def slow() -> Slow_:
    return Slow_()


@pytest.fixture
def add(add_library: jit.Library, slow: Slow_) -> Any:
    return build(add_signature(), add_library, "tw_add", slow)


def numbers(n: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a = np.arange(n, dtype=np.float32)
    return a, 2 * a + 1, np.full(n, -1, np.float32)


def test_fast_call_with_out_returns_it(add: Any, slow: Slow_) -> None:
    a, b, c = numbers()
    assert add(a, b, out=c) is c
    assert (c == a + b).all()
    assert slow.calls == []


def test_fast_call_without_out_makes_it(add: Any, slow: Slow_) -> None:
    a, b, _ = numbers()
    c = add(a, b)
    assert type(c) is np.ndarray and c.dtype == np.float32 and c.flags.owndata and c.flags.writeable
    assert (c == a + b).all()
    assert slow.calls == []


def test_read_only_inputs_are_fine(add: Any, slow: Slow_) -> None:
    a, b, c = numbers()
    a.flags.writeable = False
    assert add(a, b, out=c) is c and add(a, a) is not a
    assert slow.calls == []


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_sizes_from_zero_on(add: Any, slow: Slow_, n: int) -> None:
    a, b, c = numbers(n)
    assert add(a, b, out=c) is c
    assert (c == a + b).all() and add(a, b).shape == (n,)
    assert slow.calls == []


class Sub(np.ndarray):
    pass


def _misaligned(n: int) -> np.ndarray:
    return np.zeros(4 * n + 1, np.uint8)[1:].view(np.float32)


def _fresh_dtype(n: int) -> np.ndarray:
    return np.zeros(n, pickle.loads(pickle.dumps(np.dtype([("x", "f4")])))["x"])


REFUSED: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "no arguments": lambda a, b, c: ((), {}),
    "too few": lambda a, b, c: ((a,), {"out": c}),
    "too many": lambda a, b, c: ((a, b, c), {}),
    "subclass": lambda a, b, c: ((a.view(Sub), b), {"out": c}),
    "subclass out": lambda a, b, c: ((a, b), {"out": c.view(Sub)}),
    "byte-swapped": lambda a, b, c: ((a.astype(">f4"), b), {"out": c}),
    "wrong dtype": lambda a, b, c: ((a, b.astype(np.float64)), {"out": c}),
    "same size dtype": lambda a, b, c: ((a, b.view(np.int32)), {"out": c}),
    "wrong dtype out": lambda a, b, c: ((a, b), {"out": c.astype(np.float64)}),
    "structured": lambda a, b, c: ((a.view([("x", "f4")]), b), {"out": c}),
    "wrong rank": lambda a, b, c: ((a.reshape(4, 4), b), {"out": c}),
    "rank 0": lambda a, b, c: ((a[0].reshape(()), b), {"out": c}),
    "strided": lambda a, b, c: ((np.repeat(a, 2)[::2], b), {"out": c}),
    "reversed": lambda a, b, c: ((a[::-1], b), {"out": c}),
    "broadcast": lambda a, b, c: ((np.broadcast_to(a[:1], (16,)), b), {"out": c}),
    "read-only out": lambda a, b, c: ((a, b), {"out": _read_only(c)}),
    "misaligned": lambda a, b, c: ((_misaligned(16), b), {"out": c}),
    "size mismatch": lambda a, b, c: ((a, b[:15]), {"out": c}),
    "size mismatch out": lambda a, b, c: ((a, b), {"out": c[:15]}),
    "out is an input": lambda a, b, c: ((a, b), {"out": b}),
    "out overlaps": lambda a, b, c: ((c[:8], b[:8]), {"out": c[7:15]}),
    "out overlaps one byte below": lambda a, b, c: ((c[7:15], b[:8]), {"out": c[:8]}),
    "list": lambda a, b, c: ((list(a), b), {"out": c}),
    "none": lambda a, b, c: ((a, None), {"out": c}),
    "number": lambda a, b, c: ((a, 1.0), {"out": c}),
    "out tuple": lambda a, b, c: ((a, b), {"out": (c,)}),
    "other keyword": lambda a, b, c: ((a, b), {"threads": 2}),
    "two keywords": lambda a, b, c: ((a, b), {"out": c, "threads": 2}),
    "an input twice": lambda a, b, c: ((a, b), {"b": b}),
    "unknown and missing": lambda a, b, c: ((a,), {"c": b}),
}


def _read_only(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_goes_to_slow_as_it_came(add: Any, slow: Slow_, kind: str) -> None:
    a, b, c = numbers()
    args, kwargs = REFUSED[kind](a, b, c)
    before = a.copy(), b.copy(), c.copy()
    assert add(*args, **kwargs) == "slow"
    ((got_args, got_kwargs),) = slow.calls
    assert len(got_args) == len(args) and all(x is y for x, y in zip(got_args, args, strict=True))
    assert got_kwargs.keys() == kwargs.keys() and all(got_kwargs[k] is kwargs[k] for k in kwargs)
    for now, then in zip((a, b, c), before, strict=True):
        assert now.tobytes() == then.tobytes()


def test_neighbours_in_one_buffer_are_not_overlapping(add: Any, slow: Slow_) -> None:
    buffer = np.arange(24, dtype=np.float32)
    add(buffer[:8], buffer[16:], out=buffer[8:16])
    assert (buffer[8:16] == np.arange(8) + np.arange(16, 24)).all()
    assert slow.calls == []


def test_an_out_string_that_is_not_interned_still_works(add: Any, slow: Slow_) -> None:
    a, b, c = numbers()
    name = "".join(["o", "ut"])
    result = add(a, b, **{name: c})
    assert result is c or result == "slow"


def test_the_variant_for_any_stride(add_library: jit.Library) -> None:
    slow = Slow_()
    add = build(add_signature("any"), add_library, "tw_add", slow)
    base = np.arange(64, dtype=np.float32)
    out = np.zeros(48, np.float32)
    add(base[::4], np.broadcast_to(base[5:6], (16,)), out=out[::3])
    assert (out[::3] == base[::4] + 5).all() and not out[1::3].any()
    assert slow.calls == []
    records = np.zeros(16, np.dtype([("x", "f4"), ("y", "u1"), ("z", "f4"), ("pad", "u1", 3)]))
    assert add(base[16:0:-1], base[:16], out=out[:16]) == "slow"
    odd = np.ndarray((4,), np.float32, np.zeros(40, np.uint8), strides=(6,))
    assert add(odd, base[:4], out=out[:4]) == "slow"
    assert add(records["x"], base[:16], out=out[:16]) is not None


def test_outputs_whose_elements_share_memory(slow: Slow_) -> None:
    signature = Signature("f", ("M", "N"), (array("c", "out", 0, 1, dtype="int8", strides=("any", "any")),), (), ())
    f = build(signature, code_kernel(0), "tw_code", slow)

    def view(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(np.zeros(500, np.int8), shape, strides)

    for good in (
        view((3, 4), (4, 1)),
        view((3, 4), (9, 2)),
        view((3, 1), (1, 0)),
        view((1, 4), (0, 1)),
        view((0, 4), (0, 0)),
    ):
        assert f(out=good) is good
    for bad in (view((3, 4), (0, 1)), view((3, 4), (4, 0)), view((3, 4), (3, 1)), view((2, 4), (4, 2))):
        assert f(out=bad) == "slow"


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_errors_of_slow_come_through(add_library: jit.Library, error: type[BaseException]) -> None:
    def failing(*_args: Any, **_kwargs: Any) -> None:
        raise error("from slow")

    add = build(add_signature(), add_library, "tw_add", failing)
    with pytest.raises(error, match="from slow"):
        add(1, 2)


def test_sizes_and_strides_in_elements(slow: Slow_) -> None:
    a = array("a", "in", 0, 1, 2, dtype="float64", strides=("any", "any", "unit"))
    b = array("b", "in", 2, 3, dtype="int16", strides=("packed", "unit"))
    f = probed(Signature("f", ("K", "L", "M", "N"), (a, b, REPORT), (), ("a", "b")), slow)
    x = np.zeros((4, 5, 12))[1:, ::2, :6]
    y = np.zeros((6, 7), np.int16)
    assert list(f(x, y)[:10]) == [3, 3, 6, 7, 60, 24, 1, 7, 1, 1]
    assert f(np.zeros((3, 3, 6)).transpose(0, 2, 1), y) == "slow"
    assert f(x, np.zeros((7, 6), np.int16).T) == "slow"
    assert f(x, np.zeros((6, 8), np.int16)[:, :7]) == "slow"
    assert list(f(x[:, :, :1], y[:1])[:10]) == [3, 3, 1, 7, 60, 24, 1, 7, 1, 1]
    assert list(f(x[:1, :0], y)[:4]) == [1, 0, 6, 7]


def test_extents_that_are_constants_and_expressions(slow: Slow_) -> None:
    a = array("a", "in", 0, ("const", 3))
    c = array("c", "out", ("linear", -2, ((1, 0), (2, 1))), ("linear", 5, ()), dtype="int64")
    b = array("b", "in", 1)
    f = probed(Signature("f", ("M", "N"), (a, b, c), (), ("a", "b")), slow)
    x, y = np.zeros((4, 3), np.float32), np.zeros(3, np.float32)
    made = f(x, y)
    assert made.shape == (8, 5) and list(made.ravel()[:2]) == [4, 3]
    given = np.zeros((8, 5), np.int64)
    assert f(x, y, out=given) is given
    assert f(x, y, out=np.zeros((7, 5), np.int64)) == "slow"
    assert f(np.zeros((4, 2), np.float32), y) == "slow"
    assert f(np.zeros((1, 3), np.float32), y[:0]) == "slow"  # the output would have a negative extent


def test_empty_outputs(slow: Slow_) -> None:
    c = array("c", "out", ("linear", -2, ((1, 0), (2, 1))), ("linear", 5, ()), dtype="int64")
    signature = Signature("f", ("M", "N"), (array("a", "in", 0), array("b", "in", 1), c), (), ("a", "b"))
    f = build(signature, code_kernel(0), "tw_code", slow)
    x, y = np.zeros(0, np.float32), np.zeros(1, np.float32)
    out = np.zeros((3, 5), np.int64)[:0, ::-1]
    assert f(x, y).shape == (0, 5)
    assert f(x, y, out=out) is out
    assert slow.calls == []


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_told_apart(slow: Slow_, dtype: str) -> None:
    f = probed(Signature("f", ("N",), (array("a", "in", 0, dtype=dtype), REPORT), (), ("a",)), slow)
    for other in DTYPES:
        got = f(np.zeros(3, ml_dtypes.bfloat16 if other == "bfloat16" else other))
        assert isinstance(got, np.ndarray) == (other == dtype), other


def test_arguments_in_any_order(slow: Slow_) -> None:
    """Arrays and scalars are found by their place in the call, whatever the order of the interface."""
    arrays = (array("b", "in", 0), array("a", "in", 1), REPORT)
    signature = Signature("f", ("M", "N"), arrays, (ScalarParam("x", "int64"),), ("x", "a", "b"))
    f = probed(signature, slow)
    assert list(f(9, np.zeros(3, np.float32), np.zeros(2, np.float32))[[0, 1, 5]]) == [2, 3, 9]


def test_inout_arrays_are_written_and_must_be_writeable_and_apart(slow: Slow_) -> None:
    text = """
define i32 @tw_probe(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) {
  %p = load ptr, ptr %data
  store i64 7, ptr %p
  ret i32 0
}"""
    library = jit.load(target.optimize_and_emit(text), ("tw_probe",))
    arrays = (array("x", "inout", 0, dtype="int64"), array("y", "in", 0, dtype="int64"))
    f = build(Signature("f", ("N",), arrays, (), ("x", "y")), library, "tw_probe", slow)
    x, y = np.zeros(2, np.int64), np.ones(2, np.int64)
    assert f(x, y) is None
    assert list(x) == [7, 0]
    assert f(x, x) == "slow"
    assert f(x, y, out=y) == "slow"
    x.flags.writeable = False
    assert f(x, y) == "slow"


def test_constant_tables(slow: Slow_) -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = (
        array("a", "in", 0),
        array("t", "const", ("const", 3), ("const", 4)),
        array("r", "out", ("const", 40), dtype="int64"),
    )
    f = probed(Signature("f", ("N",), arrays, (), ("a",)), slow, constants={"t": table})
    assert list(f(np.zeros(2, np.float32))[:5]) == [2, 1, 4, 1, 1]
    count = sys.getrefcount(table)
    del f
    gc.collect()
    assert sys.getrefcount(table) < count


def test_several_outputs(slow: Slow_) -> None:
    f = probed(two_outputs(), slow)
    a = np.zeros(6, np.float32)
    p, q = f(a)
    assert p.shape == q.shape == (6,) and list(q[:4]) == [6, 1, 1, 1]
    outs = (np.zeros(6, np.int64), np.zeros(6, np.int64))
    assert f(a, out=outs) is outs
    assert list(outs[1][:4]) == [6, 1, 1, 1]
    assert slow.calls == []
    for bad in (outs[:1], list(outs), outs[0], (outs[0], outs[0]), (outs[0], outs[1][:5])):
        assert f(a, out=bad) == "slow"


@pytest.mark.parametrize("given", [True, False])
def test_failed_requirements_go_to_slow(slow: Slow_, given: bool) -> None:
    f = build(add_signature(), code_kernel(103), "tw_code", slow)
    a, b, c = numbers()
    assert (f(a, b, out=c) if given else f(a, b)) == "slow"
    assert len(slow.calls) == 1


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(("code", "name"), [(1, "out-of-memory"), (42, "kernel"), (-3, "kernel")])
def test_other_codes_raise_and_do_not_run_twice(slow: Slow_, code: int, name: str, given: bool) -> None:
    f = build(add_signature(), code_kernel(code), "tw_code", slow)
    a, b, c = numbers()
    with pytest.raises(MemoryError if code == 1 else entry.KernelError) as caught:
        f(a, b, out=c) if given else f(a, b)
    assert isinstance(caught.value, entry.KernelError)
    assert caught.value.code == name
    assert slow.calls == []


def test_requirement_codes_outside_the_builtin() -> None:
    with pytest.raises(entry.KernelError) as caught:
        entry.raise_code(107)
    assert caught.value.code == "requirement" and "7" in str(caught.value)


def test_reference_counts_are_stable(add: Any, slow: Slow_) -> None:
    a, b, c = numbers()
    bad = a[::2]
    two = probed(two_outputs(), slow)
    dtype = a.dtype

    def everything() -> None:
        for _ in range(100):
            add(a, b, out=c)
            add(a, b)
            add(bad, b)
            add(a, b, out=bad)
            two(a)
            two(bad)
            slow.calls.clear()

    everything()
    things = (a, b, c, bad, dtype, np.dtype(np.int64), add, two, slow)
    before = [sys.getrefcount(thing) for thing in things]
    everything()
    assert [sys.getrefcount(thing) for thing in things] == before


def test_what_the_builtin_needs_lives_as_long_as_it_does(add_library: jit.Library) -> None:
    class Owner:
        def __call__(self, *args: Any, **kwargs: Any) -> str:
            return "slow"

    owner = Owner()
    alive = weakref.ref(owner)
    add = build(add_signature(), add_library, "tw_add", owner)
    del owner
    gc.collect()
    assert alive() is not None and add(1) == "slow"
    owner = alive()
    owner.entry = add  # pyright: ignore  # a cycle, as a compiled kernel has it
    del add, owner
    gc.collect()
    assert alive() is None


def test_calls_from_several_threads(add: Any, slow: Slow_) -> None:
    bad: list[int] = []

    def work(number: int) -> None:
        a, b, c = numbers(1000 + number)
        for _ in range(300):
            add(a, b, out=c)
            if not ((c == a + b).all() and (add(b, c) == b + c).all()):
                bad.append(number)
            c[:] = 0

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == [] and slow.calls == []


def test_the_lock_of_the_interpreter_is_released() -> None:
    """A kernel that waits for another Python thread would wait for ever if the lock were held."""
    text = """
define i32 @tw_wait(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) {
entry:
  %p = load ptr, ptr %data
  br label %wait
wait:
  %v = load atomic i64, ptr %p seq_cst, align 8
  %go = icmp eq i64 %v, 1
  br i1 %go, label %out, label %wait
out:
  ret i32 0
}"""
    library = jit.load(target.optimize_and_emit(text), ("tw_wait",))
    f = build(Signature("f", ("N",), (array("x", "inout", 0, dtype="int64"),), (), ("x",)), library, "tw_wait")
    flag = np.zeros(1, np.int64)
    timer = threading.Timer(0.05, lambda: flag.__setitem__(0, 1))
    timer.start()
    assert f(flag) is None
    timer.join()


def test_as_the_call_of_a_class(add: Any, slow: Slow_) -> None:
    """A builtin does not bind, so as `__call__` of a class it makes instances callable without a frame."""
    kernel = type("Kernel", (), {"__call__": add, "note": "attributes as usual"})()
    a, b, c = numbers()
    assert kernel(a, b, out=c) is c and (kernel(a, b) == c).all() and kernel.note
    assert kernel(a) == "slow"


_MANY = tuple(f"a{i}" for i in range(table.MAX_ARRAYS + 1))

FALLBACKS = {
    "an extent that is no index expression": Signature(
        "f", ("N",), (array("a", "in", 0), array("c", "out", ("expr", ()))), (), ("a",)
    ),
    "a dictionary of outputs that nothing makes": Signature(
        "f", ("N",), (array("a", "in", 0), REPORT), (), ("a",), (), "other"
    ),
    "two sizes in one extent": Signature(
        "f", ("N", "M"), (array("a", "in", ("linear", 0, ((1, 0), (1, 1)))), REPORT), (), ("a",)
    ),
    "a size that no array has": Signature("f", ("N", "M"), (array("a", "in", 0), REPORT), (), ("a",)),
    "too many arrays": Signature("f", ("N",), tuple(vector(n, "in") for n in _MANY), (), _MANY),
}


@pytest.mark.parametrize("kind", FALLBACKS)
def test_signatures_that_only_the_slow_path_takes(slow: Slow_, kind: str) -> None:
    assert not entry.fast_enough(FALLBACKS[kind])
    assert entry.make_entry(FALLBACKS[kind], 0, 0, slow) is slow


def test_an_unknown_layout_falls_back(slow: Slow_, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "usable", lambda: False)
    assert entry.make_entry(add_signature(), 0, 0, slow) is slow


def test_where_numpy_can_not_be_asked_for_arrays(
    add_library: jit.Library, slow: Slow_, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "array_maker", lambda: 0)
    add = build(add_signature(), add_library, "tw_add", slow)
    a, b, c = numbers()
    assert add(a, b) == "slow" and add(a, b, out=c) is c


def test_the_layout_check_sees_differences() -> None:
    assert layout.usable() and layout.array_maker()
    assert not layout._array_as_assumed(np.zeros(3).view(Sub))


def test_invoke_runs_a_kernel_on_checked_arrays(add_library: jit.Library) -> None:
    a, b, c = numbers()
    context = ctypes.addressof(runtime.context(1))
    assert entry.invoke(add_library.address("tw_add"), context, (a[::-1], b, c), (16,), ()) == 0
    assert (c == a[::-1] + b).all()


def test_files_in_memory_are_arrays(add: Any, slow: Slow_, tmp_path: Any) -> None:
    a, b, c = numbers()
    np.save(tmp_path / "a.npy", a)
    assert (add(np.load(tmp_path / "a.npy", mmap_mode="r"), b, out=c) == a + b).all()
    assert slow.calls == []


@st.composite
def views(draw: Any) -> np.ndarray:
    """A view of f32 with rank 2: sliced, transposed, broadcast, reversed or empty."""
    base = np.arange(240, dtype=np.float32).reshape(12, 20)
    steps = st.sampled_from([1, 1, 2, 3, -1])
    view = base[draw(st.integers(0, 11)) :: draw(steps), draw(st.integers(0, 19)) :: draw(steps)]
    if draw(st.booleans()):
        view = view.T
    if draw(st.booleans()):
        view = view[: draw(st.integers(0, 3)), : draw(st.integers(0, 3))]
    if view.shape[0] and draw(st.booleans()):
        view = np.broadcast_to(view[:1], (draw(st.integers(0, 3)), view.shape[1]))
    return view


@given(views(), st.tuples(*[st.sampled_from(["any", "unit", "packed"])] * 2))
@settings(max_examples=200)
def test_stride_classes_mean_what_they_say(view: np.ndarray, classes: Any) -> None:
    """What the fast path accepts has the promised strides, and the kernel gets them."""
    signature = Signature("f", ("M", "N"), (array("a", "in", 0, 1, strides=classes), REPORT), (), ("a",))
    got = PROBES[classes](view) if classes in PROBES else PROBES.setdefault(classes, probed(signature, Slow_()))(view)
    (m, n), steps = view.shape, [s // 4 for s in view.strides]
    wanted = [steps[0], steps[1]]
    good = True
    for axis in (1, 0):
        inner = 1 if axis == 1 else wanted[1] * n
        if classes[axis] == "any":
            good = good and steps[axis] >= 0
            continue
        want = 1 if classes[axis] == "unit" else inner
        good = good and (view.shape[axis] < 2 or steps[axis] == want)
        wanted[axis] = want
    assert isinstance(got, str) != (good or view.size == 0)
    if not isinstance(got, str):
        assert list(got[:2]) == [m, n]
        assert view.size == 0 or list(got[2:4]) == wanted


PROBES: dict[Any, Any] = {}
