"""A schedule in the making: what rules of a generated space look at, and how they write and choose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.autotune.generate.extents import Extents
from tilewright.autotune.space import Choose, Dead, Value
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.schedule.build import Builder
from tilewright.schedule.default_loops import cost
from tilewright.schedule.directive import Directive
from tilewright.schedule.ranges import constant_extent
from tilewright.schedule.registers import Registers
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import Key, Stage, State

USUAL = "usual"  # the form of what is left to the default schedule


@dataclass(frozen=True)
class Setting:
    """What schedules of a space are for: sizes (representative ones of a bucket), registers, bytes of the caches from the
    first level on, threads, the mode of floats, and whether reductions may be reordered ("free") or not ("fixed")."""

    sizes: Mapping[str, int]
    registers: Registers
    caches: tuple[int, ...]
    threads: int
    mode: str
    order: str
    extents: Extents
    plans: dict[str, tuple[Directive, ...]] = field(
        default_factory=dict
    )  # that were made for these sizes, by objective

    def cache(self, level: int) -> int:
        """Bytes of a cache, of the last one where there are fewer."""
        return self.caches[min(level, len(self.caches)) - 1]

    @property
    def reorders(self) -> bool:
        """Whether directives may change how partial results of reductions combine."""
        return self.order == "free" and self.mode != "strict"


@dataclass(frozen=True)
class Form:
    """One way to write a part of a schedule: a name, by which it is chosen, and what writes it."""

    name: str
    write: Callable[[Draft], None]


# What may be written about a Func ("" for the pipeline as a whole) in the state at hand: none where there is nothing to say.
Rule = Callable[["Draft", str], Sequence[Form]]


@dataclass(eq=False)
class Draft:
    """A schedule in the making. Rules write directives on `s` and ask for what is open by `choose`."""

    s: Schedule
    at: Setting
    ask: Choose
    untouched: Collection[Key]  # stages as the algorithm has them, whose loops nobody has written
    alike: dict[str, str] = field(default_factory=dict)  # Funcs that are treated like another one, by name
    made: dict[str, Value] = field(default_factory=dict)  # choices so far
    shapes: dict[str, tuple[str, int, int]] = field(
        default_factory=dict
    )  # of rows computed for others: tail, rows, lanes
    lines: set[str] = field(default_factory=set)  # Funcs of which a single row is computed at a time
    rules: Sequence[Rule] = ()  # of loops
    _regions: tuple[State, Builder] | None = None  # of the state that was asked about last
    _built: Builder | None = None

    def choose(self, name: str, choices: Sequence[Value]) -> Value:
        """One of `choices` (the first one is the usual one), each of which is offered once.

        Names start with that of a Func. Of Funcs that are alike only the first one is asked about: the others do the
        same as far as they can.
        """
        func, dot, what = name.partition(".")
        name = f"{self.alike.get(func, func)}{dot}{what}"
        if name not in self.made:
            self.made[name] = self.ask(name, tuple(dict.fromkeys(choices)))
        value = self.made[name]
        return value if value in choices else choices[0]

    def number(self, name: str, choices: Sequence[int]) -> int:
        value = self.choose(name, choices)
        if type(value) is not int:
            raise Dead
        return value

    def flag(self, name: str, usual: bool = False) -> bool:
        return bool(self.choose(name, (usual, not usual)))

    def form(self, name: str) -> None:
        """Choose how the loops of a Func run."""
        self.offer("form", name, self.rules)

    def offer(self, what: str, name: str, rules: Sequence[Rule]) -> None:
        """Choose a form for a Func (or for the pipeline, without a name): the usual one or one that a rule offers."""
        forms = {f.name: f for rule in rules for f in rule(self, name)}
        if not forms:
            return
        chosen = self.choose(f"{name}.{what}" if name else what, (USUAL, *forms))
        if chosen != USUAL:
            forms[str(chosen)].write(self)

    # What there is --------------------------------------------------------------------------------------------

    def func(self, name: str) -> Func:
        return self.s.state.funcs[name].func

    def stages(self, name: str) -> tuple[Stage, ...]:
        return self.s.state.stages_of(name)

    def free(self, name: str) -> bool:
        """Whether nobody has written loops of a Func, and it has some (it is not inlined)."""
        stages = self.stages(name)
        inlined = self.s.state.funcs[name].compute.kind == "inline"
        return bool(stages) and not inlined and all(x.key in self.untouched for x in stages)

    def written(self, *keys: Key) -> None:
        """The loops of stages are written: the default schedule leaves them as they are."""
        self.untouched = [k for k in self.untouched if k not in keys]

    def local(self, name: str, d: Definition, var: Node) -> int:
        """About how far an axis of a Func runs where it is computed in the state at hand; at least 1."""
        built = self.regions().funcs.get(name)
        region = None if built is None else built.region[d.lhs.index(var)]
        if region is None or not region.bounded:
            return self.extent(d, var)
        known = constant_extent(region)
        return self.extent(d, var) if known is None else max(1, min(known, self.extent(d, var)))

    def tail(self, name: str, ask: bool = True) -> str:
        """How rows of a Func that is computed for others end: in whole vectors where nothing is read that may not be there
        (that is a choice, or with `ask` False so wherever it can be)."""
        if name in self.s.state.outputs or not self.at.extents.rounds(name):
            return "guard"
        return str(self.choose(f"{name}.tail", ("round_up", "guard"))) if ask else "round_up"

    def work(self, name: str) -> int:
        """About how many operations an element of a Func takes, with those of what is inlined into it."""
        inlined = {n for n, fs in self.s.state.funcs.items() if fs.compute.kind == "inline" and n != name}
        needed, todo = set[str](), [name]
        while todo:
            more = [n for n in self.s.state.producers(todo.pop()) if n in inlined and n not in needed]
            needed.update(more)
            todo += more
        costs: dict[str, int] = {}
        for n in self.s.state.order:
            if n in needed:
                costs[n] = cost(self.func(n), costs)
        return cost(self.func(name), costs)

    def extent(self, d: Definition, var: Node) -> int:
        """About how many values a variable of a definition has (of its Func as a whole, at these sizes); at least 1."""
        return self.at.extents.of(d, var)

    def regions(self) -> Builder:
        """Regions and ranges of the state at hand."""
        if self._built is None or self._built.state is not self.s.state:
            b = Builder(self.s.state, "strict")
            b.infer()
            self._built = b
        return self._built


__all__ = ["USUAL", "Draft", "Form", "Rule", "Setting"]
