"""An MCP server as a worker: an action is one of its tools, `signature.send` the tool `signature_send`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from dragoman.errors import ExtraMissing, UpstreamUnavailable
from dragoman.infra.outbound import Guard
from dragoman.kit import ToolError, ToolResult
from dragoman.kit.toolsets import McpToolset
from dragoman.services.workers.protocol import Assignment, Capability, Json, Performed
from dragoman.services.workers.remote_answers import WorkerFailed, failure_of, performed

# The same name as our own MCP door reads.
KEY_META: Final = "dragoman/idempotencyKey"
ENVELOPE_META: Final = "dragoman/envelope"


@dataclass(frozen=True, slots=True)
class McpWorker:
    """One server. A call is one effect: a tool that says it is idempotent is called again with the same key."""

    name: str
    capabilities: tuple[Capability, ...]
    url: str
    headers: Callable[[], dict[str, str]] = field(repr=False)
    guard: Guard = field(repr=False)

    async def perform(self, assignment: Assignment) -> Performed:
        """Call the tool and wait.

        A call that failed in passing is followed by another one in the next attempt.

        Raises:
            DragomanError: it could not be done; `retryable` says whether it is worth another attempt.
        """
        # The SDK would tell of a refusal as of any other trouble with the line.
        await self.guard.check(self.url)
        timeout_s = next(one.timeout_s for one in self.capabilities if one.action == assignment.envelope.action)
        server = McpToolset(self.url, headers=self.headers(), timeout_s=timeout_s, transport=_way_out(self.guard))
        try:
            async with server:
                return await self._call(server, assignment)
        except ToolError as error:
            wait_s = error.retry_after_s
            raise UpstreamUnavailable(f"the worker {self.name!r}", retry_after_s=wait_s) from error

    async def _call(self, server: McpToolset, assignment: Assignment) -> Performed:
        tool = assignment.envelope.action.replace(".", "_")
        found = {one.name: one for one in await server.list_tools()}
        if tool not in found:
            raise WorkerFailed(f"the worker {self.name!r} has no tool {tool!r}", reason="REMOTE_REFUSED")
        arguments: Json = assignment.input.model_dump(mode="json", exclude_none=True)
        envelope = assignment.envelope.model_dump(mode="json", exclude_none=True, exclude={"input"})
        spoke = False

        async def call(key: str) -> Json:
            nonlocal spoke
            spoke = True
            return _kept(await server.call(tool, arguments, meta={KEY_META: key, ENVELOPE_META: envelope}))

        for number in count(1):
            told = await assignment.effects.once(
                f"mcp.call.{number}",
                {"worker": self.name, "tool": tool, "arguments": arguments},
                call,
                repeatable=found[tool].annotations.idempotent,
            )
            if "output" in told:
                return performed(told["output"])
            error = failure_of(self.name, "failed", told["error"]["message"], told["error"], passing=True)
            if not error.retryable or spoke:
                raise error
        raise AssertionError("the numbers have no end")


def _kept(result: ToolResult) -> Json:
    """What is remembered: an error is an answer too, and a definite one."""
    if result.is_error:
        error = {"message": str(result.output), "code": result.code or ""}
        wait = {name: value for name, value in result.details.items() if name == "retry_after_s"}
        return {"error": error | wait}
    return {"output": result.output if isinstance(result.output, dict) else {"text": str(result.output)}}


def _way_out(guard: Guard) -> Any:
    try:
        from dragoman.infra.outbound.httpx2_guard import GuardedTransport  # noqa: PLC0415 - it comes with the extra
    except ImportError:
        raise ExtraMissing("mcp") from None
    return GuardedTransport(guard)
