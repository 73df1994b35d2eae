"""What this door shows, and whom it asks."""

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.gate import Gate
from dragoman.services.tasks.ports import Tasks


class Changes(Protocol):
    """Where those who wait for changes are nudged; what exactly happened they look up themselves."""

    def follow(self, tenant: UUID, *ids: UUID) -> AbstractContextManager[asyncio.Event]:
        """An event that is set when something may have happened to one of these: a task, or a tenant as a whole."""
        ...


class Ecosystem(Protocol):
    """Gives agents memory and knowledge, and what to know when a conversation begins."""

    def adapter(self, caller: Caller) -> kit.EcosystemAdapter:
        """As one caller meets it."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools, the tasks that some of them begin, and what the agent has to read and to ask.

    `state_key` seals what clients carry from call to call. An operation may take `timeout_s`, unless it is a long one.
    """

    gate: Gate
    tasks: Tasks
    catalogue: Catalogue
    state_key: bytes
    max_body_bytes: int
    timeout_s: float
    changes: Changes
    ecosystem: Ecosystem
    resources: tuple[kit.Resource, ...] = ()
    prompts: tuple[kit.Prompt, ...] = ()
