"""The table that drives the call from Python: which word holds what, and how IR text names the words."""

from __future__ import annotations

MAX_ARRAYS, MAX_AXES, MAX_SIZES, MAX_SCALARS = 32, 128, 64, 64

# Slots of the table's head (i64 each).
HEAD = (
    "kernel",  # address of the kernel
    "context",  # address of the tw_context
    "positional",  # number of positional arguments
    "arrays",  # number of arrays (data slots)
    "scalars",  # number of scalars
    "sizes",  # number of size symbols
    "outputs",  # number of outputs
    "out_tuple",  # 1: `out` and the result are tuples
    "allocate",  # address of PyArray_Empty, or 0: a call without `out` is slow
    "out_name",  # the interned string "out"
    "slow",  # the slow callable
    "fail",  # called with a return code of the kernel that is an error of its own; raises
    "ndarray",  # types and singletons, compared by address
    "tuple",
    "float",
    "int",
    "true",
    "false",
    "none",
    "axis_at",  # byte offsets from the start of the table
    "scalar_at",
    "linear",  # number of axes whose extent is a linear expression
)
# Array records follow the head.
ARRAY = (
    "source",  # position among the arguments; -1: output; -2: the object in `which`
    "which",  # number of the output, or address of a constant array
    "rank",
    "descr",  # address of the dtype singleton
    "flags",  # bits of ndarray.flags that must be set
    "shift",  # log2 of the item size
    "written",  # 1: output or inout
    "axis",  # number of its first axis
)
# Axis records: kind 0: extent is size symbol `value`; 1: extent is `value`; 2: a linear expression at byte
# `value` of the table (constant, number of terms, then pairs of coefficient and size symbol).
# stride: 0 any (not negative), 1 one element, 2 the inner axis' stride times its extent.
AXIS = ("kind", "value", "stride")
# Scalar records. kind: 0 f64, 1 f32, 2 bool, 3 integer within lo..hi.
SCALAR = ("position", "kind", "lo", "hi")

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
    "Py_IncRef",
    "Py_DecRef",
)


def fill(text: str) -> str:
    """IR text with names of words (`ARRAY.rank`), sizes of records (`ARRAY.bytes`) and limits replaced by numbers."""
    for name, fields in (("HEAD", HEAD), ("ARRAY", ARRAY), ("AXIS", AXIS), ("SCALAR", SCALAR)):
        # longest first, so that no name is replaced inside another
        for number in sorted(range(len(fields)), key=lambda i: -len(fields[i])):
            text = text.replace(f"{name}.{fields[number]}", str(8 * number))
        text = text.replace(f"{name}.bytes", str(8 * len(fields)))
    limits = {"ARRAYS": MAX_ARRAYS, "AXES": MAX_AXES, "SIZES": MAX_SIZES, "SCALARS": MAX_SCALARS}
    for name, value in limits.items():
        text = text.replace(f"MAX_{name}", str(value))
    return text
