"""The folders of the repository become the subpackages of `tilewright`; the rest is in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
FRONT_DOOR = "api"
ROOMS = ("lang", "hw", "schedule", "codegen", "planner", "autotune")  # a new room is added here
FOLDERS = {"tilewright": FRONT_DOOR} | {f"tilewright.{room}": room for room in ROOMS}


def packages() -> list[str]:
    """Every room and the packages inside it, so that a new subfolder needs no entry anywhere."""
    return [
        name
        for package, folder in FOLDERS.items()
        for name in (package, *(f"{package}.{sub}" for sub in find_packages(str(ROOT / folder))))
    ]


setup(package_dir=FOLDERS, packages=packages())
