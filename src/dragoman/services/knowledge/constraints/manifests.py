"""The dependencies that a project's manifests and lock files name, with the lines where they stand."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, cast

from packaging.requirements import InvalidRequirement, Requirement

from dragoman.services.knowledge.constraints.documents import Unreadable, documents_of
from dragoman.services.knowledge.constraints.models import Dependency, SourceFile
from dragoman.services.knowledge.constraints.versions import NPM, PYPI

_REQUIREMENTS = re.compile(r"^(.*[-_.])?requirements([-_.].*)?\.(txt|in|lock)$|^constraints.*\.txt$")
_NPM_GROUPS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


def is_manifest(path: str) -> bool:
    """Whether dependencies are read from such a file."""
    return _reader(path) is not None


def dependencies_of(file: SourceFile) -> list[Dependency]:
    """What the file names; nothing of one that cannot be read."""
    reader = _reader(file.path)
    if reader is None:
        return []
    try:
        return list(reader(file))
    except Unreadable:
        return []


def _reader(path: str) -> Callable[[SourceFile], Iterator[Dependency]] | None:
    name = PurePosixPath(path).name
    if name in _READERS:
        return _READERS[name]
    return _requirements if _REQUIREMENTS.match(name) else None


def _package_json(file: SourceFile) -> Iterator[Dependency]:
    document = _document(file)
    for group in _NPM_GROUPS:
        for name, version in _table(document.get(group)).items():
            yield _found(file, str(name), str(version), NPM)


def _package_lock(file: SourceFile) -> Iterator[Dependency]:
    document = _document(file)
    for path, entry in _table(document.get("packages")).items():
        name = str(path).rpartition("node_modules/")[2]
        if name:
            yield _found(file, name, _table(entry).get("version"), NPM)


def _pyproject(file: SourceFile) -> Iterator[Dependency]:
    document = _document(file)
    project = _table(document.get("project"))
    lines = [project.get("dependencies"), *_table(project.get("optional-dependencies")).values()]
    lines += _table(document.get("dependency-groups")).values()
    for line in lines:
        for text in cast("list[Any]", line) if isinstance(line, list) else []:
            yield from _requirement(file, text)
    poetry = _table(_table(document.get("tool")).get("poetry"))
    groups = [poetry, *_table(poetry.get("group")).values()]
    for group in groups:
        for name, wanted in _table(_table(group).get("dependencies")).items():
            version = wanted if isinstance(wanted, str) else _table(wanted).get("version")
            if name != "python":
                yield _found(file, str(name), version, PYPI)


def _locked_packages(file: SourceFile) -> Iterator[Dependency]:
    packages = _document(file).get("package")
    for package in cast("list[Any]", packages) if isinstance(packages, list) else []:
        entry = _table(package)
        if "name" in entry:
            yield _found(file, str(entry["name"]), entry.get("version"), PYPI)


def _requirements(file: SourceFile) -> Iterator[Dependency]:
    for number, line in enumerate(file.content.splitlines(), start=1):
        text = line.partition(" #")[0].partition(" --")[0].strip().rstrip("\\").strip()
        if text and not text.startswith(("#", "-")):
            for found in _requirement(file, text):
                yield Dependency(found.name, found.version, PYPI, file.path, number)


def _requirement(file: SourceFile, text: Any) -> Iterator[Dependency]:
    try:
        parsed = Requirement(str(text)[:1_000])
    except InvalidRequirement:
        return
    yield _found(file, parsed.name, str(parsed.specifier) or None, PYPI)


def _found(file: SourceFile, name: str, version: Any, ecosystem: str) -> Dependency:
    return Dependency(name, str(version) if version is not None else None, ecosystem, file.path)


def locate(dependency: Dependency, content: str) -> int:
    """The line of the manifest that names it: looked for only when it has to be told."""
    name = re.compile(rf"(?:^|[\s\"'/=]){re.escape(dependency.name)}(?![\w.-])", re.IGNORECASE)
    for number, line in enumerate(content.splitlines(), start=1):
        if name.search(line[:1_000]):
            return number
    return 1


def _document(file: SourceFile) -> dict[str, Any]:
    # A lock file of Poetry or uv has TOML in it, whatever its name ends in.
    known = SourceFile(f"{file.path}.toml", file.content) if file.path.endswith(".lock") else file
    return _table(documents_of(known)[0])


def _table(value: Any) -> dict[Any, Any]:
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else {}


_READERS: dict[str, Callable[[SourceFile], Iterator[Dependency]]] = {
    "package.json": _package_json,
    "package-lock.json": _package_lock,
    "pyproject.toml": _pyproject,
    "uv.lock": _locked_packages,
    "poetry.lock": _locked_packages,
}
