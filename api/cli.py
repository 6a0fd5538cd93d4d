"""The command line `tilewright`. Exit codes: 0 good, 1 a check failed, 2 misuse, 3 an error of ours."""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.account_cli import (
    add_account_options,
    add_machine_options,
    add_roofline_options,
    run_account,
    run_roofline,
)
from tilewright.lang.errors import TilewrightError
from tilewright.machine_cli import add_machine_command
from tilewright.perf_cli import add_perf_command
from tilewright.plan_cli import add_plan_command
from tilewright.records_cli import add_records_commands
from tilewright.trust_cli import add_trust_commands
from tilewright.tune_cli import add_tune_command
from tilewright.views_cli import add_view_commands

GOOD, FAILED, MISUSE, INTERNAL = 0, 1, 2, 3
TRACEBACK = "TILEWRIGHT_TRACEBACK"  # set to 1: errors of ours come with Python's traceback

_TARGET = "a Python file (its @tw.kernel functions) or a .tw file, with :NAME where it has several kernels"
_EPILOG = """\
FILE is a Python program or a .tw text. A schedule is the name of a function in the Python file that returns one, or a
.tw file; without it the default schedule is taken (of a .tw file: the schedule that is in it).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code. Arguments that can't be parsed end the program with code 2."""
    args = _parser().parse_args(argv)
    try:
        with _warned():
            return args.run(args)
    except TilewrightError as e:
        return _fail(_without_us(e), MISUSE)
    except BrokenPipeError:  # the reader of our output has gone, `| head` say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        return _fail("there is not enough memory: give smaller sizes", MISUSE)
    except Exception as e:
        if os.environ.get(TRACEBACK) == "1":
            traceback.print_exc()
        return _fail(f"internal error, {type(e).__name__}: {e} ({TRACEBACK}=1 shows where)", INTERNAL)


def _without_us(e: TilewrightError) -> str:
    """The error's text, without the program that called us as a place: nothing there is the user's to change."""
    e.where = tuple(w for w in e.where if not _ours(w.file))
    return e.render()


def _ours(file: str) -> bool:
    """Whether a file is the program that called us."""
    ours = {os.path.realpath(sys.argv[0]), os.path.realpath(getattr(sys.modules["__main__"], "__file__", "") or "")}
    return os.path.realpath(file) in ours


