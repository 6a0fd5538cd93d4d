"""The house rules: who may import whom, how long a file may be, and that every module says what it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST_FILE = 700

# Prefixes of our own modules that a room may import besides itself.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "lang": (),
    "hw": ("tilewright.lang.errors",),
    "schedule": ("tilewright.lang", "tilewright.hw"),
    "codegen": ("tilewright.lang", "tilewright.schedule", "tilewright.hw"),
    "planner": ("tilewright.lang", "tilewright.schedule", "tilewright.codegen", "tilewright.hw"),
    "autotune": (
        "tilewright.lang",
        "tilewright.schedule",
        "tilewright.codegen",
        "tilewright.hw",
        "tilewright.planner",
    ),
}
ROOMS = [room for room in (*MAY_IMPORT, "api") if (ROOT / room).is_dir()]
MODULES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
OTHERS = [
    file
    for folder in ("tests", "examples", "benchmarks")
    if (ROOT / folder).is_dir()
    for file in sorted((ROOT / folder).rglob("*.py"))
]


def module_name(file: Path) -> str:
    """The dotted name under which a file of a room is imported."""
    room, *rest = file.relative_to(ROOT).with_suffix("").parts
    parts = ["tilewright", *([] if room == "api" else [room]), *rest]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(file: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, module) for every import in a file, also those inside functions and under TYPE_CHECKING."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            # `from tilewright import lang` names a module too; an attribute counts as inside its module.
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def is_inside(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def forbidden_imports(file: Path, room: str) -> list[str]:
    allowed = (f"tilewright.{room}", *MAY_IMPORT[room])
    return [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imported(file, ast.parse(file.read_text(encoding="utf-8")))
        if is_inside(name, "tilewright") and not any(is_inside(name, prefix) for prefix in allowed)
    ]


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "api"])
def test_imports_go_one_way(room: str) -> None:
    files = [file for file in MODULES if file.relative_to(ROOT).parts[0] == room]
    assert files
    wrong = [line for file in files for line in forbidden_imports(file, room)]
    assert not wrong, f"{room} may import {MAY_IMPORT[room] or 'nothing of ours'}:\n" + "\n".join(wrong)


def test_the_import_check_sees_every_form_of_import() -> None:
    file = ROOT / "hw" / "imaginary.py"
    text = (
        "import tilewright.codegen\n"
        "from tilewright import schedule\n"
        "from ..lang import expr\n"
        "from ..lang.errors import TilewrightError\n"
        "def f():\n"
        "    from .machine import Machine\n"
        "    import numpy.linalg\n"
    )
    assert sorted(imported(file, ast.parse(text))) == [
        (1, "tilewright.codegen"),
        (2, "tilewright.schedule"),
        (3, "tilewright.lang.expr"),
        (4, "tilewright.lang.errors.TilewrightError"),
        (6, "tilewright.hw.machine.Machine"),
        (7, "numpy.linalg"),
    ]


@pytest.mark.parametrize("file", MODULES + OTHERS, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_are_short_and_say_what_they_are(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= LONGEST_FILE, f"{lines} lines: is an idea missing?"
    assert ast.get_docstring(ast.parse(text)), "a module starts with a docstring"


def test_no_room_is_named_like_the_package() -> None:
    """A folder called tilewright/ in the checkout would shadow an installed wheel."""
    assert not (ROOT / "tilewright").exists()
