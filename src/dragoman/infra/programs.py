"""Start and end programs that talk through pipes, so that none is left behind.

A start that is cancelled half-way would leave a process that nobody knows, and pipes that keep the event loop from
closing; so it is let finish, and what it started is ended.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_PIPE: Final = asyncio.subprocess.PIPE
_LARGEST_LINE: Final = 1 << 16


async def start_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stderr: int | None = None,
    directory: Path | None = None,
    limit: int = _LARGEST_LINE,
    before: Callable[[], None] | None = None,
) -> asyncio.subprocess.Process:
    """Start a program with pipes for its input and its output; `before` runs in it first.

    Raises:
        OSError: the program cannot be started.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=_PIPE,
            stdout=_PIPE,
            stderr=stderr,
            env=environment,
            cwd=directory,
            limit=limit,
            preexec_fn=before,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(_end_started(starting)))
        raise


async def end_program(process: asyncio.subprocess.Process) -> None:
    """Kill a program, and wait until it and the pipe of its input are gone."""
    if process.returncode is None:
        process.kill()
    pipe = process.stdin
    if pipe is not None:
        pipe.close()
    await process.wait()
    if pipe is not None:
        with suppress(OSError):  # what was on its way when the program ended
            await pipe.wait_closed()


async def _end_started(starting: "asyncio.Future[asyncio.subprocess.Process]") -> None:
    with suppress(OSError):  # it could not be started
        await end_program(await starting)