@contextlib.contextmanager
def _warned() -> Iterator[None]:
    """Warnings whose place is the program that called us are told without it, as our errors are."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], file: str, line: int, to: Any = None, text: Any = None) -> None:
            if _ours(file):
                print(f"tilewright: {message}", file=to or sys.stderr)
            else:
                usual(message, category, file, line, to, text)

        warnings.showwarning = show
        yield


def _fail(message: str, code: int) -> int:
    sys.stdout.flush()
    print(f"tilewright: {message}", file=sys.stderr)
    return code


# Options --------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    from tilewright import __version__

    parser = argparse.ArgumentParser(
        prog="tilewright", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tensor algorithms and their schedules: look at them, check them, run them on simulated machines.",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], help: str, more: str = ""
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=help, description=help[0].upper() + help[1:] + ". " + more, epilog=_EPILOG
        )
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        return made

    made = command("demo", _demo, "run the demonstration: a real photograph, and real-size matrices")
    made.add_argument(
        "--out", default="demo-output", metavar="FOLDER", help="where the pictures go (default: demo-output)"
    )

    made = command("show", _show, "print algorithm, schedule, loop nest and buffers",
                   "With all sizes given, buffers have their bytes. With a machine the nest is shown alone, and beside each "
                   "line what it cost there.")  # fmt: skip
    _about_kernel(made)
    made.add_argument("--machine", metavar="NAME", help="a preset (see `tilewright machines`) or a TOML file")

    add_trust_commands(command, _about_kernel)

    made = command("simulate", _simulate, "run on a simulated machine and print the account of it")
    _about_kernel(made, runs=True)
    add_machine_options(made)

    made = command("account", _account, "print what a run does on a machine: counts, footprint, time",
                   "--save locks the figures in a file; with --check the exit code is 1 if any has moved.")  # fmt: skip
    _about_kernel(made)
    add_account_options(made)

    made = command("roofline", _roofline, "say what limits a run on a machine, as a whole and section by section")
    _about_kernel(made)
    add_roofline_options(made)

    made = command("count", _count, "count evaluations, loads, stores and allocations of an instrumented run")
    _about_kernel(made, runs=True)

    add_perf_command(command, _about_kernel)
    add_plan_command(command, _about_kernel)
    add_tune_command(command, _about_kernel)

    made = command("export", _export, "write the lowered nest as JSON or C for other programs",
                   "With all sizes given it is made for these: buffers have places in their memories.")  # fmt: skip
    _about_kernel(made)
    made.add_argument("--machine", metavar="NAME", help="whose engines do the copies: a preset, or a TOML file")
    made.add_argument("--to", choices=["json", "c"], default="json", help="the form (default: json)")
    made.add_argument(
        "-o", "--out", metavar="OUT", help="write this file (of C also its headers, beside it) instead of printing"
    )

    command("machines", _machines, "list the machines that come with the library")
    add_machine_command(commands)
    add_records_commands(commands, _about_kernel, _about_parameters)
    add_view_commands(command, _about_kernel)

    made = command("cache", _cache, "say where compiled kernels and plans are kept, how many there are and their size")
    made.add_argument(
        "action", nargs="?", choices=["show", "list", "clear"], default="show", help="what to do (default: show)"
    )
    return parser


def _about_kernel(
    made: argparse.ArgumentParser, runs: bool = False, schedules: bool = False, planned: bool = False
) -> None:
    """Options that say what a command is about. `schedules`: several; `planned`: none, and sizes may be ranges."""
    made.add_argument("target", metavar="FILE[:KERNEL]", help=_TARGET)
    several: dict[str, Any] = {"action": "append", "default": []} if schedules else {}
    if planned:
        made.add_argument(
            "--size", type=_ranges, action=_Merge, default={}, metavar="M=512,T=1..2048",
            help="values of the sizes, or ranges of them",
        )  # fmt: skip
    else:
        made.add_argument(
            "--schedule", metavar="FILE|FUNCTION", help="a .tw file, or a function of the Python file", **several
        )
        made.add_argument(
            "--size", type=_sizes, action=_Merge, default={}, metavar="M=512,N=512", help="values of the sizes"
        )
    if runs:
        made.add_argument("--scalar", type=_static, action=_Merge, default={}, metavar="NAME=VALUE",
                          help="a scalar parameter" + ("" if planned else " (by default made up)"))  # fmt: skip
    _about_parameters(made)


def _about_parameters(made: argparse.ArgumentParser) -> None:
    """Options that say which of its forms a kernel has."""
    made.add_argument("--static", type=_static, action=_Merge, default={}, metavar="NAME=VALUE",
                      help="a static parameter: a Python number, text, tuple, ...")  # fmt: skip
    made.add_argument("--dtype", type=_dtypes, action=_Merge, default={}, metavar="T=f32", help="type parameters")
    made.add_argument("--mode", choices=["strict", "contract", "fast"], help="numeric mode (default: the kernel's)")


class _Merge(argparse.Action):
    """An option that may be given several times; the dictionaries add up, and a name given twice is refused."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        twice = [k for k in values if k in before]
        if twice:
            parser.error(f"{option_string}: {twice[0]} is given twice")
        setattr(namespace, self.dest, before | values)


