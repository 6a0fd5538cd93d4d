"""Exported kernels, run in two ways: the C through a C compiler (many kernels in one library), the JSON by its reader."""

from __future__ import annotations

import copy
import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import running
from tests.kernels import same
from tests.schedule.algorithms import ALL, arguments, float_matmul
from tests.schedule.helpers import flat
from tilewright.codegen.compile import completed
from tilewright.codegen.export.c_files import files
from tilewright.codegen.export.export import made_document
from tilewright.codegen.export.expressions import Json
from tilewright.codegen.interface import CONTIGUOUS, argument_roles
from tilewright.codegen.physical import pack, physical_shape, unpack
from tilewright.hw import SimulationError
from tilewright.lang.binding import bind, index_value
from tilewright.lang.errors import ArgumentError, BoundsError, CompileError, ScheduleError
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.reference import run, structured
from tilewright.schedule.schedule import Schedule
from tilewright.schedule.state import State

COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
FLAGS = ("-std=c11", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
_SCALARS = {
    "bool": ctypes.c_bool, "f16": ctypes.c_float, "bf16": ctypes.c_float, "f32": ctypes.c_float, "f64": ctypes.c_double,
    **{f"{k}{n}": getattr(ctypes, f"c_{'u' * (k == 'u')}int{n}") for k in "iu" for n in (8, 16, 32, 64)},
}  # fmt: skip


class Library:
    """Documents as one shared library in `folder`; `call(k, ...)` runs the k-th."""

    def __init__(self, documents: Sequence[Json], folder: Path, flags: Sequence[str] = (), sources: Sequence[str] = ()):
        assert COMPILER is not None
        self.documents = [copy.deepcopy(d) for d in documents]
        names = []
        for k, d in enumerate(self.documents):
            d["kernel"] = f"{d['kernel']}_{k}"
            for name, text in files(d).items():
                (folder / name).write_text(text)
                names += [name] if name.endswith(".c") else []
        paths = [folder / "kernels.c"]  # one file that includes all is compiled sooner
        paths[0].write_text("".join(f'#include "{name}"\n' for name in names))
        for k, text in enumerate(sources):
            paths.append(folder / f"more_{k}.c")
            paths[-1].write_text(text)
        out = folder / "kernels.so"
        done = subprocess.run(
            [COMPILER, *FLAGS, *flags, "-o", out, *paths, "-lm"], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(out))

    def call(self, k: int, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], scalars: Mapping[str, Any]) -> int:
        """Run a kernel on the arrays of its document (without tables); its return code."""
        d = self.documents[k]
        fn = getattr(self.library, f"tw_{d['kernel']}")
        given: list[Any] = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        given += [_SCALARS[s["type"]](float(scalars[s["name"]]) if "f" in s["type"] else scalars[s["name"]].item())
                  for s in d["scalars"]]  # fmt: skip
        given += [ctypes.c_int64(sizes[s["name"]]) for s in d["sizes"] if s["value"] is None]
        return fn(*given)


@dataclass
class Call:
    """The arguments of one call as an export takes them."""

    pipeline: Pipeline
    state: State
    arrays: list[np.ndarray]
    outputs: list[tuple[tuple[int, ...], Any]]
    sizes: dict[str, int]
    scalars: dict[str, Any]

    def results(self) -> list[np.ndarray]:
        """The result's arrays in the order in which the kernel returns them, then the inouts."""
        p, n = self.pipeline, len(self.pipeline.arrays)
        out = [
            a if m is None else unpack(a, m, shape) for a, (shape, m) in zip(self.arrays[n:], self.outputs, strict=True)
        ]
        inouts = {f.inout for f in p.inouts}
        written = [a for a, q in zip(self.arrays, p.arrays, strict=False) if q in inouts]
        return [x for x in flat(structured(p.structure, out)) if x is not None] + written

    def copied(self) -> Call:
        return Call(self.pipeline, self.state, [a.copy() for a in self.arrays], self.outputs, self.sizes, self.scalars)


