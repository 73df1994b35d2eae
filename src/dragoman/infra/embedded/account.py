import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from dragoman.infra.embedded.errors import EmbeddedError

# The user that the servers get when we are root.
NAME = "dragoman"
# Whose processes belong to everybody: what `nobody` may read, every other program that gave its rights up may read.
SHARED_NAME, SHARED_UID = "nobody", 65534
SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
CREATE_S = 30

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Account:
    """The user that the embedded servers run as: ourselves, or a user of their own when we are root."""

    uid: int
    gid: int
    name: str

    @classmethod
    def for_services(cls, postgres_dir: Path) -> Self:
        """Choose the user; as root, data that exist keep their owner, unless that is `nobody`.

        The user `dragoman` is made with the tools of the system if there is none.

        Raises:
            EmbeddedError: we are `nobody`, or are root and the user cannot be made.
        """
        if os.geteuid() != 0:
            if is_shared(os.geteuid()):
                raise EmbeddedError(
                    f"the embedded servers do not run as user {SHARED_NAME}, which other programs share: they could "
                    "read everything; start as a user of its own, or set DRAGOMAN_DATABASE_URL and DRAGOMAN_REDIS_URL"
                )
            return cls._of(os.geteuid(), os.getegid())
        if postgres_dir.exists():
            owner = postgres_dir.stat()
            if owner.st_uid != 0 and not is_shared(owner.st_uid):
                return cls._of(owner.st_uid, owner.st_gid)
        entry = _find(NAME) or _create(NAME)
        return cls(uid=entry.pw_uid, gid=entry.pw_gid, name=entry.pw_name)

    @classmethod
    def _of(cls, uid: int, gid: int) -> Self:
        try:
            return cls(uid=uid, gid=gid, name=pwd.getpwuid(uid).pw_name)
        except KeyError:
            return cls(uid=uid, gid=gid, name=f"uid {uid}")

    @property
    def dropped(self) -> bool:
        """Whether this is someone other than ourselves."""
        return self.uid != os.geteuid()

    def can_enter(self, directory: Path) -> bool:
        """Whether the user may pass through every directory from the root down to this one."""
        return all(self._may(step, 0o1) for step in (directory, *directory.parents))

    def can_run(self, program: Path) -> bool:
        """Whether the user may read and execute this file, by its path and by what its links lead to."""
        paths = {program, program.resolve()}
        return all(self.can_enter(path.parent) and self._may(path, 0o5) for path in paths)

    def _may(self, path: Path, wanted: int) -> bool:
        found = path.stat()
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid == self.gid else 0
        return (found.st_mode >> shift) & wanted == wanted


def is_shared(uid: int) -> bool:
    """Check whether this is `nobody`, by its number or by its name."""
    entry = _find(SHARED_NAME)
    return uid == SHARED_UID or (entry is not None and uid == entry.pw_uid)


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _create(name: str) -> pwd.struct_passwd:
    """Make a user of the system without a home or a shell; another start may have made it at the same moment."""
    program = shutil.which("useradd", path=SYSTEM_PATH)
    said = "there is no useradd"
    if program is not None:
        options = [
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir=/nonexistent",
            "--shell=/usr/sbin/nologin",
        ]
        try:
            made = subprocess.run(  # noqa: S603  # the system's own program, no shell
                [program, *options, name],
                env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=CREATE_S,
                check=False,
            )
            said = made.stderr.strip() or f"useradd ended with {made.returncode}"
        except (OSError, subprocess.SubprocessError) as error:
            said = str(error)
    if (entry := _find(name)) is None:
        raise EmbeddedError(
            f"PostgreSQL refuses to run as root, and the user {name} for it cannot be made ({said}). Make it "
            f"(useradd --system {name}), start as an ordinary user, or set DRAGOMAN_DATABASE_URL and DRAGOMAN_REDIS_URL"
        )
    log.info("user made for the embedded servers", user=name, uid=entry.pw_uid)
    return entry
