"""Programs with pipes: whatever is cancelled, none is left, and the loop that started them closes."""

import asyncio
import contextlib
import gc
import sys
from pathlib import Path

import pytest
import uvloop

from dragoman.infra.embeddings.embedder import EmbedderAway
from dragoman.infra.embeddings.local import LocalEmbedder
from dragoman.infra.programs import end_program, start_program

PATIENT = (sys.executable, "-c", "import sys; sys.stdin.read()")
# A start takes a few turns of the loop; each is a place where it can be cancelled.
PLACES = range(12)


def running_in(directory: Path) -> list[int]:
    """Return the living processes whose working directory this is."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == directory and (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("turns", PLACES)
def test_a_start_that_is_cancelled_leaves_no_process_and_a_loop_that_closes(tmp_path: Path, turns: int) -> None:
    async def cancel_a_start() -> list[int]:
        starting = asyncio.create_task(start_program(PATIENT, environment={}, directory=tmp_path))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await end_program(await starting)
        return running_in(tmp_path)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(cancel_a_start()) == []
    gc.collect()  # a pipe that was left open is a warning now, and so an error


def test_an_embedder_that_was_stopped_starts_no_process(tmp_path: Path) -> None:
    async def embed_too_late() -> None:
        embedder = LocalEmbedder(tmp_path, tmp_path)
        await embedder.stop()
        with pytest.raises(EmbedderAway):
            await embedder.embed(["late"])

    asyncio.run(embed_too_late())
