"""The artifacts that a task has shown before it has ended, put together from its log."""

from dragoman.services.tasks.events import ArtifactEvent, Event, StatusEvent
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json


class Drafts:
    """The artifacts after each event of the log.

    What an attempt showed before another took over, or before a retry, is void: the next attempt shows it again.
    """

    def __init__(self) -> None:
        self._drafts: dict[str, Json] = {}
        self._before_attempt: dict[str, Json] = {}

    @property
    def artifacts(self) -> list[Json]:
        """The artifacts that were shown so far."""
        return list(self._drafts.values())

    def take(self, event: Event) -> None:
        """Take the next event of the log."""
        match event:
            case ArtifactEvent(artifact, append):
                before = self._drafts.get(artifact["id"]) if append else None
                # A list of its own, grown in place: a thousand chunks must not be copied a thousand times.
                if before is None:
                    self._drafts[artifact["id"]] = {**artifact, "parts": list(artifact["parts"])}
                else:
                    before["parts"].extend(artifact["parts"])
            case StatusEvent() if event.voids_drafts:
                self._drafts = _copied(self._before_attempt)
            case StatusEvent(to=State.IN_PROGRESS):
                self._before_attempt = _copied(self._drafts)
            case _:
                pass


def _copied(drafts: dict[str, Json]) -> dict[str, Json]:
    return {name: {**artifact, "parts": list(artifact["parts"])} for name, artifact in drafts.items()}
