"""The call from Python: numbers, names, sizes, extents and structures of outputs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.entry_support import REPORT, Slow_, array, build, code_kernel, probed, two_outputs
from tilewright.codegen import entry, entry_table, jit
from tilewright.codegen import signature as signature_module
from tilewright.codegen.runtime import layout
from tilewright.codegen.signature import ScalarParam, Signature

pytestmark = pytest.mark.skipif(not layout.usable(), reason="objects are laid out in another way here")


@pytest.fixture
def slow() -> Slow_:
    return Slow_()


SCALARS = [
    ("float64", 1.5, 1.5),
    ("float64", -3, -3.0),
    ("float64", 2**53, 2.0**53),
    ("float64", 2**53 + 1, None),
    ("float64", float("inf"), float("inf")),
    ("float64", True, None),
    ("float64", np.float64(1.5), 1.5),
    ("float64", np.float16(6e-8), float(np.float16(6e-8))),
    ("float64", np.int64(2**53 + 1), None),
    ("float64", np.bool_(1), None),
    ("float64", np.array(3, np.float32), 3.0),
    ("float64", np.array([3], np.float32), None),
    ("float64", np.array(3, ">f4"), None),
    ("float64", np.longdouble(1), None),
    ("float64", "1", None),
    ("float32", 0.1, np.float32(0.1)),
    ("float32", 2**24, np.float32(2**24)),
    ("float32", 2**24 + 1, None),
    ("float32", float("-inf"), np.float32("-inf")),
    ("float32", 1e39, None),
    ("float32", -0.0, np.float32(-0.0)),
    ("float32", np.float64(0.1), None),
    ("float32", np.float64(0.5), np.float32(0.5)),
    ("float32", np.float16(-0.1), np.float32(np.float16(-0.1))),
    ("float32", np.float64("inf"), np.float32("inf")),
    ("float32", np.float64(1e300), None),
    ("float32", np.uint8(200), np.float32(200)),
    ("float16", 0.1, np.float32(np.float16(0.1))),
    ("float16", 2048, np.float32(2048)),
    ("float16", 1e5, None),
    ("float16", np.float16(-0.1), np.float32(np.float16(-0.1))),
    ("float16", np.float32(0.1), None),
    ("bfloat16", 0.1, np.float32(ml_dtypes.bfloat16(0.1))),
    ("bfloat16", ml_dtypes.bfloat16(0.1), np.float32(ml_dtypes.bfloat16(0.1))),
    ("bfloat16", np.float32(1.5), np.float32(1.5)),
    ("bfloat16", np.float64(0.1), None),
    ("int8", -128, -128),
    ("int8", np.int64(-128), -128),
    ("int8", np.uint8(200), None),
    ("int64", np.uint64(2**63), None),
    ("int64", np.longlong(-5), -5),
    ("int64", np.array(7, np.uint16), 7),
    ("int64", np.float64(7), None),
    ("int8", -129, None),
    ("int8", 128, None),
    ("int64", -(2**63), -(2**63)),
    ("int64", 2**63, None),
    ("int32", 2**31 - 1, 2**31 - 1),
    ("int32", 1.0, None),
    ("int32", True, None),
    ("uint8", 255, 255),
    ("uint8", -1, None),
    ("uint64", 2**63 - 1, 2**63 - 1),
    ("uint64", 2**63, None),
    ("uint64", -1, None),
    ("bool", True, 1),
    ("bool", False, 0),
    ("bool", 1, None),
    ("bool", np.True_, 1),
    ("bool", np.array(False), 0),
    ("bool", np.int8(1), None),
]


@pytest.mark.parametrize(("dtype", "value", "want"), SCALARS)
def test_scalars(slow: Slow_, dtype: str, value: Any, want: Any) -> None:
    signature = Signature("f", (), (REPORT,), (ScalarParam("x", dtype),), ("x",))
    got = probed(signature, slow)(value)
    if want is None:
        assert got == "slow"
        return
    slot = got[1:2]  # after the stride of the report
    if dtype == "float64":
        assert slot.view(np.float64)[0] == want
    elif "float" in dtype:
        assert slot.tobytes() == np.float32(want).tobytes() + bytes(4)
    else:
        assert slot[0] == want
    assert int(slot[0]) == entry.scalar_slot(dtype, value if isinstance(value, (bool, int, float)) else value[()])
    assert slow.calls == []


def test_nan_scalars(slow: Slow_) -> None:
    for dtype in ("float32", "float64"):
        f = probed(Signature("f", (), (REPORT,), (ScalarParam("x", dtype),), ("x",)), slow)
        slot = f(float("nan"))[1:2]
        assert np.isnan(slot.view(dtype)[0])


def test_slots_of_scalars_that_only_the_slow_path_takes() -> None:
    assert entry.scalar_slot("uint64", 2**64 - 1) == -1
    assert entry.scalar_slot("uint32", 2**32 - 1) == 2**32 - 1
    assert entry.scalar_slot("int8", -1) == -1
    assert entry.scalar_slot("float16", 0.1) == int.from_bytes(np.float32(np.float16(0.1)).tobytes(), "little")
    assert entry.scalar_slot("bfloat16", 1.0) == int.from_bytes(np.float32(1.0).tobytes(), "little")


def test_parameters_by_name(slow: Slow_) -> None:
    arrays = (array("a", "in", 0), array("b", "in", 1), REPORT)
    f = probed(Signature("f", ("M", "N"), arrays, (ScalarParam("x", "int64"),), ("a", "x"), ("b",)), slow)
    a, b, name = np.zeros(2, np.float32), np.zeros(3, np.float32), "".join(["x", ""])
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((a, 9), {"b": b}),
        ((a,), {"b": b, "x": 9}),
        ((), {name: 9, "b": b, "a": a}),
        ((), {"".join(["x"]): 9, "".join(["b"]): b, "a": a, "out": None}),
        ((a,), {"x": 9, "out": np.zeros(40, np.int64), "b": b}),
    ]
    for args, kwargs in calls:
        got = f(*args, **kwargs)
        assert list(got[[0, 1, 5]]) == [2, 3, 9] and (kwargs.get("out") is None or got is kwargs["out"])
    assert slow.calls == []
    for args, kwargs in [((a, 9, b), {}), ((a, 9), {}), ((a, 9), {"b": b, "a": a}), ((a, 9), {"b": b, "c": b})]:
        assert f(*args, **kwargs) == "slow"


def test_sizes_that_the_call_gives(slow: Slow_) -> None:
    arrays = (array("a", "in", ("expr", (("size", 0), ("const", 15), ("add",), ("const", 16), ("floordiv",)))), REPORT)
    f = probed(Signature("f", ("N",), arrays, (), ("a",), (), "single", ("N",)), slow)
    a, name = np.zeros(3, np.float32), signature_module.size_name("N")
    for n in (33, 48, np.int64(40), np.array(40)):
        assert f(a, **{name: n})[0] == n
    assert slow.calls == []
    for bad in (32, 49, -1, 2**63, 40.0, True, "40"):
        assert f(a, **{name: bad}) == "slow"
    assert f(a) == "slow"


def test_sizes_that_follow_from_extents(slow: Slow_) -> None:
    """a[2 * M + N - 1], b[N + 3]: N from b, then M from a."""
    arrays = (array("a", "in", ("linear", -1, ((2, 0), (1, 1)))), array("b", "in", ("linear", 3, ((1, 1),))), REPORT)
    f = probed(Signature("f", ("M", "N"), arrays, (), ("a", "b")), slow)
    for m, n in ((0, 1), (4, 7), (1, 0)):
        assert list(f(np.zeros(2 * m + n - 1, np.float32), np.zeros(n + 3, np.float32))[:2]) == [m, n]
    assert slow.calls == []
    for a, b in ((10, 7), (0, 10), (5, 2)):  # not a multiple; M or N would be negative
        assert f(np.zeros(a, np.float32), np.zeros(b, np.float32)) == "slow"


def test_an_output_must_agree_with_a_size_that_follows(slow: Slow_) -> None:
    arrays = (array("a", "in", ("linear", 2, ((1, 0),))), array("c", "out", 0))
    f = build(Signature("f", ("N",), arrays, (), ("a",)), code_kernel(0), "tw_code", slow)
    a = np.zeros(7, np.float32)
    assert f(a).shape == (5,) and f(a, out=np.zeros(5, np.float32)).shape == (5,)
    assert slow.calls == []
    for n in (4, 6, 7):
        assert f(a, out=np.zeros(n, np.float32)) == "slow"


OPERATIONS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0, "min": min, "max": max,
    "neg": lambda a: -a, "abs": abs, "select": lambda c, a, b: a if c else b, "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b), "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b), "ge": lambda a, b: int(a >= b),
}  # fmt: skip
OPERANDS = {"neg": 1, "abs": 1, "select": 3}
LARGE = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**62, -(2**63), 2**63 - 1]))


@st.composite
def programs(draw: Any) -> list[tuple[Any, ...]]:
    """Steps that leave one value: constants, two scalars, a size."""
    if draw(st.integers(0, 3)) == 0:
        return [draw(st.sampled_from([("size", 0), ("scalar", 0), ("scalar", 1)]))]
    if draw(st.integers(0, 2)) == 0:
        return [("const", draw(LARGE))]
    name = draw(st.sampled_from(sorted(OPERATIONS)))
    parts = [draw(programs()) for _ in range(OPERANDS.get(name, 2))]
    return [step for part in parts for step in part] + [(name,)]


@given(programs(), LARGE, LARGE, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_extents_are_worked_out_as_python_does(steps: list[tuple[Any, ...]], x: int, y: int, n: int) -> None:
    stack: list[int] = []
    fits, deepest = True, 0
    for step in steps:
        if step[0] in OPERATIONS:
            count = OPERANDS.get(step[0], 2)
            stack[-count:] = [OPERATIONS[step[0]](*stack[-count:])]
        else:
            stack.append({"const": step[-1], "size": n, "scalar": (x, y)[step[-1] % 2]}[step[0]])
        fits = fits and -(2**63) <= stack[-1] < 2**63
        deepest = max(deepest, len(stack))
    wanted = stack[0] if fits else None
    arrays = (array("a", "in", 0), array("c", "in", ("expr", tuple(steps)), dtype="int8", strides=("any",)))
    scalars = (ScalarParam("x", "int64"), ScalarParam("y", "int64"))
    signature = Signature("f", ("N",), arrays, scalars, ("a", "c", "x", "y"), structure="none")
    assert entry.fast_enough(signature) == (deepest <= 16)
    if deepest > 16:
        return
    slow = Slow_()
    f = build(signature, CODE_KERNELS.setdefault(0, code_kernel(0)), "tw_code", slow)
    small = wanted is not None and 0 <= wanted < 2**40

    def of(extent: int) -> np.ndarray:
        return np.broadcast_to(np.zeros((), np.int8), (extent,))

    a = np.zeros(n, np.float32)
    if small:
        assert f(a, of(wanted), x, y) is None
    assert f(a, of((wanted or 0) + 1 if small else 3), x, y) == "slow"


CODE_KERNELS: dict[int, jit.Library] = {}


def test_outputs_in_a_structure(slow: Slow_) -> None:
    shaping = entry_table.Shaping(lambda t: {"p": t[0], "q": t[1]}, lambda out: (out["p"], out["q"]))
    f = probed(dataclasses.replace(two_outputs(), structure="other"), slow, shaping=shaping)
    a = np.zeros(6, np.float32)
    made = f(a)
    assert list(made) == ["p", "q"] and list(made["q"][:4]) == [6, 1, 1, 1]
    outs = {"q": np.zeros(6, np.int64), "p": np.zeros(6, np.int64)}
    assert f(a, out=outs) is outs and list(outs["q"][:4]) == [6, 1, 1, 1]
    assert slow.calls == []
    before = [sys.getrefcount(x) for x in (a, outs, outs["p"], outs["q"])]
    for bad in ({"p": outs["p"]}, outs["p"], 3, {"p": outs["p"], "q": outs["p"]}, {"p": outs["p"], "q": 3}):
        assert f(a, out=bad) == "slow"
    f(a, out=outs), f(a)
    slow.calls.clear()
    del bad
    assert [sys.getrefcount(x) for x in (a, outs, outs["p"], outs["q"])] == before
