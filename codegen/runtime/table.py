"""The table that drives the call from Python: which word holds what, and how IR text names the words."""

from __future__ import annotations

import re

MAX_ARRAYS, MAX_AXES, MAX_SIZES, MAX_SCALARS = 512, 2048, 64, 64  # words on the stack of the call: 36 KiB
MAX_PARAMS = MAX_ARRAYS + MAX_SCALARS + MAX_SIZES
MAX_DEPTH = 16  # of the stack on which extents are worked out

# Slots of the table's head (i64 each).
HEAD = (
    "kernel",  # address of the kernel
    "context",  # address of the tw_context
    "positional",  # number of parameters that may be given by position
    "params",  # number of parameters; those that are given by name only are the last
    "arrays",  # number of arrays (data slots)
    "scalars",  # number of scalars
    "sizes",  # number of size symbols
    "outputs",  # number of outputs
    "structure",  # of the result and of `out`: 0 one array, 1 a tuple, 2 what `assemble` makes of a tuple
    "assemble",  # called with the tuple of the outputs
    "flatten",  # or 0; called with what `out` is, gives the tuple of its arrays (else anything, or raises)
    "allocate",  # address of PyArray_Empty, or 0: a call without `out` is slow
    "out_name",  # the interned string "out"
    "slow",  # the slow callable
    "fail",  # called with a return code of the kernel that is an error of its own; raises
    "ndarray",  # types and singletons, compared by address
    "memmap",
    "tuple",
    "float",
    "int",
    "true",
    "false",
    "none",
    "axis_at",  # byte offsets from the start of the table
    "scalar_at",
    "name_at",  # of the names of the parameters, interned strings
    "given_at",
    "solve_at",
    "number_at",
    "given",  # numbers of records
    "solves",
    "numbers",
)
# Array records follow the head.
ARRAY = (
    "source",  # number of the parameter; -1: output; -2: the object in `which`
    "which",  # number of the output, or address of a constant array
    "rank",
    "descr",  # address of the dtype singleton
    "flags",  # bits of ndarray.flags that must be set
    "shift",  # log2 of the item size
    "written",  # 1: output or inout
    "axis",  # number of its first axis
    "worked",  # 1: extents are worked out (axis kind 2)
)
# Axis records: kind 0: extent is size symbol `value`; 1: extent is `value`; 2: what the program at byte `value` of the
# table gives. stride: 0 any (not negative), 1 one element, 2 the inner axis' stride times its extent.
AXIS = ("kind", "value", "stride")
# A program is the number of its steps, then pairs of operation and value, for a stack machine.
OPERATIONS = (
    "const", "size", "scalar", "add", "sub", "mul", "floordiv", "mod", "min", "max", "neg", "abs", "eq", "ne", "lt",
    "le", "gt", "ge", "select",
)  # fmt: skip
# Scalar records. kind: 0 f64, 1 f32, 2 bool, 3 integer within lo..hi, 4 f16, 5 bf16. `convert` makes the number of
# kinds 4 and 5 of a float; `most` (a double) is the largest for which it is called. Integers from lo to hi are exact.
SCALAR = ("param", "kind", "lo", "hi", "convert", "most")
# Sizes that the call gives: the parameter, and which size it is.
GIVEN = ("param", "size")
# Sizes that follow from an axis, in order: `factor` times the size, plus what the program at byte `rest` gives, is the
# extent of axis `axis` of array `array`.
SOLVE = ("array", "axis", "size", "factor", "rest")
# Types of numbers that NumPy has: the type of a scalar, the dtype of an array without axes, what is stored
# (`STORED`).
NUMBER = ("type", "descr", "stored")
STORED = ("float64", "float32", "float16", "bfloat16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
          "uint32", "uint64")  # fmt: skip

FUNCTIONS = (
    "PyObject_Vectorcall",
    "PyObject_CallOneArg",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLong",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyErr_Occurred",
    "PyErr_Clear",
    "PyFloat_FromDouble",
    "PyUnicode_Compare",
    "Py_IncRef",
    "Py_DecRef",
)


def fill(text: str) -> str:
    """IR text with names of words (`ARRAY.rank`), sizes of records (`ARRAY.bytes`) and limits replaced by numbers."""
    records = {
        "HEAD": HEAD,
        "ARRAY": ARRAY,
        "AXIS": AXIS,
        "SCALAR": SCALAR,
        "GIVEN": GIVEN,
        "SOLVE": SOLVE,
        "NUMBER": NUMBER,
    }
    known = {f"{r}.{name}": 8 * k for r, names in records.items() for k, name in enumerate((*names, "bytes"))}
    for name, kinds in (("OPERATION", OPERATIONS), ("STORED", STORED)):
        known |= {f"{name}.{kind}": k for k, kind in enumerate(kinds)}
    known |= {
        "MAX_ARRAYS": MAX_ARRAYS, "MAX_AXES": MAX_AXES, "MAX_SIZES": MAX_SIZES, "MAX_SCALARS": MAX_SCALARS,
        "MAX_PARAMS": MAX_PARAMS, "MAX_DEPTH": MAX_DEPTH,
    }  # fmt: skip
    return re.sub(r"\b[A-Z]+(?:\.|(?<=MAX)_)\w+", lambda m: str(known[m[0]]), text)
