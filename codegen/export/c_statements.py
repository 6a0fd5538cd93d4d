"""Statements of a document as C: loops with the names of the schedule, copies as calls of the DMA hooks (c_copies)."""

from __future__ import annotations

from tilewright.codegen.export.c_copies import Copies, times
from tilewright.codegen.export.c_expressions import STORED, VALUES, Expressions, comment, fresh, identifier
from tilewright.codegen.export.expressions import Json
from tilewright.codegen.export.touched import reads, statements
from tilewright.lang.types import DTYPES

INDENT = "    "


class Statements:
    """Writes the body of one function. `names` are C names by kind and name ("buffer A"), `arenas` those of the memories
    by name; names that are taken besides are in `taken`."""

    def __init__(self, document: Json, names: dict[str, str], arenas: dict[str, str], taken: set[str]):
        self.buffers: dict[str, Json] = {b["name"]: b for b in document["buffers"]}
        self.stored: dict[str, str] = {b["name"]: b["type"] for b in (*document["arguments"], *document["buffers"])}
        self.names, self.arenas, self.taken = names, arenas, taken
        self.expressions = Expressions(self.stored, names)
        self.ends: dict[str, str] = {}  # of the loops around, by variable
        self.copies = Copies(document, self)
        self.live: list[str] = []  # blocks that are to be given back, as C names

    def text(self, e: Json) -> str:
        return self.expressions.text(e)

    # Lists ------------------------------------------------------------------------------------------------------

    def body(self, statements: list[Json], loop: Json | None = None) -> list[str]:
        """The lines of a list, the body of `loop` perhaps. What is allocated in it is given back at its end."""
        live, out = len(self.live), []
        plan = self.copies.plan(statements, loop)
        for k, s in enumerate(statements):
            out += plan.before(k)
            if k not in plan.done:
                out += getattr(self, "do_" + s["do"])(s)
        out += plan.before(len(statements))
        for name in reversed(self.live[live:]):
            out.append(f"tw_release({name});")
        del self.live[live:]
        return out

    def braced(self, head: str, statements: list[Json], loop: Json | None = None) -> list[str]:
        return [head, *(INDENT + line for line in self.body(statements, loop)), "}"]

    def do_block(self, s: Json) -> list[str]:
        return self.braced("{", s["body"])

    def do_section(self, s: Json) -> list[str]:
        said = s["name"] + (f": {s['reason']}" if s.get("reason") else "")
        if s["kind"] != "unit":
            return [f"/* {comment(said)} */", *self.body(s["body"])]
        lets = self.lets(s)
        m, n, k = map(self.text, s["extents"])
        call = [f"if (!{unit_hook(s['unit'])}(&(tw_unit_call){{", f"{INDENT}.m = {m}, .n = {n}, .k = {k},"]
        call += [f"{INDENT}.{role} = {self.operand(o)}," for role, o in zip("abc", s["operands"], strict=True)]
        return [*lets, *call, *self.braced("})) {", s["body"])]

    def operand(self, o: Json) -> str:
        """A box of a buffer, as units are given it."""
        name, at = self.names["buffer " + o["buffer"]], self.text(o["first"])
        place = name if at == "0" else f"({name} + {self.expressions.within(o['first'], 13)})"
        extents = ", ".join(map(self.text, o["extents"])) or "1"
        steps = ", ".join(times(self, e, o["element"]) for e in o["strides"]) or "0"
        return (
            f"{{(void *){place}, {o['element']}, {max(1, len(o['extents']))}, "
            f"(const tw_index[]){{{extents}}}, (const tw_index[]){{{steps}}}}}"
        )

    def do_fence(self, s: Json) -> list[str]:
        return []  # there is one thread

    def lets(self, s: Json) -> list[str]:
        out = []
        for v in s["let"]:
            key, text = "let " + v["let"], self.text(v["value"])
            self.names[key] = name = fresh([v["let"]], self.taken)
            self.taken.add(name)
            if v["type"] == "index" and self.expressions.nonnegative(v["value"]):
                self.expressions.natural.add(key)
            out.append(f"const {VALUES[v['type']]} {name} = {text};")
        return out

    # Loops and conditions ---------------------------------------------------------------------------------------

    def do_for(self, s: Json) -> list[str]:
        out, key, start = self.lets(s), "var " + s["var"], self.text(s["start"])
        outer = self.names.get(key), key in self.expressions.natural
        name = fresh(short_names(s["var"]), self.taken)
        simple = any(k in s["stop"] for k in ("const", "size", "let"))
        end = stop = self.text(s["stop"])
        self.taken.add(name)
        if not simple:
            end = fresh([f"{name}_end"], self.taken)
            self.taken.add(end)
        natural = self.expressions.nonnegative(s["start"])
        self.bind(key, name, natural)
        self.ends[key] = end
        before, after = self.copies.around(s, start, end, name)
        shared = s["mode"] == "parallel" and not any(t["do"] in ("allocate", "copy") for t in statements(s["body"]))
        if (before or shared) and not simple:  # the end is needed before the loop
            out, simple = [*out, f"const tw_index {end} = {stop};"], True
        head = f"tw_index {name} = {start}" + ("" if simple else f", {end} = {stop}")
        said = s["mode"] if s["mode"] != "serial" else f"spatial on {s['axis']}" if "axis" in s else ""
        note = f" /* {comment(said)} */" if said else ""
        out += [*before, *(["TW_PARALLEL"] if shared else [])]
        out += [*self.braced(f"for ({head}; {name} < {end}; {name}++) {{{note}", s["body"], s), *after]
        self.taken -= {name} if simple else {name, end}
        self.bind(key, *outer)
        return out

    def bind(self, key: str, name: str | None, natural: bool) -> None:
        """A variable has this C name from here on, and is never negative perhaps."""
        if name is not None:
            self.names[key] = name
        (self.expressions.natural.add if natural else self.expressions.natural.discard)(key)

    def do_if(self, s: Json) -> list[str]:
        out = [*self.lets(s), *self.braced(f"if ({self.text(s['condition'])}) {{", s["then"])]
        if s["else"]:
            out[-1:] = self.braced("} else {", s["else"])
        return out

    # Memory -----------------------------------------------------------------------------------------------------

    def do_store(self, s: Json) -> list[str]:
        targets, values = s["targets"], s["values"]
        written = {t["buffer"] for t in targets}
        if len(targets) == 1 or not written & reads({**s, "let": []}):
            out = self.lets(s)
            return out + [
                f"{self.expressions.element(t['buffer'], t['at'])} = {self.narrow(t['buffer'], v)};"
                for t, v in zip(targets, values, strict=True)
            ]
        out, stores = ["{", *(INDENT + line for line in self.lets(s))], []
        for t, v in zip(targets, values, strict=True):  # all values are old ones
            value, at = fresh(["value"], self.taken), fresh(["at"], self.taken | {"value"})
            self.taken |= {value, at}
            kind = STORED[self.stored[t["buffer"]]]
            out.append(f"{INDENT}const {kind} {value} = {self.narrow(t['buffer'], v)};")
            out.append(f"{INDENT}const tw_index {at} = {self.text(t['at'])};")
            stores.append((value, at, f"{INDENT}{self.names['buffer ' + t['buffer']]}[{at}] = {value};"))
        self.taken -= {name for value, at, _ in stores for name in (value, at)}
        return [*out, *(line for _, _, line in stores), "}"]

    def narrow(self, buffer: str, value: Json) -> str:
        """A value as the buffer stores it."""
        t = self.stored[buffer]
        return f"tw_{t}_of_f32({self.text(value)})" if t in ("f16", "bf16") else self.text(value)

    def do_prefetch(self, s: Json) -> list[str]:
        name = self.names["buffer " + s["buffer"]]
        return [*self.lets(s), f"TW_PREFETCH({name}, {self.text(s['at'])}, {int(s['write'])});"]

    def do_allocate(self, s: Json) -> list[str]:
        b = self.buffers[s["buffer"]]
        t, name = STORED[b["type"]], self.names["buffer " + s["buffer"]]
        restrict = "" if s["buffer"] in self.copies.asynchronous else "restrict "
        n = DTYPES[b["type"]].bytes
        if b["offset"] is not None:
            return [f"{t} *{restrict}{name} = ({t} *)({self.arenas[b['memory']]} + {b['offset']});"]
        if b["bytes"] is not None:
            return [f"{t} {name}[{max(1, b['bytes'] // n)}];"]
        out = self.lets(s)
        size = self.expressions.within(s["elements"], 14)
        out.append(f'{t} *{restrict}{name} = tw_allocate("{b["memory"]}", {size} * {n});')
        given_back = "".join(f"tw_release({x}); " for x in reversed(self.live))
        out += [
            f"if (!{name}) {{",
            f"{INDENT}{given_back}return 1;" if not given_back else INDENT + given_back.rstrip(),
        ]
        out += [f"{INDENT}return 1;", "}"] if given_back else ["}"]
        self.live.append(name)
        return out

    def do_copy(self, s: Json) -> list[str]:
        return [*self.lets(s), *self.copies.whole(s)]


def unit_hook(unit: str) -> str:
    """The function that stands for a unit of the machine."""
    return f"tw_unit_{identifier(unit)}"


def short_names(var: str) -> list[str]:
    """C names for a loop variable, the shortest first: the schedule's own name where it is free."""
    parts = var.split(".")
    return [identifier("_".join(parts[-k:])) for k in range(1, len(parts) + 1) if parts[-k][:1].isalpha()] or [
        identifier(var)
    ]


__all__ = ["INDENT", "Statements", "short_names", "unit_hook"]
