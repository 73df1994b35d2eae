import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from dragoman.kit import LlmWorker, ToolError
from dragoman.kit.testing import ScriptedLlm, call
from dragoman.kit.toolsets import McpCommand, McpToolset
from tests.harness import wait_for
from tests.kit.web import free_port
from tests.patience import PATIENCE_S

SERVER = str(Path(__file__).with_name("mcp_server.py"))
PIPES = McpCommand(sys.executable, (SERVER,))


def answers(port: int) -> bool:
    with closing(socket.socket()) as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def served(port: int) -> Generator[str]:
    with subprocess.Popen([sys.executable, SERVER, str(port)]) as server:
        try:
            wait_for(lambda: answers(port), "the MCP server")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(free_port()) as found:
        yield found


@pytest.fixture(params=["http", "pipes"])
def where(request: pytest.FixtureRequest, url: str) -> Any:
    return url if request.param == "http" else PIPES


async def test_all_pages_are_tools_with_their_schemas_and_hints(where: Any) -> None:
    async with McpToolset(where, prefix="sums_") as toolset:
        tools = {tool.name: tool for tool in await toolset.list_tools()}

    assert list(tools) == ["sums_add", "sums_fail_now", "sums_hang", "sums_die", "sums_pid"]
    assert tools["sums_add"].input_schema["required"] == ["a", "b"]
    assert tools["sums_add"].annotations.read_only


async def test_a_worker_calls_them_on_one_connection(where: Any) -> None:
    llm = ScriptedLlm([call("add", a=1, b=2), call("pid")], call("pid"), "3")
    async with McpToolset(where, include={"add", "pid"}) as toolset:
        answer, thread = await LlmWorker(llm, str, tools=[toolset]).run_and_continue("1 and 2?")

    outputs = [part.output for event in thread for part in event.content.tool_responses]
    assert answer == "3"
    assert outputs[0] == {"sum": 3}
    assert outputs[1] == outputs[2]


async def test_what_goes_wrong_is_the_error_of_the_tool(url: str) -> None:
    async with McpToolset(url, timeout_s=PATIENCE_S) as toolset:
        tools = {tool.name: tool for tool in await toolset.list_tools()}
        failed = await tools["fail_now"].call({})

    assert (failed.is_error, failed.output) == (True, "it failed as it was asked to")


async def test_a_server_that_hangs_is_given_up_and_asked_anew(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with McpToolset(url, timeout_s=PATIENCE_S) as toolset:
        tools = {tool.name: tool for tool in await toolset.list_tools()}
        with monkeypatch.context() as hasty:
            hasty.setattr(toolset, "_timeout_s", 0.5)
            hung = await tools["hang"].call({})
        again = await tools["add"].call({"a": 2, "b": 2})

    assert hung.is_error
    assert "did not answer within 0.5 s" in str(hung.output)
    assert again.output == {"sum": 4}


async def test_a_server_that_dies_is_told_and_started_again() -> None:
    async with McpToolset(PIPES, timeout_s=PATIENCE_S) as toolset:
        tools = {tool.name: tool for tool in await toolset.list_tools()}
        dead = await tools["die"].call({})
        again = await tools["add"].call({"a": 2, "b": 2})

    assert dead.is_error
    assert again.output == {"sum": 4}


async def test_a_server_that_dies_in_the_middle_of_a_call_over_http_is_told_and_found_when_it_is_back() -> None:
    port = free_port()
    with served(port) as url:
        toolset = McpToolset(url, timeout_s=PATIENCE_S)
        tools = {tool.name: tool for tool in await toolset.list_tools()}
        dead = await tools["die"].call({})
    gone = await tools["add"].call({"a": 2, "b": 2})
    with served(port):
        async with toolset:
            again = await tools["add"].call({"a": 2, "b": 2})

    assert (dead.is_error, gone.is_error) == (True, True)
    assert "within" not in str(dead.output)
    assert again.output == {"sum": 4}


@pytest.mark.parametrize(
    "server", [f"http://127.0.0.1:{free_port()}/mcp", McpCommand("no-such-program")], ids=["http", "pipes"]
)
async def test_a_server_that_is_not_there_is_an_error_in_words(server: Any) -> None:
    async with McpToolset(server, timeout_s=PATIENCE_S) as toolset:
        with pytest.raises(ToolError, match=r"does not answer|has gone"):
            await toolset.list_tools()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(ImportError, match=r"dragoman\[mcp\]"):
        McpToolset("http://localhost/mcp")
