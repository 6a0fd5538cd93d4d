"""Every snippet of README.md and docs/ runs; what is generated in docs/ is up to date."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

import tilewright as tw
from tilewright.cli import main

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
_LANGUAGES = {"python", "console", "c", "text", "tw", "toml"}


def snippets(document: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of the fenced blocks of one language."""
    text = document.read_text(encoding="utf-8")
    return [(text[: m.start(2)].count("\n"), m[2]) for m in _FENCE.finditer(text) if m[1] == language]


def ids(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if snippets(d, "python")], ids=ids)
def test_python_snippets_run_in_order(document: Path) -> None:
    names: dict[str, object] = {"__name__": "snippets"}
    for line, text in snippets(document, "python"):
        exec(compile("\n" * line + text, str(document), "exec"), names)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if snippets(d, "console")], ids=ids)
def test_commands_run(document: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    for _, text in snippets(document, "console"):
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "tilewright"
            assert main(arguments) == 0, capsys.readouterr().err


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if snippets(d, "tw")], ids=ids)
def test_texts_can_be_read(document: Path, tmp_path: Path) -> None:
    for _, text in snippets(document, "tw"):
        (tmp_path / "snippet.tw").write_text(text, encoding="utf-8")
        found = tw.read(tmp_path / "snippet.tw")
        if len(found.schedules) > 1:
            assert tw.frozen.check(tw.frozen.read_frozen(found.path)).ok, "one for each bucket"
        else:
            found.schedule()


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if snippets(d, "toml")], ids=ids)
def test_machine_files_can_be_read(document: Path) -> None:
    for _, text in snippets(document, "toml"):
        tw.machines.parse(text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_links_lead_somewhere_and_fences_have_a_language(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    shown = {"py"} if document.name == "halide.md" else set()  # Python that needs a package of the extra `bench`
    assert {m[1] for m in _FENCE.finditer(text)} <= _LANGUAGES | shown
    missing = [link for link in _LINK.findall(_FENCE.sub("", text)) if not (document.parent / link).exists()]
    assert not missing


def test_the_printed_nest_in_the_readme_is_what_is_printed() -> None:
    (_, kernel), (_, schedule), *_ = snippets(ROOT / "README.md", "python")
    names: dict[str, object] = {"__name__": "snippets"}
    exec(kernel.split("rng =")[0] + schedule.split("fast =")[0], names)
    shown = next(text for _, text in snippets(ROOT / "README.md", "text"))
    assert str(names["s"].loops()).startswith(shown.rstrip())  # type: ignore[attr-defined]


def test_generated_documents_are_up_to_date() -> None:
    stale = [path.name for path, text in generator().documents().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run `make docs`"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
