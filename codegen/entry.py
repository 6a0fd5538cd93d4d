"""The call from Python: a builtin that checks the arguments, releases the GIL and runs the kernel.

One function serves every kernel (runtime/entry_ir.py); what differs is a table, made here. Arguments that the
builtin can't take as they are go to the kernel's slow callable unchanged, which handles or refuses them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tilewright.codegen import abi, runtime
from tilewright.codegen.entry_table import Shaping, fast_enough, numpy_dtype, table_of
from tilewright.codegen.runtime import layout
from tilewright.codegen.signature import Signature
from tilewright.lang.errors import TilewrightError

_FASTCALL_KEYWORDS = 0x0080 | 0x0002  # METH_FASTCALL | METH_KEYWORDS


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


def make_entry(
    signature: Signature,
    kernel_address: int,
    context_address: int,
    slow: Callable[..., Any],
    *,
    constants: Mapping[str, np.ndarray] | None = None,
    keep: Sequence[Any] = (),
    shaping: Shaping | None = None,
) -> Callable[..., Any]:
    """The builtin for a kernel, or `slow` itself where the fast call is not possible.

    `constants` holds the arrays of the parameters with role `const`; `keep` are objects that must outlive the
    builtin (the loaded library, the context). `slow` takes the same arguments as the builtin. `shaping` is needed where
    outputs are neither one array nor a tuple.
    """
    if not fast_enough(signature, shaping):
        return slow
    tables = dict(constants or {})
    words, objects = table_of(signature, kernel_address, context_address, slow, raise_code, tables, shaping)
    definition = _definition()
    alive = (words, slow, objects, tables, tuple(keep), definition)
    return new_builtin()(ctypes.addressof(definition), alive, None)


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
