"""A plugin that handles events: it remembers each in a memory, once, and fails as the event tells it to."""

import asyncio
from pathlib import Path

from dragoman.context import Caller
from dragoman.errors import InvalidInput, RateLimited, UpstreamUnavailable
from dragoman.plugin import Platform, Plugin, Vertical
from dragoman.services.inbox.ports import WebhookEvent

TOPIC = "test.recorded"


async def there(path: str) -> bool:
    """Check whether the test has made a file."""
    return await asyncio.to_thread(Path(path).exists)


def build(platform: Platform) -> Vertical:
    """Handle the topic of the tests."""

    async def record(caller: Caller, event: WebhookEvent) -> None:
        if (needed := event.data.get("needs")) and not await there(needed):
            raise UpstreamUnavailable("what the test keeps back")
        if (limited := event.data.get("limited")) and not await there(limited):
            raise RateLimited("what the test keeps back", retry_after_s=1)
        if event.data.get("wrong"):
            raise InvalidInput.of("data", "is wrong")
        if event.data.get("breaks"):
            raise RuntimeError("broken")
        given = {"content": f"{event.account} {event.data['text']}", "layer": "user", "ids": {"user_id": "webhooks"}}
        await platform.run("memory.add", caller, given, idempotency_key=event.key)
        if held := event.data.get("holds"):
            await asyncio.to_thread(Path(held).touch)
            # For ever: what comes next is a kill.
            await asyncio.Event().wait()

    return Vertical(handles={TOPIC: record})


PLUGIN = Plugin(name="recorder", build="tests.services.inbox.recorder:build")
