"""What this door shows, and whom it asks."""

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.doors.mcp.ecosystem import SessionContexts
from dragoman.gate import Gate
from dragoman.infra.limits import OpenStreams
from dragoman.services.tasks.operations import CANCEL
from dragoman.services.tasks.ports import Tasks


class Changes(Protocol):
    """Where those who wait for changes are nudged; what exactly happened they look up themselves."""

    def follow(self, tenant: UUID, *ids: UUID) -> AbstractContextManager[asyncio.Event]:
        """An event that is set when something may have happened to one of these: a task, or a tenant as a whole."""
        ...

    def happened(self, task_id: UUID, /) -> None:
        """Nudge those who follow this, in every process."""
        ...


class Valkey(Protocol):
    """Keeps what all processes may know and may forget."""

    async def call(self, *parts: str | int) -> Any:
        """What it answers to a command.

        Raises:
            UpstreamUnavailable: it does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools, the tasks that some of them begin, and what the agent has to read and to ask.

    `state_key` seals what clients carry from call to call, `session_key` what they carry as their session. An operation
    may take `timeout_s`, unless it is a long one.
    """

    gate: Gate
    tasks: Tasks
    catalogue: Catalogue
    state_key: bytes
    session_key: bytes
    max_body_bytes: int
    timeout_s: float
    changes: Changes
    valkey: Valkey
    streams: OpenStreams
    contexts: SessionContexts
    resources: tuple[kit.Resource, ...] = ()
    prompts: tuple[kit.Prompt, ...] = ()

    async def cancel(self, caller: Caller, task_id: str) -> None:
        """Cancel a task for a caller whose call was counted already.

        Raises:
            NotCancelable: it has ended.
        """
        await self.gate.run(CANCEL, caller, {"task_id": task_id}, admitted=self.gate.include(CANCEL, caller))
