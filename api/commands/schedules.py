"""`schedules`: files of frozen schedules, one for each bucket.

from tilewright.commands import schedules

schedules.freeze("matmul.tw", ["examples/matmul.py"])
schedules.check("matmul.tw", ["examples/matmul.py"]).ok
schedules.upgrade("matmul.tw", ["examples/matmul.py"]).changes
schedules.diff("old.tw", "matmul.tw").buckets
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.files import UsageError, read_file, writing
from tilewright.commands.records import case_of, opened
from tilewright.commands.targets import find_kernel

if TYPE_CHECKING:
    from tilewright.autotune.frozen import Checked, Differences, Frozen, Upgraded
    from tilewright.autotune.records import Records
    from tilewright.hw import Machine
    from tilewright.kernels import Kernel
    from tilewright.lang.pipeline import Pipeline

__all__ = ["Written", "check", "diff", "freeze", "upgrade"]


def read(path: str | Path) -> Frozen:
    """A file of schedules. Raises UsageError `usage.file`, ParseError."""
    from tilewright.autotune.frozen import read_frozen

    try:
        found = read_frozen(path)
    except OSError as e:
        raise UsageError(f"can't read {path}: {e.strerror}", code="usage.file",
                         hint="give a .tw file with schedules") from None  # fmt: skip
    if not found.entries:
        raise UsageError(f"{path} has no schedules", code="usage.file", hint="give a .tw file with schedules")
    return found


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written, and how many schedules are in it."""

    path: str
    schedules: int

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.path}: {self.schedules} schedule{'s' * (self.schedules != 1)} written"


def freeze(
    path: str | Path, targets: Sequence[str | Path | Kernel], *, buckets: Iterable[str] | None = None,
    database: str | Path | Records | None = None, statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None, mode: str | None = None, objective: str | None = None,
    machine: Machine | str | None = None, threads: int | None = None, cache: str = "hot", with_kernels: bool = True,
) -> Written:  # fmt: skip
    """Write the best schedules of records to a file: for each of the buckets, by default for all that there are records of.

    The other options are as of `records.explain`. Raises RecordError `records.none` where there is nothing to write.
    """
    from tilewright.autotune.frozen import freeze as run

    found = [find_kernel(t, statics, dtypes) for t in targets]
    case = case_of(mode or found[0][0].mode, objective, machine, threads, cache)
    texts = None if buckets is None else list(map(_bucket, buckets))
    with opened(database) as records:
        made = run(records, [p for _, p in found], texts, with_kernels, **case)
    with writing(path):
        made.write(path)
    return Written(str(path), len(made.entries))


def _bucket(text: str) -> str:
    """A bucket as records have it."""
    from tilewright.autotune.buckets import Bucket

    return Bucket.read(text).text


def check(
    path: str | Path, targets: Sequence[str | Path | Kernel] = (), *, statics: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None, mode: str | None = None,
) -> Checked:  # fmt: skip
    """Whether the schedules of a file are legal for their kernels: those of the targets (files of kernels, or
    `FILE:KERNEL`), and without them those in the file itself."""
    from tilewright.autotune.frozen import check as run

    found = read(path)
    kernels, default = _kernels(found, targets, statics, dtypes)
    return run(found, kernels, mode or default)


def upgrade(
    path: str | Path, targets: Sequence[str | Path | Kernel] = (), *, out: str | Path | None = None,
    statics: Mapping[str, Any] | None = None, dtypes: Mapping[str, Any] | None = None, mode: str | None = None,
) -> Upgraded:  # fmt: skip
    """Rewrite a file (or write another one, `out`) for kernels as they are now; what is not legal stays as it was.

    The file is replaced as a whole, or not at all.
    """
    from tilewright.autotune.frozen import upgrade as run

    found = read(path)
    kernels, default = _kernels(found, targets, statics, dtypes)
    done = run(found, kernels, mode or default)
    target = out if out is not None else path
    if out is not None or done.file.text() != Path(path).read_text(encoding="utf-8"):
        with writing(target):
            done.file.write(target)
    return done


def diff(a: str | Path, b: str | Path) -> Differences:
    """What has changed from one file to the other, bucket by bucket."""
    from tilewright.autotune.frozen import diff as run

    return run(read(a), read(b))


def _kernels(
    file: Frozen, targets: Sequence[str | Path | Kernel], statics: Mapping[str, Any] | None,
    dtypes: Mapping[str, Any] | None,
) -> tuple[dict[str, Pipeline], str]:  # fmt: skip
    """The pipelines that targets have for a file's schedules, by name, and the numeric mode of the first of them."""
    wanted = {e.kernel for e in file.entries}
    found: dict[str, Pipeline] = {}
    mode = ""
    for target in targets:
        for kernel in _meant(target, wanted):
            made, p = find_kernel(kernel, statics, dtypes)
            found[p.name] = p
            mode = mode or made.mode
    if targets and not wanted & set(found):
        raise UsageError(
            f"the schedules are of {', '.join(sorted(wanted))}, and there is no such kernel", code="usage.kernel",
            hint="give the file that has it",
        )  # fmt: skip
    return found, mode or "contract"


def _meant(target: str | Path | Kernel, wanted: set[str]) -> list[Any]:
    """The kernels of a target: of a file all that there are schedules of."""
    if isinstance(target, (str, Path)) and Path(target).exists():
        return [k for name, k in read_file(Path(target)).kernels.items() if name in wanted]
    return [target]
