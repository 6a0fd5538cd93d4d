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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import tilewright as tw
from tilewright import ops
from tilewright.hw import load_machine
from tilewright.kernels import Kernel
from tilewright.planner.bisect import bisect_plan
from tilewright.planner.plan import make_plan
from tilewright.planner.validate import validate

M, N, T = tw.sizes("M N T")


@dataclass(frozen=True)
class Mistake:
    """In a function (`module:name`) the text `old` becomes `new`. It shows in plans of `kernel` for `sizes`, when they are
    run at sizes `at`; `stage` is the pass that is to blame."""

    name: str
    where: str
    old: str
    new: str
    kernel: Kernel
    stage: str
    sizes: Mapping[str, int]
    at: Mapping[str, int] | None = None
    machine: str = "skylake-sp"
    plan: Mapping[str, Any] = field(default_factory=dict)


@tw.kernel
def soft(x: tw.f32[M, N]):
    return ops.softmax(x)


@tw.kernel
def chain(x: tw.f32[M, 8], w: tw.f32[8, 8]):
    """Products, of which each but the last is needed by two others."""
    a = ops.linear(x, w)
    b = ops.linear(a, w)
    c = ops.linear(b, w)
    return ops.linear(ops.value(a) + c, w)


@tw.kernel
def scores(q: tw.f32[1, 1, M, 8], k: tw.f32[1, 1, N, 8], v: tw.f32[1, 1, N, 8]):
    return ops.attention(q, k, v)


@tw.kernel
def shifted(x: tw.f32[M, N]):
    """A Func that is stored from the index -1 on."""
    i, j = tw.vars("i j")
    edge = tw.repeat_edge(x)
    sums = tw.func("sums")
    sums[i] = 0.0
    sums[i] += edge[i, tw.rdom(k=N)]
    out = tw.func("out")
    out[i, j] = sums[i - 1] + 2.0 * sums[i + 1] + tw.cast(tw.f32, j)
    return out[:M, :N]


LARGE = {"M": 4096, "N": 1024}

MISTAKES = (
    Mistake(
        "fusion: a halo is too small by one", "tilewright.schedule.build:Builder.infer",
        "region = self._closed(fs, hull(boxes))\n",
        "region = self._closed(fs, hull(boxes))\n"
        "            if fs.compute.kind == 'at':\n"
        "                region = (Interval(region[0].lo, simplify.sub(region[0].hi, ONE)), *region[1:])\n",
        soft, "fuse", LARGE,
    ),
    Mistake(
        "fusion: values of another tile are used", "tilewright.schedule.build:Builder.produce",
        "return Guard(built.guard, made) if built.guard is not ir.TRUE and name in self.exposed else made",
        "site = self.site_of(built.state.compute)\n"
        "    return Guard(simplify.compare('eq', site[0].var, ZERO), made) if site else made",
        soft, "fuse", LARGE, {"M": 230, "N": 5},
    ),
    Mistake(
        "online: nothing is repaired", "tilewright.schedule.online:emitted",
        "(n, REPAIR), (n, _UPDATE)", "(n, _UPDATE),",
        scores, "online", {"M": 2000, "N": 4000},
    ),
    Mistake(
        "cutting: the offset of a region is ignored", "tilewright.planner.cut:_less",
        "return simplify.sub(i, lo)", "return i",
        shifted, "cut", {"M": 400, "N": 300}, {"M": 5, "N": 4},
    ),
    Mistake(
        "places: a place is used again one step early", "tilewright.planner.places:Lifetime.meets",
        "self.first <= o.last and o.first <= self.last", "self.first < o.last and o.first < self.last",
        chain, "places", {"M": 400}, {"M": 9},
    ),
)  # fmt: skip


@contextmanager
def made(m: Mistake) -> Iterator[None]:
    """The mistake, for as long as the context lasts. The caller sees to it that no cache is shared."""
    module_name, _, path = m.where.partition(":")
    module = importlib.import_module(module_name)
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part)
    source = textwrap.dedent(inspect.getsource(target))
    assert source.count(m.old) == 1, f"{m.where} has {source.count(m.old)} times {m.old!r}: write this mistake anew"
    found: dict[str, Any] = {}
    exec(compile(source.replace(m.old, m.new), m.where, "exec"), module.__dict__, found)
    right = target.__code__
    target.__code__ = found[target.__name__].__code__
    try:
        yield
    finally:
        target.__code__ = right


def looked_at(m: Mistake, mistaken: bool) -> tuple[str, str, str]:
    """What validation and bisect say of a plan, in a process of its own (kernels that are loaded stay, whatever they are
    made by): the pass that each names ("" for none), and their texts."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with made(m) if mistaken else nullcontext():
                plan = make_plan(m.kernel.pipeline(), load_machine(m.machine), m.sizes)
                found, case = validate(plan, m.at), bisect_plan(plan, m.at)
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
