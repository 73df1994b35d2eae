import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import dragoman
import dragoman_costs
from dragoman.errors import DragomanError, Kind
from tests.rules.tree import text

CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
ROW = re.compile(r"^\| `(?P<code>[^`]+)` \| (?P<kind>[a-z_]+) \| (?P<status>\d{3}) \| \S.* \| \S.* \|$", re.MULTILINE)


def descendants(error: type[DragomanError]) -> Iterator[type[DragomanError]]:
    for child in error.__subclasses__():
        yield child
        yield from descendants(child)


@pytest.fixture(scope="module")
def errors() -> list[type[DragomanError]]:
    """Every error of our packages; those that tests define are none of them."""
    for package in (dragoman, dragoman_costs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    ours = {"dragoman", "dragoman_costs"}
    found = {error for error in descendants(DragomanError) if error.__module__.partition(".")[0] in ours}
    return sorted(found | {DragomanError}, key=lambda error: (error.__module__, error.__qualname__))


@pytest.fixture(scope="module")
def listed() -> dict[str, str]:
    """Code to kind, as the page for callers has it."""
    return {row["code"]: row["kind"] for row in ROW.finditer(text("docs/errors.md"))}


def test_every_error_has_a_kind_and_an_upper_snake_code(errors: list[type[DragomanError]]) -> None:
    def well_formed(kind: object, code: object) -> bool:
        return isinstance(kind, Kind) and isinstance(code, str) and CODE.fullmatch(code) is not None

    assert [error for error in errors if not well_formed(error.kind, error.code)] == []


def test_the_page_lists_every_code_with_its_kind_and_no_other(
    errors: list[type[DragomanError]], listed: dict[str, str]
) -> None:
    assert listed == {error.code: error.kind.value for error in errors}


def test_one_code_is_of_one_kind(errors: list[type[DragomanError]]) -> None:
    kinds: dict[str, set[Kind]] = {}
    for error in errors:
        kinds.setdefault(error.code, set()).add(error.kind)

    assert {code: found for code, found in kinds.items() if len(found) > 1} == {}


def test_the_page_lists_no_code_twice_and_no_row_in_another_shape() -> None:
    rows = [line for line in text("docs/errors.md").splitlines() if line.startswith("| `")]

    codes = [match["code"] for row in rows if (match := ROW.match(row))]

    assert len(codes) == len(rows)
    assert sorted(set(codes)) == sorted(codes)


def test_every_error_says_when_it_is_raised(errors: list[type[DragomanError]]) -> None:
    assert [error for error in errors if not (error.__doc__ or "").strip()] == []
