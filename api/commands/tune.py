"""`tune`: `tw.tune` of a kernel by the name of its file."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.autotune.space import Dead
from tilewright.commands.files import read_file, user_error
from tilewright.commands.targets import check_named, find_target
from tilewright.kernels import Kernel
from tilewright.lang.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.autotune.tuned import Tuned

__all__ = ["tune"]


def tune(
    target: str | Path | Kernel,
    *,
    sizes: Mapping[str, int | tuple[int, int]],
    space: Any = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    **how: Any,
) -> Tuned:
    """`tw.tune` of `FILE[:KERNEL]` or a kernel; `how` are its other options.

    `space` may name a function of the file: one that gives a schedule with knobs, or takes `(s, choose)` and writes one. Or
    it is a `.tw` file with such a schedule. Raises what `find_target` does, UsageError `usage.size` for sizes that are
    missing or that the kernel does not have, and what `tw.tune` raises.
    """
    from tilewright.tuning import tune as run

    writes = _function(target, space) if isinstance(space, str) else space
    given = space if writes is None else None
    t = find_target(target, given, statics, dtypes)
    check_named(t.pipeline, sizes, "give them, as numbers or ranges", "1..512")
    return run(t.kernel, sizes, space=writes if given is None else t.schedule, statics=statics, dtypes=dtypes, **how)


def _function(target: str | Path | Kernel, name: str) -> Any:
    """A function of the file that takes `(s, choose)`; None where the name means something else."""
    if isinstance(target, Kernel):
        return None
    file = Path(str(target))
    source = read_file(file if file.exists() else Path(str(target).rpartition(":")[0]))
    f = source.functions.get(name)
    required = inspect.Parameter.empty
    takes = [q for q in inspect.signature(f).parameters.values() if q.default is required] if f is not None else []
    return _told(f, source.path) if f is not None and len(takes) == 2 else None


def _told(f: Callable[..., Any], path: Path) -> Callable[[Any, Any], None]:
    """The function; what it raises of its own is told with file and line."""

    @functools.wraps(f)
    def told(s: Any, choose: Any) -> None:
        try:
            f(s, choose)
        except (TilewrightError, Dead):
            raise
        except Exception as e:
            raise user_error(e, path) from e

    return told
