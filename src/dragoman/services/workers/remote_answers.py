"""What a worker outside gave, as an outcome of ours."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from dragoman.backoff import read_retry_after
from dragoman.errors import DragomanError, Kind, RateLimited, TimedOut, UpstreamUnavailable
from dragoman.kit import Artifact, Content
from dragoman.services.workers.protocol import Evidence, EvidenceKind, Json, Performed

# Codes of ours that say by themselves that another attempt may succeed; others say it with `retryable`.
_PASSING: Final = frozenset({RateLimited.code, TimedOut.code, UpstreamUnavailable.code})
_LONGEST_WORDS: Final = 2000


class WorkerFailed(DragomanError):
    """A worker outside could not do it, and would not if it were asked again."""

    kind, code = Kind.INTERNAL, "UPSTREAM_FAILED"


class WorkerFailedForNow(WorkerFailed):
    """A worker outside could not do it this time."""

    retryable = True


class _Shown(BaseModel):
    """Evidence as a worker writes it."""

    model_config = ConfigDict(extra="ignore")

    kind: EvidenceKind
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    uri: str = Field(min_length=1, max_length=2000)
    captured_at: AwareDatetime

    def read(self) -> Evidence:
        """The same as we keep it."""
        at: datetime = self.captured_at
        return Evidence(self.kind, self.sha256, self.uri, at)


def performed(output: Json) -> Performed:
    """An outcome from what was given; of the evidence in it, what is well-formed."""
    given: Any = output.get("evidence")
    return Performed(output, tuple(_evidence(cast("list[Any]", given))) if isinstance(given, list) else ())


def output_of(message: Content | None, artifacts: tuple[Artifact, ...]) -> Json:
    """The data that was made, when it is one object; else everything by its name."""
    data = [one for artifact in artifacts for one in artifact.content.data]
    if len(data) == 1 and isinstance(data[0], dict):
        return data[0]
    shown: dict[str, JsonValue] = {}
    if message is not None and message.text:
        shown["text"] = message.text
    told = [*(message.data if message is not None else ()), *data]
    if not artifacts and len(told) == 1 and isinstance(told[0], dict):
        return told[0]
    if told:
        shown["data"] = list(told)
    texts = {artifact.name: artifact.content.text for artifact in artifacts if artifact.content.text}
    return shown | ({"texts": dict[str, JsonValue](texts)} if texts else {})


def failure_of(worker: str, how: str, words: str, error: Mapping[str, Any] | None, *, passing: bool) -> WorkerFailed:
    """The error for work that a worker ended without doing it; `passing` says that its state allows another try."""
    code = str((error or {}).get("code", ""))[:100]
    again = passing and (code in _PASSING or (error or {}).get("retryable") is True)
    told = f"the worker {worker!r} {how}" + (f": {words[:_LONGEST_WORDS]}" if words else "")
    kind = WorkerFailedForNow if again else WorkerFailed
    failure = kind(told, reason=f"REMOTE_{how.upper()}", **({"remote_code": code} if code else {}))
    failure.retry_after_s = read_retry_after((error or {}).get("retry_after_s")) if again else None
    return failure


def _evidence(given: list[Any]) -> list[Evidence]:
    found: list[Evidence] = []
    for one in given:
        try:
            found.append(_Shown.model_validate(one).read())
        except ValidationError:
            # It is still in the output; that the work was done is not to be lost over it.
            continue
    return found
