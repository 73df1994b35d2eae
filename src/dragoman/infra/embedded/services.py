import asyncio
import subprocess
from pathlib import Path

from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.binaries import find_binaries, readable_binaries
from dragoman.infra.embedded.errors import EmbeddedError, from_os_error
from dragoman.infra.embedded.layout import Layout, is_ours, let_pass, make_data_dir
from dragoman.infra.embedded.lock import DataDirLock
from dragoman.infra.embedded.postgres import Postgres
from dragoman.infra.embedded.supervisor import Supervisor
from dragoman.infra.embedded.valkey import Valkey
from dragoman.infra.private_files import make_private


class EmbeddedServices:
    """PostgreSQL and Valkey beside this process, on Unix sockets, for one data directory.

    They are restarted when they end, and end when this process does, however it ends. `disposable` is for data that
    nobody will miss: PostgreSQL does not wait for the disk, and both have room for many servers.
    """

    def __init__(self, data_dir: Path, *, postgres: bool = True, valkey: bool = True, disposable: bool = False) -> None:
        self._disposable = disposable
        self._data_dir = data_dir
        self._wants_postgres = postgres
        self._wants_valkey = valkey
        self._lock: DataDirLock | None = None
        self._postgres: Postgres | None = None
        self._valkey: Valkey | None = None
        self._supervisors: list[Supervisor] = []

    @property
    def database_url(self) -> str:
        """The address of the database, from `start` on; its user is a superuser."""
        if self._postgres is None:
            raise EmbeddedError("the embedded PostgreSQL is not started")
        return self._postgres.url

    def login_url(self, role: str) -> str:
        """Return the address of the database for another of its users, from `start` on."""
        if self._postgres is None:
            raise EmbeddedError("the embedded PostgreSQL is not started")
        return self._postgres.url_for(role)

    @property
    def redis_url(self) -> str:
        """The address of Valkey, from `start` on."""
        if self._valkey is None:
            raise EmbeddedError("the embedded Valkey is not started")
        return self._valkey.url

    async def start(self) -> None:
        """Start both and return when both answer; called on the main thread, because they die with their thread.

        Raises:
            EmbeddedError: they cannot run here; the message says why. Nothing is left running.
        """
        try:
            data_dir = self._claim()
        except OSError as error:
            raise from_os_error(error, self._data_dir) from error
        try:
            await self._start_in(data_dir)
        except OSError as error:
            await self.stop()
            raise from_os_error(error, data_dir) from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop both cleanly, by force after a few seconds; safe to repeat, and after a failed start."""
        supervisors, self._supervisors = self._supervisors, []
        for supervisor in supervisors:
            supervisor.ask_to_stop()
        try:
            await asyncio.gather(*(supervisor.stop() for supervisor in supervisors))
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @property
    def _wants_any(self) -> bool:
        return self._wants_postgres or self._wants_valkey

    def _claim(self) -> Path:
        data_dir = make_data_dir(self._data_dir)
        ours = is_ours(data_dir)
        lock = DataDirLock(data_dir)
        lock.acquire()
        self._lock = lock
        if ours:
            make_private(data_dir)
            if self._wants_any:
                let_pass(data_dir, Account.for_services(data_dir / "postgres"))
        return data_dir

    async def _start_in(self, data_dir: Path) -> None:
        if not self._wants_any:
            return
        layout = Layout.of(data_dir)
        binaries = await asyncio.to_thread(readable_binaries, find_binaries(), layout.account, layout.root)
        self._postgres = Postgres(binaries, layout, disposable=self._disposable) if self._wants_postgres else None
        self._valkey = Valkey(binaries, layout, disposable=self._disposable) if self._wants_valkey else None
        try:
            async with asyncio.TaskGroup() as starts:
                for program in (self._postgres, self._valkey):
                    if program is not None:
                        starts.create_task(self._start_one(program))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _start_one(self, program: Postgres | Valkey) -> None:
        await program.initialise()
        supervisor = Supervisor(program)
        self._supervisors.append(supervisor)
        try:
            await supervisor.start()
        except subprocess.SubprocessError as error:
            raise EmbeddedError(f"{program.name} cannot be started: {error}") from error
