"""Directives that change no loop: values left open for the tuner, and stages left alone on purpose."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedule.directive import Directive
from tilewright.schedule.directives.kinds import Option, directive
from tilewright.schedule.state import State, find_stage, refuse


@directive("knob", "name", options=(Option("=", "factor", required=True), Option("of", "factors")))
def knob(state: State, d: Directive) -> State:
    """A value that directives below may use as a factor: `knob t = 8 of 4 8 16`, then `split i -> io, ii by $t`.

    Errors: schedule.knob (the value is none of the choices), schedule.name-twice.
    """
    value, choices = d.option("="), d.option("of")
    if isinstance(choices, tuple) and value not in choices:
        shown = ", ".join(map(str, choices))
        raise refuse(f"the knob {d.operands[0]} is {value}, which is none of its choices", "knob", f"choices: {shown}")
    return state


@directive("constrain", "constraint")
def constrain(state: State, d: Directive) -> State:
    """A condition between the knobs above: `constrain "t1 * t2 <= 64"`.

    Values of knobs that break it are refused, now and in every schedule with other values. Comparisons of sums,
    products, `//` and `%` of integers and knobs, joined by `and` and `or`. Errors: schedule.constraint (it does not
    hold, or is no such condition), schedule.unknown-knob.
    """
    return state


@directive("unscheduled", "loop", operands=0)
def unscheduled(state: State, d: Directive) -> State:
    """This stage stays as the algorithm has it: the default schedule does not touch it."""
    return state.with_stage(replace(find_stage(state, d.stage), scheduled=True))
