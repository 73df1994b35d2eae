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

LEAST_TIMES = {"SendMessage": (10, 80), "GetTask": (15, 15)}
_SENT = {"message": {"messageId": f"m-{NUMBER}", "role": "ROLE_USER", "parts": [{"data": {"tool": "identity_show"}}]}}


def run(effort: Effort) -> Outcome:
    """SendMessage and GetTask over JSON-RPC; ours guarded and durable, beside the SDK's bare server."""
    outcome = Outcome("A2A, closed loop: ours durable and guarded, the reference bare")
    with ExitStack() as stack:
        server = stack.enter_context(dragoman())
        bearer = {"authorization": f"Bearer {server.token()}", "a2a-version": "1.0"}
        others = {
            "SDK, in memory": stack.enter_context(reference()),
            "SDK, in memory, OpenTelemetry on": stack.enter_context(reference(traced=True)),
            "SDK, in PostgreSQL": stack.enter_context(reference(_own_database(server))),
        }
        for method in ("SendMessage", "GetTask"):
            ours, *theirs = [
                Subject(name, running, request("POST", "/a2a", bearer, _body(method, running.url, bearer)))
                for name, running in {"Dragoman": server, **others}.items()
            ]
            take_turns([ours, *theirs], effort)
            _compare(outcome, method, ours, theirs)
    outcome.note = "A ratio is the other's CPU by ours; the reference checks no token and no limit, and writes no log."
    return outcome


def _compare(outcome: Outcome, method: str, ours: Subject, theirs: list[Subject]) -> None:
    in_memory, in_database = LEAST_TIMES[method]
    outcome.lines.append(_line(f"{method}, {ours.name}", ours))
    for other in theirs:
        least = in_database if "PostgreSQL" in other.name else in_memory
        times = other.cpu_us / ours.cpu_us
        outcome.lines.append(_line(f"  {other.name}", other, times, f">= {least}x", met=times >= least))
    for subject in (ours, *theirs):
        outcome.figures[f"{method}, {subject.name}"] = subject.figures()
        outcome.server_errors += subject.server_errors


def _line(
    what: str, subject: Subject, ratio: float | None = None, target: str = "", *, met: bool | None = None
) -> Line:
    measured = f"{subject.per_s:,.0f}/s"
    return Line(what, measured, ratio, subject.cpu_us, subject.typical_cpu_us, subject.beside_us, target, met)


def _body(method: str, url: str, headers: dict[str, str]) -> str:
    params: Any = _SENT
    if method == "GetTask":
        sent = httpx.post(f"{url}/a2a", content=rpc("SendMessage", _SENT), headers=headers | _JSON).json()
        params = {"id": sent["result"]["task"]["id"]}
    return rpc(method, params)


_JSON = {"content-type": "application/json"}


def rpc(method: str, params: Any) -> str:
    """The body of a call."""
    return json.dumps({"jsonrpc": "2.0", "id": "1", "method": method, "params": params})


def _own_database(server: Server) -> str:
    """Another database of the same PostgreSQL, as SQLAlchemy names it."""
    sql(server, "CREATE DATABASE reference")
    return database_url(server, "reference").replace("postgresql:", "postgresql+asyncpg:", 1)
