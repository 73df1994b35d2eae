import json
from contextlib import ExitStack
from typing import Any

import httpx
from tests.backstage import database_url, sql
from tests.harness import Server

from bench.load import NUMBER, request
from bench.reference import reference
from bench.subject import Effort, Subject, dragoman, take_turns
from bench.table import Line, Outcome

_READ, _WRITE, _GET = "SendMessage, reads", "SendMessage, writes", "GetTask"
# The SDK's CPU by ours: in memory, and in PostgreSQL.
LEAST_TIMES = {_READ: (8, 25), _WRITE: (6, 6), _GET: (2, 2)}
_ADD = {"tool": "memory_add", "arguments": {"content": f"Bench note {NUMBER}"}}


def run(effort: Effort) -> Outcome:
    """SendMessage and GetTask over JSON-RPC; ours guarded and durable, beside the SDK's bare server.

    What the SDK does for a message is the same whether a tool of ours reads or writes.
    """
    outcome = Outcome("A2A, closed loop: ours durable and guarded, the reference bare")
    with ExitStack() as stack:
        server = stack.enter_context(dragoman())
        bearer = {"authorization": f"Bearer {server.token()}", "a2a-version": "1.0"}
        others = {
            "SDK, in memory": stack.enter_context(reference()),
            "SDK, in memory, OpenTelemetry on": stack.enter_context(reference(traced=True)),
            "SDK, in PostgreSQL": stack.enter_context(reference(_own_database(server))),
        }
        for what in LEAST_TIMES:
            ours, *theirs = [
                Subject(name, running, request("POST", "/a2a", bearer, _body(what, running.url, bearer)))
                for name, running in {"Dragoman": server, **others}.items()
            ]
            take_turns([ours, *theirs], effort)
            _compare(outcome, what, ours, theirs)
    outcome.note = "A ratio is the other's CPU by ours; the reference checks no token and no limit, and writes no log."
    return outcome


def _compare(outcome: Outcome, what: str, ours: Subject, theirs: list[Subject]) -> None:
    in_memory, in_database = LEAST_TIMES[what]
    outcome.lines.append(_line(f"{what}, {ours.name}", ours))
    for other in theirs:
        least = in_database if "PostgreSQL" in other.name else in_memory
        times = other.cpu_us / ours.cpu_us
        outcome.lines.append(_line(f"  {other.name}", other, times, f">= {least}x", met=times >= least))
    for subject in (ours, *theirs):
        outcome.figures[f"{what}, {subject.name}"] = subject.figures()
        outcome.server_errors += subject.server_errors


def _line(
    what: str, subject: Subject, ratio: float | None = None, target: str = "", *, met: bool | None = None
) -> Line:
    measured = f"{subject.per_s:,.0f}/s"
    return Line(what, measured, ratio, subject.cpu_us, subject.typical_cpu_us, subject.beside_us, target, met)


def _body(what: str, url: str, headers: dict[str, str]) -> str:
    if what != _GET:
        return rpc("SendMessage", _message(_ADD if what == _WRITE else {"tool": "identity_show"}))
    content = rpc("SendMessage", _message({"tool": "identity_show"}))
    sent = httpx.post(f"{url}/a2a", content=content, headers=headers | _JSON).json()
    return rpc("GetTask", {"id": sent["result"]["task"]["id"]})


def _message(call: dict[str, Any]) -> dict[str, Any]:
    return {"message": {"messageId": f"m-{NUMBER}", "role": "ROLE_USER", "parts": [{"data": call}]}}


_JSON = {"content-type": "application/json"}


def rpc(method: str, params: Any) -> str:
    """The body of a call."""
    return json.dumps({"jsonrpc": "2.0", "id": "1", "method": method, "params": params})


def _own_database(server: Server) -> str:
    """Another database of the same PostgreSQL, as SQLAlchemy names it."""
    sql(server, "CREATE DATABASE reference")
    return database_url(server, "reference").replace("postgresql:", "postgresql+asyncpg:", 1)
