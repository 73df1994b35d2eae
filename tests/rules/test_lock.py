import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.rules.tree import files, text

PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^\]]+\])?==(?P<version>[^\s;*]+)(\s*;.*)?")
ADDRESS = re.compile(r"://|^\s*(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b|\s@\s", re.MULTILINE)


def declared() -> Iterator[str]:
    """Every requirement that pyproject.toml names: to build, to run, of the extras, to develop."""
    project = tomllib.loads(text("pyproject.toml"))
    yield from project["project"]["dependencies"]
    for extra in project["project"]["optional-dependencies"].values():
        yield from extra
    for group in project["dependency-groups"].values():
        yield from (entry for entry in group if isinstance(entry, str))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def locked() -> dict[str, set[str]]:
    """Name to versions (a marker may choose among several)."""
    versions: dict[str, set[str]] = {}
    for line in text("requirements.lock").splitlines():
        if match := PIN.match(line):
            versions.setdefault(canonical(match["name"]), set()).add(match["version"])
    return versions


def test_every_requirement_is_pinned_exactly() -> None:
    built = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]

    assert [requirement for requirement in (*built, *declared()) if not PIN.fullmatch(requirement)] == []


def test_the_lock_has_every_pin_at_its_version(locked: dict[str, set[str]]) -> None:
    pins = {canonical(match["name"]): match["version"] for entry in declared() if (match := PIN.fullmatch(entry))}

    assert {name: version for name, version in pins.items() if version not in locked.get(name, set())} == {}


# What is installed with its dependencies, and the weights, which are installed without them.
LOCKS = ("requirements.lock", "models.lock")


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_has_a_hash_for_everything(lock: str) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", text(lock), flags=re.MULTILINE)

    assert [entry for entry in entries if entry.strip() and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_address(lock: str) -> None:
    assert ADDRESS.findall(text(lock)) == []


def test_no_other_lock_is_kept_beside_it() -> None:
    # uv.lock records the address of the index beside every file.
    assert [name for name in files() if name.rpartition("/")[2] in {"uv.lock", "poetry.lock", "Pipfile.lock"}] == []
