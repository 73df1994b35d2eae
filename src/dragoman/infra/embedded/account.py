import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dragoman.infra.embedded.errors import EmbeddedError

PREFERRED = ("dragoman", "nobody")


@dataclass(frozen=True)
class Account:
    """The user that the embedded servers run as: ourselves, or a lesser one when we are root."""

    uid: int
    gid: int
    name: str

    @classmethod
    def for_services(cls, postgres_dir: Path) -> Self:
        """Choose the user; as root, data that exist keep their owner, for PostgreSQL runs as no one else.

        Raises:
            EmbeddedError: we are root and there is no lesser user to become.
        """
        if os.geteuid() != 0:
            return cls._of(os.geteuid(), os.getegid())
        if postgres_dir.exists() and (owner := postgres_dir.stat()).st_uid != 0:
            return cls._of(owner.st_uid, owner.st_gid)
        for name in PREFERRED:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(uid=entry.pw_uid, gid=entry.pw_gid, name=name)
        raise EmbeddedError(
            "PostgreSQL refuses to run as root, and there is no user `dragoman` or `nobody`; create one"
        )

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
