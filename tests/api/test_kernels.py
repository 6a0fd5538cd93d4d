"""`@tw.kernel`: parameters of every kind, what a call gives, static and type parameters, errors with their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.kernels import Kernel

M, N, K = tw.sizes("M N K")
T = tw.dtype_var("T", tw.f32, tw.f64)
HERE = Path(__file__).name


@tw.kernel
def scale(x: tw.f32[N], a: tw.f32, *, b: tw.f32):
    """a * x + b"""
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = a * x[i] + b
    return out[:N]


@tw.kernel
def window(x: T[N], *, taps, weight=1.0):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = weight * sum(x[i + d] for d in range(taps))
    return out[: N - taps + 1]


@tw.kernel
def add_into(y: tw.inout(tw.f32[N]), x: tw.f32[N]):
    i = tw.vars("i")
    y[i] += x[i]


def line_of(text: str) -> int:
    """The first line of this file with a text."""
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


# What a call takes ----------------------------------------------------------------------------------------------


def test_a_kernel_knows_its_name_and_text() -> None:
    assert isinstance(scale, Kernel)
    assert (scale.__name__, scale.__doc__, repr(scale)) == ("scale", "a * x + b", "<kernel scale>")


def test_scalars_by_position_and_keyword() -> None:
    x = floats(33)
    expected = np.float32(2) * x + np.float32(1)
    testing.assert_within_bound(scale, scale(x, 2.0, b=1.0), x, 2.0, b=1.0)
    testing.assert_bitwise(scale(x, a=2.0, b=1.0), scale(x, np.float32(2), b=1))
    testing.assert_bitwise(scale.reference(x, 2.0, b=1.0), expected)


def test_keyword_only_means_keyword_only() -> None:
    for call in (scale, scale.reference):
        with pytest.raises(tw.ArgumentError) as e:
            call(floats(4), 2.0, 1.0)
        assert e.value.code == "argument.count" and HERE in str(e.value) and "b=..." in str(e.value)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (lambda: ((floats(4), 1.0), {}), "argument.missing"),
        (lambda: ((floats(4), 1.0), {"b": 1.0, "c": 1.0}), "argument.unknown"),
        (lambda: ((floats(4), 1.0), {"b": 1.0, "a": 1.0}), "argument.duplicate"),
        (lambda: ((floats(4).astype(np.float64), 1.0), {"b": 1.0}), "argument.dtype"),
        (lambda: ((floats(4, 4), 1.0), {"b": 1.0}), "argument.rank"),
        (lambda: ((floats(4), "1"), {"b": 1.0}), "argument.scalar-kind"),
        (lambda: ((floats(4).astype(">f4"), 1.0), {"b": 1.0}), "argument.byte-order"),
    ],
)  # fmt: skip
def test_wrong_arguments_name_the_call_and_the_kernel(arguments: object, code: str) -> None:
    args, kwargs = arguments()  # type: ignore[operator]
    with pytest.raises(tw.ArgumentError) as e:
        scale(*args, **kwargs)  # the wrong call
    assert e.value.code == code
    assert [Path(w.file).name for w in e.value.where] == [HERE, HERE]
    assert e.value.where[0].line == line_of("# the wrong call")


def test_sizes_are_shared_among_inputs() -> None:
    with pytest.raises(tw.ArgumentError) as e:
        add_into(floats(4), floats(5))
    assert e.value.code == "argument.size-mismatch"


# What it gives --------------------------------------------------------------------------------------------------


def _two_sums(x: tw.f32[M, N]):
    i, j = tw.vars("i j")
    rows, columns = tw.func("rows"), tw.func("columns")
    rows[i] = tw.sum(x[i, tw.rdom(k=N)])
    columns[j] = tw.sum(x[tw.rdom(q=M), j])
    return rows[:M], columns[:N]


@tw.kernel
def as_tuple(x: tw.f32[M, N]):
    return _two_sums(x)


@tw.kernel
def as_list(x: tw.f32[M, N]):
    return list(_two_sums(x))


@tw.kernel
def as_dict(x: tw.f32[M, N]):
    rows, columns = _two_sums(x)
    return {"rows": rows, "both": (rows, columns)}


def test_results_have_the_structure_that_the_kernel_returns() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows, columns = x.sum(1), x.sum(0)
    for kernel, kind in ((as_tuple, tuple), (as_list, list)):
        for call in (kernel, kernel.reference, kernel.compile()):
            result = call(x)
            assert type(result) is kind
            testing.assert_bitwise(result, kind((rows, columns)))
    result = as_dict(x)
    testing.assert_bitwise(result, {"rows": rows, "both": (rows, columns)})


def test_one_func_returned_twice_is_written_twice() -> None:
    x = floats(5, 7)
    given = {"rows": np.full(5, -1, np.float32), "both": (np.full(5, -1, np.float32), np.full(7, -1, np.float32))}
    as_dict(x, out=given)
    testing.assert_bitwise(given["rows"], given["both"][0])
    testing.assert_within_bound(as_dict, given, x)


def test_out_has_that_structure_too() -> None:
    x = floats(5, 7)
    given = {"rows": np.empty(5, np.float32), "both": (np.empty(5, np.float32), np.empty(7, np.float32))}
    assert as_dict(x, out=given) is given
    testing.assert_bitwise(given, as_dict(x))
    pair = (np.empty(5, np.float32), np.empty(7, np.float32))
    assert as_tuple(x, out=pair) is pair
    testing.assert_bitwise(pair, as_tuple(x))


@pytest.mark.parametrize(
    "out",
    [
        lambda: np.empty(4, np.float32), lambda: np.empty(5, np.float64), lambda: [0.0] * 5,
        lambda: (np.empty(5, np.float32),), lambda: np.broadcast_to(np.float32(0), (5,)),
    ],
)  # fmt: skip
def test_wrong_out(out: object) -> None:
    with pytest.raises(tw.ArgumentError) as e:
        scale(floats(5), 1.0, b=0.0, out=out())  # type: ignore[operator]
    assert e.value.code == "argument.out" and HERE in str(e.value)


def test_inout_writes_through_and_returns_nothing() -> None:
    y, x = floats(50), floats(50)[::-1].copy()
    expected = y + x
    assert add_into(y, x) is None
    testing.assert_bitwise(y, expected)
    view = np.zeros(100, np.float32)
    add_into(view[::2], x)
    testing.assert_bitwise(view[::2], x)
    assert not view[1::2].any()


# Static values and types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("taps", [1, 2, 5])
def test_static_values_select_an_algorithm(taps: int) -> None:
    x = np.arange(20, dtype=np.float32)
    expected = np.convolve(x, np.ones(taps, np.float32), "valid").astype(np.float32)
    testing.assert_bitwise(window(x, taps=taps), expected)
    testing.assert_bitwise(window(x, taps=taps, weight=2.0), 2 * expected)
    testing.assert_bitwise(window.compile(taps=taps, dtypes={"T": tw.f32})(x), expected)


def test_static_pipelines_are_traced_once() -> None:
    one = window.pipeline(taps=2, dtypes={"T": tw.f32})
    assert window.pipeline(taps=2, dtypes={"T": np.float32}) is one
    assert window.pipeline(taps=3, dtypes={"T": tw.f32}) is not one


def test_type_parameters_follow_the_arrays() -> None:
    for t in (np.float32, np.float64):
        assert window(np.ones(4, t), taps=2).dtype == t
    with pytest.raises(tw.ArgumentError) as e:
        window(np.ones(4, np.int32), taps=2)
    assert e.value.code == "argument.dtype" and "f32, f64" in str(e.value)


def test_wrong_static_values() -> None:
    x = np.ones(4, np.float32)
    for arguments in ({}, {"taps": [1, 2]}, {"taps": 1, "tops": 2}):
        with pytest.raises(tw.ArgumentError) as e:
            window(x, **arguments)
        assert e.value.code in ("argument.static", "argument.unknown") and HERE in str(e.value)


# Constants ------------------------------------------------------------------------------------------------------


def test_constant_tables() -> None:
    table = np.array([0, 10, 20, 30], np.int32)
    squares = tw.const(table)

    @tw.kernel
    def look_up(x: tw.u8[N]):
        i = tw.vars("i")
        out = tw.func("out")
        out[i] = squares[tw.clamp(tw.cast(tw.i64, x[i]), 0, 3)]
        return out[:N]

    x = np.array([3, 0, 9, 1], np.uint8)
    for call in (look_up, look_up.reference):
        testing.assert_bitwise(call(x), table[np.minimum(x, 3)])


# Looking inside -------------------------------------------------------------------------------------------------


def test_reference_keeps_intermediates() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result, kept = as_tuple.reference(x, keep=["rows"])
    testing.assert_bitwise(kept["rows"], result[0])
    with pytest.raises(tw.TilewrightError) as e:
        as_tuple.reference(x, keep=["rose"])
    assert "rows" in str(e.value)


def test_why_and_required_inputs() -> None:
    text = scale.why(np.float32([1, 2, 3]), 2.0, b=0.5, out=(1,))
    assert "4.5" in text and "x[1]" in text
    assert window.required_inputs(N=10, statics={"taps": 3}, dtypes={"T": tw.f32})["x"] == ((0, 10),)


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_the_environment_turns_kernels_into_their_reference(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_REFERENCE", value)
    monkeypatch.setattr(Kernel, "reference", lambda *args, **kwargs: np.full(8, -1, np.float32))
    fresh = Kernel(scale._fn)  # the first call decides
    x = floats(8)
    got = fresh(x, 2.0, b=1.0, threads=1)
    assert (got == -1).all() == (value == "1")
    out = np.zeros(8, np.float32)
    assert fresh(x, 2.0, b=1.0, out=out) is out
    assert (out == -1).all() == (value == "1")


def test_after_its_first_call_a_kernel_is_as_fast_as_what_it_compiles_to() -> None:
    @tw.kernel
    def add(x: tw.f32[N], y: tw.f32[N]):
        i, f = tw.vars("i"), tw.func("f")
        f[i] = x[i] + y[i]
        return f[:N]

    first = add(floats(8), floats(8))
    assert type(type(add).__call__).__name__ == "builtin_function_or_method"  # no Python between caller and code
    assert isinstance(add, Kernel) and repr(add) == "<kernel add>"
    testing.assert_bitwise(add(floats(8), floats(8)), first)
    with pytest.raises(tw.ArgumentError) as e:
        add(floats(8))
    assert e.value.where and Path(e.value.where[0].file).name == HERE


def test_threads_do_not_change_bits() -> None:
    x = floats(200, 300)
    results = [as_tuple(x, threads=n) for n in (1, 2, 3)]
    testing.assert_bitwise(results[0], results[1])
    testing.assert_bitwise(results[0], results[2])


# Definitions that are wrong -------------------------------------------------------------------------------------


def test_mistakes_in_a_definition_show_when_it_is_made() -> None:
    with pytest.raises(tw.DefinitionError) as e:

        @tw.kernel
        def undefined(x: tw.f32[N]):
            f = tw.func("f")
            return f[:N]  # never defined

    assert e.value.where and Path(e.value.where[0].file).name == HERE


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: tw.kernel(mode="loose"),
        lambda: tw.kernel(lambda x: x),
        lambda: tw.kernel(lambda *x: x),
    ],
)
def test_functions_that_are_no_kernels(wrong: object) -> None:
    with pytest.raises(tw.DefinitionError) as e:
        made = wrong()  # type: ignore[operator]
        made(lambda x: x)
    assert e.value.code.startswith("definition.") and HERE in str(e.value)


def test_modes() -> None:
    def square_sum(x: tw.f32[N]):
        k = tw.rdom(k=N)
        s = tw.func("s")
        s[()] = 0.0
        s[()] += x[k] * x[k]
        return s[()]

    strict = tw.kernel(mode="strict")(square_sum)
    x = floats(1000)
    assert strict.mode == "strict"
    testing.assert_bitwise(strict(x), strict.reference(x))
    testing.assert_bitwise(tw.kernel(square_sum).compile(mode="strict")(x), strict(x))


# Explicit pipelines ---------------------------------------------------------------------------------------------


def test_a_pipeline_without_a_function() -> None:
    p = tw.Pipeline("scaled", A=tw.f32[M, N], alpha=tw.f32)
    i, j = tw.vars("i j")
    out = tw.func("out")
    out[i, j] = p.alpha * p["A"][i, j]
    kernel = p.returns(out[:M, :N])
    a = floats(3, 4)
    testing.assert_bitwise(kernel(a, 2.0), 2 * a)
    testing.assert_bitwise(kernel(A=a, alpha=2.0), kernel.reference(a, 2.0))
    with pytest.raises(AttributeError, match="A, alpha"):
        _ = p.B


def test_sizes_may_be_local_where_annotations_are_text() -> None:
    program = """
from __future__ import annotations
import numpy as np
import tilewright as tw

def make():
    n = tw.sizes("n")

    @tw.kernel
    def double(A: tw.f32[n]):
        i, f = tw.vars("i"), tw.func("f")
        f[i] = A[i] * 2.0
        return f[:n]

    return double
"""
    scope: dict = {"__name__": "user"}
    exec(compile(program, "user.py", "exec"), scope)
    assert scope["make"]().reference(np.ones(3, np.float32)).tolist() == [2.0, 2.0, 2.0]
