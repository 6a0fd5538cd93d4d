"""What the probe runs, as LLVM IR: streams through memory, a chase of pointers, and arithmetic that nothing waits for.

The texts are emitted as they are, without passes: what is timed is what is written here. Every function repeats its work
`%repeats` times. Vectors have the width of the host's registers.
"""

from __future__ import annotations

from collections.abc import Callable

UNROLL = 8  # vectors of a turn of a stream
ACCUMULATORS = 12  # independent sums: more than the latency of an operation times the units, and no more than registers
CHAIN = 16  # dependent pairs of operations of a turn of the clock's loop
HOPS = 8  # pointers of a turn of the chase

# type -> (LLVM's type of an element, how many bytes, how many bytes it takes where it is computed)
TYPES = {
    "f64": ("double", 8, 8),
    "f32": ("float", 4, 4),
    "f16": ("half", 2, 4),
    "bf16": ("i16", 2, 4),
    "i64": ("i64", 8, 8),
    "i32": ("i32", 4, 4),
    "i16": ("i16", 2, 2),
    "i8": ("i8", 1, 1),
}


def symbol(kind: str, type_: str = "") -> str:
    """The name of a function."""
    return f"tw_probe_{kind}{'_' * bool(type_)}{type_}"


def streams(width: int) -> str:
    """`read(a, a, a, bytes, repeats, sink)`, `copy(to, from, ...)`, `pass(to, from, ...)`, a copy whose stores go past the
    caches, and `triad(to, b, c, ...)`: to = b + 3 c in doubles."""
    words, doubles = f"<{width // 8} x i64>", f"<{width // 8} x double>"
    fma = f"@llvm.fma.v{width // 8}f64"

    def read(k: int) -> str:
        return _load("v", "b", k, width, words) + f"  %t{k} = add {words} %s{k}, %v{k}\n"

    def copy(k: int) -> str:
        return _load("v", "b", k, width, words) + _store("v", k, width, words)

    def past(k: int) -> str:
        return _load("v", "b", k, width, words) + _store("v", k, width, words, ", !nontemporal !0")

    def triad(k: int) -> str:
        scaled = f"  %w{k} = call {doubles} {fma}({doubles} %u{k}, {doubles} %three, {doubles} %v{k})\n"
        return (
            _load("v", "b", k, width, doubles) + _load("u", "c", k, width, doubles) + scaled
            + _store("w", k, width, doubles)
        )  # fmt: skip

    three = f"  %three = bitcast <{width // 8} x i64> {_splat(width // 8, 'i64', '4613937818241073152')} to {doubles}\n"
    return (
        _stream("read", read, width, words, sums=True)
        + _stream("copy", copy, width, words)
        + _stream("pass", past, width, words)
        + _stream("triad", triad, width, words, three)
        + f"declare {doubles} {fma}({doubles}, {doubles}, {doubles})\n!0 = !{{i32 1}}\n"
    )


def _load(name: str, base: str, k: int, width: int, type_: str) -> str:
    at = f"%{name}p{k}"
    return (
        f"  {at} = getelementptr i8, ptr %{base}{k}, i64 %i\n"
        f"  %{name}{k} = load {type_}, ptr {at}, align {width}\n"
    )  # fmt: skip


def _store(name: str, k: int, width: int, type_: str, how: str = "") -> str:
    return (
        f"  %ap{k}x = getelementptr i8, ptr %a{k}, i64 %i\n"
        f"  store {type_} %{name}{k}, ptr %ap{k}x, align {width}{how}\n"
    )  # fmt: skip


