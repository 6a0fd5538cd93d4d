"""What a machine's unit can do of a stage: a block of c[m, n] += a[m, k] b[k, n], found by how operands are accessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.lang import ir, simplify
from tilewright.lang.func import Definition, Func
from tilewright.lang.ir import Node
from tilewright.lang.regions import reads, writes
from tilewright.lang.tensors import Array, Tensor
from tilewright.schedule.extents import known_extents
from tilewright.schedule.inline import Body
from tilewright.schedule.nest import UnitCall
from tilewright.schedule.ranges import ONE, ZERO, StageRanges, extent
from tilewright.schedule.state import Stage, State, refuse, root_name, roots_of_loops, versioned

if TYPE_CHECKING:
    from tilewright.hw import Machine
    from tilewright.hw.parts import Unit

ROLES = ("m", "n", "k")


@dataclass(frozen=True, eq=False, slots=True)
class Product:
    """A stage as a block of a matrix product: `a` and `b` are the loads that are multiplied, `roles` gives the variables
    of the definition that run inside of the unit's loop."""

    a: Node
    b: Node
    roles: Mapping[str, tuple[Node, ...]]

    def turned(self) -> Product:
        """The same product with a and b changed: c transposed."""
        m, n, k = (self.roles[r] for r in ROLES)
        return Product(self.b, self.a, {"m": n, "n": m, "k": k})


def product(state: State, s: Stage, loop: str) -> Product:
    """How a stage is a block of a matrix product inside of a loop. Raises ScheduleError where it is none."""
    address, d = state.loop_address(s.key, loop), s.definition
    found = _loads(d)
    if found is None:
        raise refuse(f"the update at {address} is not the sum of a product of two operands", "unit-form",
                     "a unit does c[m, n] += a[m, k] * b[k, n], where a and b may be cast to the type of c",
                     d.location)  # fmt: skip
    a, b = found
    for n in found:
        fs = state.funcs.get(n.attr[0].name)
        if fs is not None and fs.func is n.attr[0] and fs.compute.kind == "inline":
            raise refuse(f"{fs.func.name} is inlined at {address}: a unit reads its operands from memory", "unit-form",
                         f"compute it somewhere: s[{fs.func.name!r}].compute_at(...)")  # fmt: skip
    inside = inner_roots(s, loop)
    for r in inside:
        where = _where(d.lhs, a, b, r)
        if where not in _ROLE:
            name = root_name(r)
            raise refuse(f"the loops over {name} at {address} are no part of a matrix product: {_WHERE[where]}",
                         "unit-form", f"keep {name} outside of the unit's loop: c[m, n] += a[m, k] b[k, n]")  # fmt: skip
    for n in (a, b):
        _check_axes(n.attr[0].name, n.args, inside, address)
    _check_axes(d.func.name, d.lhs, inside, address)
    return Product(a, b, _roles(d.lhs, a, b, inside))


def as_product(s: Stage) -> Product | None:
    """How a stage multiplies two operands, wherever its loops stand; None where it does something else. Variables in no
    role are left out: their loops stand outside of a unit's."""
    d = s.definition
    found = _loads(d)
    return None if found is None else Product(*found, _roles(d.lhs, *found, s.roots))


def _where(lhs: Sequence[Node], a: Node, b: Node, r: Node) -> tuple[bool, bool, bool]:
    """Whether a variable is in an index of a, of b and of the result."""
    one, two, three = (r in set(ir.postorder(indices)) for indices in (a.args, b.args, lhs))
    return one, two, three


def _roles(lhs: Sequence[Node], a: Node, b: Node, inside: Sequence[Node]) -> dict[str, tuple[Node, ...]]:
    return {role: tuple(r for r in inside if _ROLE.get(_where(lhs, a, b, r)) == role) for role in ROLES}


_ROLE = {(True, False, True): "m", (False, True, True): "n", (True, True, False): "k"}
_WHERE = {
    (True, True, True): "both operands and the result depend on it", (False, False, False): "nothing depends on it",
    (True, False, False): "only one operand depends on it", (False, True, False): "only one operand depends on it",
    (False, False, True): "only the result depends on it",
}  # fmt: skip


