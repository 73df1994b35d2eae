"""The methods of A2A 0.3: those of 1.0 under older names, read and shown as it has them."""

from contextlib import aclosing
from dataclasses import replace

from dragoman.doors.a2a.calls import Answers, Call, Calls, Events, Streams
from dragoman.doors.a2a.negotiation import OLDER
from dragoman.doors.a2a.push import push_03, read_id_03
from dragoman.doors.a2a.tagged import lower, rests
from dragoman.doors.a2a.wire_03 import card_03, event_03, message_03, read_send_03, task_03
from dragoman.services.push.errors import PushConfigNotFound
from dragoman.services.tasks.models import Json


class Calls03:
    """Every method takes a call; those of `streams` give events, the others an answer."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.answers: Answers = {
            "message/send": self.send,
            "tasks/get": self.get,
            "tasks/cancel": self.cancel,
            "agent/getAuthenticatedExtendedCard": self.extended_card,
            "tasks/pushNotificationConfig/set": self.set_push,
            "tasks/pushNotificationConfig/get": self.get_push,
            "tasks/pushNotificationConfig/list": self.list_pushes,
            "tasks/pushNotificationConfig/delete": self.delete_push,
        }
        self.streams: Streams = {
            "message/stream": self.stream,
            "tasks/resubscribe": self.resubscribe,
        }

    async def send(self, call: Call) -> Json:
        """Send a message; the task, when it rests or when the sender does not wait, or a message that is all of it."""
        answer = await self._calls.send(_newer(call, read_send_03(call.params)))
        return message_03(answer["message"]) if "message" in answer else task_03(answer["task"])

    async def stream(self, call: Call) -> Events:
        """Send a message and follow what comes of it."""
        return _older(await self._calls.stream(_newer(call, read_send_03(call.params))))

    async def get(self, call: Call) -> Json:
        """How a task stands."""
        return task_03(await self._calls.get(call))

    async def cancel(self, call: Call) -> Json:
        """End a task."""
        return task_03(await self._calls.cancel(call))

    async def resubscribe(self, call: Call) -> Events:
        """Follow a task."""
        return _older(await self._calls.subscribe(call))

    async def extended_card(self, call: Call) -> Json:
        """The card for this caller."""
        return card_03(await self._calls.extended_card(call), call.base_url)

    async def set_push(self, call: Call) -> Json:
        """Tell somebody of what happens to a task from now on."""
        return push_03(await self._calls.create_push(replace(call, version=OLDER)))

    async def get_push(self, call: Call) -> Json:
        """One push configuration of a task; the first where none is named."""
        newer = read_id_03(call.params)
        if newer["id"] is not None:
            return push_03(await self._calls.get_push(_newer(call, newer)))
        page = await self._calls.list_pushes(_newer(call, newer | {"pageSize": 1}))
        if not page["configs"]:
            raise PushConfigNotFound("")
        return push_03(page["configs"][0])

    async def list_pushes(self, call: Call) -> list[Json]:
        """The push configurations of a task."""
        page = await self._calls.list_pushes(_newer(call, read_id_03(call.params)))
        return [push_03(config) for config in page["configs"]]

    async def delete_push(self, call: Call) -> None:
        """Tell somebody nothing more."""
        await self._calls.delete_push(_newer(call, read_id_03(call.params)))


def _newer(call: Call, params: Json) -> Call:
    return replace(call, params=params, version=OLDER)


async def _older(newer: Events) -> Events:
    """The same events. A status that may be the last is held until it is known whether another comes."""
    held: tuple[int, Json] | None = None
    async with aclosing(newer):
        async for event in newer:
            if event is None:
                yield None
                continue
            if held is not None:
                yield held[0], event_03(held[1], final=False)
                held = None
            if "statusUpdate" in event[1] and rests(lower(event[1]["statusUpdate"]["status"]["state"])):
                held = event
            else:
                yield event[0], event_03(event[1], final=False)
    if held is not None:
        yield held[0], event_03(held[1], final=True)
