"""What this process writes is for its user alone, wherever its start came from."""

import os
import stat
from pathlib import Path

PRIVATE_UMASK = 0o077


def write_privately() -> None:
    """From now on nobody but our user can read what this process and its children make."""
    os.umask(PRIVATE_UMASK)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that is for our user alone from its first byte on; whole or not at all."""
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)


def make_private(directory: Path) -> None:
    """Take the rights of others from all our files below a directory; links, and what is not ours, stay as they are."""
    for place, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(place, name)
            try:
                found = path.lstat()
                if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & PRIVATE_UMASK:
                    path.chmod(stat.S_IMODE(found.st_mode) & ~PRIVATE_UMASK)
            except FileNotFoundError:
                continue
        folders[:] = [name for name in folders if Path(place, name).lstat().st_uid == os.geteuid()]