def _loads(d: Definition | Body) -> tuple[Node, Node] | None:
    """The two loads that an update multiplies and adds; None where it does something else."""
    if d.number < 0 or len(d.values) != 1:
        return None
    value = _bare(d.values[0])
    mine = [n for n in ir.leaves((value,), "load") if n.attr[0] is d.func]
    if len(mine) != 1 or mine[0].args != tuple(d.lhs):
        return None
    if value.op == "fma" and _bare(value.args[2]) is mine[0]:
        factors = [_bare(x) for x in value.args[:2]]
    elif value.op == "add":
        terms = [_bare(x) for x in value.args if _bare(x) is not mine[0]]
        if len(terms) != 1 or terms[0].op != "mul":
            return None
        factors = [_bare(x) for x in terms[0].args]
    else:
        return None
    return (factors[0], factors[1]) if all(x.op == "load" for x in factors) else None


def _bare(n: Node) -> Node:
    while n.op in ("cast", "round_to"):
        n = n.args[0]
    return n


def _check_axes(name: str, indices: Sequence[Node], inside: Sequence[Node], address: str) -> None:
    """An axis of an operand runs with one variable inside, in steps."""
    for n in indices:
        moving = [r for r in inside if r in ir.postorder((n,))]
        if len(moving) > 1 or any(r not in simplify.linear(n)[0] for r in moving):
            raise refuse(
                f"{name} is no matrix inside of {address}: one index is made of "
                f"{' and '.join(map(root_name, moving))}", "unit-form",
                "copy what is read into rows first, or keep one of the loops outside",
            )  # fmt: skip


def inner_roots(s: Stage, loop: str) -> tuple[Node, ...]:
    """The variables of the definition with loops from `loop` on inwards."""
    unique, _ = versioned(s)
    over = roots_of_loops(unique)
    found = frozenset[Node]().union(*(over[x.name] for x in unique.loops[s.depth(loop) :]))
    return tuple(r for r in unique.roots if r in found)


def call(s: Stage, body: Body, ranges: StageRanges, depth: int, tensor: Tensor) -> UnitCall:
    """What the loops from number `depth` on are as one call, for given loops around; c is `tensor`."""
    x = ranges.loops[depth]
    loads = _loads(body)
    assert loads is not None  # see product
    a, b = loads
    roles = _roles(body.lhs, a, b, inner_roots(s, x.name))
    env = ranges.env(depth)
    extents = []
    for role in ROLES:
        total: Node = ONE
        for r in roles[role]:
            total = simplify.mul(total, simplify.maximum(extent(env[r]), ZERO))
        extents.append(total)
    boxes = []
    found = reads(body, env)  # type: ignore[arg-type]
    for load in loads:
        box = next(r.box for r in found if r.load is load)
        boxes.append((load.attr[0], load.attr[1], box))
    boxes.append((tensor, 0, writes(body, env)))  # type: ignore[arg-type]
    return UnitCall(x.unit, (extents[0], extents[1], extents[2]), tuple(boxes))


# With a machine -----------------------------------------------------------------------------------------------------


def find_unit(machine: Machine, name: str, address: str) -> Unit:
    """A unit of a machine. Raises ScheduleError `unit`."""
    from tilewright.hw.reader import closest

    for u in machine.units:
        if u.name == name:
            return u
    names = [u.name for u in machine.units]
    has = f"its units: {', '.join(names)}{closest(name, names)}" if names else "it has none"
    raise refuse(f"{machine.name} has no unit {name!r}, which {address} would be a call of", "unit", has,
                 about=("tensorize", address))  # fmt: skip


def check_unit(state: State, s: Stage, loop: str, machine: Machine) -> None:
    """Raise ScheduleError where the unit of a machine can't do what a loop asks of it, one way round or the other."""
    address = state.loop_address(s.key, loop)
    unit = find_unit(machine, s.loop(loop).unit, address)
    made = product(state, s, loop)
    problems = [_problem(state, s, loop, p, unit, machine) for p in (made, made.turned())]
    if all(problems):
        assert problems[0] is not None
        shape_only, what = problems[0]
        types = ", ".join(f"{o}: {unit.types[o]} in {unit.memories[o]}" for o in unit.types)
        shape = ", ".join(f"{r} {n if n is not None else 'any'}" for r, n in unit.shape.items())
        message = f"{unit.name} of {machine.name} can't do {address}: {what}"
        raise refuse(message, "unit-shape" if shape_only else "unit-operands",
                     f"it takes blocks of {shape}; {types}", about=("tensorize", address))  # fmt: skip


