/* tilewright: what kernels that are exported as C rest on. C11; <stdint.h>, <math.h> and <string.h> are all it needs.
 *
 * Values are those of the native kernel, bit for bit, if the compiler computes as it is told: -ffp-contract=off (a product
 * and a sum fuse where fma stands, nowhere else), no -ffast-math, floats in their own type (not x87), and a default
 * rounding mode. Integers wrap: conversions to narrower signed types are taken modulo 2^n, which C leaves to the compiler
 * and every compiler does; nothing here is undefined.
 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "exported kernels compute exactly what they say: compile them without -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "floats must be computed in their own type: on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* What loops count and buffers are indexed in: -DTW_INDEX=int32_t on a processor of 32 bits, if all arrays are small
 * enough. */
#ifndef TW_INDEX
#define TW_INDEX int64_t
#endif
typedef TW_INDEX tw_index;

/* What stands before a loop whose iterations may run at once, such as -DTW_PARALLEL='_Pragma("omp parallel for")'.
 * (Loops that the schedule calls parallel and that have buffers of their own are not marked: there is one of each.) */
#ifndef TW_PARALLEL
#define TW_PARALLEL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Hooks: the parts of a machine. -------------------------------------------------------------------------------------
 *
 * Every kernel's file holds weak definitions of these, which do the work with the processor; define functions of these
 * names anywhere in your program to have it done by the machine (or compile with -DTW_OWN_HOOKS where the compiler has no
 * weak symbols).
 */

/* A copy between two memories: element (i0, i1, ...) goes from `source` + sum of i * source_strides to
 * `target` + sum of i * target_strides, for all i below `extents`. Strides are in bytes and may have any order; an extent
 * may be 0. The structure and its arrays are valid during the call only. */
typedef struct tw_copy {
    const char *name;              /* what is copied, by its name in the schedule */
    int32_t number;                /* which copy of the program this is: 0, 1, ... */
    int32_t slot;                  /* of the ring (0 where there is none) */
    void *target;
    const void *source;
    int32_t element;               /* bytes of an element */
    int32_t dims;
    const tw_index *extents;        /* `dims` of each, outermost first */
    const tw_index *target_strides;
    const tw_index *source_strides;
} tw_copy;

/* Begins a copy and may return before it is done. Copies begin in the order of the calls; neither side is touched by the
 * kernel until tw_dma_wait has been called for the copy's number and slot. */
void tw_dma_start(const tw_copy *copy);

/* Returns when every copy that was begun with this number and slot is done: at once where there is none. */
void tw_dma_wait(int32_t number, int32_t slot);

/* Memory for a buffer whose size is known at the call only, aligned to 64 bytes; NULL where there is none (the kernel gives
 * its other buffers back and returns 1). `memory` is the name of the memory that the schedule puts it in. */
void *tw_allocate(const char *memory, int64_t bytes);
void tw_release(void *block);

/* A box of an operand of a unit: element (i0, i1, ...) lies at `first` + sum of i * strides (in bytes). */
typedef struct tw_operand {
    void *first;
    int32_t element;
    int32_t dims;
    const tw_index *extents;
    const tw_index *strides;
} tw_operand;

/* One call of a unit of the machine: c[m, n] += a[m, k] * b[k, n], the products of one element in the order of k. Boxes have
 * the axes of their tensors, of which some have extent 1. `tw_unit_NAME` does it and returns 1, or returns 0: then the loops
 * that follow the call do it, which is what the weak definition leads to. */
typedef struct tw_unit_call {
    tw_index m, n, k;
    tw_operand a, b, c;
} tw_unit_call;

/* Hints: what is read or written soon. */
#ifndef TW_PREFETCH
#if defined(__GNUC__)
#define TW_PREFETCH(array, index, write) \
    __builtin_prefetch((const void *)((uintptr_t)(array) + (uintptr_t)(index) * sizeof *(array)), write)
#else
#define TW_PREFETCH(array, index, write) ((void)(index))
#endif
#endif

#ifdef __cplusplus
} /* hooks may be written in C++; kernels are C */
#else

/* Index arithmetic: quotients round down, by zero they are 0. ------------------------------------------------------ */

