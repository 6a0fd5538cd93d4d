"""Deliberate mistakes in what a plan is made by, each of which validation must find, and bisect lay to the right pass.

As in tests/fuzz/mutants.py, the code of a function is replaced in memory.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import textwrap
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import tilewright as tw
from tilewright import ops
from tilewright.hw import Machine, load_machine
from tilewright.kernels import Kernel
from tilewright.planner.bisect import bisect_plan
from tilewright.planner.plan import make_plan
from tilewright.planner.validate import validate

M, N = tw.sizes("M N")


@dataclass(frozen=True)
class Mistake:
    """Edits (in a function, `module:name`, one text becomes another). It shows in plans of `kernel` for `sizes`, when they
    are run at sizes `at`; `stage` is the pass that is to blame."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    kernel: Kernel
    stage: str
    sizes: Mapping[str, int]
    at: Mapping[str, int]
    machine: Machine = field(default_factory=lambda: load_machine("skylake-sp"))
    weights: tuple[str, ...] = ()


@tw.kernel
def soft(x: tw.f32[M, N]):
    return ops.softmax(x)


@tw.kernel
def chain(x: tw.f32[M, M]):
    """Products of which each needs all of the one before it; the first is needed by the last as well."""
    a = ops.matmul(x, x)
    b = ops.matmul(a, a)
    c = ops.matmul(b, b)
    return ops.matmul(c, ops.matmul(c, a))


@tw.kernel
def later(x: tw.f32[M, M]):
    """What could lie on a product, were that not needed again."""
    a = ops.matmul(x, x)
    e = ops.exp(a)
    return ops.matmul(ops.matmul(e, e), a)


@tw.kernel
def mirrored(x: tw.f32[M, M]):
    """A step that reads other elements than the one that it writes."""
    i, j = tw.vars("i j")
    a = ops.matmul(x, x)
    both = tw.func("both")
    both[i, j] = tw.exp(a[i, j]) + a[M - 1 - i, M - 1 - j]
    return ops.matmul(ops.Value(both, (M, M)), ops.Value(both, (M, M)))


@tw.kernel
def scores(q: tw.f32[1, 1, M, 8], k: tw.f32[1, 1, N, 8], v: tw.f32[1, 1, N, 8]):
    return ops.attention(q, k, v)


@tw.kernel
def shifted(x: tw.f32[M, N]):
    """A result that is stored from the index -1 on, as another one reads it there."""
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(x)
    sums = tw.func("sums")
    sums[i] = 0.0
    sums[i] += edge[i, tw.rdom(k=N)]
    out = tw.func("out")
    out[i, j] = sums[i - 1] + 2.0 * sums[i + 1] + tw.cast(tw.f32, j)
    return out[:M, :N], sums[:M]


def small() -> Machine:
    """A machine with small caches, whose tiles are small."""
    m = load_machine("skylake-sp")
    sizes = (1 << 13, 1 << 15, 1 << 17)
    return replace(m, name="small", caches=tuple(replace(c, size=s) for c, s in zip(m.caches, sizes, strict=True)))


_BUILD = "tilewright.schedule.build:Builder"
_LAYOUTS = "tilewright.planner.layouts:_Assignment"

# No mistake: every layout is the first one that is not row-major.
IN_LAYOUTS = (f"{_LAYOUTS}.run", "taken = cheapest(problem, self.budget)", "taken = (1,) * len(choices)")

