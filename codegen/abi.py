"""The C interface of compiled kernels: the symbol's name, the context structure, return codes, a C header.

A kernel object is position independent, exports one function of this interface and needs nothing but
libc and libm, so it links into a C program that brings its own executor and allocator.
"""

from __future__ import annotations

import ctypes
import hashlib
import re

OK = 0
OUT_OF_MEMORY = 1
STAGE_FAILED = 2
FIRST_REQUIREMENT = 100
ALIGNMENT = 64

HEADER = """\
/* tilewright: the interface of compiled kernels. */
#ifndef TILEWRIGHT_KERNEL_H
#define TILEWRIGHT_KERNEL_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_context tw_context;

/* One task of a parallel loop; 0 is success, anything else stops the loop. */
typedef int32_t (*tw_body)(void *env, int64_t task);

struct tw_context {
    int64_t threads;   /* how many threads a parallel loop may use, the caller included; <= 1: serial */
    /* Runs body(env, 0) .. body(env, n - 1) in any order and any thread, returns when all have ended:
       0, or the code of the smallest task that failed (tasks after it may have been skipped). `work` says about how
       much all of them do, as a number of simple operations: whether it is worth waking a thread. */
    int32_t (*parallel_for)(const tw_context *ctx, tw_body body, void *env, int64_t n, int64_t work);
    void *(*alloc)(const tw_context *ctx, int64_t bytes);   /* 64-byte aligned, or NULL */
    void (*release)(const tw_context *ctx, void *block);    /* NULL is allowed */
    void *user;        /* for whoever provides the functions above */
};

/* Every compiled kernel has this type; its symbol is tw_<name>_<8 hexadecimal digits>.
   data     element 0 of every array: inputs, inouts and tables in the order of the signature, then outputs
   sizes    the value of every size symbol in the order of the signature
   strides  in elements, one per axis, flattened over the arrays in the order of `data`
   scalars  one 8-byte slot each: integers extended to 64 bits by their own sign, bool 0 or 1, f64 its bits,
            f32 its bits in the low half; f16 and bf16 rounded to their type, then as f32
   Returns 0; 1 when memory ran out; 2 when a stage of the user's failed; 100 + k when requirement k of the kernel does
   not hold (requirements are checked before anything is written). */
typedef int32_t (*tw_kernel)(void *const *data, const int64_t *sizes, const int64_t *strides,
                             const int64_t *scalars, const tw_context *ctx);

/* A stage that the user computes: a kernel that has any asks for tw_stage_0, tw_stage_1, ... of this type. `words`:
   the boxes and scalars in the order of the stage's signature, the output's boxes first. A box has one word for the address
   of its first element, then the coordinate of that element, the extents and the steps (in elements), one word an axis
   each. Scalars are slots as above. Anything but 0 ends the kernel with that code. */
typedef int32_t (*tw_stage)(const tw_context *ctx, const int64_t *words);

#ifdef __cplusplus
}
#endif
#endif
"""

BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
STAGE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class Context(ctypes.Structure):
    """`tw_context`; the function members are held as plain addresses."""

    _fields_ = [
        ("threads", ctypes.c_int64),
        ("parallel_for", ctypes.c_void_p),
        ("alloc", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
    ]


CONTEXT_BYTES = ctypes.sizeof(Context)


def symbol(name: str, content: str | bytes) -> str:
    """The C symbol `tw_<name>_<hash8>` of a kernel; `content` is what makes this variant different."""
    data = content.encode() if isinstance(content, str) else content
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name) or "kernel"
    return f"tw_{plain}_{hashlib.sha256(data).hexdigest()[:8]}"
