"""Another A2A agent as a tool: asked in words, and asked again when it has a question."""

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid4, uuid5
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from dragoman.kit._content import Content, ContentLike
from dragoman.kit._context import Context
from dragoman.kit._errors import RemoteAsks, RemoteFailed, RemoteTimedOut, RemoteUnavailable
from dragoman.kit._lifecycle import TaskState
from dragoman.kit._ports import Activity
from dragoman.kit._results import OnInputResult
from dragoman.kit._signature import BadArguments
from dragoman.kit._tool import Tool, ToolContext, ToolResult
from dragoman.kit._validation import field_errors
from dragoman.kit.toolsets._a2a_answer import RemoteAnswer
from dragoman.kit.toolsets._a2a_line import A2aLine, TaskGone
from dragoman.kit.toolsets._a2a_wire import Card, Interface, WireAnswer, WireTask, written_parts

Headers: TypeAlias = Mapping[str, str] | Callable[[ToolContext], Mapping[str, str] | Awaitable[Mapping[str, str]]]
_WELL_KNOWN: Final = "/.well-known/agent-card.json"
_LARGEST_ANSWER_BYTES: Final = 4 * 1024 * 1024
_CALL_OFF_S: Final = 3.0
_LONGEST_WORDS: Final = 2000
T = TypeVar("T")


class _Bookmark(BaseModel):
    """Where a task of ours stands with the other agent: in which task of its own, and whether that one asks."""

    model_config = ConfigDict(frozen=True)

    task_id: str | None = None
    context_id: str | None = None
    asks: bool = False
    sent: int = 0


