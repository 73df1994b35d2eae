import asyncio
import signal

from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.binaries import Binaries
from dragoman.infra.embedded.errors import EmbeddedError, disk_full, says_disk_full
from dragoman.infra.embedded.layout import Layout
from dragoman.infra.embedded.leftovers import clear_leftovers
from dragoman.infra.embedded.takeover import take_over

SOCKET = "valkey.sock"
PING_S = 1.0
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "save": "",
    "appendonly": "no",
    "maxmemory": "256mb",
    "maxmemory-policy": "volatile-ttl",
    "daemonize": "no",
}
# One database for each of the servers that share it.
DISPOSABLE_SETTINGS = {"databases": "4096"}


class Valkey:
    """Valkey on a Unix socket; it keeps nothing over a restart."""

    name = "valkey"
    stop_signal = signal.SIGTERM
    patience_s = 3.0

    def __init__(self, binaries: Binaries, layout: Layout, *, disposable: bool = False) -> None:
        self._settings = SETTINGS | (DISPOSABLE_SETTINGS if disposable else {})
        self.account: Account = layout.account
        self.log_file = layout.log_file(self.name)
        self._binaries = binaries
        self._directory = layout.directory(self.name)
        self._socket = layout.socket_dir(self._directory, SOCKET) / SOCKET
        self._pid_file = self._directory / "valkey.pid"

    @property
    def url(self) -> str:
        """The address for a Redis client."""
        return f"unix://{self._socket}"

    async def initialise(self) -> None:
        """Nothing to make: it starts empty."""
        await self.prepare()
        take_over(self._directory, self.account)

    def argv(self) -> list[str]:
        """The whole configuration is on the command line; no file is read."""
        places = {"unixsocket": str(self._socket), "pidfile": str(self._pid_file), "dir": str(self._directory)}
        chosen = [part for name, value in (self._settings | places).items() for part in (f"--{name}", value)]
        return [str(self._binaries.valkey), *chosen]

    async def prepare(self) -> None:
        """Wait for a server that is still ending: as its last act it would remove our socket."""
        await clear_leftovers("valkey-server", self._directory, [self._pid_file])

    async def is_ready(self, pid: int) -> bool:  # noqa: ARG002  # the socket can be no one else's by now
        """Whether it answers a PING."""
        try:
            async with asyncio.timeout(PING_S):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                try:
                    writer.write(b"PING\r\n")
                    return await reader.readline() == b"+PONG\r\n"
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    def explain(self, said: str) -> EmbeddedError:
        """Name the cause where the log shows it; else show the log."""
        if says_disk_full(said):
            return disk_full(self._directory)
        return EmbeddedError(f"Valkey does not start in {self._directory}. The last lines of {self.log_file}:\n{said}")
