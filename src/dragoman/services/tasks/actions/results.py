"""What an action takes, asks and gives, in the shapes that its task keeps."""

from collections.abc import Callable
from uuid import UUID

from pydantic import ValidationError

from dragoman.arguments import invalid
from dragoman.operations import Input
from dragoman.services.tasks.events import Json, said_by_agent
from dragoman.services.workers.protocol import Capability, Evidence, Performed


def asking(new_id: Callable[[], UUID], question: str, about: Json) -> tuple[Json, Json]:
    """Return what a task that waits asks for, as data, and the message that says so."""
    asked: Json = {"question": question, **about}
    parts: list[Json] = [{"kind": "text", "text": question}, {"kind": "data", "data": asked}]
    return asked, said_by_agent(new_id, parts)


def result_artifacts(action: str, performed: Performed, governance: Json) -> list[Json]:
    """Return what an action made, and what shows that it was done and might be."""
    shown = {"evidence": [evidence_json(one) for one in performed.evidence], "governance": governance}
    return [
        {"id": "result", "name": action, "parts": [{"kind": "data", "data": performed.output}]},
        {"id": "evidence", "name": "evidence", "parts": [{"kind": "data", "data": shown}]},
    ]


def evidence_json(evidence: Evidence) -> Json:
    """Return evidence as it is kept."""
    return {
        "kind": evidence.kind.value,
        "sha256": evidence.sha256,
        "uri": evidence.uri,
        "captured_at": evidence.captured_at.isoformat(),
    }


def read_input(capability: Capability, given: Json) -> Input:
    """Return what the capability's model makes of the input of an envelope.

    Raises:
        InvalidInput: it is not what the action takes; every complaint at once, with its path in the envelope.
    """
    try:
        return capability.input.model_validate(given)
    except ValidationError as error:
        raise invalid(error, within="input") from None
