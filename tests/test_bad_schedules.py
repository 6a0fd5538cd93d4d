"""What can be wrong in a schedule, written in Python or as text."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.mistakes import Case, Mistakes, N, i, j, paths, scale, total, two_stages
from tilewright.hw import CapacityError, MachineError

mistake = Mistakes()


# Schedules ------------------------------------------------------------------------------------------------------


@mistake(tw.ScheduleError, "schedule.unknown-stage", "no stage 'h'", "known: f")
def an_unknown_stage(watch):
    watch(scale.schedule())["h"]  # <-


@mistake(tw.ScheduleError, "schedule.unknown-stage", "did you mean s.update?")
def an_unknown_update(watch):
    watch(total.schedule())["s.update[3]"]  # <-


@mistake(tw.ScheduleError, "schedule.ambiguous-stage", "s.init, s.update")
def loops_of_a_func_with_several_stages(watch):
    s = watch(total.schedule())
    s["s"].vectorize("i", 8)  # <-


@mistake(tw.ScheduleError, "schedule.unknown-loop", "no loop 'q'", "known: i, j")
def an_unknown_loop(watch):
    s = watch(scale.schedule())
    s["f"].split("q", "a", "b", 4)  # <-


@mistake(tw.ScheduleError, "schedule.ambiguous-loop", "f.i, g.i")
def an_ambiguous_loop(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    watch(s)["f"].compute_at("i")  # <-


@mistake(tw.ScheduleError, "schedule.name-twice", "io is named twice")
def a_loop_named_twice(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "io", "io", 4)  # <-


@mistake(tw.ScheduleError, "schedule.name-twice", "f has a loop j already", "names in use: j")
def a_loop_that_is_there_already(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "io", "j", 4)  # <-


@mistake(tw.ScheduleError, "schedule.name", "j stands where a name is wanted", "texts")
def a_var_for_the_name_of_a_loop(watch):
    s = watch(scale.schedule())
    s["f"].vectorize(j, 4)  # <-


@mistake(tw.ScheduleError, "schedule.name", "3 stands where a name is wanted")
def a_number_for_a_stage(watch):
    watch(scale.schedule())[3]  # <-


@mistake(tw.ScheduleError, "schedule.illegal-place", "legal places: root, g.i", "used by g", "cache_write")
def a_place_inside_itself(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    watch(s)["f"].compute_at("f.i")  # <-


@mistake(tw.ScheduleError, "schedule.output-place", "g is an output", "cache_write")
def an_output_inside_its_producer(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    watch(s)["g"].compute_at("f.i")  # <-


@mistake(tw.ScheduleError, "schedule.reduction-order", "must keep their order (x, y)", "pure loops")
def an_impure_reduction_reordered(watch):
    s = watch(paths.schedule())
    s["p.update"].reorder("y", "x")  # <-


@mistake(tw.ScheduleError, "schedule.not-associative", "not known to be associative", "sum, product")
def an_impure_reduction_in_parallel(watch):
    s = watch(paths.schedule())
    s["p.update"].parallel("x")  # <-


@mistake(tw.ScheduleError, "schedule.not-associative", "keep the loop serial")
def an_impure_reduction_in_vectors(watch):
    s = watch(paths.schedule())
    s["p.update"].vectorize("y", 4)  # <-


@mistake(tw.ScheduleError, "schedule.extent", "f.j can't be vectorized", "vectorize('j', 8)")
def vectors_of_no_constant_length(watch):
    s = scale.schedule()
    s["f"].vectorize("j")  # <-
    scale.compile(watch(s))


@mistake(tw.ScheduleError, "schedule.factor", "positive integer")
def a_factor_of_zero(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "a", "b", 0)  # <-


@mistake(tw.ScheduleError, "schedule.factor", "by N", "positive integer")
def a_factor_that_is_a_size(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "a", "b", N)  # <-


@mistake(tw.ScheduleError, "schedule.tail", "guard, shift, round_up")
def an_unknown_tail(watch):
    s = watch(scale.schedule())
    s["f"].split("i", "a", "b", 4, tail="none")  # <-


@mistake(tw.ScheduleError, "schedule.not-read", "zz is not read by f", "it reads A")
def a_copy_of_what_is_not_read(watch):
    watch(scale.schedule()).cache_read("zz", at="f.i")  # <-


@mistake(tw.ScheduleError, "schedule.memory", "no memory called 'l7'", "its memories")
def an_unknown_memory(watch):
    s = watch(scale.schedule(machine="snitch-cluster"))
    s["f"].store_in("l7")  # <-


@mistake(MachineError, "machine.unknown", "no machine called 'abacus'", "presets: ")
def an_unknown_machine(watch):
    scale.schedule(machine="abacus")  # <-


@mistake(CapacityError, "capacity.exceeded", "tcdm", "more than it has", "the smallest change that fits")
def more_than_a_memory_holds(watch):
    @tw.kernel
    def fixed(A: tw.f32[512, 512]):
        f, g = tw.func("f"), tw.func("g")
        f[i, j] = A[i, j] * 2
        g[i, j] = f[i, j] + f[j, i]
        return g[:512, :512]

    s = fixed.schedule(machine="snitch-cluster")
    s["f"].compute_root()
    s["f"].store_in("tcdm")  # <-
    watch(s).check()


@mistake(CapacityError, "capacity.exceeded", "tcdm", "the smallest change that fits")
def more_than_a_memory_holds_in_a_run(watch):
    s = two_stages.schedule()
    s["f"].compute_root()
    s["f"].store_in("tcdm")  # <-
    two_stages.simulate(watch(s), machine="snitch-cluster", sizes={"N": 100_000})


@mistake(tw.ScheduleError, "schedule.strict", "s.update.r", "keep that loop serial")
def another_order_in_strict_mode(watch):
    s = total.schedule()
    s["s.update"].parallel("r")  # <-
    total.compile(watch(s), mode="strict")


@mistake(tw.ScheduleError, "schedule.algorithm", "two_stages, not scale", "kernel.schedule()")
def the_schedule_of_another_kernel(watch):
    scale.compile(watch(two_stages.schedule()))  # <-


@mistake(tw.ScheduleError, "schedule.kind", "no schedule", "tw.parse_schedule")
def a_text_for_a_schedule(watch):
    scale.compile("schedule scale\n")  # <-


@mistake(tw.ScheduleError, "schedule.unknown-knob", "no knob 'a'")
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


@pytest.mark.parametrize("case", mistake, ids=mistake.names)
def test_is_refused(case: Case) -> None:
    case.check()
