"""PostgreSQL and Valkey that a test starts, kills and pauses by itself; the programs are those of the embedded ones."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.binaries import Binaries, find_binaries, readable_binaries
from tests.chaos.machine import free_port, spawn
from tests.clusters import lay_cluster
from tests.harness import wait_for
from tests.patience import PATIENCE_S

DATABASE = "dragoman"
# Durability is what is tested: fsync and full pages stay on. The rest keeps a cluster small.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "96MB",
    "min_wal_size": "32MB",
    "log_min_messages": "warning",
    "restart_after_crash": "on",
}


_TRUSTING = "local all all trust\nhost all all 127.0.0.1/32 trust\n"
# Nothing of our own environment: PGPORT or PGDATA would mislead.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


class Backend:
    """A server program that belongs to the test."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self.account = Account.for_services(place)
        self.binaries: Binaries = readable_binaries(find_binaries(), self.account, place.parent)
        self.port = free_port()

    @property
    def pid(self) -> int:
        """Of the main process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Check that the main process is alive."""
        return self._process is not None and self._process.poll() is None

    def spawn(self, argv: list[str], log: Path) -> None:
        """Start the program as the user of embedded servers; it dies with the test."""
        with log.open("ab") as output:
            self._process = spawn(argv, _ENVIRONMENT, output, account=self.account)

    def start(self) -> None:
        """Start it and wait until it answers."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it without any notice."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGCONT)
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def pause(self) -> None:
        """Stop the main process and every process below it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)
            for child in _children(self.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue what was paused."""
        with suppress(ProcessLookupError):
            for child in _children(self.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGCONT)
            os.kill(self.pid, signal.SIGCONT)


class Postgres(Backend):
    """An external PostgreSQL on a TCP port, with an empty database."""

    def __init__(self, place: Path, *, data: Path | None = None) -> None:
        super().__init__(place)
        self.data = data or place / "postgres"
        self._log = place / "postgres.log"
        if data is None:
            lay_cluster(place)
        else:
            template = place / "template"
            lay_cluster(template)
            # The mounted directory itself stays: only what is in it is laid there.
            subprocess.run(["cp", "-a", f"{template / 'postgres'}/.", str(data)], check=True)
            shutil.rmtree(template)
            os.chown(data, self.account.uid, self.account.gid)
            data.chmod(0o700)
        # The embedded one knows only users of this machine, by its socket.
        (self.data / "pg_hba.conf").write_text(_TRUSTING)

    @property
    def url(self) -> str:
        """The database as its superuser, past every proxy."""
        return f"postgresql://postgres@/{DATABASE}?host={self.data}&port={self.port}"

    def start(self) -> None:
        """Start it and wait until it takes sessions, after a crash too."""
        chosen = _SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.data)}
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]

        def up() -> bool:
            if not self.running:
                # A cluster that was killed a moment ago refuses the first start while its last process ends.
                self.spawn([str(self.binaries.postgres), "-D", str(self.data), *options], self._log)
                time.sleep(0.1)
            return self.running and self._ready()

        wait_for(up, f"PostgreSQL (see {self._log})")

    def stop(self) -> None:
        """End it with its data written; a killed one would leave its shared memory behind."""
        if self.running:
            self.resume()
            os.kill(self.pid, signal.SIGINT)
            assert self._process is not None
            self._process.wait(PATIENCE_S)

    def run(self, statement: str, *values: Any, database: str = DATABASE) -> list[asyncpg.Record]:
        """Run one statement past every proxy and refusal."""

        async def go() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.url.replace(f"/{DATABASE}?", f"/{database}?"))
            try:
                return await connection.fetch(statement, *values, timeout=PATIENCE_S)
            finally:
                await connection.close(timeout=PATIENCE_S)

        return asyncio.run(go())

    def terminate_blocked(self) -> int:
        """End every session that waits for a lock; gives how many there were."""
        blocked = "wait_event_type = 'Lock' AND pid <> pg_backend_pid()"
        return len(self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {blocked}"))

    @contextmanager
    def locked(self, *tables: str) -> Generator[None]:
        """Let nobody else read or write these tables meanwhile."""
        loop = asyncio.new_event_loop()
        connection = loop.run_until_complete(asyncpg.connect(self.url))
        try:
            transaction = connection.transaction()
            loop.run_until_complete(transaction.start())
            loop.run_until_complete(connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE"))
            yield
            loop.run_until_complete(transaction.rollback())
        finally:
            loop.run_until_complete(connection.close())
            loop.close()

    def task_tables(self) -> list[str]:
        """Everything that is written about tasks; leases and queues are not among them."""
        found = self.run("SELECT tablename FROM pg_tables WHERE tablename LIKE 'task%'")
        return sorted({row["tablename"] for row in found} - {"task_queue"})

    def terminate_backends(self) -> int:
        """End every session over TCP, as an administrator might."""
        over_tcp = "client_addr IS NOT NULL AND pid <> pg_backend_pid()"
        return len(self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {over_tcp}"))

    def refuse_by_hba(self) -> None:
        """Refuse every session over TCP with 28000, and end those there are."""
        rules = self.data / "pg_hba.conf"
        kept = rules.read_text()
        (self.data / "pg_hba.kept").write_text(kept)
        rules.write_text(_TRUSTING.replace("/32 trust", "/32 reject"))
        self.run("SELECT pg_reload_conf()")
        wait_for(self._refuses, "the reload of pg_hba.conf")
        self.terminate_backends()

    def accept_by_hba(self) -> None:
        """Take sessions over TCP again."""
        (self.data / "pg_hba.conf").write_text((self.data / "pg_hba.kept").read_text())
        self.run("SELECT pg_reload_conf()")
        wait_for(lambda: not self._refuses(), "the reload of pg_hba.conf")

    def refuse_connections(self) -> None:
        """Refuse every session of the database with 55000, and end those there are."""
        self.run(f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS false", database="postgres")
        statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
        self.run(statement, DATABASE, database="postgres")

    def accept_connections(self) -> None:
        """Take sessions of the database again."""
        self.run(f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS true", database="postgres")

    def _refuses(self) -> bool:
        async def go() -> bool:
            try:
                connection = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/{DATABASE}")
            except asyncpg.InvalidAuthorizationSpecificationError:
                return True
            await connection.close()
            return False

        return asyncio.run(go())

    def wait_until_ready(self) -> bool:
        """Wait until it takes sessions or has ended; gives whether it takes them."""
        wait_for(lambda: not self.running or self._ready(), "PostgreSQL to recover, or to end")
        return self.running

    def _ready(self) -> bool:
        try:
            return bool(self.run("SELECT 1"))
        except (OSError, TimeoutError, asyncpg.PostgresError):
            return False


class Valkey(Backend):
    """An external Valkey on a TCP port; it keeps nothing over a restart."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self._log = place / "valkey.log"

    @property
    def url(self) -> str:
        """Its address for a client."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.spawn([str(self.binaries.valkey), *options], self._log)
        wait_for(self._answers, "Valkey")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as wire:
                wire.sendall(b"PING\r\n")
                return wire.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