def _problem(state: State, s: Stage, loop: str, p: Product, unit: Unit, machine: Machine) -> tuple[bool, str] | None:
    """Why a unit can't do a product, and whether that is its shape; None where it can."""
    for operand, tensor, dtype, memory in operands(state, s, loop, p):
        if dtype != unit.types[operand]:
            return False, f"{operand} is {tensor.name}, which is {dtype}"
        if machine.memory(memory).name != machine.memory(unit.memories[operand]).name:
            return False, f"{operand} is {tensor.name}, which is in {machine.memory(memory).name}"
    extents = role_extents(state, s, loop, p)
    for role, n in extents.items():
        most = unit.shape.get(role, 1)
        if most is None:
            continue
        names = " and ".join(root_name(r) for r in p.roles[role])
        if n is None:
            return True, f"its {role} is all of {names}, whose extent is known at the call only"
        if n > most:
            return True, f"its {role} is {n} of {names}"
    return None


def operands(state: State, s: Stage, loop: str, p: Product) -> list[tuple[str, Tensor, str, str]]:
    """(operand, tensor, element type, memory) of a, b and c."""
    out: list[tuple[str, Tensor, str, str]] = []
    for operand, load in (("a", p.a), ("b", p.b)):
        tensor = load.attr[0]
        dtype = tensor.dtype if isinstance(tensor, Array) else tensor.dtypes[load.attr[1]]
        memory = state.funcs[tensor.name].memory if isinstance(tensor, Func) and tensor.name in state.funcs else "main"
        out.append((operand, tensor, dtype.name, memory))
    depth = s.depth(loop)
    tiles = [c.memory for c in s.tiles if s.depth(c.loop) < depth]
    f = s.definition.func
    out.append(("c", f, f.dtypes[0].name, tiles[-1] if tiles else state.funcs[f.name].memory))
    return out


def role_extents(state: State, s: Stage, loop: str, p: Product) -> dict[str, int | None]:
    """How much of each role the loops from `loop` on run at most; None where that is known at the call only."""
    unique, shown = versioned(s)
    known = known_extents(state, s)
    over = roots_of_loops(unique)
    inside = unique.loops[s.depth(loop) :]
    out: dict[str, int | None] = {}
    for role, roots in p.roles.items():
        total: int | None = 1
        for x in inside:
            if over[x.name] & set(roots):
                n = known.get(shown[x.name])
                total = None if n is None or total is None else total * n
        out[role] = total
    return out


# In a state -------------------------------------------------------------------------------------------------------------


def check_units(state: State) -> None:
    """Raise ScheduleError where loops that a unit is to do hold what it can't."""
    from tilewright.schedule.directives.loops import attached

    for s in state.stages.values():
        units = [x for x in s.loops if x.unit]
        if not units:
            continue
        address = state.loop_address(s.key, units[0].name)
        if len(units) > 1:
            raise refuse(f"{state.loop_address(s.key, units[1].name)} is a call of {units[1].unit}, and {address} of "
                         f"{units[0].unit} too", "unit-inside", "a stage has one loop that a unit does")  # fmt: skip
        held = attached(state, s, units[0].name)
        if held:
            raise refuse(f"{', '.join(held)} would stand inside of {address}, which {units[0].unit} does as a whole",
                         "unit-inside", "move it to a loop further out")  # fmt: skip
        for x in s.loops[s.depth(units[0].name) :]:
            if x.mode in ("parallel", "spatial") or any(x.peel):
                word = "peeled" if any(x.peel) else x.mode
                raise refuse(f"the {word} loop {x.name} stands inside of {address}, which {units[0].unit} does as a whole",
                             "unit-inside", "keep it outside of the unit's loop")  # fmt: skip
        if s.fused_with is not None or s.prefetches:
            what = "shares loops with another stage" if s.fused_with is not None else "has prefetches"
            raise refuse(
                f"{state.address(s.key)} {what}, and {units[0].unit} does its loops", "unit-inside", "leave one out"
            )
        product(state, s, units[0].name)