def call_of(p: Pipeline, state: State, values: Mapping[str, Any]) -> Call:
    """The arguments of a call by name, in the layouts of the schedule; outputs hold garbage."""
    bound = bind(p, (), dict(values))
    arrays = [np.array(bound.arrays[a.name], order="C") for a in p.arrays]
    arrays = [
        pack(v, state.given[a.name]) if a.name in state.given else v for a, v in zip(p.arrays, arrays, strict=True)
    ]
    outputs = []
    for o in p.outputs:
        shape, layout = tuple(index_value(e, bound.env) for e in o.extents), state.given.get(o.func.name)
        outputs.append((shape, layout))
        made = np.empty(shape if layout is None else physical_shape(layout, shape), o.dtype.np)
        made.reshape(-1).view(np.uint8)[:] = 1
        arrays.append(made)
    return Call(p, state, arrays, outputs, dict(bound.sizes), dict(bound.scalars))


def reference(p: Pipeline, values: Mapping[str, Any]) -> list[np.ndarray] | None:
    """What the reference gives, in the order of `Call.results`; None where the call is an error."""
    copies = {k: np.array(v) for k, v in values.items()}
    try:
        result = run(p, bind(p, (), copies))
    except BoundsError:
        return None
    return [x for x in flat(result) if x is not None] + [copies[f.name] for f in p.inouts]


@dataclass
class Job:
    """An export, a call of it, and what it must give (None: the schedule asks more of the sizes)."""

    name: str
    document: Json
    call: Call
    expected: list[np.ndarray] | None


def job(name: str, s: Schedule, values: dict[str, Any], mode: str, fixed: bool, machine: str | None = None) -> Job:
    """The reference's values in mode strict, else those of native code."""
    p, full = s.pipeline, completed(s.pipeline, s, mode)
    call = call_of(p, full.state, values)
    made = made_document(p, s, call.sizes if fixed else None, machine, mode)
    if mode == "strict":
        return Job(name, made, call, reference(p, values))
    plan = running.Plan((CONTIGUOUS,) * len(argument_roles(p)), 64 * 1024 - 1, "quick")
    copies = {k: np.array(v) for k, v in values.items()}
    found = running.natively(p, full.state, mode, copies, lambda n: 0, plan)
    return Job(name, made, call, None if found is None else [x for x in flat(found) if x is not None])


def check(jobs: Sequence[Job], folder: Path, sources: Sequence[str] = (), flags: Sequence[str] = ()) -> Library:
    """All jobs, compiled together."""
    library = Library([j.document for j in jobs], folder, flags, sources)
    for k, j in enumerate(jobs):
        code = library.call(k, j.call.arrays, j.call.sizes, j.call.scalars)
        if j.expected is None:
            assert code >= 100, j.name
            continue
        assert code == 0, (j.name, code)
        for ours, theirs in zip(j.call.results(), j.expected, strict=True):
            assert same(ours, theirs), f"{j.name}\n{ours}\nis not\n{theirs}"
    return library


REFUSED = (ScheduleError, BoundsError, ArgumentError, CompileError, SimulationError)


def of(
    name: str, scheduled: Callable[[Schedule], Any], mode: str = "strict", sizes: dict | None = None
) -> Iterator[Job]:
    """One of the algorithms of the tests, for any sizes and for these alone."""
    for fixed in (False, True):
        s = Schedule((float_matmul if name == "float_matmul" else ALL[name])())
        scheduled(s)
        z = {k: v for k, v in (sizes or {"M": 9, "N": 13, "K": 7}).items() if k in s.pipeline.sizes}
        values = dict(zip((a.name for a in s.pipeline.arrays), arguments(s.pipeline, z), strict=True))
        yield job(f"{name} {'fixed' if fixed else 'open'}", s, values, mode, fixed)


def tiled(s: Schedule) -> None:
    C = s["C.update"]
    C.tile("i", "j", "io", "jo", "ii", "ji", 4, 4).split("k", "ko", "ki", 2).reorder("io", "jo", "ko", "ii", "ki", "ji")
    C.vectorize("ji")
    s.cache_read("A", at="C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm", layout="a b -> b a")
    s.cache_write("C", at="C.update.jo", memory="spm")
    for name in ("A_C", "B_C"):
        s[name].double_buffer(3)


__all__ = ["COMPILER", "REFUSED", "Call", "Job", "Library", "call_of", "check", "job", "of", "reference", "tiled"]
