"""The methods of A2A, whichever binding carries them: read, ask the gate, ask the core, show."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Protocol
from uuid import NAMESPACE_URL, uuid5

from dragoman import kit
from dragoman.context import Caller, current_request
from dragoman.doors.a2a.card import Cards
from dragoman.doors.a2a.ecosystem import A2aEcosystem
from dragoman.doors.a2a.errors import UnsupportedOperation
from dragoman.doors.a2a.negotiation import SESSION_EXTENSION, VERSION
from dragoman.doors.a2a.push import page_json, push_json, read_create, read_one, read_page, read_sent_push
from dragoman.doors.a2a.reading import Reader, Sent, page_token, read_list, read_send
from dragoman.doors.a2a.wire import event_json, reply_json, task_json
from dragoman.gate import Gate
from dragoman.infra.limits import OpenStreams
from dragoman.operations import AnyOperation
from dragoman.services.push.models import NewPushConfig
from dragoman.services.push.operations import CREATE_PUSH, DELETE_PUSH, GET_PUSH, LIST_PUSH
from dragoman.services.push.ports import Pushes
from dragoman.services.tasks.models import Incoming, Json, Reply, Task
from dragoman.services.tasks.operations import CANCEL
from dragoman.services.tasks.passages import FOLLOW_TASK, GET_TASK, LIST_TASKS, SEND_MESSAGE
from dragoman.services.tasks.ports import Tasks

KEEPALIVE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call: who asks, for what, and what its headers add."""

    caller: Caller
    params: Any
    base_url: str = ""
    idempotency_key: str | None = None
    last_event_id: int | None = None
    version: str = VERSION
    extensions: frozenset[str] = frozenset()


# An event with its number; None where nothing happened for a while, and the line is to be kept alive.
Events = AsyncGenerator[tuple[int, Json] | None]
# Objects in 1.0; before it also lists, and nothing at all.
Answers = dict[str, Callable[[Call], Awaitable[Any]]]
Streams = dict[str, Callable[[Call], Awaitable[Events]]]


class Methods(Protocol):
    """The methods of one version of the protocol, by their names."""

    answers: Answers
    streams: Streams


