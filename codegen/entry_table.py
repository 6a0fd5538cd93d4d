"""The table that a kernel's builtin reads (see runtime/table.py), made of the kernel's signature."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.codegen.runtime import layout, table
from tilewright.codegen.signature import ArrayParam, Extent, ScalarParam, Signature

_ALIGNED, _WRITEABLE = 0x100, 0x400  # NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE
_STRIDES = {"any": 0, "unit": 1, "packed": 2}
# the kind of a scalar of a float type, and up to where integers are exact
_FLOATS = {"float64": (0, 2**53), "float32": (1, 2**24), "float16": (4, 2**11), "bfloat16": (5, 2**8)}
_STRUCTURES = {"none": 0, "single": 0, "tuple": 1, "other": 2}
_OPERANDS = {"const": 0, "size": 0, "scalar": 0, "neg": 1, "abs": 1, "select": 3}  # else 2


@dataclass(frozen=True)
class Shaping:
    """How a structure that is neither one array nor a tuple of arrays is made of the outputs in order, and taken apart:
    `flatten` gives their tuple, or raises, or gives anything else where `out` has another structure."""

    assemble: Callable[[tuple[np.ndarray, ...]], Any]
    flatten: Callable[[Any], Any]


@dataclass(frozen=True)
class Solve:
    """A size that follows from an axis of an array: factor * size + rest is its extent."""

    array: int
    axis: int
    size: int
    factor: int
    rest: Extent


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of one of our type names (ml_dtypes is imported only for bfloat16)."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def fast_enough(signature: Signature, shaping: Shaping | None = None) -> bool:
    """Can the builtin take calls of this signature at all?"""
    return (
        layout.usable()
        and (signature.structure == "tuple" or len(signature.outputs) <= 1 or shaping is not None)
        and (signature.structure != "other" or shaping is not None)
        and (bool(signature.outputs) or signature.structure in ("none", "single"))
        and len(signature.arrays) <= table.MAX_ARRAYS
        and sum(len(array.axes) for array in signature.arrays) <= table.MAX_AXES
        and len(signature.sizes) <= table.MAX_SIZES
        and len(signature.scalars) <= table.MAX_SCALARS
        and len(signature.names) <= table.MAX_PARAMS
        and solves(signature) is not None
        and all(_depth(e) <= table.MAX_DEPTH for array in signature.arrays for e in array.axes)
        and all(e != ("expr", ()) for array in signature.arrays for e in array.axes)
    )


def solves(signature: Signature) -> tuple[Solve, ...] | None:
    """How sizes are found that are the extent of no axis of an input and not given; None where some can't be. Those that
    no input says may be said by an output, in calls that give one."""
    axes = [(n, d, e) for n, a in enumerate(signature.arrays) for d, e in enumerate(a.axes) if a.role != "const"]
    inputs = [(n, d, e) for n, d, e in axes if signature.arrays[n].role != "out"]
    known = {e[1] for _, _, e in inputs if e[0] == "size"} | {signature.sizes.index(n) for n in signature.given_sizes}
    found: list[Solve] = []
    while one := _solvable(inputs, known):
        found.append(one)
        known.add(one.size)
    known |= {e[1] for _, _, e in axes if e[0] == "size"}
    return tuple(found) if len(known) == len(signature.sizes) else None


def _solvable(axes: Sequence[tuple[int, int, Extent]], known: set[int]) -> Solve | None:
    """An axis whose extent has one size that is not known."""
    for n, d, e in axes:
        if e[0] == "linear":
            open_ = [(a, k) for a, k in e[2] if k not in known]
            if len(open_) == 1 and open_[0][0]:
                ((factor, size),) = open_
                return Solve(n, d, size, factor, ("linear", e[1], tuple(t for t in e[2] if t != open_[0])))
    return None


def program(extent: Extent) -> tuple[tuple[Any, ...], ...]:
    """The steps that work an extent out."""
    if extent[0] in ("size", "const"):
        return (extent,)
    if extent[0] == "expr":
        return extent[1]
    steps: list[tuple[Any, ...]] = [("const", extent[1])]
    for factor, k in extent[2]:
        steps += [("const", factor), ("size", k), ("mul",), ("add",)]
    return tuple(steps)


def _depth(extent: Extent) -> int:
    deepest = now = 0
    for step in program(extent):
        now += 1 - _OPERANDS.get(step[0], 2)
        deepest = max(deepest, now)
    return deepest


def table_of(
    signature: Signature,
    kernel: int,
    context: int,
    slow: Callable[..., Any],
    fail: Callable[[int], Any],
    constants: Mapping[str, np.ndarray],
    shaping: Shaping | None,
) -> tuple[bytes, tuple[Any, ...]]:
    """The bytes of the table, and the objects whose addresses are in it."""
    sections = _Sections(signature, constants)
    names = tuple(map(sys.intern, (*signature.names, "out")))
    numbers = _numbers(signature)
    parts: dict[str, list[int]] = {
        "axis_at": sections.axes,
        "scalar_at": [word for s in signature.scalars for word in _scalar(signature, s)],
        "name_at": [id(name) for name in names[:-1]],
        "given_at": [
            word
            for size in signature.given_sizes
            for word in (len(signature.names) - len(signature.given_sizes) + signature.given_sizes.index(size),
                         signature.sizes.index(size))
        ],
        "solve_at": sections.solves,
        "number_at": [word for type_, dtype, stored in numbers for word in (id(type_), id(dtype), stored)],
    }  # fmt: skip
    at = 8 * (len(table.HEAD) + len(sections.arrays))
    places = {}
    for name, words in parts.items():
        places[name] = at
        at += 8 * len(words)
    sections.place_programs(at)
    head = {
        "kernel": kernel,
        "context": context,
        "positional": len(signature.positional),
        "params": len(signature.names),
        "arrays": len(signature.arrays),
        "scalars": len(signature.scalars),
        "sizes": len(signature.sizes),
        "outputs": len(signature.outputs),
        "structure": _STRUCTURES[signature.structure],
        "assemble": 0 if shaping is None else id(shaping.assemble),
        "flatten": 0 if shaping is None else id(shaping.flatten),
        "allocate": layout.array_maker(),
        "out_name": id(names[-1]),
        "slow": id(slow),
        "fail": id(fail),
        "ndarray": id(np.ndarray),
        "memmap": id(np.memmap),
        "tuple": id(tuple),
        "float": id(float),
        "int": id(int),
        "true": id(True),
        "false": id(False),
        "none": id(None),
        "given": len(signature.given_sizes),
        "solves": len(sections.solves) // len(table.SOLVE),
        "numbers": len(numbers),
        **places,
    }
    words = [head[name] for name in table.HEAD] + sections.arrays
    words += [word for part in parts.values() for word in part] + sections.programs
    return struct.pack(f"<{len(words)}q", *words), (names, numbers, sections.objects, fail, shaping)


@dataclass
class _Sections:
    """Records of arrays and axes, and the programs that they point to: first by number, then by place."""

    signature: Signature
    constants: Mapping[str, np.ndarray]
    arrays: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    solves: list[int] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        output = 0
        for array in self.signature.arrays:
            source, which = -1, output
            if array.role == "const":
                source, which = -2, id(self.constants[array.name])
            elif array.role == "out":
                output += 1
            else:
                source, which = self.signature.names.index(array.name), 0
            worked = int(any(e[0] not in ("size", "const") for e in array.axes))
            self.arrays += [source, which, *self._facts(array), len(self.axes) // len(table.AXIS), worked]
            for extent, stride in zip(array.axes, array.strides, strict=True):
                self.axes += [*self._extent(extent), _STRIDES[stride]]
        for s in solves(self.signature) or ():
            self.solves += [s.array, s.axis, s.size, s.factor, self._program(s.rest)]

    def _facts(self, array: ArrayParam) -> list[int]:
        dtype = numpy_dtype(array.dtype)
        self.objects.append(dtype)
        written = array.role in ("out", "inout")
        flags = _ALIGNED | (_WRITEABLE if written else 0)
        return [len(array.axes), id(dtype), flags, dtype.itemsize.bit_length() - 1, int(written)]

    def _extent(self, extent: Extent) -> tuple[int, int]:
        if extent[0] in ("size", "const"):
            return int(extent[0] == "const"), extent[1]
        return 2, self._program(extent)

    def _program(self, extent: Extent) -> int:
        """Words before the program."""
        at, steps = len(self.programs), program(extent)
        pairs = ((table.OPERATIONS.index(s[0]), s[1] if len(s) > 1 else 0) for s in steps)
        self.programs += [len(steps), *(word for pair in pairs for word in pair)]
        return at

    def place_programs(self, at: int) -> None:
        """What points to programs, in bytes from the start of the table, where the first one is `at`."""
        for start in range(0, len(self.axes), len(table.AXIS)):
            if self.axes[start] == 2:
                self.axes[start + 1] = at + 8 * self.axes[start + 1]
        for start in range(0, len(self.solves), len(table.SOLVE)):
            self.solves[start + 4] = at + 8 * self.solves[start + 4]


def _scalar(signature: Signature, scalar: ScalarParam) -> Iterator[int]:
    yield signature.names.index(scalar.name)
    if scalar.dtype == "bool":
        yield from (2, 0, 0, 0, 0)
    elif scalar.dtype in _FLOATS:
        kind, limit = _FLOATS[scalar.dtype]
        dtype = numpy_dtype(scalar.dtype)
        yield from (kind, -limit, limit, id(dtype.type), _as_word(_largest(dtype) if kind >= 4 else 0.0))
    else:
        info = np.iinfo(scalar.dtype)
        yield from (3, int(info.min), min(int(info.max), 2**63 - 1), 0, 0)


def _largest(dtype: np.dtype) -> float:
    """The largest number of a type with 16 bits."""
    if dtype == np.float16:
        return float(np.finfo(np.float16).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)


def _as_word(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def _numbers(signature: Signature) -> Sequence[tuple[type, np.dtype, int]]:
    """NumPy's numbers: type of a scalar, dtype, what is stored. Of C's integers several are of one size."""
    if not signature.scalars and not signature.given_sizes:
        return ()
    dtypes = [np.dtype(char) for char in "dfe?bhilqBHILQ"]
    if any(s.dtype == "bfloat16" for s in signature.scalars):
        dtypes.append(numpy_dtype("bfloat16"))
    return tuple((d.type, d, table.STORED.index(d.name)) for d in dtypes)


__all__ = ["Shaping", "fast_enough", "numpy_dtype", "solves", "table_of"]
