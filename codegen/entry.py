"""The call from Python: a builtin that checks the arguments, releases the GIL and runs the kernel.

One function serves every kernel (runtime/entry_ir.py); what differs is a table, made here. Arguments that the
builtin can't take as they are go to the kernel's slow callable unchanged, which handles or refuses them.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tilewright.codegen import abi, runtime
from tilewright.codegen.runtime import layout, table
from tilewright.codegen.signature import ArrayParam, ScalarParam, Signature
from tilewright.lang.errors import TilewrightError

_ALIGNED, _WRITEABLE = 0x100, 0x400  # NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE
_FASTCALL_KEYWORDS = 0x0080 | 0x0002  # METH_FASTCALL | METH_KEYWORDS
_STRIDES = {"any": 0, "unit": 1, "packed": 2}
_EXACT = {"float64": 2**53, "float32": 2**24}  # integers up to here are exact


class KernelError(TilewrightError):
    """A kernel stopped while it ran; what it writes is undefined."""

    default_code = "kernel"


class OutOfMemoryError(KernelError, MemoryError):
    """There was no memory for a temporary of a kernel."""

    default_code = "out-of-memory"


def raise_code(code: int) -> NoReturn:
    """Raise the error that a kernel's return code stands for (requirements, 100 and up, are the caller's to
    explain)."""
    if code == abi.OUT_OF_MEMORY:
        raise OutOfMemoryError("there is no memory for a temporary of the kernel")
    if code >= abi.FIRST_REQUIREMENT:
        raise KernelError(f"requirement {code - abi.FIRST_REQUIREMENT} of the kernel does not hold", code="requirement")
    raise KernelError(f"the kernel ended with code {code}")


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of one of our type names (ml_dtypes is imported only for bfloat16)."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


class MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@functools.cache
def _definition() -> MethodDef:
    """Builtins keep it alive, for threads that ask at once may get one each, of which the cache keeps the last."""
    return MethodDef(b"kernel", runtime.entry_address(), _FASTCALL_KEYWORDS, b"A compiled tilewright kernel.")


@functools.cache
def new_builtin() -> Callable[..., Any]:
    """CPython's PyCFunction_NewEx(address of a MethodDef, self, module)."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(("PyCFunction_NewEx", ctypes.pythonapi))


def fast_enough(signature: Signature) -> bool:
    """Can the builtin take calls of this signature at all?"""
    known = {e[1] for array in signature.arrays for e in array.axes if e[0] == "size"}
    return (
        layout.usable()
        and not signature.keyword_only
        and signature.structure != "other"
        and (signature.structure == "tuple" or len(signature.outputs) <= 1)
        and len(signature.arrays) <= table.MAX_ARRAYS
        and sum(len(array.axes) for array in signature.arrays) <= table.MAX_AXES
        and len(signature.sizes) <= table.MAX_SIZES
        and len(signature.scalars) <= table.MAX_SCALARS
        and known == set(range(len(signature.sizes)))
        and all(extent[0] != "expr" for array in signature.arrays for extent in array.axes)
        and all(scalar.dtype not in ("float16", "bfloat16") for scalar in signature.scalars)
    )


