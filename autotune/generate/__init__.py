"""Spaces of schedules that are generated for any pipeline: structured choices over directives, by the form of definitions.

A rule looks at a Func in the state that a draft is in and offers forms, each of which writes directives and may choose more
(tile sizes, orders, places). Rules are asked in three passes: about the pipeline as a whole (one pass over blocks,
a plan), then where each Func is computed, consumers first, then how its loops run, consumers first. The first choice is
always to say nothing: what nobody writes has the default schedule, so that the all-usual point is the default schedule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.autotune.generate.draft import USUAL, Draft, Form, Rule, Setting
from tilewright.autotune.generate.extents import Extents
from tilewright.autotune.generate.groups import grouped
from tilewright.autotune.generate.online import one_pass
from tilewright.autotune.generate.products import tile_forms
from tilewright.autotune.generate.pure import pure_forms
from tilewright.autotune.generate.updates import update_forms
from tilewright.autotune.space import Choose, Point, Value, draw
from tilewright.codegen.data_caches import data_caches
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.default import complete
from tilewright.schedule.default_places import place
from tilewright.schedule.registers import Registers, host_registers
from tilewright.schedule.schedule import Schedule

_CACHES = (32 << 10, 1 << 20, 32 << 20)  # where the system does not say

WHOLE: tuple[Rule, ...] = (one_pass, grouped)
PLACES: tuple[Rule, ...] = ()
LOOPS: tuple[Rule, ...] = (tile_forms, pure_forms, update_forms)


class GeneratedSpace:
    """Schedules of a pipeline at these sizes, by general rules; every one of them is complete.

    `registers` are those of this processor where they are not given, `threads` how many a call may have. With
    `order="fixed"` reductions combine as the default schedule has them. `machine` names a simulated machine.
    """

    name = "generated"

    def __init__(
        self, pipeline: Pipeline, sizes: Mapping[str, int], registers: Registers | None = None, threads: int = 1,
        mode: str = "contract", order: str = "free", machine: object = None,
    ):  # fmt: skip
        self.pipeline = pipeline
        self.machine = machine
        caches = tuple(c.size for c in data_caches(0)) or _CACHES
        self.at = Setting(
            dict(sizes), registers or host_registers(), caches, threads, mode, order, Extents(pipeline, sizes)
        )

    def build(self, choose: Choose) -> Schedule:
        s = Schedule(self.pipeline)
        stages = s.state.stages
        d = Draft(s, self.at, choose, list(stages), rules=LOOPS)
        d.offer("whole", "", WHOLE)
        for name in reversed(s.state.order):
            d.offer("place", name, PLACES)
        place(s, self.at.registers)
        for name in reversed(s.state.order):
            d.form(name)
        return complete(s, self.at.mode, self.at.registers, also=[k for k in d.untouched if k in s.state.stages])

    def starts(self) -> list[Point]:
        """Points to begin with: the default schedule, then for every form of the whole all forms usual, and all of them the
        first that a rule offers, with the usual choices inside; each schedule once."""
        wholes: list[Value] = [USUAL]

        def forms(whole: Value, written: bool) -> Choose:
            def choose(name: str, choices: Sequence[Value]) -> Value:
                if name == "whole":
                    wholes[1:] = [c for c in choices if c != USUAL]
                    return whole if whole in choices else choices[0]
                return choices[1] if written and name.endswith(".form") else choices[0]

            return choose

        found = [p for p in (draw(self, forms(USUAL, w)) for w in (False, True)) if p is not None]
        found += [p for x in wholes[1:] for w in (False, True) if (p := draw(self, forms(x, w))) is not None]
        return list({p.hash: p for p in found}.values())


__all__ = ["USUAL", "Draft", "Form", "GeneratedSpace", "Rule", "Setting"]
