"""Inputs that are reordered once: handles that a compiled kernel takes in place of an array, without a conversion."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.codegen.native_calls import MISSED
from tilewright.codegen.physical import pack, physical_shape
from tilewright.lang.binding import bind, exported, sizes_of_shape
from tilewright.lang.errors import ArgumentError, ScheduleError, user_location
from tilewright.lang.pipeline import Pipeline
from tilewright.schedule.layout import parse_index_map

if TYPE_CHECKING:
    from tilewright.codegen.compile import Compiled

_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Packed:
    """An input of one kernel in the layout of a schedule.

    `data` is the physical array (read-only), `shape` the logical shape. `kernel` identifies the algorithm and its
    parameter, `schedule` the schedule that it was made for, `content` the elements. Handles may be shared by threads,
    and by processes through `save` and `load`.
    """

    data: np.ndarray
    parameter: str
    layout: str
    shape: tuple[int, ...]
    kernel: str
    schedule: str
    content: str

    def __repr__(self) -> str:
        physical = f"{self.data.dtype.name}{list(self.data.shape)}"
        return f"<{self.parameter} {list(self.shape)} packed as {self.layout}: {physical}>"

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the physical array."""
        return self.data.nbytes

    def save(self, path: str | Path) -> None:
        """Write `{path}.npy` (the elements) and `{path}.json` (all else)."""
        path = Path(path)
        np.save(_beside(path, ".npy"), self.data.view(np.uint16) if self.data.dtype.kind == "V" else self.data)
        header = {
            "format": _FORMAT, "parameter": self.parameter, "layout": self.layout, "shape": list(self.shape),
            "dtype": self.data.dtype.name, "kernel": self.kernel, "schedule": self.schedule, "content": self.content,
        }  # fmt: skip
        _beside(path, ".json").write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | Path, mmap: bool = True, verify: bool = False) -> Packed:
        """Read what `save` wrote; with `mmap` the elements stay in the file until they are used.

        `verify` reads them all and compares with the header. Raises ArgumentError (argument.packed-file) for files
        that are damaged or do not belong together.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(
                f"{path!r} is no path", code="argument.packed-file", where=user_location(),
                hint="give the path that `save` was given",
            )  # fmt: skip
        path = Path(path)
        try:
            header = json.loads(_beside(path, ".json").read_text(encoding="utf-8"))
            data = np.load(_beside(path, ".npy"), mmap_mode="r" if mmap else None, allow_pickle=False)
            if header["format"] != _FORMAT:
                raise _damaged(path, f"it has the format {header['format']}, {_FORMAT} is known")
            dtype, shape = _dtype(header["dtype"]), tuple(int(n) for n in header["shape"])
            expected = physical_shape(parse_index_map(header["layout"]), shape)
            fields = {k: str(header[k]) for k in ("parameter", "layout", "kernel", "schedule", "content")}
        except (OSError, EOFError, ValueError, KeyError, TypeError, ScheduleError) as e:
            raise _damaged(path, str(e)) from None
        if data.dtype != dtype and data.dtype.itemsize == dtype.itemsize:
            data = data.view(dtype)
        if data.dtype != dtype or data.shape != expected:
            raise _damaged(path, f"it is {data.dtype}{list(data.shape)}, the header says {dtype}{list(expected)}")
        if verify and _content(data) != fields["content"]:
            raise _damaged(path, "the elements are not those of the header")
        data.flags.writeable = False
        return Packed(data, shape=shape, **fields)

    def holds(self, array: Any) -> bool:
        """Whether it holds the elements of a (logical) array bit for bit: it is stale if not."""
        a = np.asarray(array)
        same = a.dtype == self.dtype and a.shape == self.shape
        return same and _content(pack(a, parse_index_map(self.layout))) == self.content


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _damaged(path: Path, why: str) -> ArgumentError:
    return ArgumentError(f"{path} holds no packed array: {why}", code="argument.packed-file", where=user_location(),
                         hint="pack it again: fast.prepack(name, array).save(path)")  # fmt: skip


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _content(data: np.ndarray) -> str:
    h = hashlib.blake2b(repr((data.dtype.name, data.shape)).encode(), digest_size=16)
    h.update(np.ascontiguousarray(data).view(np.uint8).reshape(-1).data)
    return h.hexdigest()


def _kernel(p: Pipeline, parameter: str) -> str:
    return hashlib.blake2b(f"{p.digest}|{parameter}".encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A handle that was checked for a parameter of a kernel, and the sizes that its shape says, as builtins take them.
    It is known by its id as long as `alive` says so."""

    name: str
    sizes: Mapping[str, int]
    alive: Any = None


_NOTHING = Accepted("", {})


# With a compiled kernel -----------------------------------------------------------------------------------------


def prepack(c: Compiled, parameter: str, array: Any) -> Packed:
    """See `Compiled.prepack`."""
    p = c.pipeline
    q = next((a for a in p.arrays if a.name == parameter), None)
    layout = c.layouts.get(parameter)
    if q is None or layout is None:
        having = ", ".join(n for n in c.layouts if any(a.name == n for a in p.arrays)) or "none"
        what = f"{p.name} has no input {parameter!r}" if q is None else f"the schedule has no layout of {parameter}"
        raise _refused("packed-none", what, f"inputs with a layout: {having}; s.layout(...) gives one")
    a = exported(array)
    if not isinstance(a, np.ndarray) or a.dtype != q.dtype.np or a.ndim != q.ndim or not a.dtype.isnative:
        found = f"{a.dtype.name} of {a.ndim} axes" if isinstance(a, np.ndarray) else type(array).__name__
        raise _refused("packed-array", f"{parameter} is {q!r}, and what is to be packed is {found}", "convert it first")
    data = pack(a, layout)
    data.flags.writeable = False
    return Packed(data, parameter, str(layout), a.shape, _kernel(p, parameter), c.identity, _content(data))


