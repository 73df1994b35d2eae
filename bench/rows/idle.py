import asyncio
import resource
from collections.abc import Sequence

import httpx

from bench.load import NUMBER, request
from bench.process import resident_mb
from bench.reference import reference
from bench.rows.messages import rpc
from bench.subject import Effort, Running, Subject, dragoman
from bench.table import Line, Outcome

PARKED = 2_000
MOST_SUBSCRIBER_KB = 40
# Of the reference, which takes its time to let each in.
_ITS_SUBSCRIBERS = 1_000
_QUESTION = {
    "message": {
        "messageId": f"m-{NUMBER}",
        "role": "ROLE_USER",
        "parts": [{"text": "tck-input-required"}],
    }
}


def run(effort: Effort) -> Outcome:
    """What it costs a process to wait: for the answer to a question, and with those who follow a task."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    outcome = Outcome("A2A, waiting: memory of the web process")
    with dragoman() as server, reference() as other:
        bearer = {"authorization": f"Bearer {server.token()}", "a2a-version": "1.0"}
        for name, running in (("Dragoman", server), ("SDK, in memory", other)):
            count, parked_kb = _park(Subject(name, running, request("POST", "/a2a", bearer, _ASK)))
            outcome.lines.append(Line(f"{name}: a parked task", f"{parked_kb:.1f} KB of {count:,}"))
            ours = running is server
            subscribers = effort.subscribers if ours else _ITS_SUBSCRIBERS
            subscriber_kb = asyncio.run(_subscribe(running, _parked_ids(running, bearer), bearer, subscribers))
            met = subscriber_kb <= MOST_SUBSCRIBER_KB if ours else None
            target = f"<= {MOST_SUBSCRIBER_KB} KB" if ours else ""
            measured = f"{subscriber_kb:.1f} KB of {subscribers:,}"
            outcome.lines.append(Line(f"{name}: an idle subscriber", measured, target=target, met=met))
            outcome.figures[name] = {"parked": count, "parked_kb": parked_kb, "subscriber_kb": subscriber_kb}
    outcome.note = "Growth of resident memory by each; an empty heap first takes what it had freed before."
    return outcome


_ASK = rpc("SendMessage", _QUESTION)


def _park(subject: Subject) -> tuple[int, float]:
    """How many tasks were parked, and what each of them added, once the server was warm."""
    subject.take_turn(1.0)
    before_mb, parked = resident_mb(subject.server.pid), 0
    while parked < PARKED:
        parked += subject.take_turn(1.0).load.answered
    return parked, (resident_mb(subject.server.pid) - before_mb) * 1024 / parked


def _parked_ids(running: Running, headers: dict[str, str]) -> list[str]:
    asked = rpc("ListTasks", {"status": "TASK_STATE_INPUT_REQUIRED", "pageSize": 100})
    typed = headers | {"content-type": "application/json"}
    found = httpx.post(f"{running.url}/a2a", content=asked, headers=typed, timeout=60).json()
    return [task["id"] for task in found["result"]["tasks"]]


async def _subscribe(running: Running, ids: Sequence[str], headers: dict[str, str], count: int) -> float:
    """Follow tasks that rest, from `count` connections at once; what each of them added, in KB."""
    host, port = running.url.removeprefix("http://").split(":")
    before_mb = resident_mb(running.pid)
    writers: list[asyncio.StreamWriter] = []
    for number in range(count):
        reader, writer = await asyncio.open_connection(host, int(port))
        body = rpc("SubscribeToTask", {"id": ids[number % len(ids)]})
        writer.write(request("POST", "/a2a", headers, body).encode())
        # The task as it stands; whoever has it is being served.
        await reader.readuntil(b"INPUT_REQUIRED")
        writers.append(writer)
    after_mb = resident_mb(running.pid)
    for writer in writers:
        writer.close()
    return (after_mb - before_mb) * 1024 / count
