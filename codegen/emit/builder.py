"""LLVM IR as text: one function's instructions in order, the module's declarations, types and constants.

Text is built directly, because that is several times faster than building an object model and printing it.
Shapes: `n` is 0 for a scalar and the number of lanes for a vector.
"""

from __future__ import annotations

import re
import struct

from tilewright.lang.types import DType

_VALUE_TYPES = {
    "bool": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "index": "i64",
    "u8": "i8", "u16": "i16", "u32": "i32", "u64": "i64", "f32": "float", "f64": "double",
}  # fmt: skip
_MEMORY_TYPES = {**_VALUE_TYPES, "bool": "i8", "f16": "half", "bf16": "i16"}
_SUFFIXES = {"float": "f32", "double": "f64", "half": "f16"}


def value_type(t: DType) -> str:
    """The LLVM type of a computed value."""
    return _VALUE_TYPES[t.name]


def memory_type(t: DType) -> str:
    """The LLVM type of a stored element: bool is a byte, bf16 is moved as bits."""
    return _MEMORY_TYPES[t.name]


def shaped(scalar: str, n: int) -> str:
    """The scalar or vector type of an element type."""
    return f"<{n} x {scalar}>" if n else scalar


def suffix(scalar: str, n: int) -> str:
    """How intrinsics spell a type: v8f32."""
    s = _SUFFIXES.get(scalar, scalar)
    return f"v{n}{s}" if n else s


def float_text(value: float) -> str:
    """A float constant that keeps every bit (hexadecimal f64, also for f32)."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant(value: int | float | bool, t: DType) -> str:
    """The operand text of a scalar constant."""
    if t.is_float:
        return float_text(float(value))
    if t.is_bool:
        return "true" if value else "false"
    return str(int(value))


def splat(scalar: str, operand: str, n: int) -> str:
    """A constant in every lane (as it is where `n` is 0)."""
    return f"splat ({scalar} {operand})" if n else operand


def lane_constant(scalar: str, values: tuple[int, ...] | list[int]) -> str:
    """A vector constant of integers."""
    return "<" + ", ".join(f"{scalar} {v}" for v in values) + ">"


def loop_label(loop: str) -> str:
    """What the label of a loop's block begins with, so that machine code can be read by its loops."""
    return f"loop.{re.sub(r'[^A-Za-z0-9_.]', '_', loop)}."


class Module:
    """What the functions of one module share: declarations, globals, finished functions."""

    __slots__ = ("declared", "functions", "globals")

    def __init__(self) -> None:
        self.declared: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.functions: list[str] = []

    def text(self) -> str:
        parts = [*self.globals.values(), *self.functions, *self.declared.values()]
        return "\n".join(parts) + "\n"


class Function:
    """The instructions of one function under construction.

    `op` appends an instruction with a result and returns its name, `do` one without, `label` and `begin` deal with
    basic blocks. `head` holds what belongs at the start of the entry block (allocas).
    """

    __slots__ = ("_number", "block", "head", "lines", "module")

    def __init__(self, module: Module):
        self.module = module
        self.lines: list[str] = []
        self.head: list[str] = []
        self.block = "entry"
        self._number = 0

    def name(self) -> str:
        self._number += 1
        return f"%v{self._number}"

    def op(self, text: str) -> str:
        self._number = k = self._number + 1
        r = f"%v{k}"
        self.lines.append(f"  {r} = {text}")
        return r

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, hint: str) -> str:
        self._number += 1
        return f"{hint}{self._number}"

    def begin(self, label: str) -> None:
        """Start the basic block `label`; the one before must have been ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def br(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    def hole(self) -> int:
        """Room for a line that is filled in later (a phi)."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, hole: int, text: str) -> None:
        self.lines[hole] = "  " + text

    def alloca(self, type_: str, align: int) -> str:
        r = self.name()
        self.head.append(f"  {r} = alloca {type_}, align {align}")
        return r

    # calls ------------------------------------------------------------------------------------------------

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> None:
        declared = self.module.declared
        if name not in declared:
            declared[name] = f"declare {result} @{name}({parameters}) {attributes}".rstrip()

    def intrinsic(self, name: str, scalar: str, n: int, operands: list[str] | tuple[str, ...], tail: str = "") -> str:
        """A call of an intrinsic whose operands all have its result type; `tail` adds constant operands."""
        ty = shaped(scalar, n)
        full = f"{name}.{suffix(scalar, n)}"
        if full not in self.module.declared:
            extra = ", " + tail.split()[0] if tail else ""
            self.declare(full, ty, ", ".join([ty] * len(operands)) + extra)
        given = ", ".join(f"{ty} {x}" for x in operands)
        return self.op(f"call {ty} @{full}({given}{', ' + tail if tail else ''})")

    # vectors ----------------------------------------------------------------------------------------------

    def broadcast(self, scalar: str, operand: str, n: int) -> str:
        """A scalar in every lane."""
        if not operand.startswith("%"):
            return splat(scalar, operand, n)
        ty = shaped(scalar, n)
        one = self.op(f"insertelement {ty} poison, {scalar} {operand}, i64 0")
        return self.op(f"shufflevector {ty} {one}, {ty} poison, <{n} x i32> zeroinitializer")

    def shuffle(self, scalar: str, n: int, a: str, b: str, lanes: list[int]) -> str:
        """Lanes of a (0..n-1) and b (n..2n-1)."""
        ty = shaped(scalar, n)
        return self.op(f"shufflevector {ty} {a}, {ty} {b}, <{len(lanes)} x i32> {lane_constant('i32', lanes)}")

    def extract(self, scalar: str, n: int, vector: str, lane: int) -> str:
        return self.op(f"extractelement {shaped(scalar, n)} {vector}, i64 {lane}")

    def insert(self, scalar: str, n: int, vector: str, element: str, lane: int) -> str:
        return self.op(f"insertelement {shaped(scalar, n)} {vector}, {scalar} {element}, i64 {lane}")

    def any(self, mask: str, n: int) -> str:
        """Whether any lane of a mask holds."""
        full = f"llvm.vector.reduce.or.v{n}i1"
        self.declare(full, "i1", f"<{n} x i1>")
        return self.op(f"call i1 @{full}(<{n} x i1> {mask})")

    # common scalar and vector instructions ----------------------------------------------------------------

    def select(self, n: int, condition: str, ty: str, a: str, b: str) -> str:
        """Lane by lane; `ty` is the full type of the values, `n` the lanes of the condition."""
        return self.op(f"select {shaped('i1', n)} {condition}, {ty} {a}, {ty} {b}")
