"""A2A 1.0 as JSON: the card of an agent, what is sent to it and what it answers. No network in here."""

import base64
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content, DataPart, FilePart, Part, TextPart, ToolCallPart, ToolResponsePart
from dragoman.kit._lifecycle import TaskState

STATES: Final = {
    "TASK_STATE_SUBMITTED": TaskState.IDLE,
    "TASK_STATE_WORKING": TaskState.PROCESSING,
    "TASK_STATE_INPUT_REQUIRED": TaskState.INPUT_REQUIRED,
    "TASK_STATE_AUTH_REQUIRED": TaskState.INPUT_REQUIRED,
    "TASK_STATE_COMPLETED": TaskState.COMPLETED,
    "TASK_STATE_FAILED": TaskState.FAILED,
    "TASK_STATE_REJECTED": TaskState.REJECTED,
    "TASK_STATE_CANCELED": TaskState.CANCELLED,
}
_LONGEST_DESCRIPTION: Final = 2000


def _known_state(state: str) -> str:
    if state not in STATES:
        raise ValueError("is no state of a task")
    return state


class _Wire(BaseModel):
    """What others write: unknown fields are theirs, and null is a field that is not there."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)


class _WirePart(_Wire):
    text: str | None = None
    data: JsonValue = None
    raw: str | None = None
    url: str | None = None
    filename: str | None = None
    media_type: str | None = None
    metadata: dict[str, JsonValue] | None = None

    def read(self) -> Part:
        """The same as kit has it.

        Raises:
            ValueError: it holds nothing, or bytes that are no base64.
        """
        name, mime, metadata = self.filename, self.media_type, self.metadata
        if self.text is not None:
            return TextPart(text=self.text, name=name, mime=mime, metadata=metadata)
        if self.raw is None and self.url is None:
            if "data" not in self.model_fields_set:
                raise ValueError("a part is empty")
            return DataPart(data=self.data, name=name, mime=mime, metadata=metadata)
        data = None
        if self.raw is not None:
            padded = self.raw.replace("-", "+").replace("_", "/") + "=" * (-len(self.raw) % 4)
            data = base64.b64decode(padded, validate=True)
        uri, mime = self.url if data is None else None, mime or "application/octet-stream"
        return FilePart(data=data, uri=uri, name=name, mime=mime, metadata=metadata)


class WireMessage(_Wire):
    """What is said."""

    parts: tuple[_WirePart, ...] = ()
    context_id: str | None = None

    def read(self) -> Content:
        """The same as kit has it.

        Raises:
            ValueError: a part is malformed.
        """
        return Content(parts=tuple(part.read() for part in self.parts))


class _WireStatus(_Wire):
    state: Annotated[str, AfterValidator(_known_state)]
    message: WireMessage | None = None


class _WireArtifact(_Wire):
    artifact_id: str = ""
    name: str | None = None
    description: str | None = None
    parts: tuple[_WirePart, ...] = ()


class WireTask(_Wire):
    """A task of another agent."""

    id: str = Field(min_length=1, max_length=200)
    context_id: str | None = Field(default=None, max_length=200)
    status: _WireStatus
    artifacts: tuple[_WireArtifact, ...] | None = None

    @property
    def state(self) -> TaskState:
        """Where it stands."""
        return STATES[self.status.state]

    @property
    def wants_auth(self) -> bool:
        """Whether what it waits for is an authorization."""
        return self.status.state == "TASK_STATE_AUTH_REQUIRED"

    def read_message(self) -> Content | None:
        """What the agent said last.

        Raises:
            ValueError: a part is malformed.
        """
        said = self.status.message.read() if self.status.message else None
        return said if said is not None and said.parts else None

    def read_artifacts(self) -> Iterator[Artifact]:
        """What it made; each has a name of its own, by which kit keeps artifacts apart.

        Raises:
            ValueError: a part is malformed.
        """
        used: set[str] = set()
        for number, one in enumerate(self.artifacts or (), start=1):
            name = (one.name or one.artifact_id or "artifact")[:190]
            name = f"{name} {number}" if name in used else name
            used.add(name)
            parts = tuple(part.read() for part in one.parts)
            yield Artifact(name=name, content=Content(parts=parts), description=one.description or None)


class WireAnswer(_Wire):
    """The answer to a message: a task, or a message and no more."""

    task: WireTask | None = None
    message: WireMessage | None = None


class _WireSkill(_Wire):
    name: str | None = None
    description: str | None = None


class _WireExtension(_Wire):
    uri: str = ""


class _WireCapabilities(_Wire):
    extensions: tuple[_WireExtension, ...] | None = None


class Interface(_Wire):
    """One address of an agent."""

    url: str
    protocol_binding: str
    protocol_version: str
    tenant: str | None = None


class Card(_Wire):
    """Who an agent is, and where."""

    name: str | None = None
    description: str | None = None
    supported_interfaces: tuple[Interface, ...] = ()
    skills: tuple[_WireSkill, ...] | None = None
    capabilities: _WireCapabilities | None = None

    def declares(self, extension: str) -> bool:
        """Whether it names an extension of the protocol."""
        declared = self.capabilities.extensions if self.capabilities else None
        return any(one.uri == extension for one in declared or ())

    def find_interface(self, found_at: str, allow_hosts: Collection[str]) -> Interface:
        """The first that speaks A2A 1 over JSON-RPC, where credentials may go: where the card is, or an allowed host.

        Raises:
            ValueError: there is none.
        """
        for one in self.supported_interfaces:
            if one.protocol_binding.upper() == "JSONRPC" and one.protocol_version.partition(".")[0] == "1":
                if not _may_be_asked(urlsplit(one.url), urlsplit(found_at), allow_hosts):
                    raise ValueError(f"its address {one.url[:200]!r} is not where its card is; see allow_hosts")
                return one
        raise ValueError("it does not speak A2A 1 over JSON-RPC")

    def described(self) -> str:
        """What a model is told of it."""
        skills = [f"- {skill.name or ''}: {skill.description or ''}" for skill in self.skills or ()]
        return "\n".join([self.description or self.name or "", *skills])[:_LONGEST_DESCRIPTION].strip()


def _may_be_asked(url: SplitResult, card: SplitResult, allow_hosts: Collection[str]) -> bool:
    if (url.scheme, url.netloc) == (card.scheme, card.netloc):
        return True
    return url.hostname in allow_hosts and url.scheme in ("https", card.scheme)


def written_parts(content: Content) -> list[dict[str, Any]]:
    """Content as it is sent; tool calls are between a model and us, and stay here."""
    return [_written(part) for part in content.parts if not isinstance(part, ToolCallPart | ToolResponsePart)]


def _written(part: TextPart | DataPart | FilePart) -> dict[str, Any]:
    labels = {"filename": part.name, "mediaType": part.mime, "metadata": part.metadata}
    return _payload(part) | {name: value for name, value in labels.items() if value}


def _payload(part: TextPart | DataPart | FilePart) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"text": part.text}
        case DataPart():
            return {"data": part.data}
        case FilePart():
            return {"url": part.uri} if part.data is None else {"raw": base64.b64encode(part.data).decode("ascii")}
