"""A document as C: the kernel's file, its header, and tilewright.h, on which both rest."""

from __future__ import annotations

from importlib import resources

from tilewright.codegen.export.c_expressions import RESERVED, STORED, VALUES, comment, constant, fresh, identifier
from tilewright.codegen.export.c_statements import INDENT, Statements, unit_hook
from tilewright.codegen.export.execute import table
from tilewright.codegen.export.expressions import Json
from tilewright.codegen.export.touched import mentions, statements, touched

RUNTIME = "tilewright.h"

DMA = """\
#ifndef TW_DMA_HOOKS
#define TW_DMA_HOOKS
TW_WEAK void tw_dma_start(const tw_copy *copy)
{
    tw_index at[64] = {0};
    int32_t k, dims = copy->dims;
    char *target = copy->target;
    const char *source = copy->source;
    size_t run = (size_t)copy->element;
    for (k = 0; k < dims; k++)
        if (copy->extents[k] <= 0)
            return;
    if (copy->target_strides[dims - 1] == copy->element && copy->source_strides[dims - 1] == copy->element)
        run *= (size_t)copy->extents[--dims];
    for (;;) {
        memcpy(target, source, run);
        for (k = dims - 1; k >= 0; k--) {
            target += copy->target_strides[k];
            source += copy->source_strides[k];
            if (++at[k] < copy->extents[k])
                break;
            target -= copy->target_strides[k] * copy->extents[k];
            source -= copy->source_strides[k] * copy->extents[k];
            at[k] = 0;
        }
        if (k < 0)
            return;
    }
}

TW_WEAK void tw_dma_wait(int32_t number, int32_t slot)
{
    (void)number;
    (void)slot;
}
#endif
"""
ALLOCATE = """\
#ifndef TW_MEMORY_HOOKS
#define TW_MEMORY_HOOKS
TW_WEAK void *tw_allocate(const char *memory, int64_t bytes)
{
    (void)memory;
    return aligned_alloc(64, bytes > 0 ? ((size_t)bytes + 63) / 64 * 64 : 64);
}

TW_WEAK void tw_release(void *block)
{
    free(block);
}
#endif
"""
COMPILER = """\
#if defined(__GNUC__) && !defined(__clang__) && !defined(TW_COMPILER)
#define TW_COMPILER
#pragma GCC optimize ("fp-contract=off") /* products and sums fuse where fma stands, whatever the command line says */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* of buffers that are written before they are read */
#endif
"""
UNIT = """\
#if !defined(TW_OWN_HOOKS) && !defined({hook}_)
#define {hook}_
TW_WEAK int {hook}(const tw_unit_call *call)
{{
    (void)call;
    return 0;
}}
#endif
"""
WEAK = """\
/* What stands in where the program around this file brings no hooks of its own. */
#ifndef TW_OWN_HOOKS
#ifndef TW_WEAK
#if defined(__GNUC__)
#define TW_WEAK __attribute__((weak))
#else
#define TW_WEAK
#endif
#endif
"""


def files(document: Json) -> dict[str, str]:
    """Texts by file name: the kernel, its header, tilewright.h."""
    made = _Function(document)
    name = identifier(document["kernel"])
    runtime = resources.files("tilewright.codegen.export").joinpath(RUNTIME).read_text(encoding="utf-8")
    return {f"{name}.c": made.source(name), f"{name}.h": made.header(name), RUNTIME: runtime}


