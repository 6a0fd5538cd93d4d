"""Kernels and schedules of a file that the user names: a Python program or a `.tw` text."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tilewright.kernels import Kernel
from tilewright.lang.errors import Location, TilewrightError
from tilewright.texts import TwFile, read


class UsageError(TilewrightError):
    """A command is asked for something that is not there, or makes no sense."""

    default_code = "usage"


class UserCodeError(TilewrightError):
    """The user's own Python code raised an error."""

    default_code = "usage.python"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """What a file has: kernels by name; functions that may make schedules (Python) and those of them that its SCHEDULES
    has, or texts of schedules (`.tw`)."""

    path: Path
    kernels: Mapping[str, Kernel]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tw: TwFile | None = None
    schedules: tuple[Callable[..., Any], ...] = ()


def read_file(path: Path) -> SourceFile:
    """Read a file by its suffix. Raises UsageError, UserCodeError, or the library's errors in it."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"the file {path} {what}", code="usage.file", hint="give a Python file or a .tw file")
    if path.suffix == ".tw":
        try:
            found = read(path)
        except OSError as e:
            raise UsageError(f"can't read {path}: {e.strerror}", code="usage.file") from None
        return SourceFile(path, found.kernels, tw=found)
    if path.suffix != ".py":
        raise UsageError(f"{path} is neither a Python file (.py) nor a text of kernels (.tw)", code="usage.file",
                         hint="give a file with kernels in it")  # fmt: skip
    module = _run(path)
    public = {k: v for k, v in vars(module).items() if not k.startswith("_")}
    functions = {k: v for k, v in public.items() if isinstance(v, FunctionType) and v.__module__ == module.__name__}
    listed = public.get("SCHEDULES")
    listed = listed if isinstance(listed, (tuple, list)) else ()
    return SourceFile(
        path, {k: v for k, v in public.items() if isinstance(v, Kernel)}, functions,
        schedules=tuple(f for f in functions.values() if f in listed),
    )  # fmt: skip


def _run(path: Path) -> ModuleType:
    """The module of a Python file; it runs as an import does, with its folder on the path, printing to stderr."""
    name = "__file_" + "".join(c if c.isalnum() else "_" for c in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent.absolute())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        with running(path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """A file that the user named is written inside. Raises UsageError `usage.file` where that can't be done."""
    try:
        yield
    except OSError as e:
        raise UsageError(f"can't write {path}: {e.strerror}", code="usage.file",
                         hint="give the name of a file that can be written") from None  # fmt: skip


@contextlib.contextmanager
def running(path: Path) -> Iterator[None]:
    """The user's code runs inside: what it prints goes to stderr, and what it raises is told with file and line."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except TilewrightError:
        raise
    except SyntaxError as e:
        where = Location(e.filename or str(path), e.lineno or 1, e.offset)
        raise UserCodeError(f"{type(e).__name__}: {e.msg}", where=where) from e
    except SystemExit as e:
        raise UserCodeError(f"it ended the program (sys.exit({e.code!r}))", where=_place(e, path)) from e
    except Exception as e:
        raise user_error(e, path) from e


def user_error(e: Exception, path: Path) -> UserCodeError:
    """What code of the user's file has raised, with its line."""
    text = str(e).strip().split("\n")[0]
    return UserCodeError(f"{type(e).__name__}{': ' if text else ''}{text}", where=_place(e, path))


def _place(e: BaseException, path: Path) -> Location:
    """The innermost line of the user's file that the error went through."""
    lines = [f for f in traceback.extract_tb(e.__traceback__) if os.path.abspath(f.filename) == os.path.abspath(path)]
    return Location(str(path), (lines[-1].lineno or 1) if lines else 1)
