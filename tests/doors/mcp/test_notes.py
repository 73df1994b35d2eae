from typing import Any
from uuid import UUID, uuid4

import pytest

from dragoman.doors.mcp.notes import Notes
from dragoman.doors.mcp.ticket import Ticket
from dragoman.errors import UpstreamUnavailable

TENANT = uuid4()
TICKET = Ticket(UUID(int=1), "2025-11-25", frozenset(), 2_000_000_000, "")


class Away:
    """A Valkey that does not answer."""

    async def call(self, *parts: str | int) -> Any:
        """Say so."""
        del parts
        raise UpstreamUnavailable("valkey")


async def test_without_valkey_sessions_go_on_and_nothing_is_promised_that_is_not_kept() -> None:
    """What can be done without is; what a client relies on is refused, so that it knows."""
    notes = Notes(Away())

    await notes.saw(TENANT, TICKET, "uri/x", "1")
    await notes.put_aside(TENANT, TICKET, "1")

    assert await notes.find(TENANT, TICKET) is None
    assert not await notes.take_up(TENANT, TICKET, "1")
    for promise in (
        notes.set_level(TENANT, TICKET, "info"),
        notes.follow(TENANT, TICKET, "uri/x", "1"),
        notes.unfollow(TENANT, TICKET, "uri/x"),
        notes.end(TENANT, TICKET),
    ):
        with pytest.raises(UpstreamUnavailable):
            await promise
