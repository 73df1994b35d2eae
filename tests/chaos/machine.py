"""What the tests ask of the machine they run on: ports, children that die with them, disks of their own."""

import signal
import socket
import subprocess
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from dragoman.infra.embedded import tie_to_parent
from dragoman.infra.embedded.account import Account
from tests.patience import PATIENCE_S


def free_port() -> int:
    """A port that nobody listens on; it is chosen once, so that a process keeps it over restarts."""
    with socket.socket() as wire:
        wire.bind(("127.0.0.1", 0))
        port: int = wire.getsockname()[1]
    return port


# The kernel ends a tied child when the thread that made it ends: this one lasts as long as the test run does.
_SPAWNER: Final = ThreadPoolExecutor(1, thread_name_prefix="spawner")


def spawn(
    argv: Sequence[str], environment: Mapping[str, str], output: IO[bytes], *, account: Account | None = None
) -> subprocess.Popen[bytes]:
    """Start a program, as another user where one is given, that is killed when the test run ends, however it ends."""
    dropped = account if account is not None and account.dropped else None

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            user=None if dropped is None else dropped.uid,
            group=None if dropped is None else dropped.gid,
            extra_groups=None if dropped is None else [],
            start_new_session=True,
            preexec_fn=tie_to_parent(signal.SIGKILL),  # noqa: PLW1509 - two system calls, no locks, no imports
        )

    return _SPAWNER.submit(start).result(PATIENCE_S)


@contextmanager
def small_disk(at: Path, *, megabytes: int) -> Generator[bool]:
    """Mount a file system of this size; gives False where mounting is not allowed."""
    at.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(at)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(at)], capture_output=True, check=False)


@contextmanager
def full_disk(at: Path) -> Generator[None]:
    """Fill the file system to its last byte; gives the room back afterwards."""
    ballast = at / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    try:
        yield
    finally:
        ballast.unlink()
