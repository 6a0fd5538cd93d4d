"""`account`: what a run does on a machine, without running it, and what has moved since a lock was made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.targets import Target, UsageError, check_sizes, find_target
from tilewright.kernels import Kernel, check_mode
from tilewright.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.hw import Account, Lock, Machine


def account(
    target: str | Path | Kernel | Target,
    *,
    machine: Machine | str | None = None,
    sizes: Mapping[str, int],
    schedule: str | Path | Schedule | None = None,
    statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    mode: str | None = None,
    timeline: int = 0,
    sync: str | None = None,
) -> Account:
    """The account of `FILE[:KERNEL]`, a kernel or a target on a machine: a preset's name, a TOML file, or (None) the one
    that the schedule is bound to. `timeline` is how many of the first intervals of time are kept, `sync` (decoupled or
    barrier) how cores and copies meet.

    Raises what `find_target` and `kernel.account` do, and UsageError `usage.machine` where there is no machine.
    """
    from tilewright.codegen.accounts.account import account as find

    t = target if isinstance(target, Target) else find_target(target, schedule, statics, dtypes, sizes)
    on = machine_for(machine, t)
    known = check_sizes(t.pipeline, sizes)
    how = check_mode(mode or t.kernel.mode)
    return find(t.pipeline, t.schedule, on, known, how, timeline=timeline, sync=sync)


def machine_for(given: Machine | str | None, t: Target) -> Machine:
    """The machine that is given or, for None, the one that the target's schedule is bound to."""
    from tilewright.hw import load_machine

    found = t.schedule.machine if given is None and t.schedule is not None else given
    if found is None:
        raise UsageError(
            "on which machine?", code="usage.machine", hint="--machine NAME, or a schedule that is bound to one"
        )
    return load_machine(found) if isinstance(found, str) else found


def read_lock(path: str | Path) -> Lock:
    """The lock in a file. Raises UsageError `usage.file` where it can't be read, AccountError for what is no lock."""
    from tilewright.hw import parse_lock

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        reason = getattr(e, "strerror", None) or "it is no UTF-8 text"
        raise UsageError(f"can't read the lock {path}: {reason}", code="usage.file",
                         hint="make one: tilewright account ... --save FILE") from None  # fmt: skip
    return parse_lock(text, str(path))
