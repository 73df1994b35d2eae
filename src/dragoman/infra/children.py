"""Processes for work that could not be stopped in a thread: one that takes too long is killed.

Frames go both ways (see `frames`). A process is kept for the next request while it is well, and ends when it is idle.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from dragoman.blocking import Slots
from dragoman.infra.config import read_environment
from dragoman.infra.embedded.process import tie_to_parent
from dragoman.infra.programs import end_program, start_program

Json = dict[str, Any]
_IDLE_S: Final = 60.0


class ChildTimedOut(Exception):
    """The request took longer than it may; its process was killed."""


class ChildDied(Exception):
    """The process ended in the middle of the request: it reached its limit of memory or CPU time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may use: seconds by the clock, seconds of CPU time, and the memory of its process."""

    timeout_s: int
    cpu_s: int
    memory_bytes: int


class Children:
    """Processes of one kind: `size` at once, of which a tenant has `share`. The first starts with the first request."""

    def __init__(self, module: str, *, size: int, share: int, limits: Limits, environment: Sequence[str] = ()) -> None:
        self._command = (sys.executable, "-m", module, str(limits.cpu_s), str(limits.memory_bytes))
        self._slots = Slots(size, share=share)
        self._timeout_s = limits.timeout_s
        self._environment = environment
        self._idle: list[_Child] = []
        self._retirement: asyncio.TimerHandle | None = None

    async def stop(self) -> None:
        """End the idle processes; those that work end with their requests."""
        if self._retirement is not None:
            self._retirement.cancel()
        while self._idle:
            await self._idle.pop().end()

    async def ask(
        self,
        tenant: Hashable,
        request: Json,
        *,
        progress: Callable[[Json], None] | None = None,
        most_waiting: int | None = None,
    ) -> Json:
        """Return the answer; `progress` gets what the process says before it.

        Raises:
            TooManyWaiting: `most_waiting` requests of the tenant wait already.
            ChildTimedOut: it took too long.
            ChildDied: the process ended.
        """
        frame = orjson.dumps(request)
        async with self._slots.hold(tenant, most_waiting=most_waiting):
            child = await self._child()
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await child.ask(frame, progress or _ignore)
            except TimeoutError:
                await child.end()
                raise ChildTimedOut from None
            except BaseException:
                # The request is abandoned, and with it the process.
                await child.end()
                raise
            self._idle.append(child)
            self._retire_later()
        return answer

    async def _child(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
        return await _Child.start(self._command, self._environment)

    def _retire_later(self) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
        self._retirement = asyncio.get_running_loop().call_later(_IDLE_S, self._retire)

    def _retire(self) -> None:
        for child in self._idle:
            child.close()
        self._idle.clear()


class _Child:
    """One process; it ends with its input, and is killed with the thread that started it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._in = cast("asyncio.StreamWriter", process.stdin)
        self._out = cast("asyncio.StreamReader", process.stdout)

    @classmethod
    async def start(cls, command: Sequence[str], environment: Sequence[str]) -> "_Child":
        # Only what is named of our own environment, which holds secrets.
        named = {name: value for name, value in read_environment().items() if name in environment}
        process = await start_program(
            command,
            stderr=asyncio.subprocess.DEVNULL,
            environment={**named, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            before=tie_to_parent(signal.SIGKILL),
        )
        return cls(process)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, frame: bytes, progress: Callable[[Json], None]) -> Json:
        try:
            self._in.write(len(frame).to_bytes(4, "big") + frame)
            await self._in.drain()
            while True:
                size = int.from_bytes(await self._out.readexactly(4), "big")
                answer = orjson.loads(await self._out.readexactly(size))
                if "progress" not in answer:
                    return answer
                progress(answer["progress"])
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChildDied from None

    def close(self) -> None:
        """Close its input, which ends it."""
        self._in.close()

    async def end(self) -> None:
        """Kill it."""
        await end_program(self._process)


def _ignore(_: Json) -> None:
    pass
