"""The package as installed: wheel and editable, seen from the checkout's root and from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD_FILES = ("pyproject.toml", "setup.py", "LICENSE", "README.md")
FOLDERS = {"api": "tilewright"} | {
    room: f"tilewright.{room}" for room in ("lang", "hw", "schedule", "codegen", "planner", "autotune")
}
DATA = (".toml", ".lark", ".typed", ".tw", ".json", ".h", ".js", ".css")

PROBE = """
import importlib, json, sys
import tilewright
print(json.dumps({
    "origin": tilewright.__file__,
    "modules": [importlib.import_module(name).__name__ for name in json.loads(sys.argv[1])],
}))
"""


def run(*command: object, cwd: Path, **env: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean | env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources(*suffixes: str) -> list[Path]:
    """The files of all rooms with these suffixes, relative to the root."""
    return sorted(
        file.relative_to(ROOT)
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.suffix in suffixes or (file.name == "py.typed" and ".typed" in suffixes)
    )


def installed_path(file: Path) -> Path:
    """Where a file of the checkout stands in an installed package."""
    room, *rest = file.parts
    return Path("tilewright", *([] if room == "api" else [room]), *rest)


def rooms() -> list[str]:
    return [name for folder, name in FOLDERS.items() if (ROOT / folder / "__init__.py").exists()]


@pytest.fixture(scope="module")
def copy_of_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds leave folders behind (and pick up what earlier ones left), so they run on a copy."""
    copy = tmp_path_factory.mktemp("sources")
    for name in BUILD_FILES:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
    for folder in FOLDERS:
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def wheel_target(copy_of_sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a wheel of the sources has been installed."""
    work = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    offline = ("--no-deps", "--no-index")
    run(*pip, "wheel", *offline, "--no-build-isolation", "-w", work, copy_of_sources, cwd=work)
    (wheel,) = work.glob("tilewright-*.whl")
    run(*pip, "install", *offline, "--target", work / "target", wheel, cwd=work)
    return work / "target"


def test_the_wheel_holds_every_module_and_data_file(wheel_target: Path) -> None:
    expected = {installed_path(file) for file in sources(".py", *DATA)}
    package = wheel_target / "tilewright"
    found = {
        file.relative_to(wheel_target)
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert found == expected


@pytest.mark.parametrize("where", ["checkout", "elsewhere"])
def test_the_wheel_is_what_gets_imported(wheel_target: Path, tmp_path: Path, where: str) -> None:
    cwd = ROOT if where == "checkout" else tmp_path
    # -S keeps the editable install of the running interpreter out; the dependencies come by path.
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([str(wheel_target), *dependencies])
    seen = json.loads(run(sys.executable, "-S", "-c", PROBE, json.dumps(rooms()), cwd=cwd, PYTHONPATH=path))
    assert Path(seen["origin"]).is_relative_to(wheel_target)
    assert seen["modules"] == rooms()


@pytest.mark.parametrize("where", ["checkout", "elsewhere"])
def test_the_editable_install_is_the_checkout(tmp_path: Path, where: str) -> None:
    cwd = ROOT if where == "checkout" else tmp_path
    seen = json.loads(run(sys.executable, "-c", PROBE, json.dumps(rooms()), cwd=cwd))
    assert Path(seen["origin"]).resolve() == ROOT / "api" / "__init__.py"
    assert seen["modules"] == rooms()


def test_every_room_is_in_the_build(copy_of_sources: Path) -> None:
    """A room that is missing in setup.py would be missed only by those who install the package."""
    listed = (copy_of_sources / "setup.py").read_text(encoding="utf-8")
    for folder, name in FOLDERS.items():
        assert name not in rooms() or f'"{folder}"' in listed
