"""A call without arguments as LLVM IR: everything was checked before, the kernel runs on the same buffers again.

The function is a METH_NOARGS builtin. Its `self` is a tuple: a bytes object with the kernel's arguments (`WORDS`), the
result, and what is called with a return code of the kernel that is not 0 (it raises); other items only keep things alive.
"""

from __future__ import annotations

from tilewright.codegen.runtime import entry_parts_ir, table

WORDS = ("kernel", "data", "sizes", "strides", "scalars", "context")  # addresses

_TEXT = """
define ptr @tw_bound(ptr %self, ptr %none) {
entry:
  %bytes = call ptr @item(ptr %self, i64 24)       ; item 0 of a tuple
  %words = getelementptr i8, ptr %bytes, i64 32    ; content of a bytes object
  %kernel = call ptr @item(ptr %words, i64 0)
  %data = call ptr @item(ptr %words, i64 8)
  %sizes = call ptr @item(ptr %words, i64 16)
  %strides = call ptr @item(ptr %words, i64 24)
  %scalars = call ptr @item(ptr %words, i64 32)
  %context = call ptr @item(ptr %words, i64 40)
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %kernel(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context)
  call void @PyEval_RestoreThread(ptr %thread)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %done, label %failed
done:
  %result = call ptr @item(ptr %self, i64 32)
  call void @Py_IncRef(ptr %result)
  ret ptr %result
failed:
  %code64 = sext i32 %code to i64
  %number = call ptr @PyLong_FromLong(i64 %code64)
  %lost = icmp eq ptr %number, null
  br i1 %lost, label %error, label %tell
tell:
  %fail = call ptr @item(ptr %self, i64 40)
  %told = call ptr @PyObject_CallOneArg(ptr %fail, ptr %number)
  call void @Py_DecRef(ptr %number)
  ret ptr %told
error:
  ret ptr null
}
"""


def text() -> str:
    """IR of the function `tw_bound`."""
    return table.fill(entry_parts_ir.TEXT) + _TEXT
