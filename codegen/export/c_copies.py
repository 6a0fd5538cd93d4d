"""Copies of a document as calls of the DMA hooks: when each is begun, and what waits for it.

An asynchronous load into a ring of n slots is begun n - 1 iterations before the one that needs it: before the loop for
the first ones, in the loop for the others. Its iteration waits for it before anything touches the slot. An asynchronous
store is waited for before its slot is written again, n iterations later, and where the loop ends. A copy of which this
can't be said (it stands under a condition, what it reads is written in the loop, ...) is waited for at once or before
its first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.codegen.export.c_expressions import STORED, fresh
from tilewright.codegen.export.expressions import Json
from tilewright.codegen.export.touched import mentions, reads, statements, without_lets, writes
from tilewright.lang.types import DTYPES

if TYPE_CHECKING:
    from tilewright.codegen.export.c_statements import Statements

INDENT = "    "


@dataclass
class Plan:
    """Lines that go before the statements of a list, and which of these need no lines of their own."""

    lines: dict[int, list[str]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def before(self, k: int) -> list[str]:
        return self.lines.get(k, [])

    def add(self, k: int, lines: list[str]) -> None:
        known = self.lines.setdefault(k, [])
        known += [x for x in lines if x not in known or not x.startswith("tw_dma_wait")]


class Copies:
    """All copies of a document, and the text of each."""

    def __init__(self, document: Json, writer: Statements):
        self.writer = writer
        self.slots: Mapping[str, int] = {b["name"]: b["slots"] for b in document["buffers"]}
        self.all = [s for s in statements(document["body"]) if s["do"] == "copy"]
        self.asynchronous = {c[side]["buffer"] for c in self.all if self.overlaps(c) for side in ("source", "target")}

    def overlaps(self, c: Json) -> bool:
        """Whether a copy is begun and waited for apart: an asynchronous one by an engine."""
        return c["do"] == "copy" and c["asynchronous"] and not self.by_hand(c)

    def by_hand(self, c: Json) -> bool:
        """Whether the elements change their type: the processor does that."""
        types = self.writer.stored
        return types[c["source"]["buffer"]] != types[c["target"]["buffer"]]

    def ring(self, c: Json) -> Json | None:
        """The side of a copy that turns."""
        sides = [c[side] for side in ("target", "source") if self.slots.get(c[side]["buffer"], 1) > 1]
        return sides[0] if len(sides) == 1 else None

    def is_load(self, c: Json) -> bool:
        return self.ring(c) is c["target"]

    def stores(self, c: Json) -> bool:
        """Whether a copy is an asynchronous one out of a ring."""
        return self.overlaps(c) and self.ring(c) is c["source"]

    # Where ------------------------------------------------------------------------------------------------------

    def turns(self, c: Json, loop: Json | None) -> bool:
        """Whether the slots of a copy in the body of `loop` turn with it."""
        side = self.ring(c)
        return (
            side is not None and loop is not None and mentions(without_lets(side["slot"], c["let"]), "var", loop["var"])
        )

    def ahead(self, c: Json, loop: Json | None) -> bool:
        """Whether a load in the body of a loop may be begun before its iteration."""
        if not (loop is not None and self.overlaps(c) and self.is_load(c) and self.turns(c, loop)):
            return False
        changed = writes(loop)
        local = {s["buffer"] for s in statements(loop["body"]) if s["do"] == "allocate"}
        needed = {c["source"]["buffer"], *(reads(c) - {c["source"]["buffer"]})}
        others = [x for x in loop["body"] if x is not c and c["target"]["buffer"] in writes(x)]
        return not (needed & (changed | local)) and not others

    def plan(self, body: list[Json], loop: Json | None) -> Plan:
        """What goes before the statements of a list; for its end, before the one after the last."""
        plan = Plan()
        early = {k for k, c in enumerate(body) if c["do"] == "copy" and self.ahead(c, loop)}
        if loop is not None and early:
            plan.done |= early
            plan.add(0, self.next([body[k] for k in sorted(early)], loop))
        for k, c in enumerate(body):
            if c["do"] != "copy":
                continue
            for other in self.all:  # what is still on its way to where this one reads
                if other is not c and self.stores(other) and other["target"]["buffer"] == c["source"]["buffer"]:
                    plan.add(k, self.drain(other))
            if self.overlaps(c):
                self._waits(plan, body, k, c, loop)
        return plan

    def _waits(self, plan: Plan, body: list[Json], k: int, c: Json, loop: Json | None) -> None:
        side, inward = c["target"]["buffer"], self.is_load(c)
        if inward or not self.turns(c, loop):
            # before the first statement after it that touches the target or writes the source
            first = 0 if k in plan.done else k + 1
            for j in range(first, len(body)):
                if body[j] is not c and (
                    side in reads(body[j]) | writes(body[j]) or c["source"]["buffer"] in writes(body[j])
                ):
                    plan.add(j, self.wait(c))
                    return
            plan.add(len(body), self.wait(c))
            return
        for j, s in enumerate(body):  # a store: before its slot is written again
            if c["source"]["buffer"] in writes(s):
                plan.add(j, self.wait(c))
                break
        else:
            plan.add(k, self.wait(c))
        for j, s in enumerate(body):  # before anything else touches where it goes
            if s is not c and side in reads(s) | writes(s):
                plan.add(j, self.drain(c))

    def around(self, loop: Json, start: str, end: str, name: str) -> tuple[list[str], list[str]]:
        """Lines before and after a loop: loads for its first iterations, waiting for its last stores."""
        copies = [c for c in loop["body"] if c["do"] == "copy"]
        early = [c for c in copies if self.ahead(c, loop)]
        last = [c for c in copies if self.stores(c) and self.turns(c, loop)]
        return self.first(early, start, end, name), [line for c in last for line in self.drain(c)]

    # Text -------------------------------------------------------------------------------------------------------

    def by_distance(self, copies: list[Json]) -> dict[int, list[Json]]:
        """Loads by how many iterations ahead they are begun."""
        out: dict[int, list[Json]] = {}
        for c in copies:
            out.setdefault(self.slots[c["target"]["buffer"]] - 1, []).append(c)
        return out

    def started(self, copies: list[Json]) -> list[str]:
        return [INDENT + line for c in copies for line in (*self.writer.lets(c), *self.start(c))]

    def first(self, copies: list[Json], start: str, end: str, name: str) -> list[str]:
        """Begin loads for the first iterations."""
        out = []
        for distance, mine in self.by_distance(copies).items():
            if distance == 1:
                sure = start.isdigit() and end.isdigit() and int(start) < int(end)
                out += [
                    "{" if sure else f"if ({start} < {end}) {{",
                    f"{INDENT}const tw_index {name} = {start};",
                    *self.started(mine),
                    "}",
                ]
                continue
            until = str(int(start) + distance) if start.lstrip("-").isdigit() else f"{start} + {distance}"
            head = f"for (tw_index {name} = {start}; {name} < {end} && {name} < {until}; {name}++) {{"
            out += [head, *self.started(mine), "}"]
        return out

    def next(self, copies: list[Json], loop: Json) -> list[str]:
        """Begin loads for iterations after this one."""
        key, w = "var " + loop["var"], self.writer
        name, end, out = w.names[key], w.ends[key], []
        later = fresh([f"{name}_ahead", f"next_{name}"], w.taken)
        for distance, mine in self.by_distance(copies).items():
            w.names[key] = later
            inside = self.started(mine)
            w.names[key] = name
            out += [f"if ({name} + {distance} < {end}) {{", f"{INDENT}const tw_index {later} = {name} + {distance};"]
            out += [*inside, "}"]
        return out

    def wait(self, c: Json) -> list[str]:
        return [f"tw_dma_wait({c['number']}, {self.slot(c)}); /* {c['name']} */"]

    def drain(self, c: Json) -> list[str]:
        """Wait for all slots."""
        ring = self.ring(c)
        slots = self.slots[ring["buffer"]] if ring else 1
        return [f"tw_dma_wait({c['number']}, {k}); /* {c['name']} */" for k in range(slots)]

    def slot(self, c: Json) -> str:
        ring = self.ring(c)
        if ring is None:
            return "0"
        return self.writer.text(without_lets(ring["slot"], c["let"]))  # lets stand where the copy begins

    def whole(self, c: Json) -> list[str]:
        """A copy where it stands: begun, and if it is synchronous waited for."""
        if self.by_hand(c):
            return self.loops(c)
        return [*self.start(c), *([] if self.overlaps(c) else self.wait(c))]

    def start(self, c: Json) -> list[str]:
        """The call that begins a copy."""
        w, t = self.writer, c["target"]
        n = DTYPES[w.stored[t["buffer"]]].bytes
        dims = max(1, len(c["extents"]))

        def words(texts: list[str]) -> str:
            return f"(const tw_index[]){{{', '.join(texts)}}}"

        def bytes_of(side: Json) -> str:
            return words([times(w, e, n) for e in side["strides"]] or [str(n)])

        def address(side: Json) -> str:
            at, name = w.text(side["first"]), w.names["buffer " + side["buffer"]]
            return name if at == "0" else f"{name} + {w.expressions.within(side['first'], 13)}"

        extents = words([w.text(e) for e in c["extents"]] or ["1"])
        return [
            "tw_dma_start(&(tw_copy){",
            f'{INDENT}.name = "{c["name"]}", .number = {c["number"]}, .slot = {self.slot(c)},',
            f"{INDENT}.target = {address(t)}, .source = {address(c['source'])},",
            f"{INDENT}.element = {n}, .dims = {dims}, .extents = {extents},",
            f"{INDENT}.target_strides = {bytes_of(t)}, .source_strides = {bytes_of(c['source'])},",
            "});",
        ]

    def loops(self, c: Json) -> list[str]:
        """A copy that changes the type of elements, by the processor."""
        w = self.writer
        variables = [fresh([f"x{k}"], w.taken) for k in range(len(c["extents"]))]
        indices = []
        for side in (c["source"], c["target"]):
            at = [w.expressions.within(side["first"], 13)]
            at += [f"{v} * {w.expressions.within(e, 15)}" for v, e in zip(variables, side["strides"], strict=True)]
            indices.append(f"{w.names['buffer ' + side['buffer']]}[{' + '.join(at)}]")
        value = _converted(indices[0], w.stored[c["source"]["buffer"]], w.stored[c["target"]["buffer"]])
        out = [f"{indices[1]} = {value};"]
        for v, e in reversed(list(zip(variables, c["extents"], strict=True))):
            head = f"for (tw_index {v} = 0; {v} < {w.expressions.within(e, 12)}; {v}++) {{"
            out = [head, *(INDENT + line for line in out), "}"]
        return out


def times(w: Statements, e: Json, n: int) -> str:
    """A number of elements in bytes."""
    if "const" in e:
        return str(e["const"] * n)
    return w.text(e) if n == 1 else f"{w.expressions.within(e, 14)} * {n}"


def _converted(text: str, source: str, target: str) -> str:
    """An element of one type as it is stored in another."""
    if source in ("f16", "bf16"):
        text, source = f"tw_f32_of_{source}({text})", "f32"
    if target in ("f16", "bf16"):
        return f"tw_{target}_of_f32({'tw_f32_odd(' + text + ')' if source == 'f64' else text})"
    if target == "bool":
        return f"{text} != 0"
    if source[0] == "f" and target[0] != "f":
        return f"tw_{target}_of_{source}({text})"
    return f"({STORED[target]}){text}"


__all__ = ["Copies", "Plan", "times"]