def call(c: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any], threads: Any, executor: Any) -> Any:
    """A call in which some arguments are handles."""
    found = MISSED if executor is not None else _native(c, args, kwargs, threads)
    if found is not MISSED:
        return found
    how = {k: v for k, v in (("threads", threads), ("executor", executor)) if v is not None}
    target, plain, named = resolved(c, args, kwargs)
    return target.checked_call(plain, {**named, **how})


def _native(c: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any], threads: Any) -> Any:
    """The call with the data of handles that were accepted before, and the sizes that they say; MISSED where no builtin
    takes it."""
    if threads is not None and (type(threads) is not int or threads < 1):
        return MISSED
    data, key, sizes, place = [*args], (threads,), None, -1
    for v in args:
        place += 1
        if type(v) is Packed:
            accepted = c.accepted.get(id(v), _NOTHING)
            if accepted.name != c.names[place]:
                return MISSED
            data[place], key = v.data, (*key, accepted.name)
            sizes = accepted.sizes if sizes is None else _both(sizes, accepted.sizes)
    for name, v in kwargs.items():
        if type(v) is Packed:
            accepted = c.accepted.get(id(v), _NOTHING)
            if accepted.name != name:
                return MISSED
            kwargs, key = {**kwargs, name: v.data}, (*key, name)
            sizes = accepted.sizes if sizes is None else _both(sizes, accepted.sizes)
    found = c.handled.get(key) or _builtin(c, key, sizes or {})
    return found(*data, **kwargs, **sizes or {})


def _both(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    """Sizes that two handles say; -1, which no builtin takes, where they do not agree."""
    return {**a, **{n: v if a.get(n, v) == v else -1 for n, v in b.items()}}


def _builtin(c: Compiled, key: tuple[Any, ...], sizes: Mapping[str, int]) -> Callable[..., Any]:
    """The builtin for a number of threads and inputs that are given by handles, which say these sizes."""
    calls = c.taking(frozenset(key[1:])).calls
    given = tuple(n for n in c.pipeline.sizes if calls.size_names[n] in sizes)
    found = c.handled[key] = calls.with_sizes(key[0], given)
    return found


def resolved(
    c: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Compiled, tuple[Any, ...], dict[str, Any]]:
    """The kernel that takes the handles' data, and the arguments for it (`sizes` among those by name)."""
    p = c.pipeline
    names = [q.name for q in p.params]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    handles = {n: v for n, v in given.items() if type(v) is Packed}
    for n, h in handles.items():
        if c.accepted.get(id(h), _NOTHING).name != n:
            _check(c, n, h)
            gone = functools.partial(_forget, c.accepted, id(h))
            c.accepted[id(h)] = Accepted(n, _said(c, n, h), weakref.ref(h, gone))
    target = c.taking(frozenset(handles))
    # sizes follow from the logical shapes, which the physical ones need not determine
    seen = c.seen_with(frozenset(handles))
    stand_ins = {n: np.broadcast_to(np.zeros((), h.dtype), h.shape) for n, h in handles.items()}
    own = {n: v for n, v in given.items() if n in names}
    sizes = bind(seen, (), {**own, **stand_ins}, kwargs.get("sizes")).sizes
    plain = tuple(v.data if isinstance(v, Packed) else v for v in args)
    named = {n: v.data if isinstance(v, Packed) else v for n, v in kwargs.items()}
    return target, plain, {**named, "sizes": sizes}


def _forget(accepted: dict[int, Accepted], key: int, _gone: Any) -> None:
    accepted.pop(key, None)


def _said(c: Compiled, name: str, h: Packed) -> dict[str, int]:
    """The sizes that the shape of a handle says, as builtins take them."""
    return {c.calls.size_names[n]: v for n, v in sizes_of_shape(c.pipeline, name, h.shape).items()}


def _check(c: Compiled, name: str, h: Packed) -> None:
    p = c.pipeline
    layout = c.layouts.get(name)
    if h.kernel != _kernel(p, name):
        raise _refused(
            "packed-foreign", f"this handle was packed for the parameter {h.parameter} of another kernel, or of another "
            f"version of {p.name}; it is passed as {name}",
        )  # fmt: skip
    if layout is None:
        raise _refused("packed-schedule", f"{name} was packed for another schedule, this one has no layout of {name}")
    if str(layout) != h.layout:
        raise _refused("packed-layout", f"{name} was packed as {h.layout}, this schedule asks for {layout}")
    dtype = next(a.dtype.np for a in p.arrays if a.name == name)
    if h.dtype != dtype or h.data.shape != physical_shape(layout, h.shape):
        found = f"{h.dtype.name}{list(h.data.shape)}"
        raise _refused("packed-layout", f"{name} is {found}, which is not {list(h.shape)} as {layout}")


def _refused(code: str, message: str, hint: str = "pack it again: fast.prepack(name, array)") -> ArgumentError:
    return ArgumentError(message, code=f"argument.{code}", where=user_location(), hint=hint)


__all__ = ["Packed", "call", "prepack"]
