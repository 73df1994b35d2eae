"""`subscriptions/listen`: a client hears what changes of what it may see, in whichever process it was changed.

Nothing is remembered between streams. Whoever writes nudges those who follow; a stream then looks again at what its
caller may see, and tells only what is different. So no change can show one tenant anything of another.
"""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, cast
from uuid import UUID

from mcp.server.lowlevel import Server
from mcp_types import SubscriptionFilter, SubscriptionsListenRequestParams

from dragoman.context import Caller
from dragoman.doors.mcp.extension import abilities
from dragoman.doors.mcp.methods import Context, add, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.prompts import Prompts
from dragoman.doors.mcp.resources import Resources, find_task
from dragoman.doors.mcp.staying import may_stay
from dragoman.doors.mcp.stream import LISTS, Stream, Told
from dragoman.doors.mcp.tasks_wire import detailed_task_json
from dragoman.doors.mcp.watch import Watch
from dragoman.doors.mcp.wire import Json
from dragoman.errors import Forbidden, InvalidInput, NotFound, RateLimited
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.passages import GET_TASK

# What varies without anybody's writing is looked at so often, and what is written so often in case a nudge was lost.
_GLANCE_S: Final = 1.0
_LOOK_S: Final = 15.0
# The same for what takes a query, since every session of the era with a handshake watches it.
_SELDOM_S: Final = 120.0
# Then the client comes again, with credentials that are good.
LONGEST_S: Final = 900.0
_MOST_NAMED: Final = 100
_COME_BACK_S: Final = 5


class Listening:
    """Serves streams of changes until it is closed, or the credentials of a client are refused."""

    def __init__(self, offer: Offer, prompts: Prompts, resources: Resources) -> None:
        self._offer = offer
        self._prompts = prompts
        self._resources = resources
        self._open: set[asyncio.Event] = set()
        self.closing = False
        varies = offer.catalogue.varies or not all(prompt.for_all for prompt in offer.prompts)
        self._glance_s = _GLANCE_S if varies else _LOOK_S

    def join(self, server: "Server[Any]") -> None:
        """Be offered by the server."""
        add(server, "subscriptions/listen", SubscriptionsListenRequestParams, self.listen)

    def close(self) -> None:
        """Have every stream end in good order, soon."""
        self.closing = True
        for signal in self._open:
            signal.set()

    async def listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> Json:
        """Acknowledge, then tell of changes; the answer ends the stream."""
        caller, stream = require_caller(), Stream(ctx)
        wanted = params.notifications
        watches = self.lists(caller, stream, [name for name in LISTS if _wants(wanted, name)])
        honoured: Json = {f"{name}ListChanged": True for name in LISTS if _wants(wanted, name)}
        if wanted.resource_subscriptions:
            found = {uri: await self.find(caller, stream, uri) for uri in _named(wanted.resource_subscriptions)}
            honoured["resourceSubscriptions"] = [uri for uri, watch in found.items() if watch is not None]
            watches += [watch for watch in found.values() if watch is not None]
        if "task" in abilities(ctx) and (refs := _named((wanted.model_extra or {}).get("taskIds"))):
            tasks = {ref: task for ref in refs if (task := await self._find_task(caller, ref)) is not None}
            honoured["taskIds"] = list(tasks)
            watches += [self._task(caller, stream, task) for task in tasks.values()]
        with ExitStack() as following:
            signal = following.enter_context(self.enter(caller, caller.tenant))
            for watch in watches:
                await watch.begin(self._offer.changes, caller.tenant, following)
            await stream.acknowledge(honoured)
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_S):
                    await self._run(caller, stream, signal, watches)
        return {"_meta": stream.meta}

    @contextmanager
    def enter(self, caller: Caller, *ids: UUID) -> Generator[asyncio.Event]:
        """Open a stream that follows these; its signal is set, too, when it is to end.

        Raises:
            RateLimited: there are too many, or the server leaves.
        """
        if self.closing:
            raise RateLimited("streams", retry_after_s=_COME_BACK_S)
        with self._offer.streams.place(caller), self._offer.changes.follow(caller.tenant, *ids) as signal:
            self._open.add(signal)
            try:
                yield signal
            finally:
                self._open.discard(signal)

    async def _run(self, caller: Caller, stream: Stream, signal: asyncio.Event, watches: list[Watch]) -> None:
        """Until there is nothing left to tell, the server leaves, or the caller may no longer ask."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(watch.run()) for watch in watches]
            for task in running:
                task.add_done_callback(lambda _: signal.set())
            while not self.closing and not (running and all(task.done() for task in running)):
                with suppress(TimeoutError):
                    await asyncio.wait_for(signal.wait(), self._offer.streams.every_s)
                signal.clear()
                if not await may_stay(self._offer.streams, caller):
                    for name in (name for name in LISTS if any(watch.name == name for watch in watches)):
                        await stream.list_changed(name)
                    break
            for task in running:
                task.cancel()

    def lists(self, caller: Caller, told: Told, names: Iterable[str]) -> list[Watch]:
        """What watches lists of these names."""

        async def tools() -> Any:
            return [tool["name"] for tool in self._offer.catalogue.listed(caller)]

        async def prompts() -> Any:
            return [prompt["name"] for prompt in self._prompts.listed(caller)]

        async def resources() -> Any:
            return await self._resources.listed(caller)

        looks = {
            "tools": (tools, self._glance_s),
            "prompts": (prompts, self._glance_s),
            "resources": (resources, _SELDOM_S),
        }
        return [
            Watch(look, lambda _, name=name: told.list_changed(name), [caller.tenant], every_s, name=name)
            for name, (look, every_s) in looks.items()
            if name in names
        ]

    async def find(self, caller: Caller, told: Told, uri: str) -> Watch | None:
        """What watches an address; None where the caller may not read. What is not there yet may come."""

        async def look() -> Any:
            return await self._resources.contents(caller, uri)

        try:
            with suppress(NotFound, InvalidInput):
                await look()
        except Forbidden:
            return None
        ref = find_task(uri)
        task = await self._find_task(caller, ref) if ref else None
        ids: list[UUID] = [caller.tenant, *([task.id] if task else [])]
        return Watch(look, lambda _: told.updated(uri), ids, _LOOK_S)

    def _task(self, caller: Caller, stream: Stream, task: Task) -> Watch:
        async def look() -> Any:
            return detailed_task_json(await self._offer.tasks.get(caller, str(task.id)))

        def over(seen: Any) -> bool:
            return seen is None or seen["status"] in ("completed", "failed", "cancelled")

        return Watch(look, stream.task, [task.id], _LOOK_S, at_first=True, over=over)

    async def _find_task(self, caller: Caller, ref: str) -> Task | None:
        if not self._offer.catalogue.may(caller, GET_TASK):
            return None
        with suppress(NotFound):
            return await self._offer.tasks.get(caller, ref)
        return None


def _wants(wanted: SubscriptionFilter, name: str) -> bool:
    return bool(getattr(wanted, f"{name}_list_changed"))


def _named(given: object) -> list[str]:
    """What a client names, each once, and no more than a stream can look after."""
    listed = cast("list[object]", given) if isinstance(given, list) else []
    return list(dict.fromkeys(one for one in listed if isinstance(one, str)))[:_MOST_NAMED]