class Calls:
    """Every method takes a call; those of STREAMS give events, the others an answer."""

    def __init__(
        self,
        gate: Gate,
        tasks: Tasks,
        pushes: Pushes,
        *,
        find_operation: Callable[[str], AnyOperation | None],
        cards: Cards,
        ecosystem: A2aEcosystem,
        longest_wait_s: float,
        streams: OpenStreams,
    ) -> None:
        self.gate = gate
        self.tasks = tasks
        self._pushes = pushes
        self._find_operation = find_operation
        self.cards = cards
        self._ecosystem = ecosystem
        self.longest_wait_s = longest_wait_s
        self._open_streams = streams
        self.answers: Answers = {
            "SendMessage": self.send,
            "GetTask": self.get,
            "ListTasks": self.page,
            "CancelTask": self.cancel,
            "GetExtendedAgentCard": self.extended_card,
            "CreateTaskPushNotificationConfig": self.create_push,
            "GetTaskPushNotificationConfig": self.get_push,
            "ListTaskPushNotificationConfigs": self.list_pushes,
            "DeleteTaskPushNotificationConfig": self.delete_push,
        }
        self.streams: Streams = {
            "SendStreamingMessage": self.stream,
            "SubscribeToTask": self.subscribe,
        }

    async def send(self, call: Call) -> Json:
        """Send a message; the task, when it rests or when the sender does not wait, or a message that is all of it."""
        sent = self._read(call, self.longest_wait_s)
        await self.admit(call.caller, sent)
        answer = await self.tasks.ask(call.caller, await self._incoming(call, sent))
        if isinstance(answer, Reply):
            return {"message": reply_json(answer)}
        tell_replayed(answer)
        return {"task": task_json(answer, history_length=sent.history_length)}

    async def stream(self, call: Call) -> Events:
        """Send a message and follow what comes of it."""
        sent = self._read(call, 0)
        await self.admit(call.caller, sent)
        self.hold_place(call.caller)
        answer = await self.tasks.stream(call.caller, await self._incoming(call, sent))
        if isinstance(answer, Reply):
            return _only({"message": reply_json(answer)})
        tell_replayed(answer)
        first = task_json(answer, history_length=sent.history_length)
        return self._events(call.caller, answer, first, ended=answer.resting)

    async def get(self, call: Call) -> Json:
        """How a task stands."""
        reader = Reader(call.params)
        ref, history_length = reader.text("id", required=True), reader.number("historyLength", least=0)
        reader.settle()
        await self.gate.guard(GET_TASK, call.caller)
        return task_json(await self.tasks.get(call.caller, ref or ""), history_length=history_length)

    async def page(self, call: Call) -> Json:
        """A page of tasks, the latest first."""
        request = read_list(call.params)
        query = request.query
        await self.gate.guard(LIST_TASKS, call.caller)
        tasks = await self.tasks.page(call.caller, query)
        # Counted for the first page alone: the token tells the others.
        total = request.total if request.total is not None else await self.tasks.count(call.caller, query)
        shown, more = tasks[: query.limit], len(tasks) > query.limit
        return {
            "tasks": [
                task_json(task, history_length=request.history_length, artifacts=request.artifacts) for task in shown
            ],
            "nextPageToken": page_token(shown[-1], total) if more else "",
            "pageSize": query.limit,
            "totalSize": total,
        }

    async def cancel(self, call: Call) -> Json:
        """End a task."""
        ref = _read_id(call.params)
        return task_json(await self.cancelled(call, ref))

    async def cancelled(self, call: Call, ref: str) -> Task:
        """Cancel a task and return it; with the same idempotency key this happens once."""
        await self.gate.run(CANCEL, call.caller, {"task_id": ref}, idempotency_key=call.idempotency_key)
        return await self.tasks.get(call.caller, ref)

    async def subscribe(self, call: Call) -> Events:
        """Follow a task: how it stands, then what happens; from `Last-Event-ID` on where that is given."""
        ref = _read_id(call.params)
        await self.gate.guard(FOLLOW_TASK, call.caller)
        task = await self.tasks.get(call.caller, ref)
        seen = call.last_event_id
        if task.terminal and (seen is None or seen >= task.seq):
            raise UnsupportedOperation("the task has ended, and nothing more will happen to it", state=task.state.value)
        self.hold_place(call.caller)
        if seen is not None:
            return self._replay(call.caller, task, min(seen, task.seq))
        return self._events(call.caller, task, task_json(task), ended=False)

    async def extended_card(self, call: Call) -> Json:
        """The card for this caller."""
        await self.gate.admit(GET_TASK, call.caller)
        return await self.cards.extended(call.base_url, call.caller)

    async def create_push(self, call: Call) -> Json:
        """Tell somebody of what happens to a task from now on."""
        ref, new = read_create(call.params, call.version)
        await self.gate.guard(CREATE_PUSH, call.caller)
        return push_json(await self._pushes.create(call.caller, ref, new, key=call.idempotency_key))

    async def get_push(self, call: Call) -> Json:
        """One push configuration of a task."""
        ref, config_id = read_one(call.params)
        await self.gate.guard(GET_PUSH, call.caller)
        return push_json(await self._pushes.get(call.caller, ref, config_id))

    async def list_pushes(self, call: Call) -> Json:
        """The push configurations of a task."""
        ref, limit, after = read_page(call.params)
        await self.gate.guard(LIST_PUSH, call.caller)
        return page_json(await self._pushes.list(call.caller, ref, after=after, limit=limit), limit)

    async def delete_push(self, call: Call) -> Json:
        """Tell somebody nothing more."""
        ref, config_id = read_one(call.params)
        await self.gate.guard(DELETE_PUSH, call.caller)
        await self._pushes.delete(call.caller, ref, config_id)
        return {}

    def _read(self, call: Call, wait_s: float) -> Sent:
        return read_send(
            call.params,
            self.cards.modes,
            key=call.idempotency_key,
            wait_s=wait_s,
            session_context=SESSION_EXTENSION in call.extensions,
        )

    def opened(self, caller: Caller, sent: Sent) -> Incoming:
        """The message, whose task carries what matters if it begins a conversation and its sender asked for that."""
        if sent.session is None:
            return sent.incoming
        return replace(sent.incoming, opening=partial(self._open_session, caller, sent.session))

    async def _open_session(self, caller: Caller, session: kit.Session) -> Json:
        adapter: kit.EcosystemAdapter[Json] = self._ecosystem.adapter(caller)
        return {"session_context": asdict(await adapter.get_session_context(session))}

    async def _incoming(self, call: Call, sent: Sent) -> Incoming:
        """The message, with the push configuration that came with it."""
        new, incoming = read_sent_push(call.params, call.version), self.opened(call.caller, sent)
        if new is None:
            return incoming
        await self.gate.guard(CREATE_PUSH, call.caller, admitted=self.gate.include(CREATE_PUSH, call.caller))
        await self._pushes.check(new)
        return replace(incoming, attach=partial(self._attach, call.caller, new))

    async def _attach(self, caller: Caller, new: NewPushConfig, task: Task, after: int) -> None:
        # By its address: a message that is sent again brings the same configuration.
        config_id = new.id or str(uuid5(NAMESPACE_URL, new.url))
        await self._pushes.attach(caller, task, replace(new, id=config_id), after=after, keep=True)

    async def admit(self, caller: Caller, sent: Sent) -> None:
        """Count a message; one that names an operation is counted as that, and its task says whether the caller may.

        A message to a task that waits is an answer, whatever it names: that needs the permission to send messages.
        """
        call = sent.incoming.tool_call
        operation = self._find_operation(call.name) if call is not None and call.name is not None else None
        if call is None or operation is None:
            await self.gate.guard(SEND_MESSAGE, caller)
        else:
            call.admitted = await self.gate.admit(operation, caller)
            if sent.incoming.task_ref:
                await self.allow_answer(caller)

    async def allow_answer(self, caller: Caller) -> None:
        """Refuse an answer of one who may not send messages; the message itself was counted.

        Raises:
            Forbidden: the caller lacks the permission.
        """
        await self.gate.guard(SEND_MESSAGE, caller, admitted=self.gate.include(SEND_MESSAGE, caller))

    def hold_place(self, caller: Caller) -> None:
        """Count the stream that this request opens, until the request is over.

        Raises:
            RateLimited: there are too many.
        """
        if (request := current_request()) is not None:
            request.hold(self._open_streams.place(caller))

    async def _events(self, caller: Caller, task: Task, first: Json, *, ended: bool) -> Events:
        yield task.seq, {"task": first}
        if ended:
            return
        async with aclosing(self._replay(caller, task, task.seq)) as events:
            async for event in events:
                yield event

    async def _replay(self, caller: Caller, task: Task, after: int) -> Events:
        async with aclosing(self.tasks.follow(caller, task, after, keepalive_s=KEEPALIVE_S)) as happenings:
            async for happening in happenings:
                if happening is None:
                    yield None
                elif (event := event_json(happening, task)) is not None:
                    yield happening.seq, event


async def _only(event: Json) -> Events:
    yield 0, event


def tell_replayed(task: Task) -> None:
    """Say in a header that the message was sent before, and that this is the task that it became then."""
    if task.replayed and (request := current_request()) is not None:
        request.response_headers.append((b"idempotency-replayed", b"true"))


def _read_id(params: Any) -> str:
    reader = Reader(params)
    ref = reader.text("id", required=True)
    reader.settle()
    return ref or ""
