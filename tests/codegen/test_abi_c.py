"""A kernel object linked into a C program that brings its own executor and allocator."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.codegen import abi, jit, objects, runtime, target

# out[i] = scale * a[i], computed in a temporary by one task a row of `columns`; requirement 7: rows != 13.
KERNEL = """
%context = type { i64, ptr, ptr, ptr, ptr }
%env = type { ptr, ptr, i64, double }

define internal i32 @row(ptr %env, i64 %i) {
entry:
  %from = load ptr, ptr %env
  %to.p = getelementptr %env, ptr %env, i64 0, i32 1
  %to = load ptr, ptr %to.p
  %n.p = getelementptr %env, ptr %env, i64 0, i32 2
  %n = load i64, ptr %n.p
  %scale.p = getelementptr %env, ptr %env, i64 0, i32 3
  %scale = load double, ptr %scale.p
  %first = mul i64 %i, %n
  br label %check
check:
  %j = phi i64 [ 0, %entry ], [ %j1, %one ]
  %more = icmp slt i64 %j, %n
  br i1 %more, label %one, label %out
one:
  %k = add i64 %first, %j
  %from.k = getelementptr double, ptr %from, i64 %k
  %to.k = getelementptr double, ptr %to, i64 %k
  %x = load double, ptr %from.k
  %y = fmul double %x, %scale
  store double %y, ptr %to.k
  %j1 = add i64 %j, 1
  br label %check
out:
  ret i32 0
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i32 @tw_scale(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %ctx) {
entry:
  %env = alloca %env
  %rows = load i64, ptr %sizes
  %unlucky = icmp eq i64 %rows, 13
  br i1 %unlucky, label %refuse, label %begin
begin:
  %columns.p = getelementptr i64, ptr %sizes, i64 1
  %columns = load i64, ptr %columns.p
  %a = load ptr, ptr %data
  %out.p = getelementptr ptr, ptr %data, i64 1
  %out = load ptr, ptr %out.p
  %scale = load double, ptr %scalars
  %count = mul i64 %rows, %columns
  %bytes = mul i64 %count, 8
  %alloc.p = getelementptr %context, ptr %ctx, i64 0, i32 2
  %alloc = load ptr, ptr %alloc.p
  %temporary = call ptr %alloc(ptr %ctx, i64 %bytes)
  %none = icmp eq ptr %temporary, null
  br i1 %none, label %exhausted, label %run
run:
  store ptr %a, ptr %env
  %e1 = getelementptr %env, ptr %env, i64 0, i32 1
  store ptr %temporary, ptr %e1
  %e2 = getelementptr %env, ptr %env, i64 0, i32 2
  store i64 %columns, ptr %e2
  %e3 = getelementptr %env, ptr %env, i64 0, i32 3
  store double %scale, ptr %e3
  %for.p = getelementptr %context, ptr %ctx, i64 0, i32 1
  %for = load ptr, ptr %for.p
  %code = call i32 %for(ptr %ctx, ptr @row, ptr %env, i64 %rows, i64 %count)
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %temporary, i64 %bytes, i1 false)
  %release.p = getelementptr %context, ptr %ctx, i64 0, i32 3
  %release = load ptr, ptr %release.p
  call void %release(ptr %ctx, ptr %temporary)
  ret i32 %code
exhausted:
  ret i32 1
refuse:
  ret i32 107
}
"""

PROGRAM = r"""
#include "tilewright.h"
#include <stdlib.h>
#include <string.h>

struct counts { int loops, blocks, released; int64_t limit; };

static int32_t run(const tw_context *ctx, tw_body body, void *env, int64_t n, int64_t work) {
    ((struct counts *)ctx->user)->loops += work == 15;
    for (int64_t i = n - 1; i >= 0; i--) {   /* any order will do */
        int32_t code = body(env, i);
        if (code) return code;
    }
    return 0;
}
static void *get(const tw_context *ctx, int64_t bytes) {
    struct counts *counts = ctx->user;
    void *block = NULL;
    if (bytes > counts->limit || posix_memalign(&block, 64, (size_t)bytes)) return NULL;
    counts->blocks++;
    return block;
}
static void give(const tw_context *ctx, void *block) {
    ((struct counts *)ctx->user)->released++;
    free(block);
}

