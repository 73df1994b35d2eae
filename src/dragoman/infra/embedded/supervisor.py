import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Protocol

import structlog

from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.errors import EmbeddedError, StillInUseError
from dragoman.infra.embedded.process import ended, spawn, wait_for_exit

READY_POLL_S = 0.01
SILENCE_S = 30.0
LEFTOVERS_S = 10.0
FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 5.0
STEADY_S = 10.0
LOG_BYTES = 10_000_000
TAIL_BYTES = 2_000

log = structlog.get_logger(__name__)


class Program(Protocol):
    """What the supervisor must know about a server to keep it running."""

    name: str
    account: Account
    log_file: Path
    stop_signal: signal.Signals
    patience_s: float

    def argv(self) -> list[str]:
        """The command line."""
        ...

    async def prepare(self) -> None:
        """Clear the way before every start; raises EmbeddedError if it cannot be cleared."""
        ...

    async def is_ready(self, pid: int) -> bool:
        """Whether the process `pid` answers."""
        ...

    def explain(self, said: str) -> EmbeddedError:
        """Turn the last lines of the log of a failed start into an error for people."""
        ...


class Supervisor:
    """Keeps one program running from `start` to `stop`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._spawned_at = 0.0
        self._log_start = 0
        self._watcher: asyncio.Task[None] | None = None
        self._asked = False

    async def start(self) -> None:
        """Start the program and return when it answers; from then on it is restarted when it ends.

        There is no limit on a start that keeps writing to its log (a recovery does); silence is limited.

        Raises:
            EmbeddedError: it ended, or stayed silent for too long; `stop` cleans up.
            OSError: it could not be started at all.
        """
        _rotate(self._program.log_file)
        deadline = time.monotonic() + LEFTOVERS_S
        while True:
            await self._spawn()
            try:
                await self._until_ready()
                break
            except StillInUseError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(FIRST_DELAY_S)
        self._watcher = asyncio.create_task(self._watch(), name=f"watch embedded {self._program.name}")

    def ask_to_stop(self) -> None:
        """Tell the program to end, and no longer restart it; returns at once, so no cancellation can come between."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._process is not None and not self._asked:
            self._process.send_signal(self._program.stop_signal)
            self._asked = True

    async def stop(self) -> None:
        """Stop the program cleanly, by force if it takes too long; without effect when it does not run."""
        self.ask_to_stop()
        process, self._process = self._process, None
        if process is not None and not await ended(process, within_s=self._program.patience_s):
            log.warning("embedded service killed: it did not stop in time", service=self._program.name)
            process.kill()
            await wait_for_exit(process)
        if self._watcher is not None:
            await asyncio.wait([self._watcher])

    async def _spawn(self) -> subprocess.Popen[bytes]:
        self._spawned_at = time.monotonic()
        await self._program.prepare()
        with self._program.log_file.open("ab") as output:
            self._log_start = output.tell()
            self._process = spawn(
                self._program.argv(),
                account=self._program.account,
                output=output,
                death_signal=self._program.stop_signal,
            )
        return self._process

    async def _until_ready(self) -> None:
        process = self._process
        if process is None:
            raise EmbeddedError(f"{self._program.name} was stopped while it started")
        size, heard_at = self._log_start, time.monotonic()
        while not await self._program.is_ready(process.pid):
            if process.poll() is not None:
                raise self._program.explain(self._said())
            if (now_size := self._program.log_file.stat().st_size) != size:
                size, heard_at = now_size, time.monotonic()
            if time.monotonic() - heard_at > SILENCE_S:
                raise self._program.explain(f"{self._said()}\n(not ready after {SILENCE_S:g} s of silence)")
            await asyncio.sleep(READY_POLL_S)

    def _said(self) -> str:
        with self._program.log_file.open("rb") as lines:
            end_of_log = lines.seek(0, os.SEEK_END)
            lines.seek(max(self._log_start, end_of_log - TAIL_BYTES))
            return lines.read().decode(errors="replace").strip()

    async def _watch(self) -> None:
        delay_s = FIRST_DELAY_S
        while (process := self._process) is not None:
            code = await wait_for_exit(process)
            if time.monotonic() - self._spawned_at > STEADY_S:
                delay_s = FIRST_DELAY_S
            log.error(
                "embedded service ended; restarting",
                service=self._program.name,
                exit_code=code,
                delay_s=delay_s,
                said=self._said()[-500:],
            )
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)
            try:
                restarted = await self._spawn()
            except (EmbeddedError, OSError, subprocess.SubprocessError) as error:
                log.warning(
                    "embedded service not restarted; trying again", service=self._program.name, error=str(error)
                )
            else:
                log.info("embedded service restarted", service=self._program.name, pid=restarted.pid)


def _rotate(log_file: Path) -> None:
    if log_file.exists() and log_file.stat().st_size > LOG_BYTES:
        log_file.replace(log_file.with_name(f"{log_file.name}.1"))
