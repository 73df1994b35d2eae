"""Taking memories out and putting them in: what one tenant exports, another can import."""

from typing import Any

from pydantic import ValidationError

from dragoman.context import Caller
from dragoman.errors import FieldError, InvalidInput
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.memory.layers import places_of
from dragoman.services.memory.models import (
    AddedMemories,
    AddMemories,
    AddMemory,
    ExportMemories,
    ImportMemories,
    Memory,
    SourceType,
)
from dragoman.services.memory.service import MemoryService
from dragoman.services.memory.store import MemoryStore

# What an export says of a memory that an import makes anew.
_OWN = frozenset({"memory_id", "version", "source", "accesses", "created_at", "valid_to"})


class MemoryTransfer:
    """Exports and imports in pieces."""

    def __init__(self, service: MemoryService, store: MemoryStore) -> None:
        self._service = service
        self._store = store

    async def export(self, caller: Caller, wanted: ExportMemories) -> Page[Memory]:
        """What holds now in the caller's places, oldest first, a piece at a time."""
        scopes = [place.scope for place in places_of(caller, wanted.layers, wanted.ids)]
        rows = await self._store.export(scope_of(caller), scopes, after=wanted.cursor, limit=wanted.limit + 1)
        return page([Memory.model_validate(row) for row in rows], wanted.limit)

    async def import_(self, caller: Caller, given: ImportMemories) -> AddedMemories:
        """Remember what an export says, all of it or nothing.

        Raises:
            InvalidInput: a line is not a memory; every fault is named with the number of its line.
        """
        read: list[AddMemory] = []
        complaints: list[FieldError] = []
        for number, line in enumerate(given.memories):
            try:
                read.append(AddMemory.model_validate(_as_new(line)))
            except ValidationError as error:
                complaints += [
                    FieldError(field=".".join(map(str, ("memories", number, *item["loc"]))), message=item["msg"])
                    for item in error.errors(include_url=False, include_context=False, include_input=False)
                ]
        if complaints:
            raise InvalidInput(complaints[:100])
        return await self._service.add_many(caller, AddMemories.model_construct(memories=read))


def _as_new(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in _OWN} | {"source_type": SourceType.IMPORT}
