"""What can be wrong in a kernel's text: definitions, outputs, symbols taken for values, types."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tests.mistakes import Case, Mistakes, N, i, j, returned, total, written

# ruff: noqa: B018 - statements that raise

mistake = Mistakes()


# Definitions ----------------------------------------------------------------------------------------------------


@mistake(tw.DefinitionError, "definition.undefined", "g is used before it is defined", "g[i] = ...")
def an_undefined_func(watch):
    f, g = tw.func("f"), tw.func("g")
    f[i] = g[i]  # <-


@mistake(tw.DefinitionError, "definition.undefined", "g is used before it is defined")
def an_undefined_output(watch):
    g = tw.func("g")
    returned(lambda f: g[:N])  # <-


@mistake(tw.DefinitionError, "definition.undefined")
def a_func_of_itself(watch):
    f = tw.func("f")
    f[i] = f[i - 1]  # <-


@mistake(tw.DefinitionError, "definition.rank", "A has 1 axis and is indexed with 2", "A[i0]")
def an_input_of_another_rank(watch):
    written(lambda A: A[i, i])  # <-


@mistake(tw.DefinitionError, "definition.rank", "g has 2 axes and is indexed with 1", "g[i0, i1]")
def a_func_of_another_rank(watch):
    g = tw.func("g")
    g[i, j] = 1.0
    written(lambda A: g[i])  # <-


@mistake(tw.DefinitionError, "definition.rank", "f has 1 axis and is updated with 2 indices", "f[i0]")
def an_update_of_another_rank(watch):
    f = tw.func("f")
    f[i] = 0.0
    f[i, j] = 1.0  # <-


@mistake(tw.DefinitionError, "definition.rank", "sliced with 2", "f[:stop]")
def a_slice_of_another_rank(watch):
    returned(lambda f: f[:N, :N])  # <-


@mistake(tw.DefinitionError, "definition.pure-lhs", "distinct Vars")
def a_var_named_twice(watch):
    f = tw.func("f")
    f[i, i] = 0.0  # <-


@mistake(tw.DefinitionError, "definition.pure-lhs", "is 0", "distinct Vars")
def a_first_definition_of_one_element(watch):
    f = tw.func("f")
    f[0] = 1.0  # <-


@mistake(tw.DefinitionError, "definition.free-var", "j is used", "reduce over it")
def a_var_that_is_not_on_the_left(watch):
    f = tw.func("f")
    f[i] = tw.cast(tw.f32, i + j)  # <-


@mistake(tw.DefinitionError, "definition.name-twice", "i is both a Var and a reduction variable", "rename one")
def a_reduction_variable_called_like_a_var(watch):
    r = tw.rdom(i=N)
    f = tw.func("f")
    f[i] = 0.0
    f[i] += r.i  # <-


@mistake(tw.DefinitionError, "definition.rdom-unused", "no definition runs over", "use one of its variables")
def a_condition_that_no_definition_has(watch):
    @tw.kernel
    def k(A: tw.f32[N]):
        r = tw.rdom(r=N)  # <-
        r.where(A[r] > 0)
        f = tw.func("f")
        f[i] = 0.0
        f[i] += 1  # for each point of nothing
        return f[:N]


@mistake(tw.DefinitionError, "definition.name-twice", "f names", "rename one")
def two_funcs_of_one_name(watch):
    @tw.kernel  # <-
    def k(A: tw.f32[N]):
        f, g = tw.func("f"), tw.func("f")
        f[i] = A[i]
        g[i] = f[i]
        return g[:N]


@mistake(tw.DefinitionError, "definition.name", "'a b' is no name for a Func", "letters")
def a_func_without_a_proper_name(watch):
    tw.func("a b")  # <-


@mistake(tw.DefinitionError, "definition.name", "3 gives no names", '"i j"')
def vars_by_number(watch):
    tw.vars(3)  # <-


@mistake(tw.DefinitionError, "definition.name", "'if' is no name for a size")
def a_size_called_like_a_keyword(watch):
    tw.sizes("if")  # <-


@mistake(tw.DefinitionError, "definition.input", "A is an input and is given a value", "inout")
def an_input_that_is_written(watch):
    def k(A: tw.f32[N]):
        A[i] = 2.0  # <-

    tw.kernel(k)


@mistake(tw.DefinitionError, "definition.rdom-empty", "tw.rdom(k=K)")
def a_domain_without_names(watch):
    tw.rdom(N)  # <-


@mistake(tw.DefinitionError, "definition.rdom-range", "(start, stop)")
def a_range_of_three(watch):
    tw.rdom(k=(0, N, 2))  # <-


@mistake(tw.DefinitionError, "definition.unknown-name", "no variable 'z'", "it has: x, y")
def an_unknown_reduction_variable(watch):
    tw.rdom(x=N, y=N).z  # <-


@mistake(tw.DefinitionError, "definition.rdom-value", "r.x, r.y")
def a_domain_of_two_as_a_value(watch):
    r = tw.rdom(x=N, y=N)  # <-
    written(lambda A: A[r])


@mistake(tw.DefinitionError, "definition.rdom-frozen", "call where() first")
def a_predicate_too_late(watch):
    r = tw.rdom(x=N)
    f = tw.func("f")
    f[i] = 0.0
    f[i] += r
    r.where(r < 3)  # <-


@mistake(tw.DefinitionError, "definition.reduce-over", "over=")
def a_sum_over_nothing(watch):
    written(lambda A: tw.sum(A[i]))  # <-


@mistake(tw.DefinitionError, "definition.foreign-array", "A is read but is no parameter of k")
def an_input_of_another_kernel(watch):
    kept = []
    written(lambda A: kept.append(A) or A[i])

    @tw.kernel  # <-
    def k(B: tw.f32[N]):
        f = tw.func("f")
        f[i] = kept[0][i]
        return f[:N]


@mistake(tw.DefinitionError, "definition.annotation", "parameter A of k has no tilewright type", "tw.f32[M, N]")
def a_parameter_without_a_type(watch):
    @tw.kernel  # <-
    def k(A):
        return None


@mistake(tw.DefinitionError, "definition.extent", "-3", "not negative")
def a_negative_extent(watch):
    @tw.kernel  # <-
    def k(A: tw.f32[-3]):
        return None


@mistake(tw.DefinitionError, "definition.kernel", "@tw.kernel")
def a_kernel_of_no_function(watch):
    tw.kernel("strict")  # <-


@mistake(tw.DefinitionError, "definition.mode", "'sloppy'", "strict, contract, fast")
def an_unknown_mode(watch):
    total.compile(mode="sloppy")  # <-


@mistake(tw.DefinitionError, "definition.tuple-value", "f[...][0]")
def a_tuple_as_a_value(watch):
    f, g = tw.func("f"), tw.func("g")
    f[i] = (1.0, 2.0)
    g[i] = f[i] + 1  # <-


@mistake(tw.DefinitionError, "definition.tuple-component", "2 components", "there is no 2")
def a_component_too_many(watch):
    f, g = tw.func("f"), tw.func("g")
    f[i] = (1.0, 2.0)
    g[i] = f[i][2]  # <-


# What a kernel returns -------------------------------------------------------------------------------------------


@mistake(tw.DefinitionError, "definition.output", "returns a Func", "C[:M, :N]")
def a_func_without_a_slice(watch):
    def k(A: tw.f32[N]):  # <-
        f = tw.func("f")
        f[i] = A[i]
        return f

    tw.kernel(k)


@mistake(tw.DefinitionError, "definition.no-output", "returns nothing", "return C[:M, :N]")
def no_output(watch):
    def k(A: tw.f32[N]):  # <-
        f = tw.func("f")
        f[i] = A[i]

    tw.kernel(k)


@mistake(tw.DefinitionError, "definition.output-slice", "no stop", "start:stop")
def a_slice_without_a_stop(watch):
    returned(lambda f: f[1:])  # <-


@mistake(tw.DefinitionError, "definition.output-slice", "a step", "steps are not allowed")
def a_slice_with_a_step(watch):
    returned(lambda f: f[:N:2])  # <-


@mistake(tw.DefinitionError, "definition.output-slice", "cut at i", "sizes, scalars and numbers")
def a_slice_up_to_a_var(watch):
    returned(lambda f: f[:i])  # <-


@mistake(tw.DefinitionError, "definition.index-type", "must be an integer")
def a_slice_up_to_a_fraction(watch):
    returned(lambda f: f[: N / 2])  # <-


# Symbols taken for values ---------------------------------------------------------------------------------------


def symbolic(*texts: str) -> Callable:
    return mistake(tw.SymbolicUseError, "symbolic-use", *texts)


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


@mistake(tw.TypeRuleError, "type.ufunc", "np.heaviside has no meaning", "np.exp")
def a_ufunc_without_meaning(watch):
    written(lambda A: np.heaviside(A[i], 0))  # <-


@mistake(tw.TypeRuleError, "type.ufunc", "np.add has no meaning")
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


@mistake(tw.TypeRuleError, "type.value", "(Array) can't be part of an expression", "tw.const")
def an_input_as_a_value(watch):
    written(lambda A: tw.exp(A))  # <-


@mistake(tw.TypeRuleError, "type.value", "'x' (str)")
def a_text_as_an_index(watch):
    written(lambda A: A["x"])  # <-


@mistake(tw.DefinitionError, "definition.index-type", "has type f64", "must be an integer")
def a_fraction_as_an_index(watch):
    written(lambda A: A[i / 2])  # <-


@mistake(tw.TypeRuleError, "type.literal", "300 does not fit u8 (0..255)")
def a_literal_that_does_not_fit(watch):
    written(lambda A: tw.cast(tw.u8, A[i]) + 300)  # <-


@mistake(tw.TypeRuleError, "type.unknown", "'f99' is not an element type", "known types")
def an_unknown_type(watch):
    written(lambda A: tw.cast("f99", A[i]))  # <-


@mistake(tw.TypeRuleError, "type.unknown", "A[i] is not an element type")
def a_cast_the_wrong_way_round(watch):
    written(lambda A: tw.cast(A[i], tw.f32))  # <-


@mistake(tw.TypeRuleError, "type.float-needed", "tw.cast(tw.f32, x)")
def a_function_of_an_integer(watch):
    written(lambda A: tw.exp(i))  # <-


@mistake(tw.TypeRuleError, "type.condition", "compare it")
def a_condition_that_is_none(watch):
    written(lambda A: tw.select(A[i], 1.0, 0.0))  # <-


@mistake(tw.TypeRuleError, "type.power", "tw.pow")
def a_power_that_is_not_constant(watch):
    written(lambda A: A[i] ** 0.5)  # <-


@mistake(tw.TypeRuleError, "type.definition", "g has type f32", "tw.cast(tw.f32, ...)")
def a_value_of_another_type(watch):
    g = tw.func("g", tw.f32)
    g[i] = tw.cast(tw.f64, i)  # <-


@mistake(tw.DefinitionError, "definition.table-type", "complex128", "known types")
def a_table_of_an_unknown_type(watch):
    tw.const(np.ones(3, complex))  # <-


@pytest.mark.parametrize("case", mistake, ids=mistake.names)
def test_is_refused(case: Case) -> None:
    case.check()
