"""Transposes in registers: networks of two-input shuffles.

Processors shuffle cheaply inside lanes of 16 bytes (unpack low, unpack high) and move whole such lanes between
registers. So a block is transposed inside lanes first, then lane by lane. Inside lanes every step interleaves the
first half of all registers with the second half: it rotates the bits of (register, position) by one place, and after
as many steps as a row number has bits rows and columns have changed places.
"""

from __future__ import annotations

from tilewright.codegen.emit.builder import Function

_LANE = 16  # bytes


def transposed(f: Function, scalar: str, size: int, rows: list[str], columns: int) -> list[str]:
    """`columns` vectors of len(rows) elements from `rows` of `columns` elements (a power of two) each.

    `scalar` is the elements' LLVM type, `size` their bytes. A number of rows that is no power of two is filled up
    with undefined ones, which cost nothing.
    """
    n, m = columns, len(rows)
    lane = max(2, _LANE // size)
    full = 1 << (m - 1).bit_length()
    rows = rows + ["poison"] * (full - m)
    group = min(full, lane)
    groups = [_Group(f, scalar, rows[i : i + group], n, lane) for i in range(0, full, group)]
    if n > lane and len(groups) > 1:  # every register holds one lane of each of n // lane columns
        out = [""] * n
        for c in range(lane):
            taken = _lanes(f, scalar, [g.registers[c] for g in groups], n // lane, lane)
            out[c::lane] = taken
    else:
        out = [_joined(f, scalar, [g.column(c) for g in groups], group) for c in range(n)]
    return out if m == full else [_part(f, scalar, full, x, 0, m) for x in out]


class _Group:
    """As many rows as a lane holds elements (or all, where they are fewer), transposed inside lanes."""

    def __init__(self, f: Function, scalar: str, rows: list[str], n: int, lane: int):
        self.f, self.scalar, self.rows, self.n, self.lane = f, scalar, len(rows), n, min(lane, len(rows) * n)
        if n >= lane:
            self.width, registers = n, rows
        else:  # several rows a register
            self.width, per = self.lane, self.lane // n
            registers = [_joined(f, scalar, rows[i : i + per], n) for i in range(0, len(rows), per)]
        if len(registers) == 1:
            order = [r * n + c for c in range(n) for r in range(len(rows))]
            registers = [f.shuffle(scalar, self.width, registers[0], "poison", order)] if len(rows) > 1 else registers
        else:
            for _ in range(len(rows).bit_length() - 1):
                registers = self._interleaved(registers)
        self.registers = registers

    def _interleaved(self, registers: list[str]) -> list[str]:
        half = len(registers) // 2
        out = []
        for a, b in zip(registers[:half], registers[half:], strict=True):
            for start in (0, self.lane // 2):
                order = []
                for base in range(0, self.width, self.lane):
                    for i in range(self.lane // 2):
                        order += [base + start + i, self.width + base + start + i]
                out.append(_shuffle(self.f, self.scalar, self.width, a, b, order))
        return out

    def column(self, c: int) -> str:
        """The vector of one column's elements."""
        which, c = divmod(c, self.lane) if self.width > self.lane else (0, c)
        register, at = divmod(c * self.rows, self.lane)
        return _part(self.f, self.scalar, self.width, self.registers[register], which * self.lane + at, self.rows)


def _lanes(f: Function, scalar: str, rows: list[str], lanes: int, lane: int) -> list[str]:
    """Transposes with whole lanes as elements: `lanes` vectors of len(rows) lanes."""
    n, m, width = lanes, len(rows), lanes * lane
    if n == 1:
        return [_joined(f, scalar, rows, lane)]
    if m == 1:
        return [_part(f, scalar, width, rows[0], k * lane, lane) for k in range(n)]
    if n == m == 2:
        return [_units(f, scalar, lane, 2, rows[0], rows[1], [k, 2 + k]) for k in (0, 1)]
    if n == m == 4:
        a, b, c, d = rows
        out = []
        for half in ([0, 1, 4, 5], [2, 3, 6, 7]):
            x = _units(f, scalar, lane, 4, a, b, half)
            y = _units(f, scalar, lane, 4, c, d, half)
            out += [_units(f, scalar, lane, 4, x, y, [k, 2 + k, 4 + k, 6 + k]) for k in (0, 1)]
        return out
    if m > n or n == m:
        upper = _lanes(f, scalar, rows[: m // 2], n, lane)
        lower = _lanes(f, scalar, rows[m // 2 :], n, lane)
        return [_joined(f, scalar, [x, y], m // 2 * lane) for x, y in zip(upper, lower, strict=True)]
    out = []
    for start in (0, width // 2):
        out += _lanes(f, scalar, [_part(f, scalar, width, x, start, width // 2) for x in rows], n // 2, lane)
    return out


def _units(f: Function, scalar: str, lane: int, n: int, a: str, b: str, order: list[int]) -> str:
    return _shuffle(f, scalar, n * lane, a, b, [k * lane + i for k in order for i in range(lane)])


def _shuffle(f: Function, scalar: str, n: int, a: str, b: str, order: list[int]) -> str:
    if a == b == "poison":
        return "poison"
    return f.shuffle(scalar, n, a, b, order)


def _part(f: Function, scalar: str, n: int, x: str, start: int, count: int) -> str:
    """`count` elements of a vector of n."""
    if count == n or x == "poison":
        return x
    return f.shuffle(scalar, n, x, "poison", list(range(start, start + count)))


def _joined(f: Function, scalar: str, parts: list[str], n: int) -> str:
    """Vectors of n elements one after the other, as one (their number is a power of two)."""
    while len(parts) > 1:
        parts = [_shuffle(f, scalar, n, a, b, list(range(2 * n))) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        n *= 2
    return parts[0]


def interleaved(f: Function, scalar: str, vectors: list[str], n: int) -> str:
    """The first elements of all vectors (a power of two) of n lanes, then the second ones, ..., as one vector."""
    while len(vectors) > 1:
        half = len(vectors) // 2
        both = [k for pair in zip(range(n), range(n, 2 * n), strict=True) for k in pair]
        vectors = [f.shuffle(scalar, n, a, b, both) for a, b in zip(vectors[:half], vectors[half:], strict=True)]
        n *= 2
    return vectors[0]