def make_entry(
    signature: Signature,
    kernel_address: int,
    context_address: int,
    slow: Callable[..., Any],
    *,
    constants: Mapping[str, np.ndarray] | None = None,
    keep: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The builtin for a kernel, or `slow` itself where the fast call is not possible.

    `constants` holds the arrays of the parameters with role `const`; `keep` are objects that must outlive the
    builtin (the loaded library, the context). `slow` takes the same arguments as the builtin.
    """
    if not fast_enough(signature):
        return slow
    tables = dict(constants or {})
    words = _table(signature, kernel_address, context_address, slow, tables)
    dtypes = tuple(numpy_dtype(array.dtype) for array in signature.arrays)
    definition = _definition()
    alive = (words, slow, raise_code, sys.intern("out"), tables, dtypes, tuple(keep), definition)
    return new_builtin()(ctypes.addressof(definition), alive, None)


def _table(
    signature: Signature,
    kernel: int,
    context: int,
    slow: Callable[..., Any],
    constants: dict[str, np.ndarray],
) -> bytes:
    arrays, axes, terms = _array_records(signature, constants)
    scalars = _scalar_records(signature)
    axis_at = 8 * (len(table.HEAD) + len(table.ARRAY) * len(signature.arrays))
    scalar_at = axis_at + 8 * len(axes)
    terms_at = scalar_at + 8 * len(scalars)
    width = len(table.AXIS)
    for start in range(0, len(axes), width):
        if axes[start] == 2:
            axes[start + 1] = terms_at + 8 * axes[start + 1]
    head = {
        "kernel": kernel,
        "context": context,
        "positional": len(signature.positional),
        "arrays": len(signature.arrays),
        "scalars": len(signature.scalars),
        "sizes": len(signature.sizes),
        "outputs": len(signature.outputs),
        "out_tuple": int(signature.structure == "tuple"),
        "allocate": layout.array_maker(),
        "out_name": id(sys.intern("out")),
        "slow": id(slow),
        "fail": id(raise_code),
        "ndarray": id(np.ndarray),
        "tuple": id(tuple),
        "float": id(float),
        "int": id(int),
        "true": id(True),
        "false": id(False),
        "none": id(None),
        "axis_at": axis_at,
        "scalar_at": scalar_at,
        "linear": sum(axes[start] == 2 for start in range(0, len(axes), width)),
    }
    words = [head[name] for name in table.HEAD] + arrays + axes + scalars + terms
    return struct.pack(f"<{len(words)}q", *words)


def _array_records(signature: Signature, constants: dict[str, np.ndarray]) -> tuple[list[int], list[int], list[int]]:
    arrays: list[int] = []
    axes: list[int] = []
    terms: list[int] = []
    output = 0
    for array in signature.arrays:
        source, which = -1, output
        if array.role == "const":
            source, which = -2, id(constants[array.name])
        elif array.role == "out":
            output += 1
        else:
            source, which = signature.positional.index(array.name), 0
        arrays += [source, which, *_array_facts(array), len(axes) // len(table.AXIS)]
        for extent, stride in zip(array.axes, array.strides, strict=True):
            kind, value = _extent(extent, terms)
            axes += [kind, value, _STRIDES[stride]]
    return arrays, axes, terms


def _array_facts(array: ArrayParam) -> list[int]:
    dtype = numpy_dtype(array.dtype)
    written = array.role in ("out", "inout")
    flags = _ALIGNED | (_WRITEABLE if written else 0)
    return [len(array.axes), id(dtype), flags, dtype.itemsize.bit_length() - 1, int(written)]


def _extent(extent: tuple[Any, ...], terms: list[int]) -> tuple[int, int]:
    if extent[0] == "size":
        return 0, extent[1]
    if extent[0] == "const":
        return 1, extent[1]
    start = len(terms)
    _, constant, parts = extent
    terms += [constant, len(parts), *(word for part in parts for word in part)]
    return 2, start


def _scalar_records(signature: Signature) -> list[int]:
    records: list[int] = []
    for scalar in signature.scalars:
        records += [signature.positional.index(scalar.name), *_scalar_facts(scalar)]
    return records


def _scalar_facts(scalar: ScalarParam) -> tuple[int, int, int]:
    if scalar.dtype == "bool":
        return 2, 0, 0
    if scalar.dtype in _EXACT:
        limit = _EXACT[scalar.dtype]
        return (0 if scalar.dtype == "float64" else 1), -limit, limit
    info = np.iinfo(scalar.dtype)
    return 3, int(info.min), min(int(info.max), 2**63 - 1)


def scalar_slot(dtype: str, value: Any) -> int:
    """The 8-byte slot (as a signed integer) of a scalar that has been checked: see abi.HEADER."""
    if dtype in ("float16", "bfloat16"):
        value, dtype = numpy_dtype(dtype).type(value), "float32"
    data = np.array(value, np.dtype(dtype)).tobytes() if dtype != "bool" else bytes([bool(value)])
    signed = dtype.startswith("int")
    return int.from_bytes(
        int.from_bytes(data, "little", signed=signed).to_bytes(8, "little", signed=signed),
        "little",
        signed=True,
    )


@functools.cache
def _longs(count: int) -> type[ctypes.Array[ctypes.c_int64]]:
    return ctypes.c_int64 * count


@functools.lru_cache(maxsize=4096)
def kernel(address: int) -> Callable[..., int]:
    """The kernel at an address, callable."""
    return abi.KERNEL(address)


def _address(array: np.ndarray) -> int:
    """Address of element 0; reading the struct is six times faster than asking for `__array_interface__`."""
    if type(array) is np.ndarray and layout.usable():
        return ctypes.c_int64.from_address(id(array) + 16).value
    return array.ctypes.data


def arguments(
    arrays: Sequence[np.ndarray], sizes: Sequence[int], scalars: Sequence[int]
) -> tuple[ctypes.Array[ctypes.c_int64], ...]:
    """What a kernel takes before the context (see abi.HEADER), for arrays that have been checked: in the order of the
    interface, all strides whole numbers of elements. `scalars` are slots."""
    strides = [step // array.itemsize for array in arrays for step in array.strides]
    return tuple(_longs(len(w))(*w) for w in ([_address(a) for a in arrays], sizes, strides, scalars))


def invoke(
    kernel_address: int,
    context_address: int,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int],
    scalars: Sequence[int],
) -> int:
    """Run a kernel, see `arguments`; returns its code. The lock of the interpreter is released while it runs."""
    return kernel(kernel_address)(*arguments(arrays, sizes, scalars), context_address)
