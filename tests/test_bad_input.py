"""Everything that a user may get wrong: our own error class with a stable code, the user's line, what would be legal,
and nothing half done. The guilty line of each case is marked; arrays, schedules and Funcs are as they were."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.hw import CapacityError, MachineError

# ruff: noqa: B018 - statements that raise

K, M, N = tw.sizes("K M N")
i, j = tw.vars("i j")
T = tw.dtype_var("T", tw.f32, tw.f64)


@dataclass(frozen=True)
class Case:
    run: Callable[..., Any]
    error: type[tw.TilewrightError]
    code: str
    texts: tuple[str, ...]  # what the message says, what would be legal included


CASES: list[Case] = []


def case(error: type[tw.TilewrightError], code: str, *texts: str) -> Callable:
    """A function that makes a mistake in the line marked `# <-`. It gets `watch`, which keeps an array or schedule to
    be found unchanged, and returns it."""

    def add(fn: Callable) -> Callable:
        CASES.append(Case(fn, error, code, texts))
        return fn

    return add


class Watch:
    def __init__(self) -> None:
        self.arrays: list[tuple[np.ndarray, bytes, tuple]] = []
        self.schedules: list[tuple[Any, str, tuple, str]] = []

    def __call__(self, what: Any) -> Any:
        if isinstance(what, np.ndarray):
            self.arrays.append((what, what.tobytes(), (what.shape, what.strides, what.dtype)))
        else:
            self.schedules.append((what, str(what), what.directives, str(what.loops())))
        return what

    def unchanged(self) -> None:
        for a, content, facts in self.arrays:
            assert a.tobytes() == content and (a.shape, a.strides, a.dtype) == facts
        for s, text, directives, loops in self.schedules:
            assert str(s) == text and s.directives == directives and str(s.loops()) == loops


# Kernels to make mistakes with ----------------------------------------------------------------------------------


@tw.kernel
def scale(A: tw.f32[M, N], alpha: tw.f32):
    f = tw.func("f")
    f[i, j] = A[i, j] * alpha
    return f[:M, :N]


@tw.kernel  # <-
def two_stages(A: tw.f32[N]):
    f, g = tw.func("f"), tw.func("g")
    f[i] = A[i] + A[i + 1]
    g[i] = f[i] + f[i + 1]
    return g[: N - 2]


@tw.kernel
def total(A: tw.f32[M, N]):
    r = tw.rdom(r=N)
    s = tw.func("s")
    s[i] = 0.0
    s[i] += A[i, r]
    return s[:M]


@tw.kernel
def paths(A: tw.f32[M, N]):
    r = tw.rdom(x=(1, M), y=(1, N))
    p = tw.func("p")
    p[i, j] = A[i, j]
    p[r.x, r.y] = p[r.x - 1, r.y] * 2 + p[r.x, r.y - 1]
    return p[:M, :N]


@tw.kernel
def shifted(A: tw.f32[N]):
    f = tw.func("f")
    f[i] = A[i + 1]  # <-
    return f[:N]


@tw.kernel
def added(A: tw.f32[N], B: tw.f32[N]):
    f = tw.func("f")
    f[i] = A[i] + B[i]
    return f[:N]


@tw.kernel
def stencil(A: tw.f32[N]):
    f = tw.func("f")
    f[i] = A[i] + A[i + 1]
    return f[: N - 1]


@tw.kernel
def accumulate(X: tw.inout(tw.f32[N]), A: tw.f32[N]):
    X[i] += A[i]


@tw.kernel
def ramp(n: tw.i32):
    f = tw.func("f")
    f[i] = i * n
    return f[:M]


@tw.kernel
def both(A: tw.f32[N]):
    f, g = tw.func("f"), tw.func("g")
    f[i] = A[i]
    g[i] = f[i] + 1
    return {"f": f[:N], "g": g[:N]}


@tw.kernel
def tapped(A: tw.f32[N], *, taps, alpha: tw.f32):
    f = tw.func("f")
    f[i] = A[i] * alpha * len(taps)
    return f[:N]


@tw.kernel
def generic(A: T[N]):
    f = tw.func("f")
    f[i] = A[i]
    return f[:N]


def matrix() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def vector(n: int = 6) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def written(value: Callable[[Any], Any]) -> tw.Kernel:
    """A kernel whose element is `value(A)`."""

    def k(A: tw.f32[N]):
        f = tw.func("f")
        f[i] = value(A)
        return f[:N]

    return tw.kernel(k)


def returned(value: Callable[[Any], Any]) -> tw.Kernel:
    """A kernel that returns `value(f)` of a Func of one axis."""

    def k(A: tw.f32[N]):
        f = tw.func("f")
        f[i] = A[i]
        return value(f)

    return tw.kernel(k)


# Definitions ----------------------------------------------------------------------------------------------------


@case(tw.DefinitionError, "definition.undefined", "g is used before it is defined", "g[i] = ...")
def an_undefined_func(watch):
    f, g = tw.func("f"), tw.func("g")
    f[i] = g[i]  # <-


@case(tw.DefinitionError, "definition.undefined", "g is used before it is defined")
def an_undefined_output(watch):
    g = tw.func("g")
    returned(lambda f: g[:N])  # <-


@case(tw.DefinitionError, "definition.undefined")
def a_func_of_itself(watch):
    f = tw.func("f")
    f[i] = f[i - 1]  # <-


@case(tw.DefinitionError, "definition.rank", "A has 1 axis and is indexed with 2", "A[i0]")
def an_input_of_another_rank(watch):
    written(lambda A: A[i, i])  # <-


@case(tw.DefinitionError, "definition.rank", "g has 2 axes and is indexed with 1", "g[i0, i1]")
def a_func_of_another_rank(watch):
    g = tw.func("g")
    g[i, j] = 1.0
    written(lambda A: g[i])  # <-


@case(tw.DefinitionError, "definition.rank", "f has 1 axis and is updated with 2 indices", "f[i0]")
def an_update_of_another_rank(watch):
    f = tw.func("f")
    f[i] = 0.0
    f[i, j] = 1.0  # <-


@case(tw.DefinitionError, "definition.rank", "sliced with 2", "f[:stop]")
def a_slice_of_another_rank(watch):
    returned(lambda f: f[:N, :N])  # <-


@case(tw.DefinitionError, "definition.pure-lhs", "distinct Vars")
def a_var_named_twice(watch):
    f = tw.func("f")
    f[i, i] = 0.0  # <-


@case(tw.DefinitionError, "definition.pure-lhs", "is 0", "distinct Vars")
def a_first_definition_of_one_element(watch):
    f = tw.func("f")
    f[0] = 1.0  # <-


@case(tw.DefinitionError, "definition.free-var", "j is used", "reduce over it")
def a_var_that_is_not_on_the_left(watch):
    f = tw.func("f")
    f[i] = tw.cast(tw.f32, i + j)  # <-


@case(tw.DefinitionError, "definition.name-twice", "i is both a Var and a reduction variable", "rename one")
def a_reduction_variable_called_like_a_var(watch):
    r = tw.rdom(i=N)
    f = tw.func("f")
    f[i] = 0.0
    f[i] += r.i  # <-


@case(tw.DefinitionError, "definition.name-twice", "f names", "rename one")
def two_funcs_of_one_name(watch):
    @tw.kernel  # <-
    def k(A: tw.f32[N]):
        f, g = tw.func("f"), tw.func("f")
        f[i] = A[i]
        g[i] = f[i]
        return g[:N]


@case(tw.DefinitionError, "definition.name", "'a b' is no name for a Func", "letters")
def a_func_without_a_proper_name(watch):
    tw.func("a b")  # <-


@case(tw.DefinitionError, "definition.name", "3 gives no names", '"i j"')
def vars_by_number(watch):
    tw.vars(3)  # <-


@case(tw.DefinitionError, "definition.name", "'if' is no name for a size")
def a_size_called_like_a_keyword(watch):
    tw.sizes("if")  # <-


@case(tw.DefinitionError, "definition.input", "A is an input and is given a value", "inout")
def an_input_that_is_written(watch):
    def k(A: tw.f32[N]):
        A[i] = 2.0  # <-

    tw.kernel(k)


@case(tw.DefinitionError, "definition.rdom-empty", "tw.rdom(k=K)")
def a_domain_without_names(watch):
    tw.rdom(N)  # <-


@case(tw.DefinitionError, "definition.rdom-range", "(start, stop)")
def a_range_of_three(watch):
    tw.rdom(k=(0, N, 2))  # <-


@case(tw.DefinitionError, "definition.unknown-name", "no variable 'z'", "it has: x, y")
def an_unknown_reduction_variable(watch):
    tw.rdom(x=N, y=N).z  # <-


@case(tw.DefinitionError, "definition.rdom-value", "r.x, r.y")
def a_domain_of_two_as_a_value(watch):
    r = tw.rdom(x=N, y=N)  # <-
    written(lambda A: A[r])


@case(tw.DefinitionError, "definition.rdom-frozen", "call where() first")
def a_predicate_too_late(watch):
    r = tw.rdom(x=N)
    f = tw.func("f")
    f[i] = 0.0
    f[i] += r
    r.where(r < 3)  # <-


@case(tw.DefinitionError, "definition.reduce-over", "over=")
def a_sum_over_nothing(watch):
    written(lambda A: tw.sum(A[i]))  # <-


@case(tw.DefinitionError, "definition.foreign-array", "A is read but is no parameter of k")
def an_input_of_another_kernel(watch):
    kept = []
    written(lambda A: kept.append(A) or A[i])

    @tw.kernel  # <-
    def k(B: tw.f32[N]):
        f = tw.func("f")
        f[i] = kept[0][i]
        return f[:N]


@case(tw.DefinitionError, "definition.annotation", "parameter A of k has no tilewright type", "tw.f32[M, N]")
def a_parameter_without_a_type(watch):
    @tw.kernel  # <-
    def k(A):
        return None


@case(tw.DefinitionError, "definition.extent", "-3", "not negative")
def a_negative_extent(watch):
    @tw.kernel  # <-
    def k(A: tw.f32[-3]):
        return None


@case(tw.DefinitionError, "definition.kernel", "@tw.kernel")
def a_kernel_of_no_function(watch):
    tw.kernel("strict")  # <-


@case(tw.DefinitionError, "definition.mode", "'sloppy'", "strict, contract, fast")
def an_unknown_mode(watch):
    total.compile(mode="sloppy")  # <-


@case(tw.DefinitionError, "definition.tuple-value", "f[...][0]")
def a_tuple_as_a_value(watch):
    f, g = tw.func("f"), tw.func("g")
    f[i] = (1.0, 2.0)
    g[i] = f[i] + 1  # <-


@case(tw.DefinitionError, "definition.tuple-component", "2 components", "there is no 2")
def a_component_too_many(watch):
    f, g = tw.func("f"), tw.func("g")
    f[i] = (1.0, 2.0)
    g[i] = f[i][2]  # <-


# What a kernel returns -------------------------------------------------------------------------------------------


@case(tw.DefinitionError, "definition.output", "returns a Func", "C[:M, :N]")
def a_func_without_a_slice(watch):
    def k(A: tw.f32[N]):  # <-
        f = tw.func("f")
        f[i] = A[i]
        return f

    tw.kernel(k)


@case(tw.DefinitionError, "definition.no-output", "returns nothing", "return C[:M, :N]")
def no_output(watch):
    def k(A: tw.f32[N]):  # <-
        f = tw.func("f")
        f[i] = A[i]

    tw.kernel(k)


@case(tw.DefinitionError, "definition.output-slice", "no stop", "start:stop")
def a_slice_without_a_stop(watch):
    returned(lambda f: f[1:])  # <-


@case(tw.DefinitionError, "definition.output-slice", "a step", "steps are not allowed")
def a_slice_with_a_step(watch):
    returned(lambda f: f[:N:2])  # <-


@case(tw.DefinitionError, "definition.output-slice", "cut at i", "sizes, scalars and numbers")
def a_slice_up_to_a_var(watch):
    returned(lambda f: f[:i])  # <-


@case(tw.DefinitionError, "definition.index-type", "must be an integer")
def a_slice_up_to_a_fraction(watch):
    returned(lambda f: f[: N / 2])  # <-


# Symbols taken for values ---------------------------------------------------------------------------------------


def symbolic(*texts: str) -> Callable:
    return case(tw.SymbolicUseError, "symbolic-use", *texts)


@symbolic("truth value", "tw.select")
def bool_of_an_expression(watch):
    written(lambda A: bool(A[i]))  # <-


@symbolic("& | ~")
def conjunction_by_and(watch):
    written(lambda A: tw.select((A[i] > 0) and (A[i] < 1), 1.0, 0.0))  # <-


@symbolic("& | ~")
def disjunction_by_or(watch):
    written(lambda A: tw.select((A[i] > 0) or (A[i] < 1), 1.0, 0.0))  # <-


@symbolic("& | ~")
def negation_by_not(watch):
    written(lambda A: tw.select(not (A[i] > 0), 1.0, 0.0))  # <-


@symbolic("tw.inside(x, lo, hi) for a chained comparison")
def a_chained_comparison(watch):
    written(lambda A: tw.select(0 < A[i] < 1, 1.0, 0.0))  # <-


@symbolic("tw.select instead of if")
def a_choice_by_if(watch):
    written(lambda A: 1.0 if A[i] > 0 else 0.0)  # <-


@symbolic("tw.maximum")
def the_builtin_max(watch):
    written(lambda A: max(A[i], 0.0))  # <-


@symbolic("round()", "tw.round(x)")
def the_builtin_round(watch):
    written(lambda A: round(A[i]))  # <-


@symbolic("divmod()", "x // y")
def the_builtin_divmod(watch):
    written(lambda A: divmod(A[i], 2)[0])  # <-


@symbolic("tw.exp and the like")
def the_math_module(watch):
    written(lambda A: math.exp(A[i]))  # <-


@symbolic("len()", "tw.sizes")
def len_of_an_input(watch):
    written(lambda A: len(A))  # <-


@symbolic("iteration", "tw.rdom")
def iteration_over_an_input(watch):
    written(lambda A: sum(A))  # <-


@symbolic("integer conversion", "static")
def a_loop_over_a_size(watch):
    written(lambda A: sum(A[k] for k in range(N)))  # <-


@symbolic("'in'", "tw.inside")
def membership(watch):
    written(lambda A: 1.0 if 3 in A else 0.0)  # <-


@symbolic("index it")
def a_function_of_numpy_on_an_input(watch):
    written(lambda A: np.sum(A))  # <-


@symbolic("conversion to an array")
def a_choice_by_numpy(watch):
    written(lambda A: np.where(A[i] > 0, 1, 2))  # <-


@case(tw.TypeRuleError, "type.ufunc", "np.heaviside has no meaning", "np.exp")
def a_ufunc_without_meaning(watch):
    written(lambda A: np.heaviside(A[i], 0))  # <-


@case(tw.TypeRuleError, "type.ufunc", "np.add has no meaning")
def a_ufunc_method(watch):
    written(lambda A: np.add.reduce(A[i]))  # <-


@symbolic("arithmetic on all of A at once", "A[i]")
def arithmetic_on_whole_inputs(watch):
    written(lambda A: 2.0 * A)  # <-


@symbolic("arithmetic on all of g at once")
def arithmetic_on_whole_funcs(watch):
    g = tw.func("g")
    g[i] = 1.0
    written(lambda A: g + 1)  # <-


@symbolic("@", "tw.rdom")
def a_matrix_product(watch):
    written(lambda A: A[i] @ A[i])  # <-


# Types ----------------------------------------------------------------------------------------------------------


@case(tw.TypeRuleError, "type.value", "(Array) can't be part of an expression", "tw.const")
def an_input_as_a_value(watch):
    written(lambda A: tw.exp(A))  # <-


@case(tw.TypeRuleError, "type.value", "'x' (str)")
def a_text_as_an_index(watch):
    written(lambda A: A["x"])  # <-


@case(tw.DefinitionError, "definition.index-type", "has type f64", "must be an integer")
def a_fraction_as_an_index(watch):
    written(lambda A: A[i / 2])  # <-


@case(tw.TypeRuleError, "type.literal", "300 does not fit u8 (0..255)")
def a_literal_that_does_not_fit(watch):
    written(lambda A: tw.cast(tw.u8, A[i]) + 300)  # <-


@case(tw.TypeRuleError, "type.unknown", "'f99' is not an element type", "known types")
def an_unknown_type(watch):
    written(lambda A: tw.cast("f99", A[i]))  # <-


@case(tw.TypeRuleError, "type.unknown", "A[i] is not an element type")
def a_cast_the_wrong_way_round(watch):
    written(lambda A: tw.cast(A[i], tw.f32))  # <-


@case(tw.TypeRuleError, "type.float-needed", "tw.cast(tw.f32, x)")
def a_function_of_an_integer(watch):
    written(lambda A: tw.exp(i))  # <-


@case(tw.TypeRuleError, "type.condition", "compare it")
def a_condition_that_is_none(watch):
    written(lambda A: tw.select(A[i], 1.0, 0.0))  # <-


@case(tw.TypeRuleError, "type.power", "tw.pow")
def a_power_that_is_not_constant(watch):
    written(lambda A: A[i] ** 0.5)  # <-


@case(tw.TypeRuleError, "type.definition", "g has type f32", "tw.cast(tw.f32, ...)")
def a_value_of_another_type(watch):
    g = tw.func("g", tw.f32)
    g[i] = tw.cast(tw.f64, i)  # <-


@case(tw.DefinitionError, "definition.table-type", "complex128", "known types")
def a_table_of_an_unknown_type(watch):
    tw.const(np.ones(3, complex))  # <-


# Schedules ------------------------------------------------------------------------------------------------------


@case(tw.ScheduleError, "schedule.unknown-stage", "no stage 'h'", "known: f")
def an_unknown_stage(watch):
    watch(scale.schedule())["h"]  # <-


@case(tw.ScheduleError, "schedule.unknown-stage", "did you mean s.update?")
def an_unknown_update(watch):
    watch(total.schedule())["s.update[3]"]  # <-


@case(tw.ScheduleError, "schedule.ambiguous-stage", "s.init, s.update")
def loops_of_a_func_with_several_stages(watch):
    s = watch(total.schedule())
    s["s"].vectorize("i", 8)  # <-


@case(tw.ScheduleError, "schedule.unknown-loop", "no loop 'q'", "known: i, j")
def an_unknown_loop(watch):
    s = watch(scale.schedule())
    s["f"].split("q", "a", "b", 4)  # <-


@case(tw.ScheduleError, "schedule.ambiguous-loop", "f.i, g.i")
def an_ambiguous_loop(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    watch(s)["f"].compute_at("i")  # <-


@case(tw.ScheduleError, "schedule.name-twice", "io is named twice")
def a_loop_named_twice(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "io", "io", 4)  # <-


@case(tw.ScheduleError, "schedule.name-twice", "f has a loop j already", "names in use: j")
def a_loop_that_is_there_already(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "io", "j", 4)  # <-


@case(tw.ScheduleError, "schedule.name", "j stands where a name is wanted", "texts")
def a_var_for_the_name_of_a_loop(watch):
    s = watch(scale.schedule())
    s["f"].vectorize(j, 4)  # <-


@case(tw.ScheduleError, "schedule.name", "3 stands where a name is wanted")
def a_number_for_a_stage(watch):
    watch(scale.schedule())[3]  # <-


@case(tw.ScheduleError, "schedule.illegal-place", "legal places: root, g.i", "used by g", "cache_write")
def a_place_inside_itself(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    watch(s)["f"].compute_at("f.i")  # <-


@case(tw.ScheduleError, "schedule.output-place", "g is an output", "cache_write")
def an_output_inside_its_producer(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    watch(s)["g"].compute_at("f.i")  # <-


@case(tw.ScheduleError, "schedule.reduction-order", "must keep their order (x, y)", "pure loops")
def an_impure_reduction_reordered(watch):
    s = watch(paths.schedule())
    s["p.update"].reorder("y", "x")  # <-


@case(tw.ScheduleError, "schedule.not-associative", "not known to be associative", "sum, product")
def an_impure_reduction_in_parallel(watch):
    s = watch(paths.schedule())
    s["p.update"].parallel("x")  # <-


@case(tw.ScheduleError, "schedule.not-associative", "keep the loop serial")
def an_impure_reduction_in_vectors(watch):
    s = watch(paths.schedule())
    s["p.update"].vectorize("y", 4)  # <-


@case(tw.ScheduleError, "schedule.extent", "f.j can't be vectorized", "vectorize('j', 8)")
def vectors_of_no_constant_length(watch):
    s = scale.schedule()
    s["f"].vectorize("j")  # <-
    scale.compile(watch(s))


@case(tw.ScheduleError, "schedule.factor", "positive integer")
def a_factor_of_zero(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "a", "b", 0)  # <-


@case(tw.ScheduleError, "schedule.factor", "by N", "positive integer")
def a_factor_that_is_a_size(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "a", "b", N)  # <-


@case(tw.ScheduleError, "schedule.tail", "guard, shift, round_up")
def an_unknown_tail(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "a", "b", 4, tail="none")  # <-


@case(tw.ScheduleError, "schedule.not-read", "zz is not read by f", "it reads A")
def a_copy_of_what_is_not_read(watch):
    watch(scale.schedule()).cache_read("zz", at="f.i")  # <-


@case(tw.ScheduleError, "schedule.memory", "no memory called 'l7'", "its memories")
def an_unknown_memory(watch):
    s = watch(scale.schedule(machine="snitch-cluster"))
    s["f"].store_in("l7")  # <-


@case(MachineError, "machine.unknown", "no machine called 'abacus'", "presets: ")
def an_unknown_machine(watch):
    scale.schedule(machine="abacus")  # <-


@case(CapacityError, "capacity.exceeded", "tcdm", "more than it has", "the smallest change that fits")
def more_than_a_memory_holds(watch):
    @tw.kernel
    def fixed(A: tw.f32[512, 512]):
        f, g = tw.func("f"), tw.func("g")
        f[i, j] = A[i, j] * 2
        g[i, j] = f[i, j] + f[j, i]
        return g[:512, :512]

    s = fixed.schedule(machine="snitch-cluster")
    s["f"].compute_root().store_in("tcdm")
    watch(s).check()  # <-


@case(tw.ScheduleError, "schedule.strict", "s.update.r", "keep that loop serial")
def another_order_in_strict_mode(watch):
    s = total.schedule()
    s["s.update"].parallel("r")
    total.compile(watch(s), mode="strict")  # <-


@case(tw.ScheduleError, "schedule.algorithm", "two_stages, not scale", "kernel.schedule()")
def the_schedule_of_another_kernel(watch):
    scale.compile(watch(two_stages.schedule()))  # <-


@case(tw.ScheduleError, "schedule.kind", "no schedule", "tw.parse_schedule")
def a_text_for_a_schedule(watch):
    scale.compile("schedule scale\n")  # <-


@case(tw.ScheduleError, "schedule.unknown-knob", "no knob 'a'")
def an_unknown_knob(watch):
    watch(scale.schedule()).with_knobs(a=3)  # <-


# Text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "text", "line", "column", "expected"),
    [
        (tw.parse_kernel, "kernel k(A: f32[N])\n  f[i] = A[i] +\n  return f[0:N]\n", 2, 16, "expected"),
        (tw.parse_kernel, "kernel k(A: f32[N]):\n", 1, 20, "the end of the line"),
        (tw.parse_kernel, "", 1, 1, "expected one"),
        (lambda t: tw.parse_schedule(t, scale), "schedule scale\n  f:\n    split i -> io, ii by\n", 3, 25, "expected"),
        (lambda t: tw.parse_schedule(t, scale), "schedule scale\n  f:\n    split i -> io: 4\n", 3, 18, "expected"),
    ],
)
def test_text_that_can_not_be_read(read, text, line, column, expected):
    with pytest.raises(tw.ParseError) as e:
        read(text)
    place = e.value.where[0]
    assert (place.file, place.line, place.column) == ("<text>", line, column)
    assert f"<text>:{line}:{column}: " in str(e.value) and expected in str(e.value)


def test_text_of_a_directive_that_is_not_legal():
    with pytest.raises(tw.ScheduleError, match="known: i, i_u, j") as e:
        tw.parse_schedule("schedule scale\n  f:\n    unroll i by 4\n    unroll q by 4\n", scale)
    assert e.value.code == "schedule.unknown-loop" and e.value.where[0].line == 4


# Calls ----------------------------------------------------------------------------------------------------------


@case(tw.BoundsError, "bounds.unbounded", "axis 0 of A", "x[i]", "no lower bound", "tw.clamp", "tw.assume")
def an_index_from_data_without_bounds(watch):
    @tw.kernel
    def k(A: tw.f32[N], x: tw.i64[M]):
        f = tw.func("f")
        f[i] = A[x[i]]  # <-
        return f[:M]

    k(watch(vector()), watch(np.zeros(3, np.int64)))


@case(tw.BoundsError, "bounds.input", "axis 0 of A: elements 1..6", "6 elements (0..5)", "tw.repeat_edge")
def an_input_that_is_too_small(watch):
    shifted(watch(vector()))


@case(tw.BoundsError, "bounds.input", "axis 0 of A: elements 1..6", "6 elements (0..5)")
def an_input_that_is_too_small_for_the_reference(watch):
    shifted.reference(watch(vector()))


@case(tw.BoundsError, "bounds.output", "stops at -1", "start <= stop")
def an_output_of_negative_length(watch):
    two_stages(vector(1))


@case(tw.ArgumentError, "argument.dtype", "A must be f32 and is an array of float64", "x.astype(np.float32)")
def an_array_of_another_type(watch):
    scale(watch(matrix().astype("f8")), 2.0)  # <-


@case(tw.ArgumentError, "argument.byte-order", "byte order", "x.astype(np.float32)")
def a_byte_swapped_array(watch):
    scale(watch(matrix().astype(">f4")), 2.0)  # <-


@case(tw.ArgumentError, "argument.misaligned", "not aligned to its elements (4 bytes)", "x.copy()")
def a_misaligned_array(watch):
    scale(watch(np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)), 2.0)  # <-


@case(tw.ArgumentError, "argument.object", "Python objects", "x.astype(np.float32)")
def an_array_of_objects(watch):
    scale(np.array([[1, 2]], object), 2.0)  # <-


@case(tw.ArgumentError, "argument.rank", "2 axes (A: f32[M, N])", "has 1")
def an_array_of_another_rank(watch):
    scale(watch(vector()), 2.0)  # <-


@case(tw.ArgumentError, "argument.size-mismatch", "N is 6 by axis 0 of A and 5 by axis 0 of B")
def arrays_of_different_sizes(watch):
    added(watch(vector()), watch(vector(5)))  # <-


@case(tw.ArgumentError, "argument.not-array", "A must be an array of f32 and is a list", "np.asarray(x, np.float32)")
def a_list_for_an_array(watch):
    scale([[1.0, 2.0]], 2.0)  # <-


@case(tw.ArgumentError, "argument.not-array", "is a NoneType")
def nothing_for_an_array(watch):
    scale(None, 2.0)  # <-


@case(tw.ArgumentError, "argument.scalar-kind", "alpha must be a number (f32) and is str")
def a_text_for_a_scalar(watch):
    scale(watch(matrix()), "2")  # <-


@case(tw.ArgumentError, "argument.scalar-kind", "n must be an integer (i32) and is 2.5")
def a_fraction_for_an_integer(watch):
    ramp(2.5, sizes={"M": 3})  # <-


@case(tw.ArgumentError, "argument.scalar-range", "-2147483648..2147483647")
def an_integer_that_is_too_large(watch):
    ramp(2**40, sizes={"M": 3})  # <-


@case(tw.ArgumentError, "argument.missing", "alpha is missing", "it takes A, alpha")
def a_missing_argument(watch):
    scale(watch(matrix()))  # <-


@case(tw.ArgumentError, "argument.missing", "A is missing")
def a_missing_argument_that_selects_the_type(watch):
    generic()  # <-


@case(tw.ArgumentError, "argument.count", "3 arguments are given", "it takes A, alpha")
def an_argument_too_many(watch):
    scale(watch(matrix()), 2.0, 3.0)  # <-


@case(tw.ArgumentError, "argument.unknown", "no parameter 'beta'", "it takes A, alpha")
def an_unknown_keyword(watch):
    scale(watch(matrix()), 2.0, beta=1)  # <-


@case(tw.ArgumentError, "argument.duplicate", "alpha is given twice")
def an_argument_given_twice(watch):
    scale(watch(matrix()), 2.0, alpha=3.0)  # <-


@case(tw.ArgumentError, "argument.size-negative", "size M is -3", "not negative")
def a_negative_size(watch):
    ramp(2, sizes={"M": -3})  # <-


@case(tw.ArgumentError, "argument.size-undetermined", "no input determines the size M", "sizes=dict(M=...)")
def a_size_that_nothing_determines(watch):
    ramp(2)  # <-


@case(tw.ArgumentError, "argument.size-unknown", "no size 'Q'", "its sizes: M")
def an_unknown_size(watch):
    ramp(2, sizes={"Q": 3})  # <-


@case(tw.ArgumentError, "argument.size-kind", "sizes= is [3]", "sizes=dict(M=3)")
def sizes_that_are_no_dict(watch):
    ramp(2, sizes=[3])  # <-


@case(tw.ArgumentError, "argument.threads", "threads= is 0", "positive integer")
def no_threads(watch):
    scale(watch(matrix()), 2.0, threads=0)  # <-


@case(tw.ArgumentError, "argument.static", "unhashable type: 'list'", "a tuple")
def an_unhashable_static_value(watch):
    tapped(watch(vector()), taps=[1, 2], alpha=1.0)  # <-


@case(tw.ArgumentError, "argument.static", "needs the static value taps", "taps=...")
def a_missing_static_value(watch):
    tapped(watch(vector()), alpha=1.0)  # <-


@case(tw.ArgumentError, "argument.unknown", "no static parameter foo", "it has: taps")
def an_unknown_static_value(watch):
    tapped.schedule(taps=(1,), foo=3)  # <-


@case(tw.ArgumentError, "argument.dtype", "T can't be i32", "f32, f64")
def a_type_that_is_no_choice(watch):
    generic(watch(np.ones(3, np.int32)))  # <-


@case(tw.ArgumentError, "argument.dtype", "A has no element type: it is a list", "np.asarray")
def a_list_where_the_type_counts(watch):
    generic([1.0])  # <-


@case(tw.DefinitionError, "definition.generic", "the type T of A is not known", "dtypes={'T': tw.f32}")
def a_generic_schedule_without_a_type(watch):
    generic.schedule()  # <-


@case(tw.ArgumentError, "argument.unknown", "no type variable U", "it has: T")
def an_unknown_type_variable(watch):
    generic.schedule(dtypes={"U": "f32"})  # <-


# Outputs --------------------------------------------------------------------------------------------------------


def output(*texts: str) -> Callable:
    return case(tw.ArgumentError, "argument.out", *texts)


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


@case(tw.ArgumentError, "argument.alias", "f shares memory with A", "each element is read for itself alone")
def an_output_on_an_input_that_is_still_read(watch):
    a = watch(vector())
    stencil(a, out=a[:5])  # <-


@case(tw.ArgumentError, "argument.alias", "X shares memory with A")
def an_inout_on_an_input(watch):
    a = watch(vector())
    accumulate(a[1:], a[:-1])  # <-


@case(tw.ArgumentError, "argument.alias", "g shares memory with f", "another array")
def one_array_for_two_outputs(watch):
    out = watch(vector())
    both(watch(vector()), out={"f": out, "g": out})  # <-


# Questions ------------------------------------------------------------------------------------------------------


@case(tw.ArgumentError, "argument.element", "no element (9, 9) of f", "its shape is (2, 3)")
def why_beyond_the_end(watch):
    scale.why(watch(matrix()), 2.0, out=(9, 9))  # <-


@case(tw.DefinitionError, "definition.unknown-func", "no Func 'zz'", "it has: f")
def an_unknown_intermediate(watch):
    scale.reference(watch(matrix()), 2.0, keep=["zz"])  # <-


@case(tw.ArgumentError, "argument.size-unknown", "the value of N is not known", "N=...")
def required_inputs_without_a_size(watch):
    scale.required_inputs(M=3)  # <-


@case(tw.CompileError, "compile.pass", "no pass 'zz'", "passes: nest, flatten")
def an_unknown_pass(watch):
    fast = scale.compile()
    fast.dump("zz")  # <-


# The test itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.run.__name__)
def test_is_refused(case: Case) -> None:
    watch = Watch()
    with pytest.raises(case.error) as e:
        case.run(watch)
    error = e.value
    place = error.where[0]
    assert error.code == case.code
    assert place.file == __file__ and "# <-" in linecache.getline(__file__, place.line), str(error)
    assert str(error).startswith(f"{__file__}:{place.line}: ") and f"[{case.code}]" in str(error)
    for text in case.texts:
        assert text in str(error)
    watch.unchanged()


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
    with pytest.raises(tw.ArgumentError, match="out="):
        scale(matrix(), 2.0, out=out)
    good = np.zeros((2, 3), np.float32)
    assert scale(matrix(), 2.0, out=good) is good and (good == 2 * matrix()).all()


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
