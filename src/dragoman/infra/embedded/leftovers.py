"""What a killed server leaves: a process that is still ending, and pid files that now name someone else."""

import asyncio
import contextlib
import os
import subprocess
import time
from pathlib import Path

import structlog

from dragoman.infra.embedded.errors import EmbeddedError

POLL_S = 0.02
PATIENCE_S = 10.0
PROC = Path("/proc")

log = structlog.get_logger(__name__)


async def clear_leftovers(program: str, directory: Path, pid_files: list[Path]) -> None:
    """Wait for the last server on `directory` to end, and remove the pid files that name an unrelated process.

    A file that names no process at all stays: the servers know that case themselves.

    Raises:
        EmbeddedError: a server runs on the directory and does not end.
    """
    for pid_file in pid_files:
        deadline = time.monotonic() + PATIENCE_S
        while (pid := _find_live_pid(pid_file)) is not None:
            if not _may_be(pid, program, directory):
                log.warning("stale pid file removed", file=str(pid_file), pid=pid)
                pid_file.unlink(missing_ok=True)
            elif time.monotonic() > deadline:
                raise EmbeddedError(f"another {program} (pid {pid}) runs on {directory}; stop it: kill -INT {pid}")
            else:
                await asyncio.sleep(POLL_S)


def _find_live_pid(pid_file: Path) -> int | None:
    try:
        pid = abs(int(pid_file.read_text().split("\n", 1)[0]))  # a lone PostgreSQL writes its pid negated
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError, OverflowError, ProcessLookupError, PermissionError):
        # Not ours to signal means another user's, and a server on our directory would be our user's.
        return None
    return pid if pid > 0 else None


def _may_be(pid: int, program: str, directory: Path) -> bool:
    """Whether the process may be a server on this directory; False only if it is shown not to be."""
    if program not in _command_line(pid):
        return False
    try:
        # Both servers work in their data directory; their command lines may have been overwritten by a title.
        return (PROC / str(pid) / "cwd").samefile(directory)
    except FileNotFoundError:
        return not PROC.exists() or (PROC / str(pid)).exists()
    except PermissionError:
        return True


def _command_line(pid: int) -> str:
    if PROC.exists():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
        return ""
    ps = ["/bin/ps", "-o", "command=", "-p", str(pid)]
    return subprocess.run(ps, capture_output=True, text=True, check=False).stdout  # noqa: S603  # no shell, a number
