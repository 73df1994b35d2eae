"""How a child process is made, waited for and asked to end.

The kernel ends the children when the thread that made them ends, so they are made on the main thread alone.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import IO

from dragoman.infra.embedded.account import Account

PR_SET_PDEATHSIG = 1
POLL_S = 0.05

# Nothing of our own environment: it holds secrets, and PGPORT or PGDATA would mislead.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def spawn(
    argv: Sequence[str],
    *,
    account: Account,
    output: IO[bytes],
    death_signal: signal.Signals,
    stdin: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that gets `death_signal` when this process dies, however it dies (on Linux).

    It has a session of its own: a Ctrl-C in the terminal is ours to pass on, after draining.

    Raises:
        RuntimeError: called off the main thread, whose end would be taken for the end of the process.
        OSError: the program cannot be started.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("embedded servers are started on the main thread, because they die with their thread")
    return subprocess.Popen(  # noqa: S603  # our own programs, no shell
        argv,
        stdin=stdin or subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=ENVIRONMENT,
        umask=0o077,
        user=account.uid if account.dropped else None,
        group=account.gid if account.dropped else None,
        extra_groups=[] if account.dropped else None,
        start_new_session=True,
        preexec_fn=tie_to_parent(death_signal),  # noqa: PLW1509  # two system calls, no locks, no imports
    )


async def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Wait for a child to end and return its exit code; a cancelled wait leaves the child as it is."""
    while (code := process.poll()) is None:
        try:
            pidfd = os.pidfd_open(process.pid) if sys.platform == "linux" else None
        except OSError:  # a kernel or sandbox without it
            pidfd = None
        if pidfd is None:
            await asyncio.sleep(POLL_S)
        else:
            await _readable_then_close(pidfd)
    return code


async def ended(process: subprocess.Popen[bytes], *, within_s: float) -> bool:
    """Wait for a child to end, and say whether it did in time."""
    try:
        async with asyncio.timeout(within_s):
            await wait_for_exit(process)
    except TimeoutError:
        return False
    return True


async def run(argv: Sequence[str], *, account: Account, stdin: bytes = b"") -> tuple[int, str]:
    """Run a program to its end; return its exit code and all it said. A cancelled one is killed with its children."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(stdin)
        given.seek(0)
        process = spawn(argv, account=account, output=output, death_signal=signal.SIGKILL, stdin=given)
        try:
            code = await wait_for_exit(process)
        finally:
            if process.poll() is None:
                # With whatever it has started itself: it leads a session of its own.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def tie_to_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """What a child does before it begins, so that it ends when this process does; None where that is not to be had."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        # Runs after the change of user, which would clear the request.
        prctl(PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # it died before the request: no signal will come
            os._exit(1)

    return tie


async def _readable_then_close(pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(pidfd, readable.set)
    try:
        await readable.wait()
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.remove_reader(pidfd)
        os.close(pidfd)
