import re

import pytest

from tests.rules.tree import ROOT, files, ours, text

INSTALL_ROOTS = {"opt", "srv", "usr", "var"}
LATER = re.compile(r"\b(TODO|FIXME|XXX)\b")
UNWRITTEN = re.compile(r"\braise NotImplementedError\b")
REGISTRIES = re.compile(r"pypi\.org|pythonhosted|registry\.npmjs")
TOLD_TO_PEOPLE = (
    "docs/",
    "README",
    "CHANGELOG",
    "CONTRIBUTING",
    "NOTICE",
    "Makefile",
    "pyproject.toml",
    "requirements",
)


def found(pattern: re.Pattern[str], names: list[str]) -> list[str]:
    """Where a pattern occurs, as an editor can open it."""
    return [
        f"{name}:{number}"
        for name in names
        if pattern.search(text(name))
        for number, line in enumerate(text(name).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_knows_where_it_was_checked_out() -> None:
    if len(ROOT.parts) < 3 or ROOT.parts[1] in INSTALL_ROOTS:
        pytest.skip("a checkout here may share its path with an installation that the documents describe")

    assert found(re.compile(rf"{re.escape(str(ROOT))}(?![\w-])"), list(files())) == []


def test_nothing_is_left_for_later_in_the_source() -> None:
    assert found(LATER, ours("src/")) == []


def test_nothing_is_unwritten_in_the_source() -> None:
    assert found(UNWRITTEN, ours("src/", ".py")) == []


def test_no_document_and_no_lock_names_a_registry() -> None:
    told = [name for name in files() if name.startswith(TOLD_TO_PEOPLE) or name.endswith("package-lock.json")]

    assert found(REGISTRIES, told) == []


def test_every_text_ends_with_one_line_break() -> None:
    names = [name for name in ours("") if name.endswith((".py", ".md", ".sql", ".toml", ".tsv", ".cedar"))]

    assert [name for name in names if text(name) and not re.search(r"[^\n]\n\Z", text(name))] == []
