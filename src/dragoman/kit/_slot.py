"""Where a task waits: the skill's own bookmark, what it asked, and what was answered so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pydantic import JsonValue, TypeAdapter

from dragoman.kit._content import Content
from dragoman.kit._questions import AnyQuestion, Question
from dragoman.kit._validation import from_json, to_json

T = TypeVar("T")
_ASKS: Final[TypeAdapter[dict[str, Question]]] = TypeAdapter(dict[str, AnyQuestion])


@dataclass(frozen=True, init=False)
class SkillSlot:
    """A bookmark: what the skill waits for. Any JSON value; it survives a restart.

    `match ctx.slot.value:` and `case SkillSlot("amount"):` both work. `asks` are the questions that are open, `answers`
    those that came while others were still open.
    """

    value: JsonValue
    asks: Mapping[str, Question] = field(compare=False, repr=False)
    answers: Mapping[str, JsonValue] = field(compare=False, repr=False)

    def __init__(
        self,
        value: object,
        *,
        asks: Mapping[str, Question] | None = None,
        answers: Mapping[str, JsonValue] | None = None,
    ) -> None:
        object.__setattr__(self, "value", to_json(value))
        object.__setattr__(self, "asks", dict(asks or {}))
        object.__setattr__(self, "answers", dict(answers or {}))

    @classmethod
    def load(cls, kept: Mapping[str, JsonValue]) -> "SkillSlot":
        """What `dump` wrote."""
        answers = kept.get("answers")
        asks = _ASKS.validate_python(kept.get("asks") or {})
        return cls(kept["value"], asks=asks, answers=answers if isinstance(answers, dict) else None)

    def dump(self) -> dict[str, JsonValue]:
        """For hosts to keep with the task."""
        kept: dict[str, JsonValue] = {"value": self.value}
        if self.asks:
            kept["asks"] = _ASKS.dump_python(dict(self.asks), mode="json", exclude_none=True)
        if self.answers:
            kept["answers"] = dict(self.answers)
        return kept

    def read(self, target: type[T]) -> T:
        """The value as the type it was made from.

        Raises:
            ValueError: it does not fit.
        """
        return from_json(self.value, target)

    def take(self, said: Content) -> "SkillSlot | Content":
        """What the skill is given once nothing is open: all answers as one object, by the names of the questions.

        While something is, it is the slot with what is left; an answer that does not fit leaves its question open. What
        is said about none of them is given to the skill as it is.
        """
        found = self._found(said)
        if not found:
            named = any(name in value for value in said.data if isinstance(value, dict) for name in self.asks)
            return self if named else said
        answers = {**self.answers, **found}
        left = {name: asked for name, asked in self.asks.items() if name not in found}
        return SkillSlot(self.value, asks=left, answers=answers) if left else Content.of(answers)

    def _found(self, said: Content) -> dict[str, JsonValue]:
        given = [(name, answer) for value in said.data if isinstance(value, dict) for name, answer in value.items()]
        found = {
            name: answer for name, answer in given if name in self.asks and self.asks[name].find_fault(answer) is None
        }
        if not found and len(self.asks) == 1 and said.text.strip():
            ((name, asked),) = self.asks.items()
            answer = asked.from_text(said.text)
            return {} if answer is None else {name: answer}
        return found
