"""The files of the project, as git knows them: tracked ones, and new ones that are not ignored."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENDORED = "src/dragoman/doors/rest/assets/"


@cache
def files() -> tuple[str, ...]:
    """Every file by its path from the root; ours and the vendored ones."""
    # A checkout that belongs to another user (a mounted volume) is read all the same.
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(sorted(name for name in set(listed.split("\0")) if name and (ROOT / name).is_file()))


def ours(prefix: str, *endings: str) -> list[str]:
    """The files below a prefix that were written here, by the end of their names."""
    chosen = (name for name in files() if name.startswith(prefix) and not name.startswith(VENDORED))
    return [name for name in chosen if not endings or name.endswith(endings)]


@cache
def text(name: str) -> str:
    """What a file says; bytes that are no text become replacement characters."""
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


@cache
def parsed(name: str) -> ast.Module:
    """A Python file as a tree."""
    return ast.parse(text(name), filename=name)
