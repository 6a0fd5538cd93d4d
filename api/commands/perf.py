"""`perf`: what the machine code of a kernel does on this processor, and where the time of a call goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import check_memory, check_scalars, check_sizes, find_target, too_large
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.codegen.explain import Explanation
    from tilewright.codegen.profile import Profile

__all__ = ["Performance", "perf"]


@dataclass(frozen=True)
class Performance:
    """The inner loops of the machine code with what is odd about them; at given sizes the distance to the limit and (where
    it was asked for) the seconds of every stage. `assembly` is the machine code as text."""

    explanation: Explanation
    profile: Profile | None
    assembly: str

    def __str__(self) -> str:
        return str(self.explanation) if self.profile is None else f"{self.explanation}\n\n{self.profile}"

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        p = self.profile
        stages = None if p is None else [
            {"stage": s.stage, "seconds": s.seconds, "entries": s.entries} for s in p.stages
        ]  # fmt: skip
        return {**self.explanation.as_json(), "stages": stages}


def perf(
    target: str | Path | Kernel,
    *,
    sizes: Mapping[str, int] | None = None,
    schedule: str | Path | Schedule | None = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
    profile: bool = False,
) -> Performance:
    """What the machine code of `FILE[:KERNEL]` or a kernel does: `fast.explain()`, and with sizes also how near a run on
    random inputs comes to the limit of this processor, on one thread. `profile` adds the seconds of every stage.

    Raises what `find_target` does, UsageError `usage.size` for wrong sizes (`profile` needs them), CompileError
    `compile.explain` on processors that are no x86-64.
    """
    from tilewright.codegen.compile import compile_schedule
    from tilewright.lang.samples import random_inputs

    t = find_target(target, schedule, statics, dtypes, sizes)
    p = t.pipeline
    fast = compile_schedule(p, t.schedule, check_mode(mode or t.kernel.mode))
    given = check_scalars(p, scalars or {})
    if not (sizes or profile or (given and not p.sizes)):
        return Performance(fast.explain(), None, fast.asm)
    known = check_sizes(p, sizes or {})
    check_memory(p, known, copies=2)  # what is written is kept beside
    try:
        inputs = {**random_inputs(p, known), **given}
        found = fast.explain(**inputs, sizes=known)
        return Performance(found, fast.profile(**inputs, sizes=known) if profile else None, fast.asm)
    except MemoryError:
        raise too_large(p, known) from None
