"""What this process writes is for its user alone, wherever its start came from."""

import os
import stat
from pathlib import Path

PRIVATE_UMASK = 0o077


def write_privately() -> None:
    """From now on nobody but our user can read what this process and its children make."""
    os.umask(PRIVATE_UMASK)


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
