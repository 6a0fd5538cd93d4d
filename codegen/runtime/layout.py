"""Are Python's and NumPy's objects laid out as the call entry assumes? Checked once a process, on real
objects."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import sysconfig

import numpy as np

# Index of a function in NumPy's C function table, fixed by NumPy's ABI
# (numpy/_core/code_generators/numpy_api.py).
_PYARRAY_TYPE, _PYARRAY_EMPTY = 2, 184


def _pointer(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _longs(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()


def _array_as_assumed(array: np.ndarray) -> bool:
    at = id(array)
    return (
        _pointer(at + 8) == id(np.ndarray)
        and _pointer(at + 16) == array.ctypes.data
        and ctypes.c_int32.from_address(at + 24).value == array.ndim
        and _longs(_pointer(at + 32), array.ndim) == array.shape
        and _longs(_pointer(at + 40), array.ndim) == array.strides
        and _pointer(at + 56) == id(array.dtype)
        and ctypes.c_int32.from_address(at + 64).value == array.flags.num
    )


def _arrays_as_assumed() -> bool:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    fixed = base.copy()
    fixed.flags.writeable = False
    skewed = np.zeros(25, np.uint8)[1:].view(np.float32)
    samples = (base, base.T, base[::-1, ::2], fixed, skewed, np.zeros((), np.int64), np.zeros((3, 0), ">i2"))
    return all(_array_as_assumed(sample) for sample in samples)


def _numbers_as_assumed() -> bool:
    numbers = [np.dtype(char).type(1) for char in "dfe?bhilqBHILQ"]
    return all(ctypes.string_at(id(n) + 16, n.nbytes) == n.tobytes() for n in numbers)


def _others_as_assumed() -> bool:
    thing = object()
    pair, text, number = (thing, None), b"tilewright", 1.25
    return (
        _pointer(id(pair) + 8) == id(tuple)
        and _longs(id(pair) + 16, 1) == (2,)
        and _pointer(id(pair) + 24) == id(thing)
        and ctypes.string_at(id(text) + 32, len(text)) == text
        and _pointer(id(number) + 8) == id(float)
        and struct.pack("d", number) == ctypes.string_at(id(number) + 16, 8)
    )


@functools.cache
def usable() -> bool:
    """True when the entry may read objects directly: CPython with the GIL, 64 bits, the known offsets."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sysconfig.get_config_var("Py_TRACE_REFS"):
        return False
    return _arrays_as_assumed() and _others_as_assumed() and _numbers_as_assumed()


@functools.cache
def array_maker() -> int:
    """Address of NumPy's PyArray_Empty(rank, dims, dtype, fortran), or 0 where it does not answer as
    documented."""
    try:
        from numpy._core._multiarray_umath import _ARRAY_API  # pyright: ignore
    except ImportError:
        return 0
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = get(_ARRAY_API, None)
    if _pointer(table + 8 * _PYARRAY_TYPE) != id(np.ndarray):
        return 0
    address = _pointer(table + 8 * _PYARRAY_EMPTY)
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_int
    )(address)
    dtype = np.dtype(np.int16)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the function takes a reference over
    made = make(2, (ctypes.c_int64 * 2)(3, 5), id(dtype), 0)
    good = type(made) is np.ndarray and made.shape == (3, 5) and made.dtype is dtype and made.flags.c_contiguous
    return address if good and made.flags.writeable else 0
