"""A courier for the story: what it delivers lies in a file outside every database, one line for each delivery."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from dragoman.blocking import Threads
from dragoman.operations import Input
from dragoman.services.workers.protocol import Assignment, Capability, Performed

# Long enough to pull the plug while it is under way.
_RIDE_S: Final = 3.0


class Delivery(Input):
    """What goes where."""

    to: str = Field(min_length=1, max_length=200)
    book: str = Field(min_length=1, description="The file that deliveries are written into.")


class Courier:
    """Delivers, and can tell afterwards whether it has."""

    name = "courier"

    def __init__(self) -> None:
        self._threads = Threads("courier", 4, share=2)

    @property
    def capabilities(self) -> Sequence[Capability]:
        """One sensitive action."""
        return (Capability("courier.deliver", "Deliver a contract", Delivery, sensitive=True, required=False),)

    async def perform(self, assignment: Assignment) -> Performed:
        """Ride out, write it into the book, ride home."""
        given = assignment.input
        if not isinstance(given, Delivery):
            raise TypeError(f"a delivery was expected, not {type(given).__name__}")
        book, tenant = Path(given.book), assignment.caller.tenant

        async def deliver(key: str) -> dict[str, Any]:
            await self._threads.run(tenant, _write, book, {"key": key, "to": given.to})
            await asyncio.sleep(_RIDE_S)
            return {"delivered_to": given.to}

        async def find(key: str) -> dict[str, Any] | None:
            lines = await self._threads.run(tenant, read_book, book)
            return {"delivered_to": given.to} if any(line["key"] == key for line in lines) else None

        return Performed(await assignment.effects.once("deliver", {"to": given.to}, deliver, find=find))


def read_book(book: Path) -> list[dict[str, Any]]:
    """Every delivery that was made."""
    return [json.loads(line) for line in book.read_text().splitlines()] if book.exists() else []


def _write(book: Path, line: dict[str, Any]) -> None:
    with book.open("a") as file:
        file.write(json.dumps(line) + "\n")


workers = (Courier(),)
