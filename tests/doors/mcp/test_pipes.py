"""`dragoman mcp`, as a client starts it."""

import asyncio
import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import ElicitResult, PromptListChangedNotification

from tests.doors.mcp.calling import Mcp
from tests.harness import DRAGOMAN, Server
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio


def started(server: Server, *arguments: str, **environment: str) -> StdioServerParameters:
    settings = server.environment | {"DRAGOMAN_URL": server.url} | environment
    return StdioServerParameters(command=str(DRAGOMAN), args=["mcp", *arguments], env=settings)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_finds_over_pipes_what_it_finds_over_http(
    spoken: Server, mcp: Mcp, mode: Any
) -> None:
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with Client(started(spoken), mode=mode) as client:
        tools = await client.list_tools()
        who = await client.call_tool("identity_show", {})
        wrong = await client.call_tool("tenant_create", {"slug": 5})
        talk = await client.call_tool("conformance", {"text": "tck-stream hi"}, progress_callback=hear)

    assert [tool.name for tool in tools.tools] == [tool["name"] for tool in mcp.ask("tools/list")["tools"]]
    assert who.structured_content["roles"] == ["super_admin"]
    assert wrong.structured_content["error"]["code"] == "INVALID_PARAMS"
    assert talk.structured_content["state"] == "succeeded"
    assert "working" in heard


async def test_a_client_at_pipes_is_asked_and_told_as_one_over_http(spoken: Server, everything: Server) -> None:
    """Its session is the business of the program between: it begins one, and another when that has ended."""
    came = asyncio.Event()

    async def fill_in(context: Any, params: Any) -> ElicitResult:
        del context
        return ElicitResult(action="accept", content={"username": params.message, "email": "ada@example.com"})

    async def hear(message: Any) -> None:
        if isinstance(message, PromptListChangedNotification):
            came.set()

    begun = started(everything, DRAGOMAN_TOKEN=spoken.token(role="super_admin"))
    async with Client(begun, mode="legacy", elicitation_callback=fill_in, message_handler=hear) as client:
        asked = await client.call_tool("test_elicitation", {"message": "Who?"})
        await client.call_tool("test_trigger_prompt_change", {})
        async with asyncio.timeout(PATIENCE_S):
            await came.wait()
        await client.call_tool("test_trigger_prompt_change", {})

    assert "'username': 'Who?'" in str(asked.content)


async def test_the_token_of_the_environment_decides_who_asks(spoken: Server) -> None:
    token = spoken.token(role="viewer", user="vera")

    async with Client(started(spoken, DRAGOMAN_TOKEN=token)) as client:
        who = await client.call_tool("identity_show", {})

    assert (who.structured_content["subject"], who.structured_content["roles"]) == ("vera", ["viewer"])


def test_a_server_that_is_not_there_and_a_bad_token_are_answers_that_say_so(spoken: Server) -> None:
    """A client shows what it is answered; a program that ends or hangs tells nobody anything."""
    asked = (
        '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n\n{"jsonrpc": "2.0", "method": "notifications/x"}\nno JSON\n'
    )
    settings = spoken.environment | {"DRAGOMAN_URL": spoken.url, "DRAGOMAN_TOKEN": "nonsense"}

    refused, nowhere = (
        subprocess.run(
            [DRAGOMAN, "mcp"], input=asked, env=settings | {"DRAGOMAN_URL": url}, text=True, capture_output=True,
            timeout=PATIENCE_S, check=False,
        )
        for url in (spoken.url, "http://127.0.0.1:9")
    )  # fmt: skip

    (answer,), (unreached,) = ([json.loads(line) for line in said.stdout.splitlines()] for said in (refused, nowhere))
    assert (refused.returncode, nowhere.returncode) == (0, 0)
    assert (answer["id"], answer["error"]["data"]["code"]) == (1, "UNAUTHENTICATED")
    assert "cannot reach" in unreached["error"]["message"]


def test_a_session_that_has_ended_is_begun_anew_for_a_client_that_cannot_know() -> None:
    """At pipes there is no status that could tell it."""
    begun: list[str | None] = []

    class Forgetful(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            session = self.headers.get("mcp-session-id")
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            begun.append(f"{message['method']} {session}")
            self.send_response(404 if session == "s1" else 200)
            self.send_header("content-type", "application/json")
            if message["method"] == "initialize":
                self.send_header("mcp-session-id", f"s{len(begun)}")
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode()
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
            pass

    asked = [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]
    with ThreadingHTTPServer(("127.0.0.1", 0), Forgetful) as forgetful:
        Thread(target=forgetful.serve_forever, daemon=True).start()
        settings = {"DRAGOMAN_URL": f"http://127.0.0.1:{forgetful.server_port}", "DRAGOMAN_TOKEN": "t"}
        said = subprocess.run(
            [DRAGOMAN, "mcp"], input="".join(json.dumps(one) + "\n" for one in asked), text=True, capture_output=True,
            env=os.environ | settings, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        forgetful.shutdown()

    assert begun == ["initialize None", "ping s1", "initialize None", "ping s3"]
    assert [json.loads(line)["id"] for line in said.stdout.splitlines()] == [1, 2]


def test_a_stream_of_changes_does_not_keep_the_program_when_its_client_has_gone(spoken: Server) -> None:
    """What was asked before is answered; a stream has no answer to wait for."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    listen = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    call = {"name": "identity_show", "arguments": {}, "_meta": meta}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]

    said = subprocess.run(
        [DRAGOMAN, "mcp"], input="".join(json.dumps(one) + "\n" for one in asked), text=True, capture_output=True,
        env=spoken.environment | {"DRAGOMAN_URL": spoken.url}, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    answers = [json.loads(line) for line in said.stdout.splitlines()]
    assert said.returncode == 0
    assert [one["result"]["structuredContent"]["subject"] for one in answers if one.get("id") == 2] != []
