"""An MCP server as a worker: each action is one of its tools, `signature.send` the tool `signature_send`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ExtraMissing, UpstreamUnavailable
from dragoman.kit import ToolError, ToolResult
from dragoman.kit.toolsets import McpToolset
from dragoman.services.workers.protocol import Assignment, Capability, Json, Performed
from dragoman.services.workers.remote_answers import WorkerFailed, failure_of, performed

if TYPE_CHECKING:
    import httpx

# The name that our own MCP door reads.
KEY_META: Final = "dragoman/idempotencyKey"
ENVELOPE_META: Final = "dragoman/envelope"


@dataclass(frozen=True, slots=True)
class McpWorker:
    """A worker at an MCP server. A call is one effect; an idempotent tool is called again with the same key."""

    name: str
    capabilities: tuple[Capability, ...]
    url: str
    headers: Callable[[], dict[str, str]] = field(repr=False)
    connect: Callable[[], "httpx.AsyncClient"] = field(repr=False)
    check: Callable[[str], Awaitable[None]] = field(repr=False)

    async def perform(self, assignment: Assignment) -> Performed:
        """Call the tool and return its result.

        After a retryable failure of the call, the next attempt makes a new one.

        Raises:
            DragomanError: the action failed; `retryable` says whether another attempt may succeed.
        """
        # Checked here: the SDK would report a refused address or an open breaker like any other connection error.
        await self.check(self.url)
        timeout_s = next(each.timeout_s for each in self.capabilities if each.action == assignment.envelope.action)
        server = McpToolset(self.url, headers=self.headers(), timeout_s=timeout_s, transport=_transport(self.connect()))
        try:
            async with server:
                return await self._call(server, assignment)
        except ToolError as error:
            wait_s = error.retry_after_s
            raise UpstreamUnavailable(f"the worker {self.name!r}", retry_after_s=wait_s) from error

    async def _call(self, server: McpToolset, assignment: Assignment) -> Performed:
        tool = assignment.envelope.action.replace(".", "_")
        tools = {listed.name: listed for listed in await server.list_tools()}
        if tool not in tools:
            raise WorkerFailed(f"the worker {self.name!r} has no tool {tool!r}", reason="REMOTE_REFUSED")
        arguments: Json = assignment.input.model_dump(mode="json", exclude_none=True)
        envelope = assignment.envelope.model_dump(mode="json", exclude_none=True, exclude={"input"})
        called = False

        async def call(key: str) -> Json:
            nonlocal called
            called = True
            return _stored(await server.call(tool, arguments, meta={KEY_META: key, ENVELOPE_META: envelope}))

        for number in count(1):
            outcome = await assignment.effects.once(
                f"mcp.call.{number}",
                {"worker": self.name, "tool": tool, "arguments": arguments},
                call,
                repeatable=tools[tool].annotations.idempotent,
            )
            if "output" in outcome:
                return performed(outcome["output"])
            error = failure_of(self.name, "failed", outcome["error"]["message"], outcome["error"], passing=True)
            if not error.retryable or called:
                raise error
        raise AssertionError("unreachable: count() has no end")


def _stored(result: ToolResult) -> Json:
    """Return what the effects store; an error is a definite outcome too."""
    if result.is_error:
        error = {"message": str(result.output), "code": result.code or ""}
        wait = {name: value for name, value in result.details.items() if name == "retry_after_s"}
        return {"error": error | wait}
    return {"output": result.output if isinstance(result.output, dict) else {"text": str(result.output)}}


def _transport(client: "httpx.AsyncClient") -> Any:
    try:
        from dragoman.infra.outbound.httpx2_guard import GuardedTransport  # noqa: PLC0415 - it comes with the extra
    except ImportError:
        raise ExtraMissing("mcp") from None
    return GuardedTransport(client)