class _Asked(BaseModel):
    """What a model says to the other agent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    message: str = Field(min_length=1, description="What to say to the agent, or the answer to its question.")
    data: dict[str, JsonValue] | None = Field(default=None, description="Structured data that goes with the message.")
    start_over: bool = Field(default=False, description="Drop what the agent works on or asks, and begin anew.")


class A2aAgentTool(Tool):
    """One A2A agent, found by the address of its card, or of the host that has it in the usual place.

    The conversation with it lasts as long as the local one, and a question of its task is kept with the local task: the
    next call in that task is the answer, after a restart too. Calls of one task are made one after the other. A call
    that was cut off or timed out leaves the other agent's task running; the next call waits for it and sends nothing.
    When the local task is cancelled during a call, so is the other's.

    `headers` go with every request; a function of the ToolContext can make them for the caller at hand. They are sent
    where the card is, and to other hosts only if `allow_hosts` names them.

    Raises:
        ValueError: the address is none of HTTP.
    """

    def __init__(
        self,
        card_url: str,
        *,
        name: str,
        description: str,
        headers: Headers | None = None,
        allow_hosts: Collection[str] = (),
        timeout_s: float = 120.0,
        max_answer_bytes: int = _LARGEST_ANSWER_BYTES,
    ) -> None:
        schema = _Asked.model_json_schema()
        del schema["title"], schema["description"]
        super().__init__(name, description, schema, self._invoke_remote)
        self._card_url, self._headers = card_address(card_url), headers or {}
        self._allow_hosts, self._timeout_s, self._max_bytes = allow_hosts, timeout_s, max_answer_bytes
        self._interface: Interface | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def ask(self, ctx: Context | ToolContext, said: ContentLike, *, start_over: bool = False) -> RemoteAnswer:
        """Say something to the agent, or answer what it asked before in this task, and wait for what comes of it.

        With `start_over` its open task is cancelled first, and the message begins another.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteTimedOut: it was not done in time.
            RemoteFailed: its task failed, or was rejected or cancelled; or it refused, or cannot be understood.
            RemoteAsks: it has asked something since this call was made.
        """
        known = ctx.for_tool() if isinstance(ctx, Context) else ctx
        seen = await self._bookmark(known)
        async with self._turns.setdefault(known.task_id or str(uuid4()), asyncio.Lock()):
            place = await self._bookmark(known)
            if place.asks and place != seen:
                raise RemoteAsks(self.name)
            try:
                async with asyncio.timeout(self._timeout_s), self._line(known) as line:
                    return await self._converse(line, known, place, Content.of(said), start_over=start_over)
            except TimeoutError:
                raise RemoteTimedOut(self.name, after_s=self._timeout_s) from None
            except RemoteUnavailable:
                self._interface = None
                raise
            except TaskGone:
                await self._forget(known, place)
                raise

    async def forward(self, ctx: Context, content: Content) -> OnInputResult:
        """Let the agent take the whole turn of a skill: `on_request` and `on_input_received` can both return this."""
        await ctx.activity(Activity.AWAITING_TOOL, self.name)
        answer = await self.ask(ctx, content)
        await ctx.activity(Activity.EXECUTING)
        return answer.to_result()

    async def read_card(self) -> Card:
        """What the agent says of itself, to one who calls for nobody: headers that a function makes are not sent.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteFailed: there is no card.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._line(None) as line:
                return await line.read_card(self._card_url)
        except TimeoutError:
            raise RemoteUnavailable(self.name, "timeout") from None

    async def _invoke_remote(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        asked = _arguments(arguments)
        said: list[str | dict[str, JsonValue]] = [asked.message, *([asked.data] if asked.data is not None else [])]
        answer = await self.ask(ctx, said, start_over=asked.start_over)
        if answer.wants_auth:
            raise RemoteFailed(
                f"the agent {self.name!r} needs an authorization: {answer.question.text}", reason="REMOTE_AUTH_REQUIRED"
            )
        return ToolResult.success(answer.to_output())

    @asynccontextmanager
    async def _line(self, ctx: ToolContext | None) -> AsyncGenerator[A2aLine]:
        headers: Mapping[str, str] = {}
        if not callable(self._headers):
            headers = self._headers
        elif ctx is not None:
            made = self._headers(ctx)
            headers = await made if inspect.isawaitable(made) else made
        async with _httpx().AsyncClient() as http:
            yield A2aLine(http, self.name, headers=headers, max_answer_bytes=self._max_bytes)

    async def _converse(
        self, line: A2aLine, ctx: ToolContext, place: _Bookmark, content: Content, *, start_over: bool
    ) -> RemoteAnswer:
        if self._interface is None:
            card = await line.read_card(self._card_url)
            self._interface = line.find_interface(card, self._card_url, self._allow_hosts)
        there = self._interface
        if start_over and place.task_id is not None:
            with suppress(RemoteFailed):
                await line.cancel(there, place.task_id)
            place = place.model_copy(update={"task_id": None, "asks": False})
        # Shielded, so that a cancelled call still learns which task it has to call off.
        opening = asyncio.ensure_future(self._open(line, there, ctx, place, content))
        try:
            return await self._follow(line, there, ctx, await asyncio.shield(opening))
        except asyncio.CancelledError:
            if ctx.cancelled:
                await _call_off(line, there, opening)
            raise
        finally:
            opening.cancel()

    async def _open(
        self, line: A2aLine, there: Interface, ctx: ToolContext, place: _Bookmark, content: Content
    ) -> WireAnswer:
        """Find the task that runs already, or send the message; the bookmark is kept before anything is waited for."""
        if place.task_id is not None and not place.asks:
            return WireAnswer(task=await line.get(there, place.task_id))
        parts = written_parts(content)
        # Whoever takes the task over after a crash says the same again, and the other agent can tell.
        spoken = json.dumps([ctx.task_id, self.name, place.sent, parts], sort_keys=True)
        key = str(uuid5(NAMESPACE_URL, spoken) if ctx.task_id else uuid4())
        message: dict[str, Any] = {"messageId": key, "role": "ROLE_USER", "parts": parts}
        context_id = place.context_id or await ctx.state.session().load(self._key, str)
        message |= {"contextId": context_id} if context_id else {}
        message |= {"taskId": place.task_id} if place.task_id else {}
        try:
            answer = await line.send(there, message, key=key)
        except TaskGone as gone:
            answer = WireAnswer(task=await _moved_on(line, there, place, gone))
        told = answer.task or answer.message
        kept = _Bookmark(
            task_id=answer.task.id if answer.task else None,
            context_id=(told.context_id if told else None) or context_id,
            sent=place.sent + 1,
        )
        await ctx.state.task().save(self._key, kept)
        if kept.context_id and kept.context_id != context_id:
            await ctx.state.session().save(self._key, kept.context_id)
        return answer

    async def _follow(self, line: A2aLine, there: Interface, ctx: ToolContext, answer: WireAnswer) -> RemoteAnswer:
        if answer.task is None:
            said = answer.message
            return RemoteAnswer(self.name, _read(line, said.read) if said else None)
        task = await line.wait(there, answer.task)
        place = await self._bookmark(ctx)
        open_task = task.id if task.state is TaskState.INPUT_REQUIRED else None
        kept = place.model_copy(update={"task_id": open_task, "asks": open_task is not None})
        await ctx.state.task().save(self._key, kept)
        message = _read(line, task.read_message)
        if task.state in (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELLED):
            raise _ended(self.name, task.state, message or Content())
        return RemoteAnswer(
            self.name,
            message,
            _read(line, lambda: tuple(task.read_artifacts())),
            asks=open_task is not None,
            wants_auth=task.wants_auth,
            task_id=task.id,
            context_id=kept.context_id,
        )

    async def _bookmark(self, ctx: ToolContext) -> _Bookmark:
        return await ctx.state.task().load(self._key, _Bookmark) or _Bookmark()

    async def _forget(self, ctx: ToolContext, place: _Bookmark) -> None:
        await ctx.state.task().save(self._key, _Bookmark(sent=place.sent + 1))
        await ctx.state.session().remove(self._key)

    @property
    def _key(self) -> str:
        return f"a2a.{self.name}"


async def _moved_on(line: A2aLine, there: Interface, place: _Bookmark, gone: TaskGone) -> WireTask:
    """The task that takes no answer: one whose receipt was lost has reached it already, or somebody ended it."""
    task = None if place.task_id is None else await line.get(there, place.task_id)
    if task is None or task.state is TaskState.INPUT_REQUIRED:
        raise gone
    return task


async def _call_off(line: A2aLine, there: Interface, opening: asyncio.Future[WireAnswer]) -> None:
    with suppress(Exception):  # the best that can be done for a task that nobody wants any more
        async with asyncio.timeout(_CALL_OFF_S):
            if (task := (await opening).task) is not None:
                await line.cancel(there, task.id)


def _read(line: A2aLine, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        raise line.malformed(str(error)[:500]) from None


def _ended(agent: str, state: TaskState, message: Content) -> RemoteFailed:
    errors = (told.get("error") for told in message.data if isinstance(told, dict))
    codes = [str(error["code"])[:100] for error in errors if isinstance(error, dict) and "code" in error]
    words = (
        f"the agent {agent!r} has {state.value} it" if state is not TaskState.FAILED else f"the agent {agent!r} failed"
    )
    told = f"{words}: {message.text[:_LONGEST_WORDS]}" if message.text else words
    return RemoteFailed(told, reason=f"REMOTE_{state.name}", **({"remote_code": codes[0]} if codes else {}))


def _arguments(given: dict[str, Any]) -> _Asked:
    try:
        return _Asked.model_validate_json(json.dumps(given))
    except ValidationError as error:
        raise BadArguments(field_errors(error)) from None


def card_address(given: str) -> str:
    """Where a card is: at the address, or in the usual place of a host.

    Raises:
        ValueError: the address is none of HTTP.
    """
    address = urlsplit(given)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError(f"an agent has an address of http or https, not {given!r}")
    return f"{address.scheme}://{address.netloc}{_WELL_KNOWN}" if address.path in ("", "/") else given


def _httpx() -> ModuleType:
    try:
        import httpx  # noqa: PLC0415 an agent without remote tools does without it
    except ImportError:
        raise ImportError("A2aAgentTool needs httpx: pip install httpx") from None
    return httpx