def _stream(kind: str, body: Callable[[int], str], width: int, sum_: str, head: str = "", sums: bool = False) -> str:
    """A function over arrays `a`, `b` and `c` of %bytes bytes (a multiple of UNROLL vectors), repeated."""
    count = UNROLL if sums else 0
    starts = "".join(
        f"  %{array}{k} = getelementptr i8, ptr %{array}, i64 {k * width}\n" for k in range(UNROLL) for array in "abc"
    )
    outer = "".join(f"  %o{k} = phi {sum_} [zeroinitializer, %entry], [%t{k}, %next]\n" for k in range(count))
    inner = "".join(f"  %s{k} = phi {sum_} [%o{k}, %outer], [%t{k}, %loop]\n" for k in range(count))
    kept = "".join(
        f"  %k{k} = getelementptr i8, ptr %sink, i64 {k * width}\n  store {sum_} %t{k}, ptr %k{k}, align {width}\n"
        for k in range(count)
    )
    return (
        f"define void @{symbol(kind)}(ptr %a, ptr %b, ptr %c, i64 %bytes, i64 %repeats, ptr %sink) {{\n"
        f"entry:\n{head}{starts}  br label %outer\n"
        f"outer:\n  %r = phi i64 [0, %entry], [%r1, %next]\n{outer}  br label %loop\n"
        f"loop:\n  %i = phi i64 [0, %outer], [%i1, %loop]\n{inner}"
        f"{''.join(map(body, range(UNROLL)))}"
        f"  %i1 = add i64 %i, {UNROLL * width}\n  %more = icmp ult i64 %i1, %bytes\n"
        "  br i1 %more, label %loop, label %next\n"
        "next:\n  %r1 = add i64 %r, 1\n  %again = icmp ult i64 %r1, %repeats\n"
        f"  br i1 %again, label %outer, label %end\nend:\n{kept}  ret void\n}}\n"
    )


def chase() -> str:
    """`chase(start, turns) -> where it ended`: HOPS loads a turn, each from where the one before points to."""
    hops = "".join(f"  %p{k + 1} = load ptr, ptr %p{k}, align 8\n" for k in range(HOPS))
    return (
        f"define ptr @{symbol('chase')}(ptr %start, i64 %repeats) {{\nentry:\n  br label %loop\n"
        f"loop:\n  %p0 = phi ptr [%start, %entry], [%p{HOPS}, %loop]\n  %r = phi i64 [0, %entry], [%r1, %loop]\n{hops}"
        "  %r1 = add i64 %r, 1\n  %again = icmp ult i64 %r1, %repeats\n  br i1 %again, label %loop, label %end\n"
        f"end:\n  ret ptr %p{HOPS}\n}}\n"
    )


def clock() -> str:
    """`clock(y, z, turns)`: 2 CHAIN integer operations a turn that wait for each other, a cycle each."""
    chain = "".join(
        f"  %x{2 * k + 1} = add i64 %x{2 * k}, %y\n  %x{2 * k + 2} = xor i64 %x{2 * k + 1}, %z\n" for k in range(CHAIN)
    )
    return (
        f"define i64 @{symbol('clock')}(i64 %y, i64 %z, i64 %repeats) {{\nentry:\n  br label %loop\n"
        f"loop:\n  %x0 = phi i64 [0, %entry], [%x{2 * CHAIN}, %loop]\n  %r = phi i64 [0, %entry], [%r1, %loop]\n{chain}"
        "  %r1 = add i64 %r, 1\n  %again = icmp ult i64 %r1, %repeats\n  br i1 %again, label %loop, label %end\n"
        f"end:\n  ret i64 %x{2 * CHAIN}\n}}\n"
    )


def lanes(type_: str, width: int) -> int:
    """Elements that an operation computes at a time."""
    return width // TYPES[type_][2]


