"""Kernels of a few lines of IR behind the builtin that Python calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tilewright.codegen import entry, jit, runtime, target
from tilewright.codegen.signature import ArrayParam, Signature, contiguous

# out[i] = a[i * stride a] + b[i * stride b] over f32, N elements
ADD = """
define i32 @tw_add(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) {
entry:
  %n = load i64, ptr %sizes
  %sa = load i64, ptr %strides
  %sb.p = getelementptr i64, ptr %strides, i64 1
  %sb = load i64, ptr %sb.p
  %so.p = getelementptr i64, ptr %strides, i64 2
  %so = load i64, ptr %so.p
  %a = load ptr, ptr %data
  %b.p = getelementptr ptr, ptr %data, i64 1
  %b = load ptr, ptr %b.p
  %o.p = getelementptr ptr, ptr %data, i64 2
  %o = load ptr, ptr %o.p
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %out
one:
  %ia = mul i64 %i, %sa
  %ib = mul i64 %i, %sb
  %io = mul i64 %i, %so
  %pa = getelementptr float, ptr %a, i64 %ia
  %pb = getelementptr float, ptr %b, i64 %ib
  %po = getelementptr float, ptr %o, i64 %io
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %v = fadd float %va, %vb
  store float %v, ptr %po
  %i1 = add i64 %i, 1
  br label %check
out:
  ret i32 0
}
"""

Slow = Callable[..., Any]


class Slow_:
    """Records what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "slow"


def array(name: str, role: Any, *axes: Any, dtype: str = "float32", strides: Any = None) -> ArrayParam:
    extents = tuple(a if isinstance(a, tuple) else ("size", a) for a in axes)
    return ArrayParam(name, dtype, role, extents, strides or contiguous(len(axes)))


def vector(name: str, role: Any, stride: Any = "unit") -> ArrayParam:
    return array(name, role, 0, strides=(stride,))


def add_signature(stride: Any = "unit") -> Signature:
    arrays = (vector("a", "in", stride), vector("b", "in", stride), vector("c", "out", stride))
    return Signature("add", ("N",), arrays, (), ("a", "b"))


def build(signature: Signature, library: jit.Library, symbol: str, slow: Slow | None = None, **more: Any) -> Any:
    context = runtime.context(1)
    return entry.make_entry(
        signature,
        library.address(symbol),
        ctypes.addressof(context),
        slow or Slow_(),
        keep=(library, context),
        **more,
    )


def probe(arrays: int, sizes: int, strides: int, scalars: int) -> str:
    """IR of a kernel that writes all it gets (but the pointers of arrays) to its last array, of i64."""
    text = ["define i32 @tw_probe(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) {"]
    text.append(f"  %last = getelementptr ptr, ptr %data, i64 {arrays - 1}\n  %to = load ptr, ptr %last")
    place = 0
    for name, count in (("sizes", sizes), ("strides", strides), ("scalars", scalars)):
        for i in range(count):
            text.append(f"  %f{place} = getelementptr i64, ptr %{name}, i64 {i}")
            text.append(f"  %v{place} = load i64, ptr %f{place}")
            text.append(f"  %t{place} = getelementptr i64, ptr %to, i64 {place}")
            text.append(f"  store i64 %v{place}, ptr %t{place}")
            place += 1
    return "\n".join([*text, "  ret i32 0", "}"])


def probed(signature: Signature, slow: Slow, **more: Any) -> Any:
    strides = sum(len(a.axes) for a in signature.arrays)
    text = probe(len(signature.arrays), len(signature.sizes), strides, len(signature.scalars))
    return build(signature, jit.load(target.optimize_and_emit(text), ("tw_probe",)), "tw_probe", slow, **more)


REPORT = array("r", "out", ("const", 40), dtype="int64")


def two_outputs() -> Signature:
    outs = (array("p", "out", 0, dtype="int64"), array("q", "out", 0, dtype="int64"))
    return Signature("f", ("N",), (array("a", "in", 0), *outs), (), ("a",), structure="tuple")


def code_kernel(code: int) -> jit.Library:
    text = f"define i32 @tw_code(ptr %d, ptr %s, ptr %t, ptr %c, ptr %x) {{\n  ret i32 {code}\n}}"
    return jit.load(target.optimize_and_emit(text), ("tw_code",))
