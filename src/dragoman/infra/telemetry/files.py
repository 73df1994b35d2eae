"""A file that many processes append to, and that something else may rotate away."""

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic


class AppendFile:
    """Appends whole lines, each in one write: O_APPEND keeps the lines of several processes apart.

    When the file is renamed or removed, the next line goes to a new one within a second.

    Raises:
        OSError: it cannot be created or opened; a server that cannot keep its record should not start.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._checked = clock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = self._open()

    def append(self, line: bytes) -> None:
        """Add one line; the newline is added here.

        Raises:
            OSError: the disk is full, or the directory is gone.
        """
        self._follow_rotation()
        data = line + b"\n"
        written = os.write(self._fd, data)
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _follow_rotation(self) -> None:
        now = self._clock()
        if now - self._checked < 1.0:
            return
        self._checked = now
        if not self._is_current():
            fresh = self._open()
            self.close()
            self._fd = fresh

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
