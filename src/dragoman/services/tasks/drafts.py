"""What a task has shown of its work before it is done, put together from its log."""

from collections.abc import Iterable
from typing import Final

from dragoman.services.tasks.models import Happening, Json

TAKEN_OVER: Final = "taken over"


def drafts_of(happenings: Iterable[Happening]) -> list[Json]:
    """The artifacts as they stand. What an attempt showed before another took over is void: it is shown again."""
    drafts: dict[str, Json] = {}
    before_attempt: dict[str, Json] = {}
    for happening in happenings:
        body = happening.body
        if body["kind"] == "artifact":
            made: Json = body["artifact"]
            before = drafts.get(made["id"]) if body.get("append") else None
            # A list of its own, grown in place: a thousand chunks must not be copied a thousand times.
            if before is None:
                drafts[made["id"]] = {**made, "parts": list(made["parts"])}
            else:
                before["parts"].extend(made["parts"])
        elif body["kind"] == "status" and body.get("reason") == TAKEN_OVER:
            drafts = _copied(before_attempt)
        elif body["kind"] == "status" and body["to"] == "in_progress":
            before_attempt = _copied(drafts)
    return list(drafts.values())


def _copied(drafts: dict[str, Json]) -> dict[str, Json]:
    return {name: {**made, "parts": list(made["parts"])} for name, made in drafts.items()}