def _pairs(text: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (x.strip() for x in part.partition("="))
        if not (name and equals and value):
            raise argparse.ArgumentTypeError(f"{part.strip()!r} is not of the form NAME=VALUE")
        if name in out:
            raise argparse.ArgumentTypeError(f"{name} is given twice")
        out[name] = value
    return out


def _sizes(text: str) -> dict[str, int]:
    return {name: _size(name, value) for name, value in _pairs(text).items()}


def _size(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"size {name} must be an integer and is {value!r}") from None


def _ranges(text: str) -> dict[str, int | tuple[int, int]]:
    """Sizes, of which some may be ranges: `T=1..2048`, or `T=1:2048`."""
    out: dict[str, int | tuple[int, int]] = {}
    for name, value in _pairs(text).items():
        low, between, high = value.partition(".." if ".." in value else ":")
        out[name] = (_size(name, low), _size(name, high)) if between else _size(name, value)
    return out


def _static(text: str) -> dict[str, Any]:
    name, equals, value = (x.strip() for x in text.partition("="))
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return {name: ast.literal_eval(value)}
    except (ValueError, SyntaxError):
        return {name: value}


def _dtypes(text: str) -> dict[str, Any]:
    from tilewright.lang.types import DTYPES

    out = {}
    for name, value in _pairs(text).items():
        if value not in DTYPES:
            raise argparse.ArgumentTypeError(f"{value!r} is no type; there are {', '.join(DTYPES)}")
        out[name] = DTYPES[value]
    return out


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "schedule": args.schedule, "sizes": args.size, "statics": args.static, "dtypes": args.dtype, "mode": args.mode,
    }  # fmt: skip


# Commands -------------------------------------------------------------------------------------------------------


def _print(args: argparse.Namespace, text: Any, data: Callable[[], Any]) -> None:
    print(json.dumps(data(), indent=2) if args.json else text)


def _demo(args: argparse.Namespace) -> int:
    from tilewright.demo import demo

    try:
        report = demo(args.out, say=(lambda text: None) if args.json else print)
    except OSError as e:
        return _fail(f"can't write the pictures to {args.out}: {e.strerror}", MISUSE)
    if args.json:
        print(json.dumps(report.as_json(), indent=2))
    return GOOD if report.ok else FAILED


def _show(args: argparse.Namespace) -> int:
    from tilewright.commands import show

    found = show(args.target, machine=args.machine, **_options(args))
    if args.json:
        print(json.dumps(found.as_json(), indent=2))
        return GOOD
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    print(found.text(width, colour=terminal and not os.environ.get("NO_COLOR")))
    return GOOD


def _simulate(args: argparse.Namespace) -> int:
    from tilewright.commands import simulate

    found = simulate(args.target, machine=args.machine, scalars=args.scalar, sync=args.sync, **_options(args))
    print(found.to_json() if args.json else found)
    return GOOD


def _account(args: argparse.Namespace) -> int:
    return run_account(args, _options(args))


def _roofline(args: argparse.Namespace) -> int:
    return run_roofline(args, _options(args))


def _count(args: argparse.Namespace) -> int:
    from tilewright.commands import count

    found = count(args.target, scalars=args.scalar, **_options(args))
    print(found.to_json() if args.json else found)
    return GOOD


def _export(args: argparse.Namespace) -> int:
    from tilewright.commands import export
    from tilewright.commands.files import writing

    found = export(args.target, to=args.to, machine=args.machine, **_options(args))
    if args.out is None:
        _print(args, found, lambda: found.document if args.to == "json" else dict(found.files))
        return GOOD
    with writing(args.out):
        written = [str(path) for path in found.write(args.out)]
    _print(args, "\n".join(written), lambda: {"written": written})
    return GOOD


def _machines(args: argparse.Namespace) -> int:
    from tilewright.commands import machines
    from tilewright.commands.machines import machine_table
    from tilewright.hw.render.machine_tables import machine_data

    listed = machines()
    _print(args, machine_table(listed), lambda: list(map(machine_data, listed)))
    return GOOD


def _cache(args: argparse.Namespace) -> int:
    from tilewright.commands import cache, cache_clear

    if args.action == "clear":
        removed = cache_clear()
        _print(args, f"{removed} entries removed", lambda: {"removed": removed})
        return GOOD
    report = cache()
    _print(args, report, report.as_json)
    if args.action == "list" and not args.json:
        for e in report.entries:
            print(e)
    return GOOD
