"""What this door shows, and whom it asks."""

from dataclasses import dataclass

from dragoman import kit
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.gate import Gate
from dragoman.services.tasks.ports import Tasks


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
    resources: tuple[kit.Resource, ...] = ()
    prompts: tuple[kit.Prompt, ...] = ()
