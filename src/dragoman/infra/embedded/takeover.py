"""Servers of an earlier release ran as `nobody`: their files go to the user that the servers have now."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import structlog

from dragoman.infra.embedded.account import Account, is_shared
from dragoman.infra.embedded.errors import EmbeddedError

log = structlog.get_logger(__name__)


def take_over(directory: Path, account: Account) -> None:
    """Give the files of `nobody` in this directory to the account; no server may run on it.

    The directory itself comes first: from then on `nobody` cannot enter it.

    Raises:
        EmbeddedError: a file has another name elsewhere, so that it may be more than what it seems.
        OSError: a file cannot be changed.
    """
    if not account.dropped or not is_shared(directory.stat().st_uid):
        return
    os.chown(directory, account.uid, account.gid)
    directory.chmod(0o700)
    for _, folders, files, place in os.fwalk(directory):
        for name in (*folders, *files):
            _give(name, place, account, directory)
    log.warning("files of nobody taken over", directory=str(directory), user=account.name)


def _give(name: str, place: int, account: Account, directory: Path) -> None:
    """Change the owner of one entry of an open directory; a link is changed itself, and never followed."""
    found = os.stat(name, dir_fd=place, follow_symlinks=False)
    if not is_shared(found.st_uid):
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        os.chown(name, account.uid, account.gid, dir_fd=place, follow_symlinks=False)
        return
    with _opened(name, place) as entry:
        found = os.fstat(entry)
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise EmbeddedError(
                f"{name} in {directory} has another name elsewhere, which PostgreSQL never makes; user nobody may have "
                "made it: move the directory away, or give it to a user of your own by hand"
            )
        os.fchown(entry, account.uid, account.gid)
        os.fchmod(entry, stat.S_IMODE(found.st_mode) & 0o700)


@contextmanager
def _opened(name: str, place: int) -> Generator[int]:
    entry = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    try:
        yield entry
    finally:
        os.close(entry)
