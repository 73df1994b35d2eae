"""How a turn of a skill ends. There is no way to write an end that means nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from pydantic import JsonValue

from dragoman.errors import DragomanError
from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content, ContentLike
from dragoman.kit._questions import Question
from dragoman.kit._slot import SkillSlot
from dragoman.kit._validation import to_details


@dataclass(frozen=True, init=False)
class Completed:
    """Done. The artifacts are final."""

    message: Content | None
    artifacts: tuple[Artifact, ...]

    def __init__(self, message: ContentLike | None = None, artifacts: Iterable[Artifact] = ()) -> None:
        kept = tuple(artifacts)
        for artifact in kept:
            if not isinstance(cast("object", artifact), Artifact):
                raise TypeError(f"an artifact is an Artifact, not {type(artifact).__name__}; see Artifact.from_json")
        object.__setattr__(self, "message", None if message is None else Content.of(message))
        object.__setattr__(self, "artifacts", kept)


@dataclass(frozen=True, init=False)
class InputRequired:
    """A question. The task sleeps at the slot until it is answered; `on_input_received` goes on from there.

    `asks` says by name what exactly is wanted, for callers that can show a form or ask their model. Where all of it is
    answered, the skill is given one object with an answer for each name.
    """

    message: Content
    slot: SkillSlot

    def __init__(self, message: ContentLike, slot: SkillSlot, *, asks: Mapping[str, Question] | None = None) -> None:
        if not isinstance(cast("object", slot), SkillSlot):
            raise TypeError(f"a slot is a SkillSlot, not {type(slot).__name__}: write SkillSlot({slot!r})")
        object.__setattr__(self, "message", _something(message, "InputRequired needs a question"))
        object.__setattr__(self, "slot", slot if asks is None else SkillSlot(slot.value, asks=asks))


@dataclass(frozen=True, init=False)
class AuthRequired(InputRequired):
    """A question that only an authorization answers: a sign-in somewhere, a consent. It waits like any other."""

    def __init__(self, message: ContentLike, slot: SkillSlot | None = None) -> None:
        super().__init__(message, SkillSlot("auth") if slot is None else slot)


@dataclass(frozen=True, init=False)
class Reply:
    """An answer that needs no task: a message, and nothing else is kept. Only a first request has one.

    Where work has become a task already (it showed progress, or took a while), the task is completed with the message.
    """

    message: Content

    def __init__(self, message: ContentLike) -> None:
        object.__setattr__(self, "message", _something(message, "Reply needs a message"))


@dataclass(frozen=True, init=False)
class Failed:
    """It did not work out. `error` is told to the caller; `code` is for programs.

    `cause` is the error that ended the turn, where the skill let one through: it tells the host whether another attempt
    is worth its while, and when.
    """

    error: str
    code: str | None
    details: dict[str, JsonValue]
    cause: DragomanError | None = field(compare=False, repr=False)

    def __init__(
        self,
        error: str,
        code: str | None = None,
        details: dict[str, Any] | None = None,
        *,
        cause: DragomanError | None = None,
    ) -> None:
        object.__setattr__(self, "error", _words(error, "Failed needs an error"))
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "details", to_details(details))
        object.__setattr__(self, "cause", cause)

    @classmethod
    def of(cls, error: DragomanError) -> "Failed":
        """Return the end of a turn that an error ended, in the words of the error."""
        return cls(error.message, error.code, error.details, cause=error)


@dataclass(frozen=True, init=False)
class Rejected:
    """The skill will not do this. Only a first request can be rejected."""

    reason: str

    def __init__(self, reason: str) -> None:
        object.__setattr__(self, "reason", _words(reason, "Rejected needs a reason"))


OnInputResult: TypeAlias = Completed | InputRequired | Failed
OnRequestResult: TypeAlias = OnInputResult | Rejected | Reply


def _something(said: ContentLike, complaint: str) -> Content:
    content = Content.of(said)
    if not content.parts or (len(content.parts) == 1 and content.parts[0].kind == "text" and not content.text.strip()):
        raise ValueError(complaint)
    return content


def _words(said: str, complaint: str) -> str:
    if not isinstance(cast("object", said), str):
        raise TypeError(f"{complaint} in words, not {type(said).__name__}")
    if not said.strip():
        raise ValueError(complaint)
    return said
