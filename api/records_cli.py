"""The commands about what tuning leaves behind: `records` (a database of measurements) and `schedules` (frozen files)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

GOOD, FAILED = 0, 1
_FILTERS = ("kernel", "bucket", "objective", "mode", "machine", "status")
Add = Callable[..., argparse.ArgumentParser]


About = Callable[..., None]


def add_records_commands(commands: Any, about_kernel: About, about_parameters: About) -> None:
    """Add `records` and `schedules` with their actions to the commands of the program. `about_kernel` adds the options that
    say what a command is about, `about_parameters` those of them that say which form of a kernel is meant."""
    _records(_actions(commands, "records", "list, show, exchange and prune what tuning has measured"), about_kernel)
    _schedules(
        _actions(commands, "schedules", "make, check, upgrade and compare files of schedules by bucket"),
        about_parameters,
    )


def _actions(commands: Any, name: str, about: str) -> Add:
    made = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
    actions = made.add_subparsers(title="actions", required=True, metavar="ACTION")

    def action(
        name: str, run: Callable[[argparse.Namespace], Any], help: str, more: str = ""
    ) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=help, description=help[0].upper() + help[1:] + ". " + more)
        made.set_defaults(run=lambda args: _printed(args, run(args)))
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        return made

    return action


def _printed(args: argparse.Namespace, result: Any) -> int:
    print(json.dumps(result.as_json(), indent=2) if args.json else result)
    return GOOD if getattr(result, "ok", True) else FAILED


# Records --------------------------------------------------------------------------------------------------------


def _records(action: Add, about_kernel: About) -> None:
    made = action("list", _list, "say for which kernels, buckets and machines there are records, and the best figures")
    _filters(made)

    made = action("show", _show, "print a record in full, with its schedule")
    made.add_argument("hash", metavar="HASH", help="the first digits of its hash, or of its schedule's")
    _database(made)

    made = action("export", _export, "write records as lines of JSON", "Equal records give equal files.")
    made.add_argument("file", metavar="FILE", help="where to write them")
    _filters(made)

    made = action("import", _import, "take over records of other machines and people",
                  "Doing it again changes nothing. The exit code is 1 if lines were left out.")  # fmt: skip
    made.add_argument("files", metavar="FILE", nargs="+", help="files that `records export` wrote, or databases")
    _database(made)

    made = action("prune", _prune, "remove records that are not worth their room")
    made.add_argument("--best", type=int, metavar="N", help="keep the N best schedules of each bucket, once each")
    made.add_argument("--days", type=float, metavar="N", help="remove what is older than N days")
    made.add_argument("--versions", action="store_true",
                      help="remove what was measured with other versions, and anew with this one")  # fmt: skip
    made.add_argument("--failed", action="store_true", help="remove records without a figure")
    made.add_argument("--dry-run", action="store_true", help="say how many, and remove nothing")
    _database(made)

    made = action("explain", _explain, "say which record would be used for a call, and why not another",
                  "With ranges of sizes, say it for that bucket.")  # fmt: skip
    about_kernel(made, planned=True)
    _case(made)
    made.add_argument("--most", type=int, default=10, metavar="N", help="records not used to tell of (default: 10)")
    _database(made)


def _database(made: argparse.ArgumentParser) -> None:
    made.add_argument("--records", metavar="FILE", help="the database (default: the user's, or TILEWRIGHT_RECORDS)")


def _filters(made: argparse.ArgumentParser) -> None:
    for name in _FILTERS:
        made.add_argument(f"--{name}", metavar=name.upper(), help=f"only those of this {name}")
    made.add_argument("--threads", type=int, metavar="N", help="only those measured with so many threads")
    _database(made)


def _case(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--objective", metavar="WHAT", help="time, cycles, bytes or energy (default: time, of a machine cycles)"
    )
    made.add_argument("--machine", metavar="NAME", help="a simulated machine: a preset or a TOML file")
    made.add_argument("--threads", type=int, metavar="N", help="that calls may use (default: all of this process)")
    made.add_argument(
        "--cache", choices=["hot", "cold"], default="hot", help="where calls find their data (default: hot)"
    )


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    from tilewright.commands.records import check_filters

    named = {n: getattr(args, n) for n in (*_FILTERS, "threads") if getattr(args, n) is not None}
    return check_filters(named)


def _list(args: argparse.Namespace) -> Any:
    from tilewright.commands import records

    return records.list(args.records, **_chosen(args))


def _show(args: argparse.Namespace) -> Any:
    from tilewright.commands import records

    return records.show(args.hash, args.records)


def _export(args: argparse.Namespace) -> Any:
    from tilewright.commands import records

    return records.export(args.file, args.records, **_chosen(args))


def _import(args: argparse.Namespace) -> Any:
    from tilewright.commands import records

    return records.import_(args.files, args.records)


def _prune(args: argparse.Namespace) -> Any:
    from tilewright.commands import records

    return records.prune(
        args.records, best=args.best, days=args.days, versions=args.versions, failed=args.failed, dry=args.dry_run
    )


def _explain(args: argparse.Namespace) -> Any:
    from tilewright.commands import records

    return records.explain(
        args.target, sizes=args.size, database=args.records, statics=args.static, dtypes=args.dtype, mode=args.mode,
        objective=args.objective, machine=args.machine, threads=args.threads, cache=args.cache, most=args.most,
    )  # fmt: skip


# Schedules ------------------------------------------------------------------------------------------------------


def _schedules(action: Add, about_parameters: About) -> None:
    made = action("freeze", _freeze, "write the best schedules of records to a file, one for each bucket")
    made.add_argument("targets", metavar="FILE[:KERNEL]", nargs="+", help="the kernels")
    about_parameters(made)
    made.add_argument("-o", "--out", required=True, metavar="FILE.tw", help="where to write them")
    made.add_argument("--bucket", action="append", metavar="M=1..16,N=64",
                      help="for this bucket (default: for all that there are records of)")  # fmt: skip
    made.add_argument("--no-kernels", action="store_true", help="leave the kernels themselves out of the file")
    _case(made)
    _database(made)

    made = action("check", _check, "check every schedule of a file against its kernel, and the buckets against each other",
                  "The exit code is 1 if a schedule can't be used.")  # fmt: skip
    _file(made)
    about_parameters(made)

    made = action("upgrade", _upgrade, "rewrite a file for kernels as they are now",
                  "Schedules that are not legal any more stay as they were; the exit code is 1 then.")  # fmt: skip
    _file(made)
    about_parameters(made)
    made.add_argument("-o", "--out", metavar="FILE.tw", help="write this file instead")

    made = action("diff", _diff, "say what differs between two files, bucket by bucket")
    made.add_argument("old", metavar="OLD.tw", help="a file of schedules")
    made.add_argument("new", metavar="NEW.tw", help="another one")


def _file(made: argparse.ArgumentParser) -> None:
    made.add_argument("file", metavar="FILE.tw", help="a file of schedules")
    made.add_argument("kernels", metavar="KERNELS", nargs="*",
                      help="files of kernels, or FILE:KERNEL (default: the kernels in the file)")  # fmt: skip


def _kernel_options(args: argparse.Namespace) -> dict[str, Any]:
    return {"statics": args.static, "dtypes": args.dtype, "mode": args.mode}


def _freeze(args: argparse.Namespace) -> Any:
    from tilewright.commands import schedules

    return schedules.freeze(
        args.out, args.targets, buckets=args.bucket, database=args.records, objective=args.objective, machine=args.machine,
        threads=args.threads, cache=args.cache, with_kernels=not args.no_kernels, **_kernel_options(args),
    )  # fmt: skip


def _check(args: argparse.Namespace) -> Any:
    from tilewright.commands import schedules

    return schedules.check(args.file, args.kernels, **_kernel_options(args))


def _upgrade(args: argparse.Namespace) -> Any:
    from tilewright.commands import schedules

    return schedules.upgrade(args.file, args.kernels, out=args.out, **_kernel_options(args))


def _diff(args: argparse.Namespace) -> Any:
    from tilewright.commands import schedules

    return schedules.diff(args.old, args.new)


__all__ = ["add_records_commands"]
