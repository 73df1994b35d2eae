"""The chat-completions protocol: what we say and what we read. No network in here."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel, Field

from dragoman.kit._content import Content, DataPart, FilePart, Part, TextPart, ToolCallPart
from dragoman.kit._llm import LlmRequest, LlmResponse, ResponseSchema, Usage
from dragoman.kit._thread import Event


class _Function(BaseModel):
    name: str | None = None
    arguments: str | None = None


class _Call(BaseModel):
    index: int = 0
    id: str | None = None
    function: _Function = Field(default_factory=_Function)


class _Message(BaseModel):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Completion(BaseModel):
    """A whole answer, or one chunk of a streamed one."""

    choices: list[_Choice] = Field(default_factory=list[_Choice])
    usage: _Usage | None = None


def body(model: str, request: LlmRequest, *, stream: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The request as the wire wants it."""
    sent: dict[str, Any] = {
        **options,
        "model": model,
        "messages": [message for event in request.thread for message in _messages(event)],
    }
    if request.tools:
        sent["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in request.tools
        ]
    if request.response is not None:
        sent["response_format"] = _response_format(request.response)
    if stream:
        sent |= {"stream": True, "stream_options": {"include_usage": True}}
    return sent


@dataclass
class Gathering:
    """An answer that arrives in pieces, or whole as one piece."""

    text: list[str] = field(default_factory=list[str])
    calls: dict[int, _Call] = field(default_factory=dict[int, _Call])
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    finished: bool = False

    def take(self, piece: Completion) -> str:
        """Add a piece; its text is given back."""
        if piece.usage is not None:
            self.usage = Usage(piece.usage.prompt_tokens, piece.usage.completion_tokens, 1)
        if not piece.choices:
            return ""
        choice = piece.choices[0]
        self.finished = self.finished or choice.finish_reason is not None
        said = choice.message or choice.delta or _Message()
        whole = choice.message is not None
        for position, call in enumerate(said.tool_calls or ()):
            self._add(position if whole else call.index, call)
        if said.content:
            self.text.append(said.content)
        return said.content or ""

    def response(self) -> LlmResponse:
        """All of it."""
        text = "".join(self.text)
        parts: list[Part] = [TextPart(text=text)] if text else []
        parts += [_call_part(number, self.calls[number]) for number in sorted(self.calls)]
        return LlmResponse(Content(parts=tuple(parts)), self.usage)

    def _add(self, number: int, piece: _Call) -> None:
        known = self.calls.setdefault(number, _Call(function=_Function(name="", arguments="")))
        known.id = piece.id or known.id
        known.function.name = (known.function.name or "") + (piece.function.name or "")
        known.function.arguments = (known.function.arguments or "") + (piece.function.arguments or "")


def _call_part(number: int, call: _Call) -> ToolCallPart:
    written = call.function.arguments or "{}"
    call_id, name = call.id or f"call_{number}", call.function.name or ""
    try:
        arguments: object = json.loads(written)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return ToolCallPart(id=call_id, name=name, malformed=written)
    return ToolCallPart(id=call_id, name=name, arguments=cast("dict[str, Any]", arguments))


def _messages(event: Event) -> Iterator[dict[str, Any]]:
    content = event.content
    match event.role:
        case "system":
            yield {"role": "system", "content": content.text}
        case "user":
            yield {"role": "user", "content": _user_content(content)}
        case "assistant":
            said: dict[str, Any] = {"role": "assistant", "content": _words(content) or None}
            if content.tool_calls:
                said["tool_calls"] = [_sent_call(call) for call in content.tool_calls]
            yield said
        case "tool":
            for response in content.tool_responses:
                output = response.output if isinstance(response.output, str) else json.dumps(response.output)
                told = f"error: {output}" if response.is_error else output
                yield {"role": "tool", "tool_call_id": response.call_id, "content": told}


def _sent_call(call: ToolCallPart) -> dict[str, Any]:
    written = json.dumps(call.arguments) if call.malformed is None else call.malformed
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": written}}


def _words(content: Content) -> str:
    return "\n".join(
        part.text if isinstance(part, TextPart) else json.dumps(part.data)
        for part in content.parts
        if isinstance(part, TextPart | DataPart)
    )


def _user_content(content: Content) -> str | list[dict[str, Any]]:
    if not content.files:
        return _words(content)
    words = _words(content)
    return [*([{"type": "text", "text": words}] if words else []), *map(_file, content.files)]


def _file(part: FilePart) -> dict[str, Any]:
    url = part.uri or f"data:{part.mime};base64,{base64.b64encode(part.data or b'').decode('ascii')}"
    if part.mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if part.uri is not None:
        return {"type": "text", "text": f"[file {part.name or ''} at {part.uri}]"}
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": url}}


def _response_format(response: ResponseSchema) -> dict[str, Any]:
    try:
        schema, strict = _strict(response.schema), True
    except _OpenObject:
        schema, strict = response.schema, False
    return {"type": "json_schema", "json_schema": {"name": response.name, "schema": schema, "strict": strict}}


class _OpenObject(Exception):
    """Strict mode has no word for an object with any keys."""


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema by the rules of strict mode: every field required, no others, no defaults."""
    if schema.get("type") == "object" and (not schema.get("properties") or schema.get("additionalProperties")):
        raise _OpenObject
    kept = {name: _strict_value(name, value) for name, value in schema.items() if name != "default"}
    if "properties" in kept:
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept


def _strict_value(name: str, value: Any) -> Any:
    if name in ("properties", "$defs"):
        return {key: _strict(one) for key, one in value.items()}
    if name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [_strict(one) for one in value]
    return _strict(value) if name == "items" else value
