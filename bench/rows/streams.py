import time
from dataclasses import dataclass

import httpx

from bench.process import cpu_s
from bench.reference import reference
from bench.rows.messages import rpc
from bench.subject import Effort, Running, dragoman
from bench.table import Line, Outcome

FEW, MANY = 1_000, 4_000
# Linear is the ratio of the two; a little is left for what a stream costs once.
MOST_GROWTH = 1.25 * MANY / FEW


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream, from the request to its last event."""

    seconds: float
    cpu_ms: float


def run(effort: Effort) -> Outcome:
    """A streamed text in 1,000 and in 4,000 pieces: four times the work should cost four times as much."""
    outcome = Outcome(f"A2A, one stream of {FEW:,} and of {MANY:,} chunks")
    with dragoman() as server, reference() as other:
        bearer = {"authorization": f"Bearer {server.token()}"}
        for name, running in (("Dragoman, each chunk durable", server), ("SDK, in memory", other)):
            few, many = (
                min((_follow(running, count, bearer) for _ in range(effort.starts)), key=lambda stream: stream.cpu_ms)
                for count in (FEW, MANY)
            )
            growth = many.cpu_ms / few.cpu_ms
            ours = running is server
            target, met = (f"<= {MOST_GROWTH:g}x", growth <= MOST_GROWTH) if ours else ("", None)
            outcome.lines += [
                Line(f"{name}, {FEW:,}", f"{few.seconds:.2f} s", None, few.cpu_ms * 1000 / FEW),
                Line(f"{name}, {MANY:,}", f"{many.seconds:.2f} s", growth, many.cpu_ms * 1000 / MANY, None, None,
                     target, met),
            ]  # fmt: skip
            outcome.figures[name] = {"few_s": few.seconds, "many_s": many.seconds, "growth": growth}
    outcome.note = "A ratio is the CPU of the long stream by that of the short one; CPU us is by chunk."
    return outcome


def _follow(running: Running, count: int, headers: dict[str, str]) -> Stream:
    """Read all of one stream.

    Raises:
        RuntimeError: chunks are missing.
    """
    said = {"messageId": f"m-{count}", "role": "ROLE_USER", "parts": [{"text": f"tck-stream-chunked count={count}"}]}
    content = rpc("SendStreamingMessage", {"message": said})
    asked = headers | {"content-type": "application/json", "a2a-version": "1.0"}
    before, began, chunks = cpu_s(running.pid), time.perf_counter(), 0
    with httpx.stream("POST", f"{running.url}/a2a", content=content, headers=asked, timeout=120) as response:
        for line in response.iter_lines():
            chunks += line.count("artifactUpdate") if line.startswith("data:") else 0
    if chunks < count:
        raise RuntimeError(f"{chunks} of {count} chunks came")
    return Stream(time.perf_counter() - began, (cpu_s(running.pid) - before) * 1000)
