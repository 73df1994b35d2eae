"""The SDK behind the door fails: the server says so, and has it back without a restart."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from tests.doors.mcp.calling import MODERN, OLD, Mcp, Session, read
from tests.harness import InProcess, Server, wait_for


@pytest.fixture
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


class Failure:
    """A failure of the SDK for as long as it lasts."""

    def __init__(self) -> None:
        self.lasts = True

    def before(self, enter: Any) -> Any:
        """Fail instead of entering."""

        @asynccontextmanager
        async def entered(of: Any) -> AsyncGenerator[Any]:
            if self.lasts:
                raise OSError("the SDK cannot start")
            async with enter(of) as value:
                yield value

        return entered

    def after(self, enter: Any) -> Any:
        """Fail while leaving, once."""

        @asynccontextmanager
        async def entered(of: Any) -> AsyncGenerator[Any]:
            async with enter(of) as value:
                yield value
            if self.lasts:
                self.lasts = False
                raise OSError("the SDK has failed")

        return entered


def jobs_of(server: Server) -> dict[str, Any]:
    with server.client() as client:
        return client.get("/health").json()["dependencies"]["jobs"]


def answered(mcp: Mcp, era: str) -> httpx.Response | None:
    """The list of tools, once there is one; until then a refusal that says when to come back."""
    response = mcp.post("tools/list", era=era)
    if response.status_code == 200:
        return response
    assert (response.status_code, response.headers["retry-after"]) == (503, "1"), response.text
    return None


def test_a_start_that_fails_is_a_refusal_and_is_tried_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    failure, mcp = Failure(), Mcp(server)
    monkeypatch.setattr(StreamableHTTPSessionManager, "run", failure.before(StreamableHTTPSessionManager.run))

    refused = mcp.post("tools/list")
    named = wait_for(lambda: (jobs := jobs_of(server))["status"] == "down" and jobs, "health to name the job")
    within_session = Session(mcp).ask("tools/list")
    failure.lasts = False
    tools = read(wait_for(lambda: answered(mcp, MODERN), "the door"))["result"]["tools"]

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert read(refused)["error"]["data"]["code"] == "UPSTREAM_UNAVAILABLE"
    assert "mcp_endpoint" in named["detail"]
    assert within_session["tools"]
    assert tools
    wait_for(lambda: jobs_of(server)["status"] == "up", "health to be well again")


@pytest.mark.parametrize("era", [OLD, MODERN])
def test_an_sdk_that_ends_is_built_anew(server: Server, monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    mcp, connect = Mcp(server), StreamableHTTPServerTransport.connect
    read(mcp.post("tools/list", era=era))

    monkeypatch.setattr(StreamableHTTPServerTransport, "connect", Failure().after(connect))
    mcp.post("tools/list", era=OLD)
    named = wait_for(lambda: (jobs := jobs_of(server))["status"] == "down" and jobs, "health to name the job")
    tools = read(wait_for(lambda: answered(mcp, era), "the door"))["result"]["tools"]

    assert "mcp_endpoint" in named["detail"]
    assert tools
    assert [line["job"] for line in server.log_lines() if line["message"] == "job.failed"] == ["mcp_endpoint"]
    wait_for(lambda: jobs_of(server)["status"] == "up", "health to be well again")