MISTAKES = (
    Mistake(
        "fusion: a halo is too small by one",
        ((
            f"{_BUILD}.infer",
            "region = self._closed(fs, hull(boxes))\n",
            "region = self._closed(fs, hull(boxes))\n"
            "            if fs.compute.kind == 'at':\n"
            "                region = (Interval(region[0].lo, simplify.sub(region[0].hi, ONE)), *region[1:])\n",
        ),),
        soft, "fuse", {"M": 4096, "N": 1024}, {"M": 115, "N": 7},
    ),
    Mistake(
        "fusion: values of another tile are used",
        ((
            f"{_BUILD}.produce",
            "return Guard(built.guard, made) if built.guard is not ir.TRUE and name in self.exposed else made",
            "site = self.site_of(built.state.compute)\n"
            "    return Guard(simplify.compare('eq', site[0].var, ZERO), made) if site else made",
        ),),
        soft, "fuse", {"M": 4096, "N": 1024}, {"M": 230, "N": 5},
    ),
    Mistake(
        "online: nothing is repaired",
        (("tilewright.schedule.online:emitted", "(n, REPAIR), (n, _UPDATE)", "(n, _UPDATE),"),),
        scores, "online", {"M": 1000, "N": 2000}, {"M": 13, "N": 150}, small(),
    ),
    Mistake(
        "cutting: the offset of a region is ignored",
        (("tilewright.planner.cut:_less", "return simplify.sub(i, lo)", "return i"),),
        shifted, "cut", {"M": 400, "N": 300}, {"M": 5, "N": 4},
    ),
    Mistake(
        "places: a place is used again one step early",
        (("tilewright.planner.lives:spans", "max(e, last[k])", "max(e, last[k] - 1)"),),
        chain, "places", {"M": 1000}, {"M": 9},
    ),
    Mistake(
        "in place: what is read later is written over",
        (
            ("tilewright.planner.lives:_overlays", "e == end and s < start for s", "e >= end and s < start for s"),
            ("tilewright.planner.lives:_apart", "return all(", "return True or all("),
        ),
        later, "in place", {"M": 1000}, {"M": 9},
    ),
    Mistake(
        "in place: elements that are written are read again",
        ((
            "tilewright.planner.in_place:_candidates",
            "and obstacle(schedule.state, a.name, f\"out.{out.name}\") is None", "",
        ),),
        mirrored, "in place", {"M": 1000}, {"M": 9},
    ),
    Mistake(
        "layout: a step does not write in the layout in which others read",
        (IN_LAYOUTS, (f"{_LAYOUTS}.given", "if made is not None and home != ROWS:", "if False:")),
        chain, "layout", {"M": 500}, {"M": 32},
    ),
    Mistake(
        "layout: axes are swapped",
        (IN_LAYOUTS, (f"{_LAYOUTS}.given", "given.append((made, home))", "given.append((made, 'a0 a1 -> a1 a0'))")),
        chain, "layout", {"M": 500}, {"M": 32},
    ),
    Mistake(
        "packing: axes are swapped",
        (("tilewright.planner.weights:packed", "pack(array, ", "pack(array.T, "),),
        chain, "packing", {"M": 500}, {"M": 9}, weights=("x",),
    ),
    Mistake(
        "packing: the weights of before are taken",
        ((
            "tilewright.planner.program:Program.with_weights",
            "packed(arrays[w.name], w.layout) for", "self._weights.get(w, packed(arrays[w.name], w.layout)) for",
        ),),
        chain, "packing", {"M": 500}, {"M": 9}, weights=("x",),
    ),
)  # fmt: skip


@contextmanager
def made(edits: Iterable[tuple[str, str, str]]) -> Iterator[None]:
    """Code that is edited, for as long as the context lasts. The caller sees to it that no cache is shared."""
    right = []
    for where, old, new in edits:
        module_name, _, path = where.partition(":")
        module = importlib.import_module(module_name)
        target: Any = module
        for part in path.split("."):
            target = getattr(target, part)
        source = textwrap.dedent(inspect.getsource(target))
        assert source.count(old) == 1, f"{where} has {source.count(old)} times {old!r}: write this mistake anew"
        found: dict[str, Any] = {}
        exec(compile(source.replace(old, new), where, "exec"), module.__dict__, found)
        right.append((target, target.__code__))
        target.__code__ = found[target.__name__].__code__
    try:
        yield
    finally:
        for target, code in right:
            target.__code__ = code


def looked_at(m: Mistake, edits: Iterable[tuple[str, str, str]]) -> tuple[str, str, str]:
    """What validation and bisect say of a plan, in a process of its own (kernels that are loaded stay, whatever they are
    made by): the pass that each names ("" for none), and their texts."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with made(edits):
                plan = make_plan(m.kernel.pipeline(), m.machine, m.sizes, weights=m.weights)
                found, case = validate(plan, m.at), bisect_plan(plan, m.at, reduce=m.stage != "online")
            stage = found.faults[0].stage if found.faults else "" if found.ok else "nothing compared"
            text = json.dumps([stage, "" if case is None else case.stage, f"{found}\n{case}"])
            os.write(write, text.encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    os.waitpid(child, 0)
    assert said, "the process ended early, see the output"
    stage, bisected, text = json.loads(said)
    return stage, bisected, text
