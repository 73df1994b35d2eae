"""The other side of `children`: a process that answers requests until its input ends.

A frame is four bytes of length, then JSON. A frame with `progress` comes before the answer. The command line says how
many seconds of CPU time each request gets, and how many bytes the process; the kernel ends a process that takes more.
"""

import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson

Json = dict[str, Any]
Tell = Callable[[Json], None]


def serve(answer: Callable[[Json, Tell], Json]) -> None:
    """Answer until the input ends."""
    cpu_s, memory_bytes = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    frames = sys.stdin.buffer
    while len(size := frames.read(4)) == 4:
        request = orjson.loads(frames.read(int.from_bytes(size, "big")))
        _, most_s = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + cpu_s, most_s))
        _write(answer(request, lambda progress: _write({"progress": progress})))


def _write(frame: Json) -> None:
    content = orjson.dumps(frame)
    sys.stdout.buffer.write(len(content).to_bytes(4, "big") + content)
    sys.stdout.buffer.flush()
