"""What can be wrong in a call: arguments, sizes, outputs, questions about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tests.mistakes import (
    Case,
    M,
    Mistakes,
    N,
    accumulate,
    added,
    both,
    generic,
    i,
    j,
    matrix,
    ramp,
    scale,
    shifted,
    stencil,
    tapped,
    two_stages,
    vector,
)
from tilewright.hw import MachineError, SimulationError

mistake = Mistakes()


# Calls ----------------------------------------------------------------------------------------------------------


@mistake(tw.BoundsError, "bounds.unbounded", "axis 0 of A", "x[i]", "no lower bound", "tw.clamp", "tw.assume")
def an_index_from_data_without_bounds(watch):
    @tw.kernel
    def k(A: tw.f32[N], x: tw.i64[M]):
        f = tw.func("f")
        f[i] = A[x[i]]  # <-
        return f[:M]

    k(watch(vector()), watch(np.zeros(3, np.int64)))


@mistake(tw.BoundsError, "bounds.input", "axis 0 of A: elements 1..6", "6 elements (0..5)", "tw.repeat_edge")
def an_input_that_is_too_small(watch):
    shifted(watch(vector()))


@mistake(tw.BoundsError, "bounds.input", "axis 0 of A: elements 1..6", "6 elements (0..5)")
def an_input_that_is_too_small_for_the_reference(watch):
    shifted.reference(watch(vector()))


@mistake(tw.BoundsError, "bounds.output", "stops at -1", "start <= stop")
def an_output_of_negative_length(watch):
    two_stages(vector(1))


@mistake(tw.ArgumentError, "argument.dtype", "A must be f32 and is an array of float64", "x.astype(np.float32)")
def an_array_of_another_type(watch):
    scale(watch(matrix().astype("f8")), 2.0)  # <-


@mistake(tw.ArgumentError, "argument.byte-order", "byte order", "x.astype(np.float32)")
def a_byte_swapped_array(watch):
    scale(watch(matrix().astype(">f4")), 2.0)  # <-


@mistake(tw.ArgumentError, "argument.misaligned", "not aligned to its elements (4 bytes)", "x.copy()")
def a_misaligned_array(watch):
    scale(watch(np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)), 2.0)  # <-


@mistake(tw.ArgumentError, "argument.object", "Python objects", "x.astype(np.float32)")
def an_array_of_objects(watch):
    scale(np.array([[1, 2]], object), 2.0)  # <-


@mistake(tw.ArgumentError, "argument.rank", "2 axes (A: f32[M, N])", "has 1")
def an_array_of_another_rank(watch):
    scale(watch(vector()), 2.0)  # <-


@mistake(tw.ArgumentError, "argument.size-mismatch", "N is 6 by axis 0 of A and 5 by axis 0 of B")
def arrays_of_different_sizes(watch):
    added(watch(vector()), watch(vector(5)))  # <-


@mistake(tw.ArgumentError, "argument.not-array", "A must be an array of f32 and is a list", "np.asarray(x, np.float32)")
def a_list_for_an_array(watch):
    scale([[1.0, 2.0]], 2.0)  # <-


@mistake(tw.ArgumentError, "argument.not-array", "is a NoneType")
def nothing_for_an_array(watch):
    scale(None, 2.0)  # <-


@mistake(tw.ArgumentError, "argument.scalar-kind", "alpha must be a number (f32) and is str")
def a_text_for_a_scalar(watch):
    scale(watch(matrix()), "2")  # <-


@mistake(tw.ArgumentError, "argument.scalar-kind", "n must be an integer (i32) and is 2.5")
def a_fraction_for_an_integer(watch):
    ramp(2.5, sizes={"M": 3})  # <-


@mistake(tw.ArgumentError, "argument.scalar-range", "-2147483648..2147483647")
def an_integer_that_is_too_large(watch):
    ramp(2**40, sizes={"M": 3})  # <-


@mistake(tw.ArgumentError, "argument.missing", "alpha is missing", "it takes A, alpha")
def a_missing_argument(watch):
    scale(watch(matrix()))  # <-


@mistake(tw.ArgumentError, "argument.missing", "A is missing")
def a_missing_argument_that_selects_the_type(watch):
    generic()  # <-


@mistake(tw.ArgumentError, "argument.count", "3 arguments are given", "it takes A, alpha")
def an_argument_too_many(watch):
    scale(watch(matrix()), 2.0, 3.0)  # <-


@mistake(tw.ArgumentError, "argument.unknown", "no parameter 'beta'", "it takes A, alpha")
def an_unknown_keyword(watch):
    scale(watch(matrix()), 2.0, beta=1)  # <-


@mistake(tw.ArgumentError, "argument.duplicate", "alpha is given twice")
def an_argument_given_twice(watch):
    scale(watch(matrix()), 2.0, alpha=3.0)  # <-


@mistake(tw.ArgumentError, "argument.size-negative", "size M is -3", "not negative")
def a_negative_size(watch):
    ramp(2, sizes={"M": -3})  # <-


@mistake(tw.ArgumentError, "argument.size-undetermined", "no input determines the size M", "sizes=dict(M=...)")
def a_size_that_nothing_determines(watch):
    ramp(2)  # <-


@mistake(tw.ArgumentError, "argument.size-unknown", "no size 'Q'", "its sizes: M")
def an_unknown_size(watch):
    ramp(2, sizes={"Q": 3})  # <-


@mistake(tw.ArgumentError, "argument.size-kind", "sizes= is [3]", "sizes=dict(M=3)")
def sizes_that_are_no_dict(watch):
    ramp(2, sizes=[3])  # <-


@mistake(tw.ArgumentError, "argument.threads", "threads= is 0", "positive integer")
def no_threads(watch):
    scale(watch(matrix()), 2.0, threads=0)  # <-


@mistake(tw.ArgumentError, "argument.static", "unhashable type: 'list'", "a tuple")
def an_unhashable_static_value(watch):
    tapped(watch(vector()), taps=[1, 2], alpha=1.0)  # <-


@mistake(tw.ArgumentError, "argument.static", "needs the static value taps", "taps=...")
def a_missing_static_value(watch):
    tapped(watch(vector()), alpha=1.0)  # <-


@mistake(tw.ArgumentError, "argument.unknown", "no static parameter foo", "it has: taps")
def an_unknown_static_value(watch):
    tapped.schedule(taps=(1,), foo=3)  # <-


@mistake(tw.ArgumentError, "argument.dtype", "T can't be i32", "f32, f64")
def a_type_that_is_no_choice(watch):
    generic(watch(np.ones(3, np.int32)))  # <-


@mistake(tw.ArgumentError, "argument.dtype", "A has no element type: it is a list", "np.asarray")
def a_list_where_the_type_counts(watch):
    generic([1.0])  # <-


@mistake(tw.DefinitionError, "definition.generic", "the type T of A is not known", "dtypes={'T': tw.f32}")
def a_generic_schedule_without_a_type(watch):
    generic.schedule()  # <-


@mistake(tw.ArgumentError, "argument.unknown", "no type variable U", "it has: T")
def an_unknown_type_variable(watch):
    generic.schedule(dtypes={"U": "f32"})  # <-


# Outputs --------------------------------------------------------------------------------------------------------


def output(*texts: str) -> Callable:
    return mistake(tw.ArgumentError, "argument.out", *texts)


@output("has shape (3, 2), (2, 3) is needed", "np.empty((2, 3), np.float32)")
def an_output_of_another_shape(watch):
    scale(watch(matrix()), 2.0, out=watch(np.zeros((3, 2), "f4")))  # <-


@output("has type <f8, float32 is needed")
def an_output_of_another_type(watch):
    scale(watch(matrix()), 2.0, out=watch(np.zeros((2, 3), "f8")))  # <-


@output("is read-only", "a writable array")
def a_read_only_output(watch):
    out = watch(matrix())
    out.flags.writeable = False
    scale(watch(matrix()), 2.0, out=out)  # <-


@output("several elements share one place")
def an_output_that_folds(watch):
    out = np.lib.stride_tricks.as_strided(watch(vector()), (2, 3), (4, 4))
    scale(watch(matrix()), 2.0, out=out)  # <-


@output("is a int, not an ndarray")
def a_number_for_an_output(watch):
    scale(watch(matrix()), 2.0, out=3)  # <-


@output("another structure", "tuple, list or dict")
def a_list_for_one_output(watch):
    scale(watch(matrix()), 2.0, out=[watch(matrix())])  # <-


@output("another structure")
def an_output_of_another_name(watch):
    both(watch(vector()), out={"f": watch(vector()), "h": watch(vector())})  # <-


@mistake(tw.ArgumentError, "argument.alias", "f shares memory with A", "each element is read for itself alone")
def an_output_on_an_input_that_is_still_read(watch):
    a = watch(vector())
    stencil(a, out=a[:5])  # <-


@mistake(tw.ArgumentError, "argument.alias", "f shares memory with A: a tail of f shifts", "give another array")
def an_output_on_its_input_where_tails_shift(watch):
    s = added.schedule()
    s["f"].split("i", "io", "ii", 4, tail="shift")
    a = watch(vector())
    added.compile(s)(a, vector(), out=a)  # <-


@mistake(tw.ArgumentError, "argument.alias", "X shares memory with A")
def an_inout_on_an_input(watch):
    a = watch(vector())
    accumulate(a[1:], a[:-1])  # <-


@mistake(tw.ArgumentError, "argument.alias", "g shares memory with f", "another array")
def one_array_for_two_outputs(watch):
    out = watch(vector())
    both(watch(vector()), out={"f": out, "g": out})  # <-


# Questions ------------------------------------------------------------------------------------------------------


@mistake(tw.ArgumentError, "argument.element", "no element (9, 9) of f", "its shape is (2, 3)")
def why_beyond_the_end(watch):
    scale.why(watch(matrix()), 2.0, out=(9, 9))  # <-


@mistake(tw.DefinitionError, "definition.unknown-func", "no Func 'zz'", "it has: f")
def an_unknown_intermediate(watch):
    scale.reference(watch(matrix()), 2.0, keep=["zz"])  # <-


@mistake(tw.ArgumentError, "argument.size-unknown", "the value of N is not known", "N=...")
def required_inputs_without_a_size(watch):
    scale.required_inputs(M=3)  # <-


@mistake(tw.ArgumentError, "argument.size-negative", "size N is -2", "not negative")
def required_inputs_at_a_negative_size(watch):
    scale.required_inputs(M=3, N=-2)  # <-


@mistake(tw.ArgumentError, "argument.size-negative", "size N is -2", "not negative")
def a_simulated_run_at_a_negative_size(watch):
    scale.simulate(machine="toy", sizes={"M": 3, "N": -2})  # <-


@mistake(tw.ArgumentError, "argument.size-kind", "size N must be an integer", "'2'")
def a_simulated_run_at_a_size_that_is_a_text(watch):
    scale.simulate(machine="toy", sizes={"M": 3, "N": "2"})  # <-


@mistake(SimulationError, "simulation.machine", "no machine is said for scale", "bind the schedule")
def a_simulated_run_on_nothing(watch):
    scale.simulate(machine=None, sizes={"M": 3, "N": 2})  # <-


@mistake(MachineError, "machine.unknown", "3 is no machine", "give a preset")
def a_schedule_for_a_number(watch):
    scale.schedule(machine=3)  # <-


@mistake(tw.CompileError, "compile.pass", "no pass 'zz'", "passes: nest, flatten")
def an_unknown_pass(watch):
    fast = scale.compile()
    fast.dump("zz")  # <-


# Afterwards -----------------------------------------------------------------------------------------------------


def test_a_func_is_as_before_a_definition_that_was_refused():
    f = tw.func("f")
    for refused in (lambda: f.__setitem__(0, 1.0), lambda: f.__setitem__((i, i), 1.0)):
        with pytest.raises(tw.DefinitionError):
            refused()
        assert f.init is None
    f[i] = 0.0
    for lhs, value in ((i, tw.cast(tw.u8, i)), ((i, j), 1.0), (i + 1, 1.0)):
        with pytest.raises(tw.TilewrightError):
            f[lhs] = value
        assert not f.updates
    f[i] += 1.0
    assert len(f.updates) == 1


def test_a_kernel_works_after_calls_that_were_refused():
    a, out = matrix(), np.full((2, 3), 7, np.float32)
    for bad in (lambda: scale(a), lambda: scale(a.astype("f8"), 2.0, out=out), lambda: scale(a, "x", out=out)):
        with pytest.raises(tw.ArgumentError):
            bad()
    assert (out == 7).all()
    assert scale(a, 2.0, out=out) is out and (out == 2 * a).all()


def test_a_call_that_is_too_large_for_its_input_writes_nothing():
    out = np.full(6, 7, np.float32)
    with pytest.raises(tw.BoundsError):
        shifted(vector(), out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("out", [np.zeros((3, 2), "f4"), np.zeros((2, 3), "f8"), 3, [np.zeros((2, 3), "f4")]])
def test_the_reference_checks_its_outputs_too(out, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_REFERENCE", "1")
    fresh = tw.Kernel(scale._fn)  # the first call decides
    with pytest.raises(tw.ArgumentError, match="out="):
        fresh(matrix(), 2.0, out=out)
    good = np.zeros((2, 3), np.float32)
    assert fresh(matrix(), 2.0, out=good) is good and (good == 2 * matrix()).all()


def test_generic_kernels_take_every_protocol():
    assert generic(memoryview(vector(3))).tolist() == [0, 1, 2]


def test_many_conditions_are_no_recursion():
    """Python's stack is no limit: a thousand arms, a thousand operands, a thousand conditions."""

    @tw.kernel
    def k(A: tw.f32[N]):
        f = tw.func("f")
        arms = [x for n in range(1200) for x in (A[i] == n, n)]
        many = tw.maximum(*[A[i] * n for n in range(1200)])
        held = A[i] >= 0
        for n in range(1200):
            held = held & (A[i] != -n - 1)
        f[i] = tw.select(held, many + tw.select(*arms, 0), 0.0)
        return f[:N]

    assert k.reference(vector(3)).tolist() == [0, 1200, 2400]


@pytest.mark.parametrize("case", mistake, ids=mistake.names)
def test_is_refused(case: Case) -> None:
    case.check()
