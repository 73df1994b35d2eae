"""Where the embedded servers keep their files.

<data_dir>/            0700; 0710 as root, whose group is that of the servers' user, who must pass through
├── lock               held while a server runs
├── logs/
├── postgres/          0700, or a link to /var/lib/dragoman/relocated/<id>/postgres
├── valkey/            0700, likewise
└── bin-<versions>/    a copy of the programs, only when their own place is closed to the servers' user

Everything below is private: files 0600, directories 0700, of ours or of the servers' user.
"""

import hashlib
import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from dragoman.infra.embedded.account import Account, is_shared
from dragoman.infra.embedded.errors import EmbeddedError

RELOCATED = Path("/var/lib/dragoman/relocated")
SERVICES = ("postgres", "valkey")

# sun_path holds 107 bytes; some room is left for the names that servers derive from it.
SOCKET_PATH_BYTES = 100

# PostgreSQL and its clients split a socket directory at commas, and URLs need escapes; such paths get a short one.
PLAIN_PATH = re.compile(r"[\w./+@-]+", re.ASCII)

log = structlog.get_logger(__name__)


def make_data_dir(data_dir: Path) -> Path:
    """Make the data directory if it is not there and return its real path; directories above keep their modes.

    Other users cannot enter it, unless it has their files in it: that one is left as it is.

    Raises:
        OSError: it cannot be made.
        EmbeddedError: the path is something other than a directory.
    """
    path = data_dir.expanduser().resolve()
    for step in (*(parent for parent in reversed(path.parents) if not parent.exists()), path):
        if not step.exists():
            # As root, the servers' user must pass through those above.
            step.mkdir()
            step.chmod(0o711 if os.geteuid() == 0 and step != path else 0o700)
    if not path.is_dir():
        raise EmbeddedError(f"{path} is not a directory; choose another data directory")
    found = path.stat()
    if is_ours(path) and os.geteuid() in {0, found.st_uid} and stat.S_IMODE(found.st_mode) & ~0o710:
        path.chmod(0o700)
    return path


def is_ours(path: Path) -> bool:
    """Check whether a data directory is a server's alone; one with other people's files is not ours to change."""
    return (path / "lock").exists() or not any(path.iterdir())


def let_pass(data_dir: Path, account: Account) -> None:
    """As root, let the servers' user pass through the data directory to what is theirs, and no other user."""
    if account.dropped:
        os.chown(data_dir, -1, account.gid)
        data_dir.chmod(0o710)


@dataclass(frozen=True)
class Layout:
    """The places of one data directory, for the user that its servers run as."""

    data_dir: Path
    root: Path
    account: Account

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Decide where the services live: in the data directory, or elsewhere if their user cannot get there."""
        account = Account.for_services(data_dir / "postgres")
        if not account.dropped or account.can_enter(data_dir):
            return cls(data_dir=data_dir, root=data_dir, account=account)
        return cls(data_dir=data_dir, root=_relocated_root(data_dir), account=account)

    def log_file(self, service: str) -> Path:
        """The path of the log of a service; its directory exists."""
        logs = self.data_dir / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        return logs / f"{service}.log"

    def directory(self, service: str) -> Path:
        """Return the real directory of a service, private to the servers' user; make it if it is not there.

        Raises:
            EmbeddedError: it is there, and is lost, closed to that user, or another's.
        """
        link = self.data_dir / service
        if link.is_symlink() and not link.exists():
            raise EmbeddedError(
                f"{link} points to {link.readlink()}, which is gone; restore it, or remove the link to start empty"
            )
        if not link.exists():
            self._make(link, self.root / service)
        return self._checked(link.resolve())

    def socket_dir(self, directory: Path, socket_name: str) -> Path:
        """Return `directory`, or a private short one if a socket there would have too long or too odd a path.

        Raises:
            EmbeddedError: no short directory can be had, or someone else has taken its name.
        """
        if _fits(directory / socket_name):
            return directory
        digest = hashlib.sha256(f"{self.data_dir}:{self.account.uid}".encode()).hexdigest()[:12]
        for temp in (Path(tempfile.gettempdir()).resolve(), Path("/tmp").resolve()):  # noqa: S108  # checked below
            short = temp / f"dragoman-{digest}"
            if _fits(short / socket_name) and self.account.can_enter(temp):
                return _private_dir(short, self.account)
        raise EmbeddedError(f"the path {directory} is too long for a socket, and so is the temporary directory's")

    def _make(self, link: Path, target: Path) -> None:
        target.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        _private_dir(target, self.account)
        if target != link:
            link.symlink_to(target)
            log.warning("embedded service relocated", service=link.name, to=str(target), user=self.account.name)

    def _checked(self, directory: Path) -> Path:
        if not directory.is_dir():
            raise EmbeddedError(f"{directory} is not a directory; move it away")
        if self.account.dropped and not self.account.can_enter(directory.parent):
            raise EmbeddedError(
                f"{directory} holds data, but user {self.account.name} cannot reach it; "
                "let others pass through the directories above it (chmod o+x), or choose another data directory"
            )
        return _private_dir(directory, self.account)


def _relocated_root(data_dir: Path) -> Path:
    for service in SERVICES:
        link = data_dir / service
        if link.is_symlink() and link.readlink().is_relative_to(RELOCATED):
            return link.readlink().parent
    # Random, so that a data directory made anew at the same path never finds the data of the one before.
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]
    root = RELOCATED / f"{digest}-{secrets.token_hex(3)}"
    for directory in (RELOCATED.parent, RELOCATED, root):
        if not directory.exists():
            directory.mkdir(parents=True)
            directory.chmod(0o711)
    return root


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES and PLAIN_PATH.fullmatch(str(path)) is not None


def _private_dir(path: Path, account: Account) -> Path:
    """Make or take over a directory that the account alone may enter; refuse another's and links."""
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedError(f"{path} is a link or a file where a private directory is needed; remove it")
    if found.st_uid == 0 and account.dropped and not any(path.iterdir()):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    elif found.st_uid != account.uid and not (account.dropped and is_shared(found.st_uid)):  # taken over at the start
        raise EmbeddedError(
            f"{path} belongs to uid {found.st_uid}, and the servers would run as uid {account.uid} ({account.name}); "
            "run as its owner, or choose another data directory"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)
    return path
