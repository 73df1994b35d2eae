"""Questions of tasks, sent to a client by the server: how the era with a handshake asks while a call is under way.

The request goes out on the stream of the call; its answer is a request of its own, which may come to another process.
So nobody waits for the answer itself. It is handed to the task, wherever it arrives, and the call sees the task go on.
"""

import asyncio
import hmac
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, cast

from dragoman.context import Caller
from dragoman.doors.mcp.answers import answer, find_asking, open_questions, refuse_late
from dragoman.doors.mcp.exchange import Exchange
from dragoman.doors.mcp.methods import Context
from dragoman.doors.mcp.notes import Notes
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.staying import may_stay
from dragoman.doors.mcp.ticket import Ticket, Tickets
from dragoman.doors.mcp.wire import Json
from dragoman.errors import NotFound
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.passages import SEND_MESSAGE

# Whoever has not answered by then may do so still, but nobody notices that the token of the call has expired.
_LONGEST_S: Final = 3_600.0
# Before this version there were only forms, and no word for them.
_WITH_MODES: Final = "2025-11-25"


class Pushed:
    """Asks clients, and takes what they answer."""

    def __init__(self, offer: Offer, tickets: Tickets, notes: Notes) -> None:
        self._offer = offer
        self._tickets = tickets
        self._notes = notes
        self._waiting: set[asyncio.Event] = set()
        self._closing = False

    def close(self) -> None:
        """Have every call that waits for an answer end, soon; its question stays open."""
        self._closing = True
        for signal in self._waiting:
            signal.set()

    async def ask(self, ctx: Context, exchange: Exchange, caller: Caller, task: Task) -> bool:
        """Put the first question that the client can answer to it, and wait; whether the task has gone on."""
        ticket = exchange.ticket
        requests = open_questions(task).requests(ticket.able)
        if not requests or self._closing:
            return False
        key, request = next(iter(requests.items()))
        ref = self._ref(ticket, str(task.id), key)
        await exchange.ask(ctx, ref, _dated(request, ticket.version))
        with self._offer.streams.place(caller), self._following(caller, task) as signal, suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_S):
                while not self._closing and await may_stay(self._offer.streams, caller):
                    signal.clear()
                    if (await self._offer.tasks.get(caller, str(task.id))).seq != task.seq:
                        return True
                    if await self._notes.take_up(caller.tenant, ticket, ref):
                        return False
                    with suppress(TimeoutError):
                        await asyncio.wait_for(signal.wait(), self._offer.streams.every_s)
        return False

    async def take(self, caller: Caller, ticket: Ticket, message: Json) -> None:
        """Hand an answer to the task that asked; one that is late, doubled or foreign is recorded as refused.

        Raises:
            DragomanError: the caller may not speak to tasks.
        """
        sent_id, response = message.get("id"), message.get("result")
        ref = "" if sent_id is None else str(sent_id)
        task_id, _, rest = ref.partition("/")
        key = rest.partition("/")[2]
        if not hmac.compare_digest(ref.encode(), self._ref(ticket, task_id, key).encode()):
            foreign = NotFound("question of this session", ref[:200])
            await self._offer.gate.record_refusal(SEND_MESSAGE, caller, task_id, foreign)
            return
        await self._offer.gate.guard(SEND_MESSAGE, caller)
        with suppress(NotFound):
            task = await find_asking(self._offer, caller, task_id)
            if key not in open_questions(task).questions:
                await refuse_late(self._offer, caller, task)
                return
            given = {key: cast("Json", response)} if isinstance(response, dict) else dict[str, Json]()
            if not await answer(self._offer, caller, task, given):
                await self._notes.put_aside(caller.tenant, ticket, ref)
                self._offer.changes.happened(task.id)

    def _ref(self, ticket: Ticket, task_id: str, key: str) -> str:
        """The id of a request; with it comes back what was asked, and that it was this session that was asked."""
        return f"{task_id}/{self._tickets.sign(ticket, task_id, key)}/{key}"

    @contextmanager
    def _following(self, caller: Caller, task: Task) -> Generator[asyncio.Event]:
        with self._offer.changes.follow(caller.tenant, task.id) as signal:
            self._waiting.add(signal)
            try:
                yield signal
            finally:
                self._waiting.discard(signal)


def _dated(request: Json, version: str) -> Json:
    """A request as this version knows it."""
    if version >= _WITH_MODES:
        return request
    return {**request, "params": {name: value for name, value in request["params"].items() if name != "mode"}}
