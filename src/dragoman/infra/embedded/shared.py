"""PostgreSQL and Valkey that the processes of one test run share.

user ──lock──> directory/users      every user holds it, shared, for as long as it lives
user ──────> `python -m dragoman.infra.embedded.shared directory`, by the first of them
starts both, migrates the template, writes directory/addresses.json,
and ends when it gets the lock alone: the kernel drops a lock however its holder ends
"""

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

from dragoman.infra.db import make_login, migrate
from dragoman.infra.embedded.errors import EmbeddedError
from dragoman.infra.embedded.services import EmbeddedServices
from dragoman.infra.telemetry import configure_logs


@dataclass(frozen=True, slots=True)
class SharedServices:
    """Where they are; `database_url` is a migrated database that nobody uses, a template for others."""

    database_url: str
    redis_url: str

    @classmethod
    def join(cls, directory: Path) -> "Membership":
        """Use the services of this directory, starting them if nobody has; they end with their last user.

        Raises:
            EmbeddedError: they cannot run here.
        """
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        users = _locked(directory / "users", fcntl.LOCK_SH)
        with _locked(directory / "starting", fcntl.LOCK_EX):
            note = directory / "addresses.json"
            if not note.exists():
                _start(directory)
            if not note.exists():
                said = (directory / "log").read_text()[-2000:]
                raise EmbeddedError(f"the shared PostgreSQL and Valkey do not start:\n{said}")
            return Membership(cls(**json.loads(note.read_text())), users)


@dataclass(frozen=True, slots=True)
class Membership:
    """A use of shared services; it lasts until it is left, or the process ends."""

    services: SharedServices
    lock: IO[bytes]

    def leave(self) -> None:
        """Stop using them."""
        self.lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def _locked(path: Path, kind: int) -> IO[bytes]:
    file = path.open("ab")
    fcntl.flock(file, kind)
    return file


def _start(directory: Path) -> None:
    with (directory / "log").open("ab") as log:
        # It closes its output when it is ready, or by ending.
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", __name__, str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
        )


async def _hold(directory: Path) -> None:
    configure_logs(format="json", level="info", security_log=None)
    services = EmbeddedServices(directory / "d", disposable=True)
    await services.start()
    try:
        await migrate(services.database_url)
        await make_login(services.database_url)
        found = SharedServices(services.database_url, services.redis_url)
        (directory / "addresses.json").write_text(json.dumps(asdict(found)))
        os.close(sys.stdout.fileno())
        (await asyncio.to_thread(_locked, directory / "users", fcntl.LOCK_EX)).close()
    finally:
        await services.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    # It belongs to all users and not to the one who started it, nor to the terminal of that one.
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    asyncio.run(_hold(Path(sys.argv[1])))
