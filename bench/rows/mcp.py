import json
from contextlib import ExitStack
from typing import Any, Final

from bench.echo import Echo
from bench.load import request
from bench.subject import Effort, Subject, dragoman, take_turns
from bench.table import Line, Outcome

_MOST_TIMES: Final = 1.3
_VERSION: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_ACCEPTS: Final = {"accept": "application/json, text/event-stream"}
_ERAS: Final = {
    "stateless (2026-07-28)": {
        "mcp-protocol-version": _VERSION, "mcp-method": "tools/call", "mcp-name": "identity_show",
    },
    "with a handshake (2025-11-25)": {"mcp-protocol-version": "2025-11-25"},
}  # fmt: skip


def run(effort: Effort) -> Outcome:
    """A tool call in both eras; ours guarded, beside the SDK's bare server with a tool that has nothing to do."""
    outcome = Outcome("MCP tool call, closed loop: ours guarded, the SDK's own server bare")
    with ExitStack() as stack:
        server = stack.enter_context(dragoman())
        floor = stack.enter_context(Echo("bench.mcp_floor"))
        bearer = {"authorization": f"Bearer {server.token()}"}
        for era, headers in _ERAS.items():
            asked = request("POST", "/mcp", bearer | _ACCEPTS | headers, _body(stateless=_VERSION in headers.values()))
            ours, bare = Subject("Dragoman", server, asked), Subject("SDK, bare", floor, asked)
            take_turns([ours, bare], effort)
            _compare(outcome, era, ours, bare)
    outcome.note = "A ratio is our CPU by the SDK's; the SDK checks no token and no limit, and writes no log."
    return outcome


def _compare(outcome: Outcome, era: str, ours: Subject, bare: Subject) -> None:
    times = ours.cpu_us / bare.cpu_us
    for subject, what, ratio in ((ours, f"{era}, {ours.name}", times), (bare, f"  {bare.name}", None)):
        target, met = (f"<= {_MOST_TIMES}x", times <= _MOST_TIMES) if ratio else ("", None)
        measured = f"{subject.per_s:,.0f}/s"
        outcome.lines.append(
            Line(what, measured, ratio, subject.cpu_us, subject.typical_cpu_us, subject.beside_us, target, met)
        )
        outcome.figures[f"{era}, {subject.name}"] = subject.figures()
        outcome.server_errors += subject.server_errors


def _body(*, stateless: bool) -> str:
    params: dict[str, Any] = {"name": "identity_show", "arguments": {}}
    if stateless:
        params["_meta"] = {
            f"{_META}protocolVersion": _VERSION,
            f"{_META}clientInfo": {"name": "bench", "version": "1"},
            f"{_META}clientCapabilities": {},
        }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
