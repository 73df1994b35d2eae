"""The methods of A2A 0.3: those of 1.0 under older names, read and shown as it has them."""

from contextlib import aclosing
from dataclasses import replace

from dragoman.doors.a2a.calls import Answers, Call, Calls, Events, Streams
from dragoman.doors.a2a.tagged import lower, rests
from dragoman.doors.a2a.wire_03 import card_03, event_03, message_03, read_send_03, task_03
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
            "tasks/pushNotificationConfig/set": calls.push,
            "tasks/pushNotificationConfig/get": calls.push,
            "tasks/pushNotificationConfig/list": calls.push,
            "tasks/pushNotificationConfig/delete": calls.push,
        }
        self.streams: Streams = {
            "message/stream": self.stream,
            "tasks/resubscribe": self.resubscribe,
        }

    async def send(self, call: Call) -> Json:
        """Send a message; the task, when it rests or when the sender does not wait, or a message that is all of it."""
        answer = await self._calls.send(replace(call, params=read_send_03(call.params)))
        return message_03(answer["message"]) if "message" in answer else task_03(answer["task"])

    async def stream(self, call: Call) -> Events:
        """Send a message and follow what comes of it."""
        return _older(await self._calls.stream(replace(call, params=read_send_03(call.params))))

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
        return card_03(await self._calls.extended_card(call))


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
