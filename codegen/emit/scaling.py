"""x * 2**k by one instruction where the processor has it, instead of two products with powers made of bits.

`vscalefps` and `vscalefpd` round once, as the two steps do, the first of which is exact: the same bits.
"""

from __future__ import annotations

import functools

from tilewright.codegen.emit.builder import Function, shaped, value_type
from tilewright.lang.ir import Node
from tilewright.lang.types import DType
from tilewright.schedule.processor import host_features, is_x86

_KINDS = {"float": "ps", "double": "pd"}
_CURRENT_ROUNDING = 4


@functools.cache
def _widths() -> tuple[int, ...]:
    """Bits of the registers that the instruction takes, ascending; none where the processor does not have it."""
    if not is_x86():
        return ()
    has = host_features()
    return (128, 256, 512) if has.get("avx512f") and has.get("avx512vl") else ()


def parts(n: Node) -> tuple[Node, Node] | None:
    """x and k (as a float) where a node is x * 2**k and can be had in one step."""
    if n.op != "mul" or n.attr is None or not _widths():
        return None
    from tilewright.lang.math.parts import scaling  # only programs that call a function pay for the definitions

    return scaling(n)


def scale(f: Function, t: DType, n: int, xs: list[str]) -> str:
    """x * 2**k for `n` lanes (0: a scalar)."""
    s = value_type(t)
    if not n:
        x, k = (f.insert(s, 128 // t.bits, "poison", x, 0) for x in xs)
        return f.extract(s, 128 // t.bits, _instruction(f, t, 128 // t.bits, x, k), 0)
    lanes = next((w // t.bits for w in _widths() if n * t.bits <= w), _widths()[-1] // t.bits)
    if n == lanes:
        return _instruction(f, t, n, *xs)
    pieces = [
        _instruction(f, t, lanes, *(f.shuffle(s, n, x, "poison", _lanes(first, lanes, n)) for x in xs))
        for first in range(0, n, lanes)
    ]
    size = lanes
    while len(pieces) > 1:
        pieces += ["poison"] * (len(pieces) % 2)
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces, size = [f.shuffle(s, size, a, b, list(range(2 * size))) for a, b in pairs], 2 * size
    return pieces[0] if size == n else f.shuffle(s, size, pieces[0], "poison", list(range(n)))


def _lanes(first: int, lanes: int, n: int) -> list[int]:
    return [min(k, n - 1) for k in range(first, first + lanes)]


def _instruction(f: Function, t: DType, n: int, x: str, k: str) -> str:
    ty, bits = shaped(value_type(t), n), n * t.bits
    full = f"llvm.x86.avx512.mask.scalef.{_KINDS[value_type(t)]}.{bits}"
    mask, rounding = (f"i{max(n, 8)}", f", i32 {_CURRENT_ROUNDING}" if bits == 512 else "")
    f.declare(full, ty, f"{ty}, {ty}, {ty}, {mask}{', i32' if rounding else ''}")
    return f.op(f"call {ty} @{full}({ty} {x}, {ty} {k}, {ty} zeroinitializer, {mask} -1{rounding})")
