"""Structured answers: the schema that a model is given, and the reading of what it wrote."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from dragoman.kit._llm import Llm, LlmRequest, ResponseSchema, ToolSpec
from dragoman.kit._thread import Event, Thread
from dragoman.kit._validation import field_errors, readable

T = TypeVar("T")
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_INSTRUCTION = "Answer with one JSON value and nothing else. It must fit this JSON schema:\n{schema}"
_REPAIR = "That answer does not fit: {complaint}\nAnswer again, with the corrected JSON and nothing else."


class Misfit(ValueError):
    """The text holds no JSON, or JSON of another shape; the message can be told to the model."""


class Output(Generic[T]):
    """The type of an answer. `str` means free text; what is not an object travels as `{"value": ...}`."""

    def __init__(self, output_type: type[T]) -> None:
        self.plain = output_type is str
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = adapter.json_schema()
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            wrapper: type[BaseModel] = create_model("Answer", value=(output_type, ...))
            adapter = TypeAdapter(wrapper)
            schema = adapter.json_schema()
        self._adapter = adapter
        self.schema = ResponseSchema(re.sub(r"\W", "_", str(schema.get("title", "Answer")))[:64], schema)

    def request(self, llm: Llm, thread: Thread, *, tools: Sequence[ToolSpec] = ()) -> LlmRequest:
        """Ask for this type: by the provider's own means where it has them, else in the system prompt."""
        if self.plain:
            return LlmRequest(thread, tuple(tools))
        if llm.native_schema:
            return LlmRequest(thread, tuple(tools), self.schema)
        instruction = _INSTRUCTION.format(schema=json.dumps(self.schema.schema))
        system = f"{thread.system}\n\n{instruction}" if thread.system else instruction
        return LlmRequest(thread.with_system(system), tuple(tools))

    def read(self, text: str) -> T:
        """The value in what the model wrote; a fence or words around the JSON do no harm.

        Raises:
            Misfit: there is no JSON, or it does not fit.
        """
        if self.plain:
            return cast("T", text)
        complaint = "there is no JSON in it"
        for candidate in _candidates(text):
            try:
                value = self._adapter.validate_json(candidate)
            except ValidationError as error:
                complaint = readable(field_errors(error))
            else:
                return cast("T", value.value if self._wrapped else value)
        raise Misfit(complaint)

    @staticmethod
    def repair(complaint: Misfit) -> Event:
        """What the model is told when its answer does not fit."""
        return Event.user(_REPAIR.format(complaint=complaint))


def _candidates(text: str) -> Iterator[str]:
    whole = text.strip()
    yield from _FENCE.findall(whole)
    start = min((at for at in (whole.find("{"), whole.find("[")) if at >= 0), default=-1)
    if start > 0:
        try:
            _, end = json.JSONDecoder().raw_decode(whole, start)
        except ValueError:
            pass
        else:
            yield whole[start:end]
    # The whole text comes last: its complaint is the one to tell, unless an inner piece had a better one.
    if start <= 0 and whole and not whole.startswith("```"):
        yield whole