class _Function:
    def __init__(self, document: Json):
        self.document = document
        self.symbol = "tw_" + identifier(document["kernel"])
        self.names: dict[str, str] = {}
        self.taken: set[str] = {self.symbol, *(f["name"] for f in document["functions"])}
        for kind, field in (("buffer", "arguments"), ("scalar", "scalars"), ("size", "sizes"), ("buffer", "buffers")):
            for x in document[field]:
                names = [identifier(x["name"].removeprefix("out.")), identifier(x["name"])]
                if x.get("role") == "const":  # it stands outside of the function
                    names = [f"{identifier(document['kernel'])}_{names[0]}"]
                self.names[f"{kind} {x['name']}"] = made = fresh(names, self.taken)
                self.taken.add(made)
        self.arenas = {}
        for m in document["memories"]:
            self.arenas[m["name"]] = made = fresh([f"{self.symbol[3:]}_{identifier(m['name'])}"], self.taken)
            self.taken.add(made)
        parts = (s for s in statements(document["body"]) if s["do"] == "section")
        self.units = list(dict.fromkeys(s["unit"] for s in parts if "unit" in s))
        self.writer = Statements(document, self.names, self.arenas, set(self.taken))
        conditions = document["requirements"]
        self.checks = [self._check(k, r) for k, r in enumerate(conditions)]
        self.lines = self.writer.body(document["body"])

    def _check(self, k: int, r: Json) -> list[str]:
        lets = self.writer.lets(r)
        return [*lets, f"if (!({self.writer.text(r['condition'])}))", f"{INDENT}return {100 + k};"]

    # Files ------------------------------------------------------------------------------------------------------

    def header(self, name: str) -> str:
        d = self.document
        guard = f"TILEWRIGHT_{identifier(d['kernel']).upper()}_H"
        lines = [
            f"/* {comment(d['kernel'])}: a kernel exported by tilewright. */",
            f"#ifndef {guard}",
            f"#define {guard}",
        ]
        lines += ["", f'#include "{RUNTIME}"', "", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
        lines += [*self._copies(), *self._about()]
        lines += [f"{self._prototype(restrict=False)};"]
        for unit in self.units:
            lines += ["", f"int {unit_hook(unit)}(const tw_unit_call *call);"]
        for f in d["functions"]:
            arguments = ", ".join(VALUES[t] for t in f["arguments"]) or "void"
            lines += ["", "/* Yours to define: the kernel calls it. It must depend on its arguments alone. */"]
            lines += [f"{VALUES[f['type']]} {f['name']}({arguments});"]
        lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif"]
        return "\n".join(lines) + "\n"

    def source(self, name: str) -> str:
        d = self.document
        used = {s["do"] for s in statements(d["body"])}
        heap = any(b["bytes"] is None for b in d["buffers"])
        lines = ["/*"]
        lines += [f" * {comment(line)}".rstrip() for line in d["schedule"].split("\n")]
        lines += [
            " *",
            " * Exported by tilewright; mode " + d["mode"] + ". Compile with -std=c11 -ffp-contract=off.",
            " */",
        ]
        lines += [COMPILER, f'#include "{name}.h"']
        if heap:
            lines += ["#include <stdlib.h>"]
        lines += [""]
        if "copy" in used or heap or self.units:
            lines += [WEAK + "\n".join(([DMA] if "copy" in used else []) + ([ALLOCATE] if heap else [])) + "#endif", ""]
        for unit in self.units:
            lines += UNIT.format(hook=unit_hook(unit)).split("\n")
        lines += self._memories()
        for a in d["arguments"]:
            if a["role"] == "const" and a["name"] in touched(d["body"]):
                lines += self._table(a)
        lines += [self._prototype(restrict=True), "{"]
        lines += [INDENT + line for line in self._unused()]
        lines += [INDENT + line for check in self.checks for line in check]
        lines += [INDENT + line for line in self.lines]
        lines += [f"{INDENT}return 0;", "}"]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def _memories(self) -> list[str]:
        lines = []
        for m in self.document["memories"]:
            name = self.arenas[m["name"]]
            macro = name.upper()
            lines += [
                f"/* {comment(m['name'])}: {m['bytes']} bytes, used by one call at a time. Define {macro} as an address to",
                " * have them elsewhere. */",
                f"#ifdef {macro}", f"#define {name} ((unsigned char *)({macro}))", "#else",
                f"static _Alignas({m['alignment']}) unsigned char {name}[{max(1, m['bytes'])}];", "#endif", "",
            ]  # fmt: skip
        return lines

    def _table(self, a: Json) -> list[str]:
        t = a["type"]
        kind = "f32" if t in ("f16", "bf16") else t
        values = [constant(v, kind)[0] for v in a["values"]]
        if t in ("f16", "bf16"):
            values = [f"0x{v:04x}" for v in table(a).view("uint16").tolist()]
        name = self.names["buffer " + a["name"]]
        lines = [f"static const {STORED[t]} {name}[{max(1, len(values))}] = {{"]
        lines += [f"{INDENT}{', '.join(values[k : k + 8])}," for k in range(0, len(values), 8)] or [f"{INDENT}0,"]
        return [*lines, "};", ""]

    # The function -----------------------------------------------------------------------------------------------

    def _about(self) -> list[str]:
        """The comment over the prototype."""
        d = self.document
        lines = []
        for a in d["arguments"]:
            if a["role"] != "const":
                shape = ", ".join(self.writer.text(e) for e in a["shape"])
                what = {"in": "read", "out": "written", "inout": "read and written"}[a["role"]]
                layout = f", in layout {a['layout']}" if a["layout"] else ""
                lines.append(f"{self.names['buffer ' + a['name']]}[{shape}]: {a['type']}, {what}{layout}")
        for s in d["sizes"]:
            if s["value"] is not None:
                lines.append(f"{s['name']} is {s['value']}")
        text = "\n * ".join(map(comment, lines))
        return [
            f"/* {text}", " *", " * Arrays are contiguous, the last axis fastest; what is written overlaps nothing else.",
            " * Returns 0; 1 when memory ran out; 100 + k when requirement k does not hold (nothing is written then). */",
        ]  # fmt: skip

    def _copies(self) -> list[str]:
        """A table of the copies, for who writes the hooks."""
        memories = {b["name"]: b["memory"] for b in self.document["buffers"]}
        lines = []
        for c in self.writer.copies.all:
            if self.writer.copies.by_hand(c):
                continue
            ends = " -> ".join(memories.get(c[side]["buffer"], "main") for side in ("source", "target"))
            ring = self.writer.copies.ring(c)
            slots = f", {self.writer.copies.slots[ring['buffer']]} slots" if ring else ""
            kind = "asynchronous" if c["asynchronous"] else "waited for at once"
            lines.append(f"{c['number']}  {c['name']}: {ends}, {len(c['extents']) or 1}D{slots}, {kind}")
        return ["/* Copies by DMA, by number:", *(f" *   {comment(x)}" for x in lines), " */", ""] if lines else []

    def _prototype(self, restrict: bool) -> str:
        d, w = self.document, self.writer
        parameters = []
        for a in d["arguments"]:
            if a["role"] == "const":
                continue
            const = "const " if a["role"] == "in" else ""
            apart = "restrict " if restrict and a["name"] not in w.copies.asynchronous else ""
            parameters.append(f"{const}{STORED[a['type']]} *{apart}{self.names['buffer ' + a['name']]}")
        for s in d["scalars"]:
            kind = "f32" if s["type"] in ("f16", "bf16") else s["type"]
            parameters.append(f"{VALUES[kind]} {self.names['scalar ' + s['name']]}")
        parameters += [f"tw_index {self.names['size ' + s['name']]}" for s in d["sizes"] if s["value"] is None]
        return f"int {self.symbol}({', '.join(parameters) or 'void'})"

    def _unused(self) -> list[str]:
        """Parameters that the body does not use, said in C's way."""
        d = self.document
        of = [d["body"], d["requirements"]]
        idle = [
            self.names["buffer " + a["name"]]
            for a in d["arguments"]
            if a["role"] != "const" and a["name"] not in touched(d["body"])
        ]
        idle += [self.names["scalar " + s["name"]] for s in d["scalars"] if not mentions(of, "scalar", s["name"])]
        sizes = [s["name"] for s in d["sizes"] if s["value"] is None]
        idle += [self.names["size " + n] for n in sizes if not mentions(of, "size", n)]
        return [f"(void){n};" for n in idle]


__all__ = ["RESERVED", "RUNTIME", "files"]
