"""What a task asks, as requests that a client of MCP can answer, and its responses as answers that the task takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from dragoman import kit
from dragoman.doors.mcp.wire import Json
from dragoman.services.tasks.models import Task

TASKS: Final = "io.modelcontextprotocol/tasks"
# What a client declares that it can do, by what tools may need of it.
CAPABILITIES: Final[dict[kit.Need, Json]] = {
    "task": {"extensions": {TASKS: {}}},
    "form": {"elicitation": {}},
    "generation": {"sampling": {}},
    "folders": {"roots": {}},
}
_ANSWER: Final = "answer"
_PLAIN: Final[Json] = {"type": "object", "properties": {_ANSWER: {"type": "string"}}, "required": [_ANSWER]}


@dataclass(frozen=True, slots=True)
class Asking:
    """The open questions of a task, each under a key; a task that asks in words alone has one, for words."""

    questions: Mapping[str, tuple[str | None, kit.Question]]

    @classmethod
    def of(cls, task: Task, said: str, *, lasting: bool) -> "Asking":
        """What the task asks now. Keys that are `lasting` never come again in the life of the task."""
        slot = task.slot or {}
        if not slot.get("asks"):
            plain = kit.Form(message=said or "What is the answer?", fields=_PLAIN)
            return cls({f"{_ANSWER}-{task.seq}": (None, plain)})
        suffix = f"-{slot.get('asking', '')}" if lasting else ""
        return cls({f"{name}{suffix}": (name, asked) for name, asked in kit.SkillSlot.load(slot).asks.items()})

    def requests(self, able: frozenset[kit.Need] | None = None) -> Json:
        """As the client is asked; with `able` only what it can answer."""
        found = {key: asked for key, (_, asked) in self.questions.items() if able is None or asked.kind in able}
        return {key: _request(asked) for key, asked in found.items()}

    def read(self, responses: Mapping[str, Json]) -> list[Json] | None:
        """The answers in the responses, as parts of a message; None where nothing that is asked is answered."""
        answers: Json = {}
        for key, (name, asked) in self.questions.items():
            answer = _answer(asked, responses[key]) if key in responses else None
            if name is None and answer is not None:
                return _in_words(answer)
            if name is not None and answer is not None and asked.find_fault(answer) is None:
                answers[name] = answer
        return [{"kind": "data", "data": answers}] if answers else None

    def declined(self, responses: Mapping[str, Json]) -> bool:
        """Whether somebody was asked and will not answer."""
        return any(responses.get(key, {}).get("action") == "decline" for key in self.questions)


def _request(asked: kit.Question) -> Json:
    match asked:
        case kit.Generation():
            said = {"role": "user", "content": {"type": "text", "text": asked.message}}
            system = {"systemPrompt": asked.system} if asked.system else {}
            params: Json = {"messages": [said], "maxTokens": asked.max_tokens, **system}
            return {"method": "sampling/createMessage", "params": params}
        case kit.Folders():
            return {"method": "roots/list", "params": {}}
        case kit.Form():
            form = {"mode": "form", "message": asked.message, "requestedSchema": asked.fields}
            return {"method": "elicitation/create", "params": form}


def _answer(asked: kit.Question, response: Json) -> Any:
    """What was answered; None where nothing was."""
    match asked:
        case kit.Generation():
            blocks: Any = response.get("content")
            listed = cast("list[Any]", blocks if isinstance(blocks, list) else [blocks])
            objects = [cast("Json", one) for one in listed if isinstance(one, dict)]
            said = [str(one["text"]) for one in objects if "text" in one]
            return "\n".join(said) if said else None
        case kit.Folders():
            return response.get("roots")
        case kit.Form():
            return (response.get("content") or {}) if response.get("action") == "accept" else None


def _in_words(content: Json) -> list[Json]:
    """The words, or all that was filled in."""
    if set(content) == {_ANSWER} and isinstance(content[_ANSWER], str):
        return [{"kind": "text", "text": content[_ANSWER]}]
    return [{"kind": "data", "data": content}]
