"""Doubles for tests of agents: a model that follows a script, a tool that remembers, a runtime in one line.

llm = ScriptedLlm(Claim(amount=None), "42")
task = await run_skill(ClaimExpense, "lunch", llm=llm)
assert task.state is TaskState.INPUT_REQUIRED
"""

import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any, TypeAlias, cast

from dragoman.context import Caller
from dragoman.kit._agent import Agent
from dragoman.kit._content import Content, ContentLike, ToolCallPart
from dragoman.kit._effects import Find, InMemoryEffects, Json, Perform
from dragoman.kit._llm import Llm, LlmChunk, LlmRequest, LlmResponse, TextDelta, Usage
from dragoman.kit._runtime import Runtime
from dragoman.kit._tasks import InMemoryTasks, TaskView
from dragoman.kit._tool import Tool, ToolContext, ToolResult
from dragoman.kit._validation import to_json

__all__ = [
    "RecordingEffects",
    "RecordingTool",
    "Reply",
    "ScriptExhausted",
    "ScriptedLlm",
    "agent_of",
    "call",
    "run_skill",
    "runtime_of",
]

Reply: TypeAlias = object


class ScriptExhausted(AssertionError):
    """The model was asked more often than the script has replies."""


def call(name: str, /, **arguments: Any) -> ToolCallPart:
    """A reply that calls a tool; give a list of them for calls side by side."""
    return ToolCallPart(id="", name=name, arguments=arguments)


class ScriptedLlm:
    """A model that gives the replies of its script, in order, and remembers what it was asked.

    A string is text, a tool call (or a list of them) calls tools, an exception is raised, and anything else is
    written as JSON. Each reply costs 10 tokens in and 5 out. Being asked once too often is an error.
    """

    def __init__(self, *replies: Reply, native_schema: bool = True) -> None:
        self._replies = list(replies)
        self._native_schema = native_schema
        self.calls: list[LlmRequest] = []
        self.exhausted = False

    @property
    def model(self) -> str:
        """Its name."""
        return "scripted"

    @property
    def native_schema(self) -> bool:
        """As it was made."""
        return self._native_schema

    @property
    def remaining(self) -> int:
        """How many replies were not asked for."""
        return len(self._replies) - min(len(self.calls), len(self._replies))

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """The next reply.

        Raises:
            ScriptExhausted: there is none left.
        """
        self.calls.append(request)
        number = len(self.calls)
        if number > len(self._replies):
            self.exhausted = True
            raise ScriptExhausted(f"the script has {len(self._replies)} replies, and the model was asked again")
        reply = self._replies[number - 1]
        if isinstance(reply, Exception):
            raise reply
        return LlmResponse(_content(reply, request, number), Usage(10, 5, 1))

    async def stream(self, request: LlmRequest) -> AsyncGenerator[LlmChunk, None]:
        """The next reply, word by word."""
        response = await self.generate(request)
        for word in response.content.text.splitlines(keepends=True):
            yield TextDelta(word)
        yield response


def _content(reply: object, request: LlmRequest, number: int) -> Content:
    listed = cast("list[object]", reply) if isinstance(reply, list) else [reply]
    if calls := [one for one in listed if isinstance(one, ToolCallPart)]:
        named = (one.model_copy(update={"id": one.id or f"call_{number}_{at}"}) for at, one in enumerate(calls))
        return Content(parts=tuple(named))
    if isinstance(reply, str):
        return Content.of(reply)
    value = to_json(cast("object", reply))
    wrapped = request.response is not None and set(request.response.schema.get("properties", {})) == {"value"}
    return Content.of(json.dumps({"value": value} if wrapped and not isinstance(value, dict) else value))


class RecordingTool(Tool):
    """A tool that takes anything, remembers its calls and gives what it was told to."""

    def __init__(
        self,
        name: str = "recording_tool",
        returns: object = None,
        *,
        description: str = "Remembers how it was called.",
        input_schema: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name, description, input_schema or {"type": "object"}, self._record)
        self._returns = returns
        self.calls: list[dict[str, Any]] = []

    async def _record(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:  # noqa: ARG002 any tool gets it
        self.calls.append(arguments)
        if isinstance(self._returns, Exception):
            raise self._returns
        return self._returns if isinstance(self._returns, ToolResult) else ToolResult.success(self._returns)


class RecordingEffects(InMemoryEffects):
    """A ledger that remembers what was performed, step by step and in order, with the requests.

    `unknown` are steps that an earlier attempt began and left without an outcome, as after a crash.
    """

    def __init__(self, *, unknown: Iterable[str] = ()) -> None:
        super().__init__(unknown=unknown)
        self.performed: list[tuple[str, Json]] = []

    async def once(
        self, step: str, request: Json, perform: Perform, *, find: Find | None = None, repeatable: bool = False
    ) -> Json:
        """Perform it unless it was performed before, and remember that."""

        async def recorded(key: str) -> Json:
            self.performed.append((step, request))
            return await perform(key)

        return await super().once(step, request, recorded, find=find, repeatable=repeatable)


def agent_of(*skills: object, llm: Llm | None = None, instructions: str | None = None) -> Agent:
    """An agent around some skills."""
    return Agent("test", "An agent under test.", instructions=instructions, skills=skills, llm=llm)


def runtime_of(
    *skills: object,
    llm: Llm | None = None,
    tasks: InMemoryTasks | None = None,
    effects: InMemoryEffects | None = None,
) -> Runtime:
    """A runtime around some skills."""
    return Runtime(agent_of(*skills, llm=llm), tasks=tasks, effects=effects)


async def run_skill(
    skill: object,
    said: ContentLike,
    *answers: ContentLike,
    llm: Llm | None = None,
    caller: Caller | None = None,
    effects: InMemoryEffects | None = None,
) -> TaskView:
    """Send a message to one skill, then the answers to its questions, and give the task as it stands at the end.

    Raises:
        ScriptExhausted: the skill asked a ScriptedLlm more often than the script has replies.
        InvalidTransition: there are more answers than questions.
    """
    async with runtime_of(skill, llm=llm, effects=effects) as runtime:
        task = await runtime.send(said, caller=caller)
        for answer in answers:
            task = await runtime.send(answer, task_id=task.id, caller=caller)
    if isinstance(llm, ScriptedLlm) and llm.exhausted:
        raise ScriptExhausted(f"the model was asked {len(llm.calls)} times, more often than the script has replies")
    return task
