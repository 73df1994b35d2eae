"""What another agent answered, for skills that are written by hand and for models."""

from dataclasses import dataclass

from pydantic import JsonValue

from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content, FilePart
from dragoman.kit._results import AuthRequired, Completed, InputRequired, OnInputResult
from dragoman.kit._slot import SkillSlot

_UNSAID = "The other agent needs something more."


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """Done, with a message and artifacts; or a question (`asks`), which the next message to the same agent answers.

    `wants_auth` says that only an authorization answers the question.
    """

    agent: str
    message: Content | None = None
    artifacts: tuple[Artifact, ...] = ()
    asks: bool = False
    wants_auth: bool = False
    task_id: str | None = None
    context_id: str | None = None

    @property
    def question(self) -> Content:
        """What is asked, to be put to whoever can answer."""
        return self.message or Content.of(_UNSAID)

    @property
    def slot(self) -> SkillSlot:
        """The bookmark of the question."""
        return SkillSlot({"remote": self.agent, "task_id": self.task_id, "context_id": self.context_id})

    def to_result(self, slot: SkillSlot | None = None) -> OnInputResult:
        """How a turn ends that has nothing to add: the question is asked on, and what was made is handed on."""
        if self.wants_auth:
            return AuthRequired(self.question, slot or self.slot)
        if self.asks:
            return InputRequired(self.question, slot or self.slot)
        return Completed(self.message, self.artifacts)

    def to_output(self) -> dict[str, JsonValue]:
        """What a model is told. Files are named, not shown."""
        if self.asks:
            told = _shown(self.question)
            asked = told.pop("text", "")
            return {
                "state": "input_required",
                "question": asked,
                **told,
                "how_to_go_on": "Call this tool again with the answer as the message; ask the user if you lack it.",
            }
        shown: dict[str, JsonValue] = {"state": "completed", **_shown(self.message or Content())}
        if self.artifacts:
            shown["artifacts"] = [{"name": one.name, **_shown(one.content)} for one in self.artifacts]
        return shown


def _shown(content: Content) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {}
    if content.text:
        shown["text"] = content.text
    if content.data:
        shown["data"] = list(content.data)
    if content.files:
        shown["files"] = [_named(file) for file in content.files]
    return shown


def _named(file: FilePart) -> JsonValue:
    named: dict[str, JsonValue] = {"name": file.name, "mime": file.mime}
    return named | ({"uri": file.uri} if file.data is None else {"size_bytes": len(file.data)})
