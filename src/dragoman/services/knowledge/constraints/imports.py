"""Which modules a file imports, found by parsing it."""

import ast
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from threading import Lock

from dragoman.services.knowledge.constraints.models import SourceFile

PYTHON = frozenset({".py", ".pyi"})
JAVASCRIPT = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx"})
# Past this a file is generated, and parsing it would cost more than it tells.
_MOST_PARSED = 1 << 20
_IMPORT_LINE = re.compile(
    r"^\s*(?:import\s+([\w.]+(?:\s+as\s+\w+)?(?:\s*,\s*[\w.]+(?:\s+as\s+\w+)?)*)|from\s+(\.*[\w.]*)\s+import\b)"
)
_RELATIVE = re.compile(r"^[ \t]*from[ \t]+\.", re.MULTILINE)
_ROOTS = ("src/", "lib/")
# CPython 3.11 loses count of its recursion when two threads parse source at once.
_PARSER = Lock()


@dataclass(frozen=True, slots=True)
class Import:
    """One import: every name that it can be known by, the one that was written first, and its line."""

    names: tuple[str, ...]
    line: int


def is_parsed(path: str) -> bool:
    """Whether imports of such a file are understood."""
    return PurePosixPath(path).suffix in PYTHON | JAVASCRIPT


def is_relative(file: SourceFile) -> bool:
    """Whether the file may import relatively: such an import does not spell the packages it goes through."""
    if PurePosixPath(file.path).suffix in PYTHON:
        return _RELATIVE.search(file.content) is not None
    return '"./' in file.content or "'./" in file.content or '"../' in file.content or "'../" in file.content


def imports_of(file: SourceFile) -> list[Import]:
    """All imports of a file, in order; none of a file in a language that is not understood."""
    suffix = PurePosixPath(file.path).suffix
    if len(file.content) > _MOST_PARSED:
        return []
    if suffix in PYTHON:
        return list(_python(file))
    if suffix in JAVASCRIPT:
        # Its grammars are loaded with the first such file.
        from dragoman.services.knowledge.constraints.javascript import modules_of  # noqa: PLC0415

        return [Import(_javascript_names(file.path, module), line) for module, line in modules_of(file.content, suffix)]
    return []


def _python(file: SourceFile) -> Iterator[Import]:
    try:
        with _PARSER:
            tree = ast.parse(file.content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A file in the middle of being written still says what it imports.
        yield from _python_lines(file)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import((alias.name,), node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(file.path, "." * node.level + (node.module or ""))
            names = [f"{module}.{alias.name}" for alias in node.names if alias.name != "*" and module]
            yield Import((module, *names), node.lineno)


def _python_lines(file: SourceFile) -> Iterator[Import]:
    for number, line in enumerate(file.content.splitlines(), start=1):
        if (found := _IMPORT_LINE.match(line[:1_000])) is None:
            continue
        if found[2] is not None:
            yield Import((_absolute(file.path, found[2]),), number)
        else:
            for part in found[1].split(","):
                yield Import((part.split()[0],), number)


def _absolute(path: str, module: str) -> str:
    """A relative module by the name that it has from the root of the sources."""
    level = len(module) - len(module.lstrip("."))
    if level == 0:
        return module
    for root in _ROOTS:
        path = path.removeprefix(root)
    package = PurePosixPath(path).parts[:-1]
    kept = package[: max(0, len(package) - level + 1)]
    return ".".join((*kept, *filter(None, [module.lstrip(".")])))


def _javascript_names(path: str, module: str) -> tuple[str, ...]:
    if not module.startswith("."):
        return (module,)
    return module, posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
