"""The local model, in a process of its own that starts with the first text and ends with the server."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

import orjson
import structlog

from dragoman.infra.embedded.process import tie_to_parent
from dragoman.infra.embeddings.embedder import EmbedderAway, EmbeddingFailed, Vector
from dragoman.infra.programs import end_program, start_program

_LOG = structlog.get_logger(__name__)
# The first answer waits for the weights to be quantised, once per data directory.
_ANSWER_S = 60.0
_LARGEST = 64 * 1_048_576


class LocalEmbedder:
    """all-MiniLM-L6-v2; a process that dies is replaced with the next text."""

    def __init__(self, model_dir: Path, cache_dir: Path) -> None:
        self._arguments = [sys.executable, "-m", "dragoman.infra.embeddings.child", str(model_dir), str(cache_dir)]
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[list[Vector]]] = {}
        self._numbers = count(1)
        self._stopped = False

    @property
    def model(self) -> str:
        """Vectors of different models cannot be compared; this names the one."""
        return "all-MiniLM-L6-v2"

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> list[Vector]:
        """Vectors; questions have a thread of their own in the other process.

        Raises:
            EmbeddingFailed: the process cannot be started, died, or could not read a text.
        """
        process = await self._running()
        number = next(self._numbers)
        answer: asyncio.Future[list[Vector]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        frame = orjson.dumps({"id": number, "texts": list(texts), "urgent": urgent})
        try:
            pipe = cast("asyncio.StreamWriter", process.stdin)
            pipe.write(len(frame).to_bytes(4, "big") + frame)
            await pipe.drain()
            async with asyncio.timeout(_ANSWER_S):
                return await answer
        except (OSError, TimeoutError) as error:
            raise EmbeddingFailed("the embedding process does not answer") from error
        finally:
            self._waiting.pop(number, None)

    async def stop(self) -> None:
        """End the process; no other is started."""
        async with self._starting:
            self._stopped = True
        if self._process is not None:
            await end_program(self._process)
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._stopped:
                raise EmbedderAway("the server is stopping")
            if self._process is None or self._process.returncode is not None:
                try:
                    self._process = await start_program(
                        self._arguments,
                        environment=_environment(),
                        limit=_LARGEST,
                        before=tie_to_parent(signal.SIGKILL),
                    )
                except OSError as error:
                    raise EmbedderAway("the embedding process cannot be started") from error
                self._reading = asyncio.create_task(self._read(self._process))
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        pipe = cast("asyncio.StreamReader", process.stdout)
        try:
            while True:
                size = int.from_bytes(await pipe.readexactly(4), "big")
                self._hand_over(orjson.loads(await pipe.readexactly(size)))
        except (asyncio.IncompleteReadError, OSError, ValueError):
            status = await process.wait()
            _LOG.warning("embeddings.process_ended", status=status)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(EmbeddingFailed("the embedding process ended"))

    def _hand_over(self, frame: dict[str, Any]) -> None:
        answer = self._waiting.get(frame["id"])
        if answer is None or answer.done():
            return
        if "error" in frame:
            answer.set_exception(EmbeddingFailed(frame["error"]))
        else:
            answer.set_result(frame["vectors"])


def _environment() -> dict[str, str]:
    """Nothing of our own, which holds secrets; one thread for each of the two that compute."""
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
