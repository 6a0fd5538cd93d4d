"""Emission of objects and loading them: same bytes everywhere, few symbols, errors of our own."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen import abi, jit, objects, target
from tilewright.lang.errors import CompileError

FILL = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @tw_fill(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) {
  %n = load i64, ptr %sizes
  %p = load ptr, ptr %data
  %v = load i64, ptr %scalars
  %b = trunc i64 %v to i8
  call void @llvm.memset.p0.i64(ptr %p, i8 %b, i64 %n, i1 false)
  ret i32 0
}
"""

# Naive on purpose: a value kept in memory, invariant arithmetic inside, a loop tested at its top.
NAIVE = """
define i32 @tw_naive(ptr noalias readonly %data, ptr noalias readonly %sizes,
                     ptr %strides, ptr %scalars, ptr %context) {
entry:
  %i.p = alloca i64
  store i64 0, ptr %i.p
  br label %check
check:
  %i = load i64, ptr %i.p
  %n = load i64, ptr %sizes
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %from = load ptr, ptr %data
  %to.p = getelementptr ptr, ptr %data, i64 1
  %to = load ptr, ptr %to.p
  %from.i = getelementptr float, ptr %from, i64 %i
  %to.i = getelementptr float, ptr %to, i64 %i
  %x = load float, ptr %from.i
  %xx = fmul float %x, %x
  %y = fadd float %xx, 1.0
  store float %y, ptr %to.i
  %i1 = add nsw i64 %i, 1
  store i64 %i1, ptr %i.p
  br label %check
out:
  ret i32 0
}
"""


def fill(library: jit.Library, n: int, value: int) -> bytes:
    memory = ctypes.create_string_buffer(n + 1)
    kernel = abi.KERNEL(library.address("tw_fill"))
    data, sizes, scalars = (
        (ctypes.c_void_p * 1)(ctypes.addressof(memory)),
        (ctypes.c_int64 * 1)(n),
        (ctypes.c_int64 * 1)(value),
    )
    assert kernel(data, sizes, None, scalars, None) == 0
    return memory.raw


@pytest.fixture(scope="module")
def image() -> bytes:
    return target.optimize_and_emit(FILL)


@pytest.mark.parametrize("level", ["none", "fast", "full"])
def test_every_level_runs(level: target.Level) -> None:
    library = jit.load(target.optimize_and_emit(FILL, level), ("tw_fill",))
    assert fill(library, 5, 7) == b"\7" * 5 + b"\0"


@pytest.mark.parametrize("level", ["none", "fast", "full"])
def test_levels_agree_bit_for_bit_and_never_contract(level: target.Level) -> None:
    library = jit.load(target.optimize_and_emit(NAIVE, level), ("tw_naive",))
    values = [1.0 + i * 2.0**-23 for i in range(1, 40)]
    source, result = (ctypes.c_float * 39)(*values), (ctypes.c_float * 39)()
    data = (ctypes.c_void_p * 2)(ctypes.addressof(source), ctypes.addressof(result))
    assert abi.KERNEL(library.address("tw_naive"))(data, (ctypes.c_int64 * 1)(39), None, None, None) == 0
    rounded = [ctypes.c_float(ctypes.c_float(v * v).value + 1.0).value for v in values]
    assert list(result) == rounded
    assert "vfmadd" not in target.assembly(NAIVE, level)


def test_fast_keeps_values_in_registers_and_full_vectorises() -> None:
    fast = target.optimised_ir(NAIVE, "fast")
    assert "alloca" not in fast
    assert "x float>" not in fast
    assert "x float>" in target.optimised_ir(NAIVE, "full")
    assert "alloca" in target.optimised_ir(NAIVE, "none")


def test_text_that_is_no_module_is_an_error() -> None:
    with pytest.raises(CompileError) as caught:
        target.optimize_and_emit("define i32 @x( {")
    assert caught.value.code == "ir"


def test_unverifiable_module_is_an_error() -> None:
    text = "define i32 @x() {\n  %v = add i32 %w, 1\n  %w = add i32 1, 1\n  ret i32 %v\n}"
    with pytest.raises(CompileError) as caught:
        target.optimize_and_emit(text)
    assert caught.value.code == "ir"


PROGRAM = """
import hashlib, sys
from tilewright.codegen import target
text = sys.stdin.read()
print(*(hashlib.sha256(target.optimize_and_emit(text, level)).hexdigest() for level in ("fast", "full")))
assert "numba" not in sys.modules
"""