def arithmetic(type_: str, width: int) -> str:
    """`peak_TYPE(ptr to x and y, repeats, sink)`: ACCUMULATORS times s = s * x + y a turn, each of one register.

    f16 and bf16 are computed as the library does: in f32, and rounded after each operation.
    """
    element, size, _ = TYPES[type_]
    n = lanes(type_, width)
    vector = f"<{n} x {element}>"
    wide = f"<{n} x float>"
    fused = wide if type_ in ("f16", "bf16") else vector
    name = f"@llvm.fma.v{n}{'f64' if type_ == 'f64' else 'f32'}"
    turn = {"f16": _half, "bf16": _bfloat}.get(type_, _fused if type_ in ("f32", "f64") else _integer)
    sums = "".join(f"  %s{k} = phi {vector} [%x, %entry], [%t{k}, %loop]\n" for k in range(ACCUMULATORS))
    body = "".join(turn(k, n, vector, name) for k in range(ACCUMULATORS))
    kept = "".join(
        f"  %k{k} = getelementptr i8, ptr %sink, i64 {k * width}\n  store {vector} %t{k}, ptr %k{k}, align {size}\n"
        for k in range(ACCUMULATORS)
    )
    pair = f"  %x = load {vector}, ptr %xy, align {size}\n  %yp = getelementptr i8, ptr %xy, i64 {width}\n"
    pair += f"  %y = load {vector}, ptr %yp, align {size}\n"
    if type_ in ("f16", "bf16"):
        pair += "".join(_widened(v, f"{v}w", n, type_) for v in "xy")
    declared = "" if turn is _integer else f"declare {fused} {name}({fused}, {fused}, {fused})\n"
    return (
        f"define void @{symbol('peak', type_)}(ptr %xy, i64 %repeats, ptr %sink) {{\nentry:\n{pair}  br label %loop\n"
        f"loop:\n  %r = phi i64 [0, %entry], [%r1, %loop]\n{sums}{body}"
        "  %r1 = add i64 %r, 1\n  %again = icmp ult i64 %r1, %repeats\n  br i1 %again, label %loop, label %end\n"
        f"end:\n{kept}  ret void\n}}\n{declared}"
    )


def _fused(k: int, n: int, vector: str, name: str) -> str:
    return f"  %t{k} = call {vector} {name}({vector} %s{k}, {vector} %x, {vector} %y)\n"


def _integer(k: int, n: int, vector: str, name: str) -> str:
    return f"  %m{k} = mul {vector} %s{k}, %x\n  %t{k} = add {vector} %m{k}, %y\n"


def _half(k: int, n: int, vector: str, name: str) -> str:
    wide = f"<{n} x float>"
    return (
        _widened(f"s{k}", f"e{k}", n, "f16")
        + f"  %f{k} = call {wide} {name}({wide} %e{k}, {wide} %xw, {wide} %yw)\n"
        + f"  %t{k} = fptrunc {wide} %f{k} to {vector}\n"
    )


def _bfloat(k: int, n: int, vector: str, name: str) -> str:
    """The upper half of a float, rounded to even (there are no NaNs here)."""
    wide, bits = f"<{n} x float>", f"<{n} x i32>"
    return (
        _widened(f"s{k}", f"e{k}", n, "bf16")
        + f"  %f{k} = call {wide} {name}({wide} %e{k}, {wide} %xw, {wide} %yw)\n"
        + f"  %b{k} = bitcast {wide} %f{k} to {bits}\n"
        + f"  %h{k} = lshr {bits} %b{k}, {_splat(n, 'i32', '16')}\n"
        + f"  %l{k} = and {bits} %h{k}, {_splat(n, 'i32', '1')}\n"
        + f"  %u{k} = add {bits} %b{k}, {_splat(n, 'i32', '32767')}\n"
        + f"  %v{k} = add {bits} %u{k}, %l{k}\n"
        + f"  %w{k} = lshr {bits} %v{k}, {_splat(n, 'i32', '16')}\n"
        + f"  %t{k} = trunc {bits} %w{k} to {vector}\n"
    )


def _widened(name: str, to: str, n: int, type_: str) -> str:
    if type_ == "f16":
        return f"  %{to} = fpext <{n} x half> %{name} to <{n} x float>\n"
    return (
        f"  %{to}z = zext <{n} x i16> %{name} to <{n} x i32>\n"
        f"  %{to}b = shl <{n} x i32> %{to}z, {_splat(n, 'i32', '16')}\n"
        f"  %{to} = bitcast <{n} x i32> %{to}b to <{n} x float>\n"
    )


def _splat(n: int, element: str, value: str) -> str:
    return "<" + ", ".join([f"{element} {value}"] * n) + ">"