static inline tw_index tw_floor_div(tw_index a, tw_index b)
{
    if (b == 0)
        return 0;
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static inline tw_index tw_floor_mod(tw_index a, tw_index b)
{
    if (b == 0)
        return 0;
    return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
}

static inline tw_index tw_min(tw_index a, tw_index b) { return a < b ? a : b; }
static inline tw_index tw_max(tw_index a, tw_index b) { return a > b ? a : b; }
static inline tw_index tw_abs(tw_index a) { return a < 0 ? -a : a; }

/* Integers that wrap at their width. ------------------------------------------------------------------------------- *
 * Quotients round down, remainders have the sign of the divisor, by zero both are 0; shifts by less than nothing or by
 * the width and more shift everything out. W is the unsigned type that is computed in. */

#define TW_INTEGER(NAME, T, W, BITS)                                                                     \
    static inline T tw_add_##NAME(T a, T b) { return (T)((W)a + (W)b); }                                 \
    static inline T tw_sub_##NAME(T a, T b) { return (T)((W)a - (W)b); }                                 \
    static inline T tw_mul_##NAME(T a, T b) { return (T)((W)a * (W)b); }                                 \
    static inline T tw_neg_##NAME(T a) { return (T)((W)0 - (W)a); }                                      \
    static inline T tw_not_##NAME(T a) { return (T)~(W)a; }                                              \
    static inline T tw_min_##NAME(T a, T b) { return a < b ? a : b; }                                    \
    static inline T tw_max_##NAME(T a, T b) { return a > b ? a : b; }                                    \
    static inline _Bool tw_lt_##NAME(T a, T b) { return a < b; }                                         \
    static inline _Bool tw_le_##NAME(T a, T b) { return a <= b; }                                        \
    static inline T tw_shl_##NAME(T a, T n) { return (W)n < BITS ? (T)((W)a << (W)n) : 0; }

#define TW_SIGNED(NAME, T, W, BITS)                                                                      \
    TW_INTEGER(NAME, T, W, BITS)                                                                         \
    static inline T tw_abs_##NAME(T a) { return a < 0 ? tw_neg_##NAME(a) : a; }                          \
    static inline T tw_shr_##NAME(T a, T n) { return (T)(a >> ((W)n < BITS ? (W)n : BITS - 1)); }        \
    static inline T tw_floor_div_##NAME(T a, T b)                                                        \
    {                                                                                                    \
        if (b == 0 || b == -1)                                                                           \
            return b == 0 ? 0 : tw_neg_##NAME(a);                                                        \
        return (T)(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));                                      \
    }                                                                                                    \
    static inline T tw_floor_mod_##NAME(T a, T b)                                                        \
    {                                                                                                    \
        if (b == 0 || b == -1)                                                                           \
            return 0;                                                                                    \
        return (T)(a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0));                              \
    }

#define TW_UNSIGNED(NAME, T, W, BITS)                                                                    \
    TW_INTEGER(NAME, T, W, BITS)                                                                         \
    static inline T tw_shr_##NAME(T a, T n) { return (W)n < BITS ? (T)((W)a >> (W)n) : 0; }              \
    static inline T tw_floor_div_##NAME(T a, T b) { return b == 0 ? 0 : (T)(a / b); }                    \
    static inline T tw_floor_mod_##NAME(T a, T b) { return b == 0 ? 0 : (T)(a % b); }

TW_SIGNED(i8, int8_t, uint32_t, 8)
TW_SIGNED(i16, int16_t, uint32_t, 16)
TW_SIGNED(i32, int32_t, uint32_t, 32)
TW_SIGNED(i64, int64_t, uint64_t, 64)
TW_UNSIGNED(u8, uint8_t, uint32_t, 8)
TW_UNSIGNED(u16, uint16_t, uint32_t, 16)
TW_UNSIGNED(u32, uint32_t, uint32_t, 32)
TW_UNSIGNED(u64, uint64_t, uint64_t, 64)

/* Floats. ---------------------------------------------------------------------------------------------------------- *
 * max: a where a > b or a is NaN, else b, and likewise min; quotients and remainders as NumPy's floor_divide and
 * remainder. Conversions to integers cut off, stop at the ends, and give 0 for NaN. */

#define TW_FLOAT(NAME, T, F)                                                                             \
    static inline T tw_max_##NAME(T a, T b) { return a > b || a != a ? a : b; }                          \
    static inline T tw_min_##NAME(T a, T b) { return a < b || a != a ? a : b; }                          \
    static inline T tw_floor_mod_##NAME(T a, T b)                                                        \
    {                                                                                                    \
        T r = fmod##F(a, b);                                                                             \
        if (b == 0)                                                                                      \
            return r;                                                                                    \
        if (r == 0)                                                                                      \
            return copysign##F(0, b);                                                                    \
        return (b < 0) != (r < 0) ? r + b : r;                                                           \
    }                                                                                                    \
    static inline T tw_floor_div_##NAME(T a, T b)                                                        \
    {                                                                                                    \
        T r, q, low;                                                                                     \
        if (b == 0)                                                                                      \
            return a / b;                                                                                \
        r = fmod##F(a, b);                                                                               \
        q = (a - r) / b;                                                                                 \
        if (r != 0 && (b < 0) != (r < 0))                                                                \
            q = q - 1;                                                                                   \
        if (q == 0)                                                                                      \
            return copysign##F(0, a / b);                                                                \
        low = floor##F(q);                                                                               \
        return q - low > (T)0.5 ? low + 1 : low;                                                         \
    }