def test_objects_are_the_same_bytes_in_every_process() -> None:
    text = FILL + NAIVE
    seen = set()
    for seed in ("0", "1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_another_processor_can_be_compiled_for() -> None:
    arm = target.Target("aarch64-unknown-linux-gnu", "generic", "+neon")
    vector = """
define <4 x float> @tw_add(<4 x float> %a, <4 x float> %b) {
  %c = fadd <4 x float> %a, %b
  ret <4 x float> %c
}
"""
    assert ".4s" in target.assembly(vector, "fast", arm)
    assert objects.undefined_symbols(target.optimize_and_emit(vector, "fast", arm)) == ()


def test_only_symbols_of_c_are_allowed(image: bytes) -> None:
    assert objects.undefined_symbols(image) == ("memset",)
    text = "declare i32 @getpid()\ndefine i32 @x() {\n  %v = call i32 @getpid()\n  ret i32 %v\n}"
    with pytest.raises(CompileError) as caught:
        target.optimize_and_emit(text)
    assert caught.value.code == "symbols"
    assert "getpid" in str(caught.value)
    assert objects.undefined_symbols(target.optimize_and_emit(text, extra_symbols=("getpid",))) == ("getpid",)


def test_compiler_helpers_are_refused() -> None:
    text = "define bfloat @x(float %v) {\n  %r = fptrunc float %v to bfloat\n  ret bfloat %r\n}"
    plain = target.Target(target.host().triple, "x86-64" if "x86" in target.host().triple else "generic", "")
    with pytest.raises(CompileError, match="__trunc"):
        target.optimize_and_emit(text, target=plain)


def test_undefined_symbols_and_other_formats(image: bytes) -> None:
    assert objects.undefined_symbols(b"MZ..") is None
    with pytest.raises(CompileError) as caught:
        objects.undefined_symbols(image[:70])
    assert caught.value.code == "object"


def test_unresolved_symbols_raise() -> None:
    text = "declare i32 @tw_nowhere()\ndefine i32 @x() {\n  %v = call i32 @tw_nowhere()\n  ret i32 %v\n}"
    image = target.optimize_and_emit(text, extra_symbols=("tw_nowhere",))
    with pytest.raises(CompileError) as caught:
        jit.load(image, ("x",))
    assert caught.value.code == "object"


def test_imports_bind_names_to_addresses() -> None:
    text = "declare i32 @tw_here()\ndefine i32 @x() {\n  %v = call i32 @tw_here()\n  ret i32 %v\n}"
    image = target.optimize_and_emit(text, extra_symbols=("tw_here",))
    number = ctypes.CFUNCTYPE(ctypes.c_int32)
    here = number(lambda: 42)
    library = jit.load(image, ("x",), {"tw_here": ctypes.cast(here, ctypes.c_void_p).value or 0})
    assert number(library.address("x"))() == 42


def test_equal_symbols_live_side_by_side() -> None:
    texts = [f"define i32 @same() {{\n  ret i32 {n}\n}}" for n in (1, 2)]
    libraries = [jit.load(target.optimize_and_emit(text), ("same",)) for text in texts]
    call = ctypes.CFUNCTYPE(ctypes.c_int32)
    assert [call(library.address("same"))() for library in libraries] == [1, 2]


def test_dropping_a_library_leaves_others_alone(image: bytes) -> None:
    kept = jit.load(image, ("tw_fill",))
    for _ in range(20):
        jit.load(image, ("tw_fill",))
    gc.collect()
    assert fill(kept, 3, 1) == b"\1\1\1\0"


@pytest.mark.parametrize("kind", ["empty", "garbage", "zeros", "head", "tail cut", "missing symbol"])
def test_damaged_objects_raise(image: bytes, kind: str) -> None:
    damaged = {
        "empty": b"",
        "garbage": bytes(range(256)) * 4,
        "zeros": bytes(len(image)),
        "head": image[:200],
        "tail cut": image[:-50],
        "missing symbol": image,
    }[kind]
    with pytest.raises(CompileError) as caught:
        jit.load(damaged, ("tw_fill" if kind != "missing symbol" else "tw_other",))
    assert caught.value.code == "object"


@given(st.text(max_size=20), st.binary(max_size=20))
def test_symbols_are_c_names(name: str, content: bytes) -> None:
    symbol = abi.symbol(name, content)
    assert symbol.isascii() and symbol.replace("_", "a").isalnum() and symbol.startswith("tw_")
    assert symbol == abi.symbol(name, content)
