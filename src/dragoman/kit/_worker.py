"""A model at work with tools: turn by turn, until it has an answer of the type that was asked for."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from dragoman.kit._content import ToolCallPart, ToolResponsePart
from dragoman.kit._effects import AttemptFenced
from dragoman.kit._errors import LlmLimitReached, LlmUnavailable
from dragoman.kit._llm import Llm, LlmChunk, TextDelta, Usage
from dragoman.kit._output import Misfit, Output
from dragoman.kit._ports import Activity
from dragoman.kit._thread import Event, Thread, ThreadLike
from dragoman.kit._tool import Tool, ToolContext, ToolResult, ToolSource, gather_tools
from dragoman.kit._validation import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model asked for a tool, and it is being run."""

    call: ToolCallPart


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The tool gave this."""

    call: ToolCallPart
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    """The end of the work: the value, the thread to go on from, and what it cost."""

    value: T
    thread: Thread
    usage: Usage


WorkerEvent: TypeAlias = TextDelta | ToolStarted | ToolFinished | Finished[T]
OnActivity: TypeAlias = Callable[[Activity, tuple[str, ...]], Awaitable[None]]


async def _unobserved(activity: Activity, tools: tuple[str, ...]) -> None:
    """Nobody watches."""


class LlmWorker(Generic[T]):
    """A loop of model turns and tool calls. The conversation is yours: a thread goes in, a longer one comes out.

    Calls of one turn run side by side. A tool that does not exist, arguments that do not fit, a tool that fails and
    an answer of the wrong shape are told to the model, which may do better; the limits bound how often.
    """

    def __init__(
        self,
        llm: Llm,
        output_type: type[T],
        *,
        system: str | None = None,
        tools: Sequence[ToolSource] = (),
        max_iterations: int = 20,
        budget_tokens: int | None = None,
        context: ToolContext | None = None,
        on_activity: OnActivity = _unobserved,
    ) -> None:
        if max_iterations < 1:
            raise ValueError("max_iterations is at least 1")
        self._llm, self._output, self._system = llm, Output(output_type), system
        self._tools, self._max_iterations, self._budget_tokens = tuple(tools), max_iterations, budget_tokens
        self._context, self._on_activity = context or ToolContext(), on_activity
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What all runs of this worker have used, failed ones included."""
        return self._usage

    async def run(self, said: ThreadLike) -> T:
        """Work until there is an answer.

        Raises:
            LlmLimitReached: the turns or the tokens are used up; the error has the thread so far.
            LlmUnavailable: the model does not answer.
        """
        value, _ = await self.run_and_continue(said)
        return value

    async def run_and_continue(self, said: ThreadLike) -> tuple[T, Thread]:
        """The answer, and the thread with every turn and tool call in it."""
        async with aclosing(self._work(Thread.of(said), streaming=False)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event.value, event.thread
        raise AssertionError("the work ends with an answer or an error")

    def stream(self, said: ThreadLike) -> AsyncGenerator[WorkerEvent[T], None]:
        """The same work as it happens: text as it comes, tools as they start and finish, and Finished at the end."""
        return self._work(Thread.of(said), streaming=True)

    async def _work(self, given: Thread, *, streaming: bool) -> AsyncGenerator[WorkerEvent[T], None]:
        tools = await gather_tools(self._tools)
        thread, spent = given, Usage()
        for _ in range(self._max_iterations):
            self._check_budget(thread, spent)
            response = None
            async with aclosing(self._turn(thread, tools, streaming=streaming)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextDelta):
                        yield chunk
                    else:
                        response = chunk
            if response is None:
                raise LlmUnavailable(self._llm.model, "the stream ended without a response")
            spent, self._usage = spent + response.usage, self._usage + response.usage
            thread = thread.add_event(Event.assistant(response.content))
            if calls := response.content.tool_calls:
                for call in calls:
                    yield ToolStarted(call)
                results = await self._run_all(calls, tools)
                for call, result in zip(calls, results, strict=True):
                    yield ToolFinished(call, result)
                thread = thread.add_event(Event.tool(*map(_response, calls, results)))
                continue
            try:
                value = self._output.read(response.content.text)
            except Misfit as misfit:
                thread = thread.add_event(self._output.repair(misfit))
                continue
            yield Finished(value, thread, spent)
            return
        raise LlmLimitReached(f"{self._max_iterations} turns", thread=thread, usage=spent)

    async def _turn(self, thread: Thread, tools: dict[str, Tool], *, streaming: bool) -> AsyncGenerator[LlmChunk, None]:
        prompted = thread if self._system is None else thread.with_system(self._system)
        request = self._output.request(self._llm, prompted, tools=[tool.spec for tool in tools.values()])
        if not streaming:
            yield await self._llm.generate(request)
            return
        async with aclosing(self._llm.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _check_budget(self, thread: Thread, spent: Usage) -> None:
        if self._budget_tokens is not None and spent.total_tokens >= self._budget_tokens:
            raise LlmLimitReached(f"{self._budget_tokens} tokens", thread=thread, usage=spent)

    async def _run_all(self, calls: Sequence[ToolCallPart], tools: dict[str, Tool]) -> list[ToolResult]:
        await self._on_activity(Activity.AWAITING_TOOL, tuple(call.name for call in calls))
        # One that ends the turn does not cut the others off: what they do outside would be left without an outcome.
        ended = await asyncio.gather(*(self._run_one(call, tools) for call in calls), return_exceptions=True)
        results = [one for one in ended if not isinstance(one, BaseException)]
        if broken := [one for one in ended if isinstance(one, BaseException)]:
            raise next((one for one in broken if isinstance(one, AttemptFenced)), broken[0])
        await self._on_activity(Activity.EXECUTING, ())
        return results

    async def _run_one(self, call: ToolCallPart, tools: dict[str, Tool]) -> ToolResult:
        tool = tools.get(call.name)
        if tool is None:
            offered = ", ".join(sorted(tools)) or "none"
            hint = did_you_mean(call.name, tools)
            return ToolResult.error(f"there is no tool {call.name!r}{hint}; the tools are: {offered}")
        if call.malformed is not None:
            return ToolResult.error("the arguments are not a JSON object; call the tool again with one")
        return await tool.call(call.arguments, replace(self._context, call_id=call.id))


def _response(call: ToolCallPart, result: ToolResult) -> ToolResponsePart:
    return ToolResponsePart(call_id=call.id, name=call.name, output=result.output, is_error=result.is_error)
