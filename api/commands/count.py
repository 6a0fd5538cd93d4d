"""`count`: evaluations, loads, stores and allocations of an instrumented run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import check_memory, check_scalars, check_sizes, find_target, too_large
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.codegen.count import Counts


def count(
    target: str | Path | Kernel,
    *,
    sizes: Mapping[str, int],
    schedule: str | Path | Schedule | None = None,
    scalars: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Counts:
    """What a run of `FILE[:KERNEL]` or a kernel does, with random inputs. `scalars` gives scalar parameters.

    Raises what `find_target` does.
    """
    from tilewright.codegen.count import count as run

    t = find_target(target, schedule, statics, dtypes, sizes)
    known = check_sizes(t.pipeline, sizes)
    given = check_scalars(t.pipeline, scalars or {})
    check_memory(t.pipeline, known)
    try:
        return run(t.pipeline, t.schedule, known, check_mode(mode or t.kernel.mode), given)
    except MemoryError:
        raise too_large(t.pipeline, known) from None
