"""The kernel's function of the C interface: requirements, arguments out of their arrays, the body's function."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.abi import FIRST_REQUIREMENT
from tilewright.codegen.emit.builder import value_type
from tilewright.codegen.emit.clock import CLOCK
from tilewright.codegen.emit.counters import COUNTERS
from tilewright.codegen.emit.driven import DRIVER, base_position, define_driver
from tilewright.codegen.emit.ledger import ARENAS
from tilewright.codegen.emit.parallel import arguments, finish, signature
from tilewright.codegen.emit.recorder import RECORD
from tilewright.codegen.emit.region import Region, Shared
from tilewright.codegen.emit.statements import emit_statement
from tilewright.codegen.emit.steps import ENGINE
from tilewright.codegen.emit.values import scalar
from tilewright.codegen.loops import Buffer, Program
from tilewright.lang.errors import CompileError
from tilewright.lang.ir import Node
from tilewright.lang.types import f64


class Entry(Region):
    """The region of the kernel's own function: what regions below ask for is read from the call's arrays."""

    def captured(self, key: Any) -> str:
        found = self.captures.get(key)
        if found is None:
            found = self.captures[key] = self._read(key)
        return found

    def _read(self, key: Any) -> str:
        program = self.shared.program
        if key == "context":
            return "%context"
        if key in (COUNTERS, CLOCK):
            return self._element("ptr", "%data", len(program.arguments))
        if key == RECORD:
            return self._element("ptr", "%data", len(program.arguments) + 1)
        if key == DRIVER:
            return self._element("ptr", "%data", len(program.arguments) + 2)
        if key == ARENAS:
            return self._element("ptr", "%data", len(program.arguments) + (2 if self.shared.driver is None else 4))
        if key == ENGINE:
            return self._element("ptr", "%data", len(program.arguments) + (3 if self.shared.driver is None else 5))
        if isinstance(key, tuple):
            bases = self._element("ptr", "%data", len(program.arguments) + 3)
            return self._element("i64", bases, base_position(program, key))
        if isinstance(key, Buffer) and key.argument is not None:
            return self._element("ptr", "%data", key.argument)
        if isinstance(key, Node):
            if key.op == "size" and key.attr in program.sizes:
                return self._element("i64", "%sizes", program.sizes.index(key.attr))
            if key.op == "stride":
                argument, axis = key.attr
                return self._element("i64", "%strides", sum(program.ranks[:argument]) + axis)
            names = [s.name for s in program.scalars]
            if key.op == "scalar" and key.attr in names:
                return self._scalar(key, names.index(key.attr))
        raise CompileError(f"{key!r} is not known where it is used", code="emit.unbound")

    def _element(self, ty: str, array: str, position: int) -> str:
        p = self.f.op(f"getelementptr {ty}, ptr {array}, i64 {position}") if position else array
        return self.f.op(f"load {ty}, ptr {p}")

    def _scalar(self, n: Node, position: int) -> str:
        """Slots of 8 bytes: integers extended, bool 0 or 1, f32 in the low half."""
        t, raw = n.dtype, self._element("i64", "%scalars", position)
        if t is f64:
            return self.f.op(f"bitcast i64 {raw} to double")
        if t.is_float:
            return self.f.op(f"bitcast i32 {self.f.op(f'trunc i64 {raw} to i32')} to float")
        if t.is_bool:
            return self.f.op(f"icmp ne i64 {raw}, 0")
        return raw if t.bits == 64 else self.f.op(f"trunc i64 {raw} to {value_type(t)}")


def emit_program(shared: Shared) -> str:
    """The text of the whole module."""
    program: Program = shared.program
    if shared.driver is not None:
        define_driver(shared.module, shared.driver)
    entry = Entry(shared, None)
    _requirements(entry)
    body = Region(shared, entry)
    emit_statement(body, program.body)
    if shared.ledger is not None:
        shared.ledger.flush(body)
    keys, parameters = signature(body)
    finish(body, f"{program.symbol}.kernel", parameters)
    f = entry.f
    code = f.op(f"call i32 @{program.symbol}.kernel({', '.join(arguments(entry, keys))})")
    f.do(f"ret i32 {code}")
    head = f"define i32 @{program.symbol}(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) nounwind {{"
    shared.module.functions.append("\n".join([head, "entry:", *f.head, *f.lines, "}"]))
    return shared.module.text()


def _requirements(entry: Region) -> None:
    """The first that does not hold returns its code, before anything is written."""
    f = entry.f
    for k, condition in enumerate(entry.shared.program.requirements):
        good, bad = f.label("required"), f.label("refused")
        f.branch(scalar(entry, condition), good, bad)
        f.begin(bad)
        f.do(f"ret i32 {FIRST_REQUIREMENT + k}")
        f.begin(good)
