"""The calls of A2A 0.1, on the same tasks as all others."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from dragoman.context import Caller
from dragoman.doors.a2a.calls import KEEPALIVE_S, Answers, Call, Calls, Events, Streams, tell_replayed
from dragoman.doors.a2a.reading import Reader, Sent, read_send
from dragoman.doors.a2a.wire_01 import Events01, read_send_01, task_01, transitions_of
from dragoman.services.tasks.errors import TaskNotFound
from dragoman.services.tasks.models import Json, LoggedEvent, Task
from dragoman.services.tasks.passages import FOLLOW_TASK, GET_TASK

# A caller may count on an answer within 25 s; the rest is for giving it.
_LONGEST_WAIT_S: Final = 24.5


class SeedCalls:
    """A task is named by the id that its caller chose, or by ours."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._tasks = calls.tasks
        self._wait_s = min(_LONGEST_WAIT_S, calls.longest_wait_s)
        self.answers: Answers = {"tasks/send": self.send, "tasks/get": self.get, "tasks/cancel": self.cancel}
        self.streams: Streams = {"tasks/sendSubscribe": self.send_subscribe, "tasks/resubscribe": self.resubscribe}

    async def send(self, call: Call) -> Json:
        """Begin a task, or go on with the one of this id if it waits; the task, when it rests."""
        alias, sent = self._read(call, self._wait_s)
        await self._calls.admit(call.caller, sent)
        sent = await self._place(call.caller, alias, sent)
        task = await self._tasks.send(call.caller, self._calls.opened(call.caller, sent))
        tell_replayed(task)
        return await self._show(call.caller, task, sent.history_length)

    async def send_subscribe(self, call: Call) -> Events:
        """The same, and follow what comes of it; with `Last-Event-ID`, only follow the task of this id."""
        alias, sent = self._read(call, 0)
        if alias is not None and call.last_event_id is not None:
            return await self.resubscribe(replace(call, params={"id": alias}))
        await self._calls.admit(call.caller, sent)
        self._calls.hold_place(call.caller)
        before = await self._find(call.caller, sent.incoming.task_ref or alias)
        sent = await self._place(call.caller, alias, sent)
        task = await self._tasks.send(call.caller, self._calls.opened(call.caller, sent))
        tell_replayed(task)
        return self._events(call.caller, task, before.seq if before else 0)

    async def resubscribe(self, call: Call) -> Events:
        """Follow a task, from `Last-Event-ID` on."""
        ref, _ = _read_query(call)
        await self._calls.gate.guard(FOLLOW_TASK, call.caller)
        task = await self._tasks.get(call.caller, ref)
        self._calls.hold_place(call.caller)
        return self._events(call.caller, task, call.last_event_id or 0)

    async def get(self, call: Call) -> Json:
        """How a task stands."""
        ref, history_length = _read_query(call)
        await self._calls.gate.guard(GET_TASK, call.caller)
        return await self._show(call.caller, await self._tasks.get(call.caller, ref), history_length)

    async def cancel(self, call: Call) -> Json:
        """End a task."""
        ref, history_length = _read_query(call)
        return await self._show(call.caller, await self._calls.cancelled(call, ref), history_length)

    def _read(self, call: Call, wait_s: float) -> tuple[str | None, Sent]:
        alias, newer = read_send_01(call.params)
        # There are no extensions here that a client could activate.
        return alias, read_send(
            newer, self._calls.cards.modes, key=call.idempotency_key, wait_s=wait_s, session_context=True
        )

    async def _find(self, caller: Caller, ref: str | None) -> Task | None:
        try:
            return await self._tasks.get(caller, ref) if ref else None
        except TaskNotFound:
            return None

    async def _place(self, caller: Caller, alias: str | None, sent: Sent) -> Sent:
        """The id that the caller chose names a task that there is, or becomes the name of the new one."""
        incoming = sent.incoming
        if alias is None or incoming.task_ref is not None:
            return sent
        if await self._tasks.exists(caller, alias):
            await self._calls.allow_answer(caller)
            return replace(sent, incoming=replace(incoming, task_ref=alias))
        return replace(sent, incoming=replace(incoming, alias=alias))

    async def _show(self, caller: Caller, task: Task, history_length: int | None) -> Json:
        log = [happening async for happening in self._log(caller, task) if happening.seq <= task.seq]
        return task_01(task, transitions_of(log), history_length=history_length)

    async def _log(self, caller: Caller, task: Task) -> AsyncGenerator[LoggedEvent]:
        """What has happened so far."""
        async with aclosing(self._tasks.follow(caller, task, 0, keepalive_s=KEEPALIVE_S)) as happenings:
            async for happening in happenings:
                if happening is None:
                    return
                yield happening
                if happening.seq >= task.seq:
                    return

    async def _events(self, caller: Caller, task: Task, after: int) -> Events:
        # From the beginning, whatever was seen: artifacts have the numbers of their first appearance.
        shown = Events01(task)
        async with aclosing(self._tasks.follow(caller, task, 0, keepalive_s=KEEPALIVE_S)) as happenings:
            async for happening in happenings:
                if happening is None:
                    yield None
                elif (event := shown.show(happening)) is not None and happening.seq > after:
                    yield happening.seq, event


def _read_query(call: Call) -> tuple[str, int | None]:
    reader = Reader(call.params)
    ref, history_length = reader.text("id", required=True), reader.number("historyLength", least=0)
    reader.settle()
    return ref or "", history_length