TW_FLOAT(f32, float, f)
TW_FLOAT(f64, double, )

/* BELOW and ABOVE are the powers of two at the ends of the type: what lies beyond them is not converted. */
#define TW_TO_INTEGER(NAME, T, BELOW, ABOVE, LOW, HIGH)                                                  \
    static inline T tw_##NAME##_of_f32(float x)                                                          \
    {                                                                                                    \
        return x != x ? 0 : x <= BELOW##f ? LOW : x >= ABOVE##f ? HIGH : (T)x;                           \
    }                                                                                                    \
    static inline T tw_##NAME##_of_f64(double x)                                                         \
    {                                                                                                    \
        return x != x ? 0 : x <= BELOW ? LOW : x >= ABOVE ? HIGH : (T)x;                                 \
    }

TW_TO_INTEGER(i8, int8_t, -128.0, 128.0, INT8_MIN, INT8_MAX)
TW_TO_INTEGER(i16, int16_t, -32768.0, 32768.0, INT16_MIN, INT16_MAX)
TW_TO_INTEGER(i32, int32_t, -2147483648.0, 2147483648.0, INT32_MIN, INT32_MAX)
TW_TO_INTEGER(i64, int64_t, -9223372036854775808.0, 9223372036854775808.0, INT64_MIN, INT64_MAX)
TW_TO_INTEGER(u8, uint8_t, 0.0, 256.0, 0, UINT8_MAX)
TW_TO_INTEGER(u16, uint16_t, 0.0, 65536.0, 0, UINT16_MAX)
TW_TO_INTEGER(u32, uint32_t, 0.0, 4294967296.0, 0, UINT32_MAX)
TW_TO_INTEGER(u64, uint64_t, 0.0, 18446744073709551616.0, 0, UINT64_MAX)

/* The same bits as another type. */
#define TW_BITS(A, TA, B, TB)                                                                            \
    static inline TA tw_##A##_bits_##B(TB x)                                                             \
    {                                                                                                    \
        TA out;                                                                                          \
        memcpy(&out, &x, sizeof out);                                                                    \
        return out;                                                                                      \
    }

TW_BITS(f32, float, u32, uint32_t)
TW_BITS(f32, float, i32, int32_t)
TW_BITS(u32, uint32_t, f32, float)
TW_BITS(i32, int32_t, f32, float)
TW_BITS(f64, double, u64, uint64_t)
TW_BITS(f64, double, i64, int64_t)
TW_BITS(u64, uint64_t, f64, double)
TW_BITS(i64, int64_t, f64, double)

/* f16 and bf16 are stored as uint16_t and computed with as float. A value is rounded once, ties to even. */

static inline float tw_f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 1023u;
    float small;
    if (exponent == 31)
        return tw_f32_bits_u32(sign | 0x7f800000u | (fraction ? 0x400000u | fraction << 13 : 0));
    if (exponent)
        return tw_f32_bits_u32(sign | (exponent + 112) << 23 | fraction << 13);
    small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

static inline uint16_t tw_f16_of_f32(float x)
{
    uint32_t bits = tw_u32_bits_f32(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) /* NaN */
        return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00u);
    if (size >= 0x38800000u) /* 2^-14: normal numbers */
        return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
    return (uint16_t)(sign | (uint32_t)rintf(fabsf(x) * 0x1p24f));
}

static inline float tw_f32_of_bf16(uint16_t h) { return tw_f32_bits_u32((uint32_t)h << 16); }

static inline uint16_t tw_bf16_of_f32(float x)
{
    uint32_t bits = tw_u32_bits_f32(x);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* To f32, rounded to odd where it is inexact, so that the next rounding is the only one. */
static inline float tw_f32_odd(double x)
{
    float near = (float)x;
    double back = (double)near;
    uint32_t bits = tw_u32_bits_f32(near);
    if (back == x || x != x)
        return near;
    if (fabs(back) > fabs(x))
        bits -= 1;
    return tw_f32_bits_u32(bits | 1u);
}

/* A value as it is after it was stored. */
static inline float tw_round_f16_f32(float x) { return tw_f32_of_f16(tw_f16_of_f32(x)); }
static inline float tw_round_bf16_f32(float x) { return tw_f32_of_bf16(tw_bf16_of_f32(x)); }
static inline float tw_round_f16_f64(double x) { return tw_round_f16_f32(tw_f32_odd(x)); }
static inline float tw_round_bf16_f64(double x) { return tw_round_bf16_f32(tw_f32_odd(x)); }

#endif /* not C++ */
#endif