extern int32_t tw_scale(void *const *, const int64_t *, const int64_t *, const int64_t *, const tw_context *);

int main(void) {
    tw_kernel kernel = tw_scale;
    struct counts counts = {0, 0, 0, 1 << 20};
    tw_context ctx = {1, run, get, give, &counts};
    double a[15], out[15], scale = 2.5;
    for (int i = 0; i < 15; i++) { a[i] = i; out[i] = -1; }
    void *data[] = {a, out};
    int64_t sizes[] = {3, 5}, strides[] = {5, 1, 5, 1}, scalars[1];
    memcpy(scalars, &scale, sizeof scale);
    if (kernel(data, sizes, strides, scalars, &ctx) != 0) return 1;
    for (int i = 0; i < 15; i++) if (out[i] != 2.5 * i) return 2;
    if (counts.loops != 1 || counts.blocks != 1 || counts.released != 1) return 3;
    counts.limit = 0;
    if (kernel(data, sizes, strides, scalars, &ctx) != 1) return 4;
    sizes[0] = 13;
    if (kernel(data, sizes, strides, scalars, &ctx) != 107) return 5;
    return 0;
}
"""


@pytest.fixture(scope="module")
def image() -> bytes:
    return target.optimize_and_emit(KERNEL)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("standard", ["c99", "c17"])
def test_a_c_program_calls_the_kernel(image: bytes, tmp_path: Path, standard: str) -> None:
    (tmp_path / "tilewright.h").write_text(abi.HEADER)
    (tmp_path / "main.c").write_text(PROGRAM)
    (tmp_path / "kernel.o").write_bytes(image)
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-std={standard}", "-D_POSIX_C_SOURCE=200809L"]
    # -z text: no relocation may be left in the code of a position-independent program
    command = ["gcc", *warnings, "-pie", "-fPIE", "-Wl,-z,text", "main.c", "kernel.o", "-o", "program"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "program"], timeout=20).returncode == 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_the_header_is_cplusplus_too(tmp_path: Path) -> None:
    (tmp_path / "tilewright.h").write_text(abi.HEADER)
    (tmp_path / "main.cc").write_text('#include "tilewright.h"\n#include "tilewright.h"\nint main() { return ABI; }\n')
    offsets = "offsetof(tw_context, user) == 32 && sizeof(tw_context) == 40 ? 0 : 1"
    command = [
        "g++",
        "-Wall",
        "-Werror",
        "-include",
        "cstddef",
        f"-DABI=({offsets})",
        "main.cc",
        "-o",
        "program",
    ]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "program"], timeout=20).returncode == 0


def test_the_object_needs_nothing_but_c(image: bytes) -> None:
    assert objects.undefined_symbols(image) == ("memcpy",)


def test_the_context_in_python_is_that_of_the_header() -> None:
    assert ctypes.sizeof(abi.Context) == 40
    assert [getattr(abi.Context, name).offset for name, *_ in abi.Context._fields_] == [0, 8, 16, 24, 32]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_object_with_our_own_context(image: bytes, threads: int) -> None:
    library = jit.load(image, ("tw_scale",))
    source, result = (ctypes.c_double * 60)(*range(60)), (ctypes.c_double * 60)()
    scale = ctypes.c_int64.from_buffer_copy(ctypes.c_double(0.5))
    code = abi.KERNEL(library.address("tw_scale"))(
        (ctypes.c_void_p * 2)(ctypes.addressof(source), ctypes.addressof(result)),
        (ctypes.c_int64 * 2)(12, 5),
        (ctypes.c_int64 * 4)(5, 1, 5, 1),
        (ctypes.c_int64 * 1)(scale.value),
        ctypes.byref(runtime.context(threads)),
    )
    assert code == 0
    assert list(result) == [0.5 * i for i in range(60)]
