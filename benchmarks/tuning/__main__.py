"""`python -m benchmarks.tuning COMMAND [OPTIONS]`: one module of this package a command, which has a `main(arguments)`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    commands = sorted(f.stem for f in Path(__file__).parent.glob("*.py") if not f.stem.startswith("_"))
    name = arguments[0] if arguments else ""
    if name not in commands:
        print(
            f"{__doc__}\n\ncommands: {', '.join(commands)}",
            file=sys.stderr if name not in ("-h", "--help") else sys.stdout,
        )
        return 0 if name in ("-h", "--help") else 2
    return import_module(f"benchmarks.tuning.{name}").main(list(arguments[1:]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
