"""`plan`: the plan of a kernel of many Funcs, by the name of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import check_named, find_target
from tilewright.kernels import Kernel

if TYPE_CHECKING:
    from tilewright.hw import Machine
    from tilewright.planner.plan import Plan

__all__ = ["plan"]


def plan(
    target: str | Path | Kernel,
    *,
    sizes: Mapping[str, int | tuple[int, int]],
    machine: Machine | str = "host",
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    **how: Any,
) -> Plan:
    """`tw.plan` of `FILE[:KERNEL]` or a kernel; `how` are its other options.

    Raises what `find_target` does, UsageError `usage.size` for sizes that are missing or that the kernel does not have,
    and what `tw.plan` raises.
    """
    from tilewright.plans import plan as run

    t = find_target(target, None, statics, dtypes)
    check_named(t.pipeline, sizes, "give them, as numbers or ranges", "512")
    return run(t.kernel, machine, sizes=sizes, statics=statics, dtypes=dtypes, **how)
