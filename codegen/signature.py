"""What a compiled variant of a kernel takes, gives and assumes: plain data with a JSON round trip.

The order of `arrays`, `sizes` and `scalars` is that of the C interface (abi.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Role = Literal["in", "inout", "const", "out"]
# What a variant assumes of an axis' stride: nothing but that it is not negative and a whole number of
# elements; that it is one element; or that it is the next inner axis' stride times that axis' extent.
StrideClass = Literal["any", "unit", "packed"]
Structure = Literal["none", "single", "tuple", "other"]

# An extent is one of ("size", k): size symbol number k; ("const", n); ("linear", c, ((a, k), ...)): c + sum
# of a times size symbol k; ("expr", steps): anything else, for a stack machine: ("const", n), ("size", k), ("scalar", k),
# or (operation,) as index expressions have them; without steps only the slow path knows it.
Extent = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """An array: `dtype` as NumPy names it (or bfloat16), one extent and one stride class an axis."""

    name: str
    dtype: str
    role: Role
    axes: tuple[Extent, ...]
    strides: tuple[StrideClass, ...]


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar that is handed over by value."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Signature:
    """A variant's interface. `positional` and `keyword_only` name the parameters of the Python call; sizes that it gives
    come after them, by name (see `size_name`).

    `structure` is what the call returns: nothing, one array, a tuple of arrays, or something made of a tuple of them.
    """

    name: str
    sizes: tuple[str, ...]
    arrays: tuple[ArrayParam, ...]
    scalars: tuple[ScalarParam, ...]
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...] = ()
    structure: Structure = "single"
    given_sizes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters in order."""
        return (*self.positional, *self.keyword_only, *map(size_name, self.given_sizes))

    @property
    def outputs(self) -> tuple[ArrayParam, ...]:
        """The output arrays, in order."""
        return tuple(array for array in self.arrays if array.role == "out")

    def to_json(self) -> dict[str, Any]:
        """JSON values that `from_json` reads."""
        return json.loads(json.dumps(asdict(self)))

    @staticmethod
    def from_json(data: dict[str, Any]) -> Signature:
        """The signature that `to_json` wrote."""
        arrays = tuple(
            ArrayParam(a["name"], a["dtype"], a["role"], _frozen(a["axes"]), tuple(a["strides"]))
            for a in data["arrays"]
        )
        scalars = tuple(ScalarParam(s["name"], s["dtype"]) for s in data["scalars"])
        return Signature(
            data["name"],
            tuple(data["sizes"]),
            arrays,
            scalars,
            tuple(data["positional"]),
            tuple(data["keyword_only"]),
            data["structure"],
            tuple(data["given_sizes"]),
        )


def size_name(size: str) -> str:
    """The name by which a call gives a size: no parameter has it."""
    return f"size {size}"


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def contiguous(rank: int) -> tuple[StrideClass, ...]:
    """Stride classes of a C-contiguous array."""
    return ("packed",) * (rank - 1) + ("unit",) if rank else ()
