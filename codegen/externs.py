"""Native code for the user's own functions: compiled by Numba when a kernel that calls them is loaded.

A kernel's object holds their names only (with a digest of what they do), so that it may be kept in the cache; the
address is bound when it is loaded into a process. A C program that links the object provides the function itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from tilewright.lang.errors import CompileError, user_location
from tilewright.lang.extern import Extern, externs, wide
from tilewright.lang.pipeline import Pipeline

_lock = threading.Lock()
_compiled: dict[str, Any] = {}  # by symbol; never dropped: loaded kernels have the address


def symbol(e: Extern) -> str:
    """The C symbol that a kernel's object asks for."""
    return f"tw_extern_{e.name}_{e.digest[:12]}"


def symbols(p: Pipeline) -> tuple[str, ...]:
    """The symbols of all functions that a pipeline calls."""
    return tuple(map(symbol, externs(p.roots())))


def addresses(p: Pipeline) -> dict[str, int]:
    """Address by symbol; compiles what is not compiled yet. Raises CompileError (extern.compile)."""
    return {symbol(e): _address(e) for e in _distinct(externs(p.roots()))}


def _distinct(found: Iterable[Extern]) -> Iterable[Extern]:
    return {symbol(e): e for e in found}.values()


def _address(e: Extern) -> int:
    name = symbol(e)
    with _lock:
        if name not in _compiled:
            _compiled[name] = _compile(e)
        return _compiled[name].address


def _compile(e: Extern) -> Any:
    import numba  # only kernels that call such functions pay for it

    result, *args = (getattr(numba, wide(t).np.name) for t in (e.result, *e.args))
    try:
        # divisions as NumPy's scalars have them: no exceptions in native code
        made = numba.cfunc(result(*args), error_model="numpy")(e.function)
    except Exception as problem:  # Numba's own errors are of many classes
        lines = [x.strip() for x in str(problem).split("\n") if x.strip()]
        raise CompileError(
            f"Numba can't compile the function {e.name}: {' '.join(lines[:3])}", code="extern.compile",
            where=user_location(), hint="it takes and gives numbers; see Numba's supported Python features",
        ) from problem  # fmt: skip
    if _may_raise(made.inspect_llvm()):
        raise CompileError(
            f"the function {e.name} may raise an exception, which native code can't pass on",
            code="extern.raises",
            where=user_location(),
            hint="give a number for every argument, such as nan; in place of an `if` that raises, a value of its own",
        )
    return made


def _may_raise(code: str) -> bool:
    """Whether a function, the first one of Numba's optimised code, ever returns the status of an exception."""
    start = code.index("define ")
    ends = [
        line.strip() for line in code[start : code.index("\n}", start)].split("\n") if line.strip().startswith("ret ")
    ]
    return any(end != "ret i32 0" for end in ends)


__all__ = ["addresses", "symbol", "symbols"]
