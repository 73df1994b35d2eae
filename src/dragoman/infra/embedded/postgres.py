import os
import shutil
import signal
import tempfile
from pathlib import Path

from dragoman.infra.embedded.access import write_access
from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.binaries import POSTGRES_MAJOR, Binaries
from dragoman.infra.embedded.errors import EmbeddedError, StillInUseError, disk_full, says_disk_full
from dragoman.infra.embedded.layout import Layout
from dragoman.infra.embedded.leftovers import clear_leftovers
from dragoman.infra.embedded.process import run
from dragoman.infra.embedded.takeover import take_over

DATABASE = "dragoman"
SOCKET = ".s.PGSQL.5432"
SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    # What is not searched takes none of it. With a quarter of this, every other page of the graph over 100,000 vectors
    # is copied in again for each search, which takes longer than the search.
    "shared_buffers": "512MB",
    "max_connections": "200",
    "fsync": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
}
# For data that nobody will miss: nothing waits for the disk, and many servers have their databases in it.
DISPOSABLE_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "500",
    "shared_buffers": "128MB",
}


class Postgres:
    """PostgreSQL on a Unix socket, with an empty database `dragoman` to begin with."""

    name = "postgres"
    stop_signal = signal.SIGINT  # a fast shutdown: clients are cut off, the data are written
    patience_s = 10.0

    def __init__(self, binaries: Binaries, layout: Layout, *, disposable: bool = False) -> None:
        self._settings = SETTINGS | (DISPOSABLE_SETTINGS if disposable else {})
        self.account: Account = layout.account
        self.log_file = layout.log_file(self.name)
        self._binaries = binaries
        self._directory = layout.directory(self.name)
        self._socket_dir = layout.socket_dir(self._directory, SOCKET)

    @property
    def url(self) -> str:
        """The address of the database; it needs no escapes, because the socket directory has a plain path."""
        return self.url_for("postgres")

    def url_for(self, role: str) -> str:
        """Return the address of the database for one of its users: whoever may connect may do so as any."""
        return f"postgresql://{role}@/{DATABASE}?host={self._socket_dir}"

    async def initialise(self) -> None:
        """Make the cluster if the directory is empty; a crash in the middle leaves it empty.

        Raises:
            EmbeddedError: the directory holds something this release cannot run.
        """
        for half_made in self._directory.parent.glob("postgres-new-*"):
            shutil.rmtree(half_made, ignore_errors=True)
        if any(self._directory.iterdir()):
            _check_version(self._directory)
            await self._clear()
            take_over(self._directory, self.account)
            return
        temporary = Path(tempfile.mkdtemp(prefix="postgres-new-", dir=self._directory.parent))
        try:
            if self.account.dropped:
                os.chown(temporary, self.account.uid, self.account.gid)
            await self._initdb(temporary)
            _rename_for_good(temporary, self._directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def argv(self) -> list[str]:
        """Settings on the command line win over the file of the cluster, so every start has these."""
        settings = self._settings | {"unix_socket_directories": str(self._socket_dir)}
        chosen = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._binaries.postgres), "-D", str(self._directory), *chosen]

    async def prepare(self) -> None:
        """Wait for a server that is still ending, drop pid files that would block a start, and say who may connect."""
        await self._clear()
        write_access(self._directory, self.account)

    async def _clear(self) -> None:
        pid_files = [self._directory / "postmaster.pid", self._socket_dir / f"{SOCKET}.lock"]
        await clear_leftovers("postgres", self._directory, pid_files)

    async def is_ready(self, pid: int) -> bool:
        """PostgreSQL says so itself, in the eighth line of its pid file."""
        try:
            lines = (self._directory / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def explain(self, said: str) -> EmbeddedError:
        """Name the cause where the log shows it; else show the log."""
        if says_disk_full(said):
            return disk_full(self._directory)
        if "shared memory block" in said and "still in use" in said:
            return StillInUseError(f"processes of a crashed PostgreSQL still use {self._directory}; end them:\n{said}")
        if "Unix socket" in said or "Unix-domain socket" in said:
            return EmbeddedError(f"PostgreSQL cannot make its socket in {self._socket_dir}:\n{said}")
        return EmbeddedError(
            f"PostgreSQL does not start on {self._directory}. If its data are damaged, restore a backup, or move the "
            f"directory away to start empty. The last lines of {self.log_file}:\n{said}"
        )

    async def _initdb(self, directory: Path) -> None:
        initdb = [str(self._binaries.initdb), "-D", str(directory), "-U", "postgres", "--encoding=UTF8"]
        initdb += ["--auth-local=peer", "--auth-host=reject"]  # who may connect is written at every start
        await self._run([*initdb, "--locale-provider=builtin", "--locale=C.UTF-8"], directory)
        # The server alone can make the database without a driver, before the cluster gets its name.
        single = [str(self._binaries.postgres), "--single", "-D", str(directory), "-c", "exit_on_error=on", "postgres"]
        await self._run(single, directory, stdin=f"CREATE DATABASE {DATABASE}\n".encode())

    async def _run(self, argv: list[str], directory: Path, *, stdin: bytes = b"") -> None:
        code, said = await run(argv, account=self.account, stdin=stdin)
        if code == 0:
            return
        if says_disk_full(said):
            raise disk_full(directory.parent)
        raise EmbeddedError(f"PostgreSQL could not be set up in {directory.parent}:\n{said.strip()[-2000:]}")


def _check_version(directory: Path) -> None:
    try:
        found = int((directory / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError):
        raise EmbeddedError(
            f"{directory} is not empty and is no PostgreSQL data directory; move it away, or choose another"
        ) from None
    if found > POSTGRES_MAJOR:
        raise EmbeddedError(
            f"{directory} has data of a newer version: written by PostgreSQL {found}; this release runs "
            f"{POSTGRES_MAJOR}; install the release that wrote them"
        )
    if found < POSTGRES_MAJOR:
        raise EmbeddedError(
            f"{directory} was written by PostgreSQL {found}; this release runs {POSTGRES_MAJOR}; dump it with the "
            "release that wrote it and load it here, or move it away to start empty"
        )


def _rename_for_good(temporary: Path, directory: Path) -> None:
    temporary.rename(directory)  # which is empty, or this fails
    fd = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
