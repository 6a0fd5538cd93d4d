"""The harness of the tests of bad input: a list of mistakes, each in a function whose guilty line is marked `# <-`, and
kernels to make them with."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw

M, N = tw.sizes("M N")
i, j = tw.vars("i j")
T = tw.dtype_var("T", tw.f32, tw.f64)


@dataclass(frozen=True)
class Case:
    """A mistake, the error that it gives, and what the message says: what would be legal included."""

    run: Callable[..., Any]
    error: type[tw.TilewrightError]
    code: str
    texts: tuple[str, ...]

    def check(self) -> None:
        """The class, the code, the user's line and the texts are right, and what is watched is unchanged."""
        watch = Watch()
        with pytest.raises(self.error) as e:
            self.run(watch)
        error = e.value
        place = error.where[0]
        assert error.code == self.code
        assert Path(place.file).parent == Path(__file__).parent, str(error)
        assert "# <-" in linecache.getline(place.file, place.line), str(error)
        assert str(error).startswith(f"{place.file}:{place.line}: ") and f"[{self.code}]" in str(error)
        for text in self.texts:
            assert text in str(error)
        watch.unchanged()


class Mistakes(list[Case]):
    """The mistakes of a module: `@mistakes(error, code, *texts)` adds a function that makes one.

    The function gets `watch`, which keeps an array or schedule to be found unchanged, and returns it.
    """

    def __call__(self, error: type[tw.TilewrightError], code: str, *texts: str) -> Callable:
        def add(fn: Callable) -> Callable:
            self.append(Case(fn, error, code, texts))
            return fn

        return add

    @property
    def names(self) -> list[str]:
        return [c.run.__name__ for c in self]


class Watch:
    def __init__(self) -> None:
        self.arrays: list[tuple[np.ndarray, bytes, tuple]] = []
        self.schedules: list[tuple[Any, str, tuple, str]] = []

    def __call__(self, what: Any) -> Any:
        if isinstance(what, np.ndarray):
            self.arrays.append((what, what.tobytes(), (what.shape, what.strides, what.dtype)))
        else:
            self.schedules.append((what, str(what), what.directives, str(what.loops())))
        return what

    def unchanged(self) -> None:
        for a, content, facts in self.arrays:
            assert a.tobytes() == content and (a.shape, a.strides, a.dtype) == facts
        for s, text, directives, loops in self.schedules:
            assert str(s) == text and s.directives == directives and str(s.loops()) == loops


# Kernels ----------------------------------------------------------------------------------


@tw.kernel
def scale(A: tw.f32[M, N], alpha: tw.f32):
    f = tw.func("f")
    f[i, j] = A[i, j] * alpha
    return f[:M, :N]


@tw.kernel  # <-
def two_stages(A: tw.f32[N]):
    f, g = tw.func("f"), tw.func("g")
    f[i] = A[i] + A[i + 1]
    g[i] = f[i] + f[i + 1]
    return g[: N - 2]


@tw.kernel
def total(A: tw.f32[M, N]):
    r = tw.rdom(r=N)
    s = tw.func("s")
    s[i] = 0.0
    s[i] += A[i, r]
    return s[:M]


@tw.kernel
def paths(A: tw.f32[M, N]):
    r = tw.rdom(x=(1, M), y=(1, N))
    p = tw.func("p")
    p[i, j] = A[i, j]
    p[r.x, r.y] = p[r.x - 1, r.y] * 2 + p[r.x, r.y - 1]
    return p[:M, :N]


@tw.kernel
def shifted(A: tw.f32[N]):
    f = tw.func("f")
    f[i] = A[i + 1]  # <-
    return f[:N]


@tw.kernel
def added(A: tw.f32[N], B: tw.f32[N]):
    f = tw.func("f")
    f[i] = A[i] + B[i]
    return f[:N]


@tw.kernel
def stencil(A: tw.f32[N]):
    f = tw.func("f")
    f[i] = A[i] + A[i + 1]
    return f[: N - 1]


@tw.kernel
def accumulate(X: tw.inout(tw.f32[N]), A: tw.f32[N]):
    X[i] += A[i]


@tw.kernel
def ramp(n: tw.i32):
    f = tw.func("f")
    f[i] = i * n
    return f[:M]


@tw.kernel
def both(A: tw.f32[N]):
    f, g = tw.func("f"), tw.func("g")
    f[i] = A[i]
    g[i] = f[i] + 1
    return {"f": f[:N], "g": g[:N]}


@tw.kernel
def tapped(A: tw.f32[N], *, taps, alpha: tw.f32):
    f = tw.func("f")
    f[i] = A[i] * alpha * len(taps)
    return f[:N]


@tw.kernel
def generic(A: T[N]):
    f = tw.func("f")
    f[i] = A[i]
    return f[:N]


def matrix() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def vector(n: int = 6) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def written(value: Callable[[Any], Any]) -> tw.Kernel:
    """A kernel whose element is `value(A)`."""

    def k(A: tw.f32[N]):
        f = tw.func("f")
        f[i] = value(A)
        return f[:N]

    return tw.kernel(k)


def returned(value: Callable[[Any], Any]) -> tw.Kernel:
    """A kernel that returns `value(f)` of a Func of one axis."""

    def k(A: tw.f32[N]):
        f = tw.func("f")
        f[i] = A[i]
        return value(f)

    return tw.kernel(k)
