"""The process in which the local model lives, so that no server carries it before somebody needs it.

Frames go both ways: four bytes of length, then JSON. Questions have a thread of their own, which goes before those of
the batches where the cores do not suffice for all, and the end of the input is the end of the process.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import orjson

from dragoman.infra.embeddings.minilm import MiniLM

# As many as there are batches on their way at once.
_BATCHES = 2
_BEHIND_QUESTIONS = 5


class Child:
    """Answers frames until the input ends."""

    def __init__(self, model: MiniLM, out: BinaryIO) -> None:
        self._model = model
        self._out = out
        self._writing = threading.Lock()
        self._lanes: dict[bool, SimpleQueue[dict[str, Any]]] = {True: SimpleQueue(), False: SimpleQueue()}

    def run(self, frames: BinaryIO) -> None:
        """Read and hand over."""
        for urgent in (True, *[False] * _BATCHES):
            threading.Thread(target=self._work, args=(urgent,), daemon=True).start()
        while len(size := frames.read(4)) == 4:
            asked: dict[str, Any] = orjson.loads(frames.read(int.from_bytes(size, "big")))
            self._lanes[bool(asked["urgent"])].put(asked)

    def _work(self, urgent: bool) -> None:  # noqa: FBT001 - which lane
        if not urgent:
            with suppress(OSError):  # a thread has a priority of its own on Linux alone
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BEHIND_QUESTIONS)
        while True:
            asked = self._lanes[urgent].get()
            try:
                vectors = self._model.encode(asked["texts"]).tolist()
                answer: dict[str, Any] = {"id": asked["id"], "vectors": vectors}
            except Exception as error:  # noqa: BLE001 - a worker loop: one text must not end the process
                answer = {"id": asked["id"], "error": f"{type(error).__name__}: {error}"}
            frame = orjson.dumps(answer)
            with self._writing:
                self._out.write(len(frame).to_bytes(4, "big") + frame)
                self._out.flush()


def main() -> None:
    """Load, then serve; arguments: where the model is, where its quantised form is kept."""
    model = MiniLM(Path(sys.argv[1]), Path(sys.argv[2]))
    Child(model, sys.stdout.buffer).run(sys.stdin.buffer)


if __name__ == "__main__":
    main()
