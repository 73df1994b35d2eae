"""A process that performs delegated tasks beside a server of a test, on the server's own PostgreSQL and Valkey."""

import subprocess
from itertools import count
from typing import Self

from tests.backstage import database_url
from tests.harness import DRAGOMAN, Server
from tests.patience import PATIENCE_S

_OUTPOSTS = count(1)


class Outpost:
    """`dragoman worker` beside a server, on the server's own PostgreSQL and Valkey."""

    def __init__(self, server: Server) -> None:
        self._environment = server.environment | {
            "DRAGOMAN_DATABASE_URL": database_url(server),
            "DRAGOMAN_REDIS_URL": f"unix://{server.data_dir / 'valkey' / 'valkey.sock'}",
        }
        self._log = server.log.with_name(f"worker-{next(_OUTPOSTS)}.log")
        self._process: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """Start it, unless it runs: one that finds no database ends, and is started again."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [str(DRAGOMAN), "worker"], env=self._environment, stdout=log, stderr=log
                )

    def works(self) -> bool:
        """Whether it has said, ever since it was made, that it runs."""
        return "worker is running" in self._log.read_text()

    def kill(self) -> None:
        """With no time to say anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        self.keep()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
