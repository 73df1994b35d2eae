"""A hand-over through each of the doors, answered alike: what became of it, or the error."""

import json
from collections.abc import Callable
from typing import Any

from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import by_message
from tests.doors.mcp.calling import Mcp
from tests.harness import Server

Json = dict[str, Any]
# A tool by its name, with its arguments.
Call = Callable[..., Json]


def by_a2a(server: Server, **who: Any) -> Call:
    """A2A 1.0; the task that answers a submission is the canonical one."""
    caller = A2A(server, **who)
    plain = by_message(caller)

    def call(tool: str, **arguments: Any) -> Json:
        if tool != "task_submit":
            return plain(tool, **arguments)
        message = {"role": "ROLE_USER", "messageId": "m-" + arguments["envelope"]["idempotency_key"],
                   "parts": [{"data": {"tool": tool, "arguments": arguments}}]}  # fmt: skip
        task = caller.call("SendMessage", {"message": message})["task"]
        if task["status"]["state"] in ("TASK_STATE_FAILED", "TASK_STATE_REJECTED"):
            return next(part["data"] for part in task["status"]["message"]["parts"] if "data" in part)
        return {"task_id": task["id"], "state": task["metadata"]["state"]}

    return call


def by_mcp(server: Server, **who: Any) -> Call:
    """MCP."""
    caller = Mcp(server, **who)
    return lambda tool, **arguments: caller.call(tool, arguments)["structuredContent"]


def by_cli(server: Server, **who: Any) -> Call:
    """The command line, as a person types it."""
    environment = {"DRAGOMAN_TOKEN": server.token(**who)}

    def call(tool: str, **arguments: Any) -> Json:
        noun, _, verb = tool.partition("_")
        words = [noun, verb.replace("_", "-")]
        words += [str(arguments.pop(name)) for name in ("task_id", "approval_id") if name in arguments]
        for name, value in arguments.items():
            shown = json.dumps(value) if isinstance(value, dict | list) else str(value)
            words += ["--" + name.replace("_", "-"), shown]
        ran = server.cli(*words, "--json", environment=environment)
        assert ran.stdout, ran.stderr
        return json.loads(ran.stdout)

    return call


DOORS = {"a2a": by_a2a, "mcp": by_mcp, "cli": by_cli}
