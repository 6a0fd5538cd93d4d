"""Spaces of schedules that are generated for any pipeline: structured choices over directives, by the form of definitions.

A rule looks at a Func in the state that a draft is in and offers forms, each of which writes directives and may choose more
(tile sizes, orders, places). Rules are asked in two passes: about the pipeline as a whole (where its Funcs are computed,
one pass over blocks, a plan), then how the loops of each Func run, consumers first. The first choice is always to say
nothing: what nobody writes has the default schedule, so that the all-usual point is the default schedule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.autotune.generate.draft import USUAL, Draft, Form, Rule, Setting
from tilewright.autotune.generate.extents import Extents
from tilewright.autotune.generate.groups import grouped
from tilewright.autotune.generate.machines import MachineSpace, machine_of
from tilewright.autotune.generate.online import one_pass
from tilewright.autotune.generate.plans import planned
from tilewright.autotune.generate.products import tile_forms
from tilewright.autotune.generate.pure import pure_forms
from tilewright.autotune.generate.updates import update_forms
from tilewright.autotune.order import order_of, pinned
from tilewright.autotune.space import Choose, Dead, Point, Value, draw
from tilewright.codegen.accounts.prepared import registers_of
from tilewright.codegen.data_caches import data_caches
from tilewright.lang.pipeline import Pipeline
from tilewright.planner.tilings import pad_of
from tilewright.schedule.default import complete
from tilewright.schedule.default_places import place
from tilewright.schedule.registers import Registers, host_registers
from tilewright.schedule.schedule import Schedule

_CACHES = (32 << 10, 1 << 20, 32 << 20)  # where the system does not say

WHOLE: tuple[Rule, ...] = (one_pass, grouped, planned)
LOOPS: tuple[Rule, ...] = (tile_forms, pure_forms, update_forms)


class GeneratedSpace:
    """Schedules of a pipeline at these sizes, by general rules; every one of them is complete.

    `registers` are those of this processor where they are not given, `threads` how many a call may have. With
    `order="fixed"` reductions combine as the default schedule has them. `machine` (a name, a Machine or the text of its
    file) is a simulated one: schedules are bound to it, and tiles lie in its scratchpad where it has one.
    """

    name = "generated"

    def __init__(
        self, pipeline: Pipeline, sizes: Mapping[str, int], registers: Registers | None = None, threads: int = 1,
        mode: str = "contract", order: str = "free", machine: object = None,
    ):  # fmt: skip
        self.pipeline = pipeline
        self.machine = on = machine_of(machine)
        caches = tuple(c.size for c in (data_caches(0) if on is None else on.caches)) or _CACHES
        registers = registers or (on and registers_of(on)) or host_registers()
        self.at = Setting(dict(sizes), registers, caches, threads, mode, order, Extents(pipeline, sizes))
        self._staged = MachineSpace(pipeline, sizes, on, mode) if on is not None and pad_of(on) is not None else None

    def build(self, choose: Choose) -> Schedule:
        made = self._by_rules(choose) if self._staged is None else self._staged.build(choose, self._by_rules)
        if self.at.order == "fixed" and order_of(made, self.at.mode) != pinned(self.pipeline, self.at.mode):
            raise Dead  # by what the default adds to a stage that was moved
        return made

    def _by_rules(self, choose: Choose) -> Schedule:
        s = Schedule(self.pipeline, self.machine)
        stages = s.state.stages
        d = Draft(s, self.at, choose, list(stages), rules=LOOPS)
        d.offer("whole", "", WHOLE)
        place(s, self.at.registers)
        for name in reversed(s.state.order):
            d.form(name)
        return complete(s, self.at.mode, self.at.registers, also=[k for k in d.untouched if k in s.state.stages])

    def starts(self) -> list[Point]:
        """Points to begin with: the default schedule, then for every form of the whole all forms usual, and all of them the
        first that a rule offers, with the usual choices inside; each schedule once."""
        if self._staged is not None:
            return self._staged.starts()
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
