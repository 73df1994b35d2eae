"""The tools of an MCP server, over streamable HTTP or over the pipes of a process."""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from dragoman.backoff import read_retry_after
from dragoman.kit._errors import ToolError
from dragoman.kit._tool import Annotations, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, Response
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as McpTool

log = logging.getLogger(__name__)
T = TypeVar("T")
_MOST_TOOLS: Final = 1000
_MOST_PAGES: Final = 100
_LARGEST_ANSWER: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class McpCommand:
    """A server that is a program: it is started when it is needed, and ended with the toolset."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class McpToolset:
    """The tools of one MCP server, under their own names or behind a prefix.

    One connection is opened when it is first needed, shared by all calls, and opened again after it broke. A server
    that is down or slow is told to the model as the error of the tool. Use the toolset as a context, or `aclose` it.
    A `transport` of httpx2 decides how a server is reached over HTTP.

    Raises:
        ImportError: the package `mcp` is not installed.
    """

    def __init__(
        self,
        server: str | McpCommand,
        *,
        headers: Mapping[str, str] | None = None,
        include: Collection[str] | None = None,
        prefix: str = "",
        timeout_s: float = 30.0,
        transport: "AsyncBaseTransport | None" = None,
    ) -> None:
        _mcp()
        self._server, self._headers, self._transport = server, dict(headers or {}), transport
        self._wait_s: int | None = None
        self._include, self._prefix, self._timeout_s = include, prefix, timeout_s
        self._opening = asyncio.Lock()
        self._line: _Line | None = None

    async def list_tools(self) -> Sequence[Tool]:
        """The tools as the server has them now, page after page.

        Raises:
            ToolError: the server does not answer.
        """
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._ask(lambda client, at=cursor: client.list_tools(cursor=at))
            found += [self._tool(one) for one in page.tools if self._include is None or one.name in self._include]
            cursor = page.next_cursor
            if not cursor or len(found) >= _MOST_TOOLS:
                break
        return found[:_MOST_TOOLS]

    async def call(self, name: str, arguments: dict[str, Any], *, meta: Mapping[str, Any] | None = None) -> ToolResult:
        """Use one of the server's tools by its own name; `meta` goes beside the arguments.

        Raises:
            ToolError: the server does not answer.
        """
        beside: Any = dict(meta or {})
        return _result(await self._ask(lambda client: client.call_tool(name, arguments, meta=beside)))

    async def aclose(self) -> None:
        """Close the connection, and end the program that stands behind it."""
        async with self._opening:
            line, self._line = self._line, None
            if line is not None:
                await line.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _tool(self, told: "McpTool") -> Tool:
        async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:  # noqa: ARG001 any tool gets it
            return _result(await self._ask(lambda client: client.call_tool(told.name, arguments)))

        hints = told.annotations
        annotations = Annotations(
            read_only=bool(hints and hints.read_only_hint),
            destructive=bool(hints and hints.destructive_hint and not hints.read_only_hint),
            idempotent=bool(hints and hints.idempotent_hint),
        )
        words = told.description or told.title or told.name
        return Tool(_name(self._prefix + told.name), words, told.input_schema, invoke, annotations=annotations)

    async def _ask(self, call: "Callable[[Client], Any]") -> Any:
        from mcp import MCPError  # noqa: PLC0415 only who uses it needs it
        from mcp_types import CONNECTION_CLOSED  # noqa: PLC0415 the same

        try:
            async with asyncio.timeout(self._timeout_s):
                line = await self._open()
                return await line.ask(call)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self._drop()
                raise ToolError("the MCP server has gone", retry_after_s=self._wait_s) from error
            raise ToolError(f"the MCP server refused: {str(error)[:500]}", retry_after_s=self._wait_s) from error
        except TimeoutError as error:
            await self._drop()
            raise ToolError(f"the MCP server did not answer within {self._timeout_s:g} s") from error
        except Exception as error:  # transports raise what they like, in groups too
            await self._drop()
            log.warning("the MCP server failed: %r", error)
            raise ToolError("the MCP server does not answer", retry_after_s=self._wait_s) from error

    async def _note_wait(self, response: "Response") -> None:
        """Remember how long the server asks to wait: what the SDK raises does not say it."""
        refused = response.status_code in (429, 503)
        self._wait_s = read_retry_after(response.headers.get("retry-after")) if refused else None

    async def _open(self) -> "_Line":
        async with self._opening:
            if self._line is None or self._line.ended:
                self._line = _Line(self._connect)
            return self._line

    async def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.cancel()

    async def _connect(self, stack: AsyncExitStack) -> "Client":
        from httpx2 import AsyncClient  # noqa: PLC0415 only who uses it needs it
        from mcp import Client, StdioServerParameters  # noqa: PLC0415 the same
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 the same

        if isinstance(self._server, McpCommand):
            given = self._server
            server: Any = StdioServerParameters(command=given.command, args=list(given.args), env=dict(given.env))
        else:
            http = await stack.enter_async_context(
                AsyncClient(
                    headers=self._headers,
                    timeout=self._timeout_s,
                    transport=self._transport,
                    event_hooks={"response": [self._note_wait]},
                )
            )
            server = streamable_http_client(self._server, http_client=http)
        return await stack.enter_async_context(Client(server))


class _Line:
    """An open connection. It lives in a task of its own, since it must be closed by whoever opened it."""

    def __init__(self, connect: Callable[[AsyncExitStack], Any]) -> None:
        self._connect = connect
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._life = asyncio.create_task(self._live())

    @property
    def ended(self) -> bool:
        """Whether it is of no more use."""
        return self._life.done()

    async def ask(self, call: "Callable[[Client], Any]") -> Any:
        """Call the server, or fail as soon as the connection does."""
        client = await asyncio.shield(self._ready)
        asking = asyncio.ensure_future(call(client))
        try:
            await asyncio.wait({asking, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionError("the connection has ended")
            return asking.result()
        finally:
            asking.cancel()

    def cancel(self) -> None:
        """End it without waiting."""
        self._life.cancel()

    async def close(self) -> None:
        """End it in order."""
        self._over.set()
        await asyncio.wait({self._life}, timeout=5)
        self._life.cancel()

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                self._ready.set_result(await self._connect(stack))
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 whoever asks is told
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ready.exception()  # it is told to those who ask; nobody need have


def _result(given: "CallToolResult") -> ToolResult:
    texts = [getattr(one, "text", None) or f"[{one.type}]" for one in given.content]
    words = "\n".join(texts)
    if given.is_error:
        code, wait_s = _told(given.structured_content)
        details = {} if wait_s is None else {"retry_after_s": wait_s}
        return ToolResult.error(words[:_LARGEST_ANSWER] or "the tool failed", code, details)
    if len(words) > _LARGEST_ANSWER:
        return ToolResult.error(f"the answer is larger than {_LARGEST_ANSWER} characters; ask for less")
    return ToolResult.success(words if given.structured_content is None else given.structured_content)


def _told(structured: Any) -> tuple[str | None, int | None]:
    """Return the code of an error and how long to wait, of servers that say so for programs."""
    error: Any = cast("dict[str, Any]", structured).get("error") if isinstance(structured, dict) else None
    told = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code: Any = told.get("code")
    return code[:100] if isinstance(code, str) else None, read_retry_after(told.get("retry_after_s"))


def _name(given: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", given)[:64]
    return name if re.match(r"[A-Za-z_]", name) else f"t_{name}"[:64]


def _mcp() -> None:
    if find_spec("mcp") is None:
        raise ImportError("McpToolset needs the package mcp: pip install 'dragoman[mcp]'")
