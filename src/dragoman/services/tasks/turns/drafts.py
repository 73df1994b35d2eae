"""What a task has shown of its work before it is done, put together from its log."""

from dragoman.services.tasks.events import TAKEN_OVER
from dragoman.services.tasks.models import Json, LoggedEvent


class Drafts:
    """The artifacts as they stand, event by event.

    What an attempt showed before another took over, or before it was tried again, is void: it is shown again.
    """

    def __init__(self) -> None:
        self._drafts: dict[str, Json] = {}
        self._before_attempt: dict[str, Json] = {}

    @property
    def artifacts(self) -> list[Json]:
        """What was shown so far."""
        return list(self._drafts.values())

    def take(self, happening: LoggedEvent) -> None:
        """The next event of the log."""
        body = happening.body
        if body["kind"] == "artifact":
            made: Json = body["artifact"]
            before = self._drafts.get(made["id"]) if body.get("append") else None
            # A list of its own, grown in place: a thousand chunks must not be copied a thousand times.
            if before is None:
                self._drafts[made["id"]] = {**made, "parts": list(made["parts"])}
            else:
                before["parts"].extend(made["parts"])
        elif body["kind"] == "status" and _void(body):
            self._drafts = _copied(self._before_attempt)
        elif body["kind"] == "status" and body["to"] == "in_progress":
            self._before_attempt = _copied(self._drafts)


def _void(status: Json) -> bool:
    """Whether the work of an attempt is done again: by another process, or later."""
    return status.get("reason") == TAKEN_OVER or (status.get("from"), status["to"]) == ("in_progress", "queued")


def _copied(drafts: dict[str, Json]) -> dict[str, Json]:
    return {name: {**made, "parts": list(made["parts"])} for name, made in drafts.items()}
