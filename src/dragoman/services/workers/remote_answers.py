"""The answers of remote workers, read as results and errors of ours."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from dragoman.backoff import read_retry_after
from dragoman.errors import DragomanError, Kind, RateLimited, TimedOut, UpstreamUnavailable
from dragoman.kit import Artifact, Content
from dragoman.services.workers.protocol import Evidence, EvidenceKind, Json, Performed

# Our own codes after which another attempt may succeed; other codes need `retryable` beside them.
_PASSING: Final = frozenset({RateLimited.code, TimedOut.code, UpstreamUnavailable.code})
_LONGEST_TEXT: Final = 2000


class WorkerFailed(DragomanError):
    """A remote worker failed, and another attempt would fail too."""

    kind, code = Kind.INTERNAL, "UPSTREAM_FAILED"


class WorkerFailedForNow(WorkerFailed):
    """A remote worker failed this time; another attempt may succeed."""

    retryable = True


class _RemoteEvidence(BaseModel):
    """Evidence as a worker writes it."""

    model_config = ConfigDict(extra="ignore")

    kind: EvidenceKind
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    uri: str = Field(min_length=1, max_length=2000)
    captured_at: AwareDatetime

    def read(self) -> Evidence:
        """Return the evidence as it is stored."""
        at: datetime = self.captured_at
        return Evidence(self.kind, self.sha256, self.uri, at)


def performed(output: Json) -> Performed:
    """Return the result with this output, and with the well-formed evidence in it."""
    evidence: Any = output.get("evidence")
    return Performed(output, tuple(_evidence(cast("list[Any]", evidence))) if isinstance(evidence, list) else ())


def output_of(message: Content | None, artifacts: tuple[Artifact, ...]) -> Json:
    """Return the data of the artifacts if it is one object; else texts and data by name."""
    data = [part for artifact in artifacts for part in artifact.content.data]
    if len(data) == 1 and isinstance(data[0], dict):
        return data[0]
    output: dict[str, JsonValue] = {}
    if message is not None and message.text:
        output["text"] = message.text
    values = [*(message.data if message is not None else ()), *data]
    if not artifacts and len(values) == 1 and isinstance(values[0], dict):
        return values[0]
    if values:
        output["data"] = list(values)
    texts = {artifact.name: artifact.content.text for artifact in artifacts if artifact.content.text}
    return output | ({"texts": dict[str, JsonValue](texts)} if texts else {})


def failure_of(worker: str, how: str, text: str, error: Mapping[str, Any] | None, *, passing: bool) -> WorkerFailed:
    """Return the error of a worker that failed; `passing` says that its state allows another attempt."""
    code = str((error or {}).get("code", ""))[:100]
    again = passing and (code in _PASSING or (error or {}).get("retryable") is True)
    message = f"the worker {worker!r} {how}" + (f": {text[:_LONGEST_TEXT]}" if text else "")
    kind = WorkerFailedForNow if again else WorkerFailed
    failure = kind(message, reason=f"REMOTE_{how.upper()}", **({"remote_code": code} if code else {}))
    failure.retry_after_s = read_retry_after((error or {}).get("retry_after_s")) if again else None
    return failure


def _evidence(items: list[Any]) -> list[Evidence]:
    evidence: list[Evidence] = []
    for item in items:
        try:
            evidence.append(_RemoteEvidence.model_validate(item).read())
        except ValidationError:
            # Malformed evidence stays in the output, and does not fail work that was done.
            continue
    return evidence
