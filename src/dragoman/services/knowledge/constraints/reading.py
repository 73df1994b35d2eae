"""A subject as rules look at it: each file is encoded, parsed and chosen once, however many rules ask."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dragoman.services.knowledge.constraints.documents import Unreadable, documents_of, is_document
from dragoman.services.knowledge.constraints.effort import Effort
from dragoman.services.knowledge.constraints.imports import Import, imports_of, is_parsed, is_relative
from dragoman.services.knowledge.constraints.manifests import dependencies_of, is_manifest, locate
from dragoman.services.knowledge.constraints.models import Dependency, Place, SourceFile, Subject
from dragoman.services.knowledge.constraints.patterns import path_glob

K = TypeVar("K")
V = TypeVar("V")


class Reading:
    """What is in a subject, read as far as it is asked for."""

    def __init__(self, subject: Subject, effort: Effort) -> None:
        self.subject = subject
        self._effort = effort
        self._chosen: dict[tuple[str, ...], list[SourceFile]] = {}
        self._parsed: dict[tuple[str, ...], list[SourceFile]] = {}
        self._settings: dict[tuple[str, ...], list[SourceFile]] = {}
        self._relative: dict[str, bool] = {}
        self._bytes: dict[str, bytes] = {}
        self._imports: dict[str, list[Import]] = {}
        self._documents: dict[str, list[Any]] = {}
        self._dependencies: list[Dependency] | None = None

    def files(self, applies_to: tuple[str, ...]) -> list[SourceFile]:
        """The files that the globs choose; all of them without globs."""
        return _kept(self._chosen, applies_to, lambda: _choose(self.subject.files, applies_to))

    def parsed(self, applies_to: tuple[str, ...]) -> list[SourceFile]:
        """Those of them whose imports are understood."""
        files = self.files(applies_to)
        return _kept(self._parsed, applies_to, lambda: [file for file in files if is_parsed(file.path)])

    def settings(self, applies_to: tuple[str, ...]) -> list[SourceFile]:
        """Those of them that hold settings."""
        files = self.files(applies_to)
        return _kept(self._settings, applies_to, lambda: [file for file in files if is_document(file.path)])

    def bytes(self, file: SourceFile) -> bytes:
        """The content as patterns take it.

        Raises:
            TooMuchToCheck: the check has taken too long.
        """
        self._effort.spend()
        return _kept(self._bytes, file.path, lambda: file.content.encode(errors="replace"))

    def imports(self, file: SourceFile) -> list[Import]:
        """What the file imports."""
        return _kept(self._imports, file.path, lambda: imports_of(file))

    def may_import(self, file: SourceFile, literal: str) -> bool:
        """Whether an import of a name with this literal can be in the file at all; cheaper than parsing it."""
        return literal in file.content or _kept(self._relative, file.path, lambda: is_relative(file))

    def documents(self, file: SourceFile) -> list[Any]:
        """The settings in the file; none of one that cannot be read."""

        def read() -> list[Any]:
            try:
                return documents_of(file)
            except Unreadable:
                return []

        return _kept(self._documents, file.path, read)

    def dependencies(self, applies_to: tuple[str, ...]) -> list[Dependency]:
        """Those that were given and those of the manifests; globs choose among manifests."""
        if self._dependencies is None:
            manifests = [file for file in self.subject.files if is_manifest(file.path)]
            read = [dependency for file in manifests for dependency in dependencies_of(file)]
            self._dependencies = [*self.subject.dependencies, *read]
        if not applies_to:
            return self._dependencies
        chosen = {file.path for file in self.files(applies_to)}
        return [one for one in self._dependencies if one.file is None or one.file in chosen]

    def place(self, dependency: Dependency) -> Place:
        """Where a dependency stands."""
        if dependency.line is not None or dependency.file is None:
            return Place(dependency.file, dependency.line)
        content = next((file.content for file in self.subject.files if file.path == dependency.file), "")
        return Place(dependency.file, locate(dependency, content))


def _kept(store: dict[K, V], key: K, make: Callable[[], V]) -> V:
    if key not in store:
        store[key] = make()
    return store[key]


def _choose(files: Sequence[SourceFile], globs: tuple[str, ...]) -> list[SourceFile]:
    wanted = [path_glob(glob) for glob in globs if not glob.startswith("!")]
    unwanted = [path_glob(glob[1:]) for glob in globs if glob.startswith("!")]

    def chosen(path: bytes) -> bool:
        return (not wanted or any(glob.search(path) for glob in wanted)) and not any(
            glob.search(path) for glob in unwanted
        )

    return list(files) if not globs else [file for file in files if chosen(file.path.encode())]
