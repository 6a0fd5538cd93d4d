"""The folders of the repository become the subpackages of `tilewright`; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
ROOMS = {"tilewright": "api"} | {
    f"tilewright.{room}": room
    for room in ("lang", "hw", "schedule", "codegen", "planner", "autotune")
    if (ROOT / room / "__init__.py").exists()
}


def packages() -> list[str]:
    """Every room and the packages inside it, so that a new subfolder needs no entry anywhere."""
    return [
        name
        for package, folder in ROOMS.items()
        for name in (package, *(f"{package}.{sub}" for sub in find_packages(str(ROOT / folder))))
    ]


setup(package_dir=ROOMS, packages=packages())
