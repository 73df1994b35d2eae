"""The files of a project as a check wants them: what git would keep, without what is binary or generated."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.doors.cli.endings import WrongUsage

_MOST_BYTES = 1 << 20
_CHUNK_BYTES, _CHUNK_FILES = 3 << 20, 500
_SNIFFED = 8_192
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that can be checked; the path is relative to the project, with forward slashes."""

    path: str
    content: str


def read_tree(root: Path, *, since: str | None = None) -> Iterator[TextFile]:
    """The text files of a directory, or of one file; with `since`, those that differ from that revision.

    Raises:
        WrongUsage: there is no such path, or no such revision.
    """
    if not root.exists():
        raise WrongUsage(f"there is no {root}")
    top = root if root.is_dir() else root.parent
    names = [root.name] if root.is_file() else _names(root, since)
    for name in sorted(set(names)):
        if (content := _text(top / name)) is not None:
            yield TextFile(name.replace(os.sep, "/"), content)


def chunks(files: Iterable[TextFile]) -> Iterator[list[TextFile]]:
    """As many files at a time as one request takes; at least one chunk, which may be empty."""
    chunk: list[TextFile] = []
    size = 0
    yielded = False
    for file in files:
        length = len(file.content.encode())
        if chunk and (size + length > _CHUNK_BYTES or len(chunk) == _CHUNK_FILES):
            yield chunk
            chunk, size, yielded = [], 0, True
        chunk.append(file)
        size += length
    if chunk or not yielded:
        yield chunk


def _names(root: Path, since: str | None) -> list[str]:
    if since is not None:
        if since.startswith("-"):
            raise WrongUsage(f"{since!r} is no revision")
        listed = _git(root, "diff", "--name-only", "--relative", "--diff-filter=d", "-z", since, "--")
        if listed is None:
            raise WrongUsage(f"{root} is no git repository, or {since!r} is no revision of it")
        return listed
    listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    return listed if listed is not None else list(_walk(root))


def _git(root: Path, *words: str) -> list[str] | None:
    """What git lists, or None when there is no git or no repository."""
    try:
        listed = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=True, timeout=60)  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError):
        return None
    return [name for name in listed.stdout.decode(errors="surrogateescape").split("\0") if name]


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _PASSED_OVER]
        for name in names:
            yield str((Path(folder) / name).relative_to(root))


def _text(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        data = path.read_bytes()
        return None if b"\0" in data[:_SNIFFED] else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
