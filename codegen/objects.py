"""What an object file asks of its surroundings: the undefined symbols, and those that we allow."""

from __future__ import annotations

import struct
from collections.abc import Collection

from tilewright.lang.errors import CompileError

# Only what every C program has. LLVM makes the first three out of loops; the others come from the definitions
# that a kernel may call. compiler-rt helpers (__truncsfbf2, __extendhfsf2, __divti3 ...) are absent on
# purpose: they are slow, and a caller that links with another compiler may not have them.
MEMORY = frozenset({"memcpy", "memmove", "memset"})
_LIBM = """
acos asin atan atan2 cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod frexp hypot
ldexp lgamma log log10 log1p log2 nearbyint pow rint round roundeven sin sinh sqrt tan tanh tgamma trunc
"""
LIBM = frozenset(name + suffix for name in _LIBM.split() for suffix in ("", "f"))
ALLOWED = MEMORY | LIBM

_ELF_MAGIC = b"\x7fELF"
_SHT_SYMTAB = 2


def undefined_symbols(image: bytes) -> tuple[str, ...] | None:
    """Sorted names that a 64-bit little-endian ELF object leaves undefined; None for another format.

    Layout: System V ABI, object files (section header 64 bytes, symbol 24 bytes).
    """
    if image[:4] != _ELF_MAGIC or image[4:6] != b"\x02\x01":
        return None
    try:
        return _elf_undefined(image)
    except (struct.error, IndexError, ValueError) as problem:
        raise CompileError("the object file is damaged", code="object") from problem


def _elf_undefined(image: bytes) -> tuple[str, ...]:
    (table,) = struct.unpack_from("<Q", image, 40)
    entry, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] != _SHT_SYMTAB:
            continue
        offset, size, strings = section[4], section[5], sections[section[6]][4]
        for at in range(offset + 24, offset + size, 24):  # the first symbol is the null symbol
            name, _info, _other, index = struct.unpack_from("<IBBH", image, at)
            if index == 0 and name:
                start = strings + name
                names.add(image[start : image.index(b"\0", start)].decode())
    return tuple(sorted(names))


def check_symbols(image: bytes, extra: Collection[str] = ()) -> None:
    """Raise CompileError (code `symbols`) when an object needs more than libc, libm and `extra`."""
    found = undefined_symbols(image)
    if found is None:
        return
    foreign = [name for name in found if name not in ALLOWED and name not in extra and name != "_GLOBAL_OFFSET_TABLE_"]
    if foreign:
        raise CompileError(
            f"the generated code needs symbols that a C program does not have: {', '.join(foreign)}",
            code="symbols",
            hint="such helpers appear for operations that the processor lacks; expand them before emission",
        )
