import fcntl
import os
from pathlib import Path

from dragoman.infra.embedded.errors import EmbeddedError


class DataDirLock:
    """One server per data directory; the kernel drops the lock however the holder ends."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "lock"
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock, or say who has it.

        Raises:
            EmbeddedError: another server, or another part of this one, holds it.
            OSError: the file cannot be made.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise EmbeddedError(
                f"already running (pid {holder}) on this data directory: {self._path.parent}; "
                "stop it, or choose another data directory"
            ) from None
        except OSError:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Let go; the file stays, because removing it would let two holders lock two files of one name."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
