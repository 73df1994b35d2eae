"""What a task has shown of its work before it is done, put together from its log."""

from typing import Final

from dragoman.services.tasks.models import Happening, Json

TAKEN_OVER: Final = "taken over"


class Drafts:
    """The artifacts as they stand, event by event.

    What an attempt showed before another took over is void: it is shown again.
    """

    def __init__(self) -> None:
        self._drafts: dict[str, Json] = {}
        self._before_attempt: dict[str, Json] = {}

    @property
    def artifacts(self) -> list[Json]:
        """What was shown so far."""
        return list(self._drafts.values())

    def take(self, happening: Happening) -> None:
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
        elif body["kind"] == "status" and body.get("reason") == TAKEN_OVER:
            self._drafts = _copied(self._before_attempt)
        elif body["kind"] == "status" and body["to"] == "in_progress":
            self._before_attempt = _copied(self._drafts)


def _copied(drafts: dict[str, Json]) -> dict[str, Json]:
    return {name: {**made, "parts": list(made["parts"])} for name, made in drafts.items()}
