"""What this door shows, and whom it asks."""

from dataclasses import dataclass

from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.gate import Gate
from dragoman.services.tasks.ports import Tasks


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools, and the tasks that some of them begin; a call waits for its task for `longest_wait_s` at most."""

    gate: Gate
    tasks: Tasks
    catalogue: Catalogue
    longest_wait_s: float
    max_body_bytes: int
