"""What all tests share: a deterministic Hypothesis, one cache folder for the run, checked loops, and golden texts."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
EXAMPLES = 50

# Deterministic by default: a red test must be red for everyone. TILEWRIGHT_FUZZ=N looks further, at random.
_fuzz = int(os.environ.get("TILEWRIGHT_FUZZ", "1"))
settings.register_profile(
    "tilewright",
    deadline=None,
    derandomize=_fuzz == 1,
    max_examples=EXAMPLES * _fuzz,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tilewright")


# Every program that is lowered in a test is checked to compute each of its points once, at one call.
os.environ.setdefault("TILEWRIGHT_COVERAGE", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expected texts in tests/golden instead of comparing",
    )


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compiled kernels of one run go to one new folder, unless the caller has chosen one."""
    given = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if given:
        yield Path(given)
        return
    folder = tmp_path_factory.mktemp("kernel-cache")
    os.environ["TILEWRIGHT_CACHE_DIR"] = str(folder)
    yield folder
    del os.environ["TILEWRIGHT_CACHE_DIR"]


@pytest.fixture(scope="session", autouse=True)
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a test run measures is not kept among the user's records."""
    given = os.environ.get("TILEWRIGHT_RECORDS")
    file = tmp_path_factory.mktemp("records") / "records.db"
    os.environ["TILEWRIGHT_RECORDS"] = str(file)
    yield file
    del os.environ["TILEWRIGHT_RECORDS"]
    if given is not None:
        os.environ["TILEWRIGHT_RECORDS"] = given


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(text)` compares with tests/golden/<path of the module>/<test>.txt.

    `golden(text, "part")` adds `.part` to the name, for a test with several texts.
    """
    module = request.path.relative_to(TESTS).with_suffix("")
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    update = request.config.getoption("--update-golden")

    def check(text: str, part: str = "") -> None:
        file = GOLDEN / module / f"{name}{'.' + part if part else ''}.txt"
        text = text.rstrip("\n") + "\n"
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        place = file.relative_to(TESTS.parent)
        if not file.exists():
            pytest.fail(f"there is no {place} yet: look at this text, then run with --update-golden\n{text}")
        expected = file.read_text(encoding="utf-8")
        if text != expected:
            diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(place), "now", lineterm="", n=5)
            pytest.fail("\n".join(["the text has changed (--update-golden if it is meant):", *diff]), pytrace=False)

    return check
