"""The stream that a session of the era with a handshake keeps open: what changes of what its client may see.

It tells what `subscriptions/listen` tells, by the same watches. What its client was told last is in the notes of the
session, so a stream that begins tells first what has changed since the one before it ended, wherever that was.
"""

import asyncio
from contextlib import ExitStack, suppress
from typing import Any, Final

import orjson

from dragoman.context import Caller
from dragoman.doors.mcp.listening import LONGEST_S, Listening
from dragoman.doors.mcp.notes import Noted, Notes
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.staying import may_stay
from dragoman.doors.mcp.stream import LISTS
from dragoman.doors.mcp.ticket import Ticket
from dragoman.doors.mcp.watch import Watch
from dragoman.errors import DragomanError
from dragoman.infra.edge import ALIVE, Receive, Send, Write, event, pump_events

_LIST: Final = "list/"
_URI: Final = "uri/"


def followed(uri: str) -> str:
    """What it is called in the notes of a session that it follows an address."""
    return _URI + uri


class _Line:
    """Tells changes on one stream."""

    def __init__(self, write: Write) -> None:
        self._write = write

    async def list_changed(self, name: str) -> None:
        """One of the `LISTS` is another now."""
        await self._tell({"method": f"notifications/{name}/list_changed"})

    async def updated(self, uri: str) -> None:
        """What stands at an address is another now."""
        await self._tell({"method": "notifications/resources/updated", "params": {"uri": uri}})

    async def _tell(self, notification: dict[str, object]) -> None:
        await self._write(event(orjson.dumps({"jsonrpc": "2.0", **notification})))


class Standing:
    """Serves such streams."""

    def __init__(self, offer: Offer, listening: Listening, notes: Notes) -> None:
        self._offer = offer
        self._listening = listening
        self._notes = notes

    async def serve(self, receive: Receive, send: Send, *, caller: Caller, ticket: Ticket) -> None:
        """Until the client or the server leaves, the session ends, or its caller may no longer ask.

        Raises:
            DragomanError: there are too many streams.
        """
        with self._listening.enter(caller, caller.tenant, ticket.id) as signal:

            async def pump(write: Write) -> None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST_S):
                        await _Run(self._offer, self._listening, self._notes, caller, ticket, write).run(signal)

            await pump_events(pump, receive, send, [(b"mcp-session-id", ticket.text.encode())])


class _Run:
    """One stream, while it is open."""

    def __init__(
        self, offer: Offer, listening: Listening, notes: Notes, caller: Caller, ticket: Ticket, write: Write
    ) -> None:
        self._offer, self._listening, self._notes = offer, listening, notes
        self._caller, self._ticket, self._write = caller, ticket, write
        self._line = _Line(write)
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def run(self, signal: asyncio.Event) -> None:
        """Tell until there is a reason to end; a list that changes after the first sign of life is told."""
        noted = await self._known() or Noted()
        async with asyncio.TaskGroup() as group:
            begun = list[asyncio.Event]()
            for watch in self._listening.lists(self._caller, self._line, LISTS):
                what = _LIST + watch.name
                begun.append(asyncio.Event())
                self._watching[what] = group.create_task(self._watch(what, watch, noted, begun[-1]))
            for event in begun:
                await event.wait()
            await self._write(ALIVE)
            while not self._listening.closing and not noted.ended:
                self._follow(noted, group)
                signal.clear()
                try:
                    await asyncio.wait_for(signal.wait(), self._offer.streams.every_s)
                except TimeoutError:
                    await self._write(ALIVE)
                if not await may_stay(self._offer.streams, self._caller):
                    for name in LISTS:
                        await self._line.list_changed(name)
                    break
                noted = await self._known() or noted
            for task in self._watching.values():
                task.cancel()

    async def _known(self) -> Noted | None:
        return await self._notes.find(self._caller.tenant, self._ticket)

    def _follow(self, noted: Noted, group: asyncio.TaskGroup) -> None:
        """Watch the addresses that the session follows now, and no others."""
        wanted = {what for what in noted.seen if what.startswith(_URI)}
        for what in [what for what in self._watching if what.startswith(_URI) and what not in wanted]:
            self._watching.pop(what).cancel()
        for what in wanted - self._watching.keys():
            self._watching[what] = group.create_task(self._watch_address(what, noted))

    async def _watch_address(self, what: str, noted: Noted) -> None:
        watch = await self._listening.find(self._caller, self._line, what.removeprefix(_URI))
        if watch is not None:
            await self._watch(what, watch, noted, asyncio.Event())

    async def _watch(self, what: str, watch: Watch, noted: Noted, begun: asyncio.Event) -> None:
        """Tell what has changed since the client was last told, and whatever changes from now on."""
        tenant, tell = self._caller.tenant, watch.tell

        async def told(now: Any) -> None:
            await tell(now)
            await self._notes.saw(tenant, self._ticket, what, watch.seen)

        watch.tell, watch.seen = told, noted.seen.get(what, "")
        with ExitStack() as following:
            await watch.begin(self._offer.changes, tenant, following)
            begun.set()
            if what not in noted.seen:
                with suppress(DragomanError):
                    await self._notes.follow(tenant, self._ticket, what, watch.seen)
            await watch.run()
